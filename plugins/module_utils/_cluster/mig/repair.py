# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The ways in which a change of MIG gets stuck for ever, and what ends each of them.

Source: NVIDIA/mig-parted v0.15.0, cmd/nvidia-mig-manager/main.go and pkg/mig/reconfigure/reconfigure.go. The manager
returns without a state if its operands' pods do not go in time, leaves operands paused after a failure if an earlier
run of the same process was successful, does not react to the value that it has read last, and forgets a value that
comes and goes during a run. Since the change NVIDIA/mig-parted#484 (August 2026, after v0.15.0), a run whose pods do
not go in time ends as ``failed`` instead.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import (
    Action,
    Seen,
    remove_patch,
    set_patch,
    unpaused,
)

RESET_S = 2.0
"""How long a label stays away before it is set again."""

LOST_S = 90.0
"""How long the MIG manager may take to react to a new label.

Before it writes ``pending``, mig-parted opens all GPUs three times (``isConfigAlreadyApplied`` asserts their modes,
then their layouts, and ``checkMigModeChangeRequired`` their modes). Without persistence mode, each of them is
initialised each time, which takes up to 3 s (https://docs.nvidia.com/deploy/driver-persistence/overview.html): 72 s for
eight GPUs.
"""

MAP_DELAY_S = 120.0
"""How long a kubelet may take to show an edited ConfigMap in a pod: its sync (a minute) and the age of its cache."""

NOT_VALID = "failed to validate MIG configuration"
"""What the MIG manager's log says when the file that it sees lacks the layout, or is invalid."""

_UNREAD = "the MIG manager was started again, because its pod did not show the edited layouts yet"

PODS_STAYED = ("failed to wait for pods to be deleted", "failed to restart validator pod")
"""What the MIG manager's log says when pods of operands were in the way: the GPUs have no part in such a failure."""


def left_paused(seen: Seen) -> Action | None:
    """Return the patch that lets paused operands come back, if a run has ended and left them away."""
    if not seen.sight.paused or not seen.settings.repair:
        return None
    said = f"operands that were left paused ({', '.join(_short(seen.sight.paused))}) were set back"
    patch = {"metadata": {"labels": unpaused(seen.sight)}}
    return Action("patch", seen.track.step, patch=patch, repair="paused", reason=said)


def gave_up(seen: Seen) -> Action | None:
    """Return a new try after a run that failed because pods of operands did not leave in time."""
    if not seen.settings.repair or not any(words in seen.cause for words in PODS_STAYED):
        return None
    return restart(seen, "restart", "the MIG manager was started again, because pods of operands had been in its way")


def unread(seen: Seen) -> Action | None:
    """Return a new try after a failure of a MIG manager whose pod does not show the last edit of the layouts yet.

    A new pod shows it at once. The layout itself was found in the ConfigMap, and valid.
    """
    if not seen.settings.repair or not (_may_be_unread(seen) or NOT_VALID in seen.cause):
        return None
    return restart(seen, "unread", _UNREAD)


def outdated(seen: Seen) -> Action | None:
    """Return a new try after a success with the former content of an edited layout, once the edit can be seen."""
    may_be = seen.settings.repair and _may_be_unread(seen) and seen.now >= seen.settings.fresh_until
    return restart(seen, "unread", _UNREAD) if may_be else None


def _may_be_unread(seen: Seen) -> bool:
    return seen.track.asked < seen.settings.fresh_until


def lost(seen: Seen) -> Action | None:
    """Return a new try for a node whose MIG manager has not reacted at all."""
    is_lost = seen.sight.state == "" and seen.sight.is_ready and seen.manager == "Running"
    if not is_lost or seen.still_s < LOST_S or not seen.settings.repair:
        return None
    if "lost" in seen.track.tried:
        return restart(seen, "restart", "the MIG manager was started again, because it did not react")
    return restart(seen, "lost", "") if seen.settings.puts_back else _removed(seen)


def _removed(seen: Seen) -> Action:
    said = "the label was removed and set again, because the MIG manager did not react to it"
    return Action("patch", "reset", patch=remove_patch(), repair="lost", reason=said)


def stuck(seen: Seen) -> Action | None:
    """Return a new try for a node on which nothing has happened for too long, or None if there was one already."""
    if not seen.settings.repair or not seen.sight.is_ready or seen.sight.state == "rebooting" or not seen.manager:
        return None
    return restart(seen, "restart", f"the MIG manager was started again, because its run had stopped ({_state(seen)})")


def restart(seen: Seen, word: str, said: str) -> Action | None:
    """Return the restart of the MIG manager on a node: it applies the label when it starts. Only once for each word."""
    if word in seen.track.tried:
        return None
    said = said or "the MIG manager was started again, because it did not react to the label"
    return Action("restart", "watch", patch=set_patch(seen), repair=word, reason=said)


def why_stuck(seen: Seen) -> str:
    """Return the reason of a failure: for how long the node has waited, and what to look at."""
    waited, sight = f"For {int(seen.still_s)} s", seen.sight
    if not sight.is_ready:
        return f"{waited} the node has not been Ready, in the middle of its change. Repair it, and run this again."
    if sight.state == "rebooting":
        return f"{waited} it has been rebooting. Look at its console, and run this again when it is back."
    if not seen.manager:
        return f"{waited} it has had no pod of the MIG manager. Check the DaemonSet nvidia-mig-manager."
    remedy = "" if seen.settings.repair else " Set repair: true to start the MIG manager again."
    return (
        f"{waited} the MIG manager has made no progress ({_state(seen)}). Look at the log of its pod on the node."
        f"{remedy}"
    )


def _state(seen: Seen) -> str:
    return f"state {seen.sight.state}" if seen.sight.state else "no state"


def _short(keys: t.Iterable[str]) -> list[str]:
    return [key.rpartition(".")[2] for key in keys]
