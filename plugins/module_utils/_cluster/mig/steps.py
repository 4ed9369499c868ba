# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What happens next on a node: one look at it, and what this run has done, lead to one action.

The steps are drain, set (write the label), reset (it was removed, because the MIG manager does not react to the value
that it knows), watch (until the MIG manager has finished), prove, restore. All but the beginning of the wait can be
read from the node, so a later run goes on where a killed one has stopped.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import repair
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import (
    Action,
    Seen,
    Step,
    remove_patch,
    set_patch,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_CONFIG


def decide(seen: Seen) -> Action:
    """Return what to do on a node now. The steps before ``set`` belong to the drain."""
    if seen.version < seen.track.version:
        return _wait(seen, "the API server's answer to its own change")
    return {"set": _set, "reset": _reset, "watch": _watch, "prove": _prove, "restore": _restore}[seen.track.step](seen)


def _wait(seen: Seen, waits_for: str) -> Action:
    return Action("wait", seen.track.step, waits_for)


def _go(step: Step) -> Action:
    return Action("go", step)


def _fail(reason: str, may_be_unchanged: bool = False) -> Action:
    return Action("fail", "failed", reason=reason, may_be_unchanged=may_be_unchanged)


# ---- steps --------------------------------------------------------------------------------------------------------


def _set(seen: Seen) -> Action:
    sight = seen.sight
    if not sight.is_ready:
        return _wait_or_fail(seen, "its kubelet, because it is not Ready", "The node is not Ready.")
    if sight.is_changing:
        return _go("watch") if sight.config == seen.plan.layout else _other_run(seen)
    if sight.config == seen.plan.layout:
        return _again(seen)
    return Action("patch", "watch", patch=set_patch(seen))


def _other_run(seen: Seen) -> Action:
    """Wait for a run of the MIG manager for another layout, whose result would be taken for ours."""
    if seen.is_stuck:
        return repair.stuck(seen) or _fail(repair.why_stuck(seen))
    return _wait(seen, f"the MIG manager's run for {seen.sight.config} ({seen.sight.state})")


def _again(seen: Seen) -> Action:
    """Ask for a layout that the label has already, to which the MIG manager would not react."""
    again = seen.settings.puts_back and repair.restart(
        seen, "again", "the MIG manager was started again, because it does not react to the value that it knows"
    )
    return again or Action("patch", "reset", patch=remove_patch())


def _reset(seen: Seen) -> Action:
    if seen.now - seen.track.since < repair.RESET_S:
        return _wait(seen, "the MIG manager to notice that the label is gone")
    return Action("patch", "watch", patch=set_patch(seen))


def _watch(seen: Seen) -> Action:
    sight = seen.sight
    if sight.config != seen.plan.layout:
        now = sight.config or "removed"
        return _fail(f"Somebody else has changed its label {MIG_CONFIG} in the middle: it is {now}.")
    if sight.state == "success":
        return _go("prove")
    if sight.state == "failed":
        return _failed(seen)
    waits_for = _why_waiting(seen)
    if not seen.is_stuck:
        return repair.lost(seen) or _wait(seen, waits_for)
    return repair.stuck(seen) or _fail(repair.why_stuck(seen))


def _failed(seen: Seen) -> Action:
    """Try again where the failure says nothing about the GPUs."""
    tries = (repair.left_paused, repair.gave_up, repair.unread)
    again = next(filter(None, (attempt(seen) for attempt in tries)), None)
    return again or _fail(MANAGER_FAILED, may_be_unchanged=True)


MANAGER_FAILED = (
    "The MIG manager could not apply the layout (state failed). Read the log of its pod on the node, end what holds "
    "its GPUs, and run this again."
)


def _why_waiting(seen: Seen) -> str:
    sight = seen.sight
    if sight.state == "rebooting":
        return "its reboot"
    if not sight.is_ready:
        return "its kubelet, because it is not Ready"
    if seen.manager != "Running":
        return f"the MIG manager's pod, which {'is ' + seen.manager if seen.manager else 'does not exist'}"
    return f"the MIG manager ({sight.state or 'it has not reacted yet'})"


def _prove(seen: Seen) -> Action:
    sight = seen.sight
    if sight.config != seen.plan.layout or sight.is_changing or sight.state == "":
        return _go("watch")
    if sight.state == "failed":
        return _failed(seen)
    if sight.paused:
        return repair.left_paused(seen) or _fail(f"Operands are paused: {', '.join(sight.paused)}. Set repair: true.")
    difference = seen.plan.differs(sight) or ("" if sight.is_ready else "it is not Ready")
    if difference:
        said = f"The MIG manager reports success, but {difference}. {PROOF_REMEDY}"
        return repair.outdated(seen) or _wait_or_fail(seen, f"its labels and devices: {difference}", said)
    return _tested(seen, seen.plan.unknown(sight))


def _tested(seen: Seen, untold: str) -> Action:
    """Return what follows when nothing contradicts the layout: labels that tell nothing have time to come."""
    if untold and not seen.is_stuck:
        return _wait(seen, f"its labels: {untold}")
    if seen.settings.test and not seen.track.tested:
        return Action("test", "prove", "a workload on one of its devices")
    return _go("restore")


PROOF_REMEDY = "Check gpu-feature-discovery and the device plugin on it."


def _wait_or_fail(seen: Seen, waits_for: str, reason: str) -> Action:
    return _fail(reason) if seen.is_stuck else _wait(seen, waits_for)


def _restore(seen: Seen) -> Action:
    return Action("restore", "done")
