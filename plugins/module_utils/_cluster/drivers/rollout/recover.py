# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What upgrades leave behind, with its cause and its remedy; and the pause of a rollout.

An upgrade that failed is tried again only if its cause is gone: the operator would fail once more, and cordon the node
again. What nobody heals by itself is set back: operands that stayed paused, and cordons of upgrades that ended.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.causes import Causes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_pods import PodView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import (
    DriverReader,
    WantedDrivers,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import (
    DriverRollout,
    fleet_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.manual import delete_pod
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.rollout_options import (
    DriverRolloutRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations, hold, marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Warn = t.Callable[[str], None]


_STALE = "An upgrade has left the note that it found the node cordoned, so the next one would leave it cordoned."


@dataclasses.dataclass(frozen=True)
class Leftover:
    """What an upgrade has left behind on one node."""

    node: str
    failed: str = ""
    """Why its upgrade failed, as far as anybody has noted it."""
    cause: str = ""
    """What would make another try fail as well."""
    paused: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_cordoned: bool = False
    """Whether a cordon of an upgrade was left behind."""
    crashing: PodView | None = None
    """Its driver pod if the kubelet keeps that from another start, since it crashed."""
    namespace: str = ""
    would_stay_cordoned: bool = False
    """Whether a note was left behind with which the next upgrade leaves the node cordoned."""

    @property
    def is_retried(self) -> bool:
        """Whether the upgrade is tried again."""
        return bool(self.failed) and not self.cause

    @property
    def is_repaired(self) -> bool:
        """Whether something is set back on the node."""
        return bool(self.paused) or self.is_cordoned or self.would_stay_cordoned

    @property
    def problems(self) -> list[str]:
        """What is wrong, in sentences."""
        found = [self.failed] if self.failed else []
        found += [f"An upgrade has left {', '.join(sorted(self.paused))} paused."] if self.paused else []
        found += ["An upgrade has left its cordon."] if self.is_cordoned else []
        return found + ([_STALE] if self.would_stay_cordoned else [])

    def as_result(self) -> Json:
        """Return the node's part of the module's result."""
        repairs = [f"{key} was set to {value}" for key, value in sorted(self.paused.items())]
        repairs += ["the cordon was lifted"] if self.is_cordoned else []
        repairs += ["the note about a cordon was removed"] if self.would_stay_cordoned else []
        repairs += ["its driver pod was replaced"] if self.is_retried and self.crashing else []
        repairs += ["the upgrade was tried again"] if self.is_retried else []
        return {"node": self.node, "problems": self.problems, "cause": self.cause, "repairs": repairs}


def find(sight: DriverNode, cause: str, needs_cordon: bool) -> Leftover | None:
    """Return what an upgrade has left behind on a node, or None. ``needs_cordon``: somebody else relies on it."""
    note, state = sight.note, sight.state
    is_noted = note is not None and note.kind == "failed"
    failed = ""
    if is_noted or state == names.UPGRADE_FAILED:
        failed = (note.reason if note and is_noted else "") or "The operator gave its upgrade up."
    is_ended = state in names.UPGRADE_FINISHED and nodes.is_cordoned(sight.node)
    is_left = driver_annotations.has_cordoned(note) and is_ended and not needs_cordon
    # While a driver pod starts, its k8s-driver-manager may need the operands away.
    paused = driver_annotations.paused_operands(sight.node) if _runs(sight) else {}
    stays = driver_annotations.would_stay_cordoned(sight.node)
    found = Leftover(
        node=sight.name,
        failed=failed,
        cause=cause if failed else "",
        paused=paused,
        is_cordoned=is_left,
        crashing=sight.pod if failed and sight.crashes else None,
        namespace=sight.namespace,
        would_stay_cordoned=stays,
    )
    return found if found.problems else None


def _runs(sight: DriverNode) -> bool:
    return sight.pod is not None and sight.pod.is_ready and not sight.pod.is_ending


def recover(cluster: Cluster, request: DriverRolloutRequest, warn: Warn, warns: bool = False) -> Json:
    """Put in order what upgrades have left behind. Return the module's result.

    ``warns`` says that a check warns of a cause that is still there.
    """
    found = _look(cluster, request)
    told = {"recovered": [each.as_result() for each in found]}
    if cluster.check_mode:
        changed = any(each.is_retried or each.is_repaired for each in found)
        return _with_causes({**told, "changed": changed, "finished": True}, found, warn, warns)
    repaired = _repair(cluster, request, [each for each in found if each.is_repaired])
    result: Json = {"nodes": [], "summary": {}, "finished": True, "changed": False}
    retried = {each.node for each in found if each.is_retried}
    for each in found:
        if each.is_retried and each.crashing:
            delete_pod(cluster, each.namespace, each.crashing)
    if retried:
        try:
            wanted = WantedDrivers(request.namespace, request.policy_name)
            result = DriverRollout(cluster, request, wanted).roll(retried).as_result()
        except GpuOpsError as e:
            raise GpuOpsError(e.msg, **{**told, **e.details}) from e
    return _with_causes({**told, **result, "changed": repaired or result["changed"]}, found, warn)


def _with_causes(result: Json, found: t.Sequence[Leftover], warn: Warn, warns: bool = False) -> Json:
    """Return the result, unless there are nodes whose upgrade failed for a cause that is still there."""
    stuck = [f"{each.node}: {each.cause}" for each in found if each.cause]
    if stuck:
        message = f"The cause is still there, so the upgrade was not tried again: {first_few(stuck, separator='; ')}."
        warn(_check_refusal.refuse(GpuOpsError(message, reason="NodesFailed", **result), warns))
    return result


def _look(cluster: Cluster, request: DriverRolloutRequest) -> list[Leftover]:
    with waiting.signals_noted() as interruption:
        fleet = fleet_of(cluster, request, interruption)
        reader = DriverReader(cluster, WantedDrivers(request.namespace, request.policy_name))
        sights = reader.look(fleet)
        fleet.look_elsewhere()
        found = fleet.each(lambda sight: _finding(sight, fleet, Causes(cluster, fleet), reader.now), sights.values())
        fleet.finish()
    return [each for each in found if each is not None]


def _finding(sight: DriverNode, fleet: Fleet, causes: Causes, now: float) -> Leftover | None:
    ended = marks.OF_DRIVERS if _runs(sight) else (names.OPERATOR,)
    others = [each for each in fleet.holders_of(sight.node) if each.owner not in ended]
    needs = bool(hold.hold_of(sight.node).purposes or hold.cordoned_for(sight.node, others))
    found = find(sight, "", needs)
    if found is None or not found.failed:
        return found
    cause = "" if sight.is_proved(now) else causes.standing(sight, now)
    return dataclasses.replace(found, cause=cause)


def _repair(cluster: Cluster, request: DriverRolloutRequest, found: t.Sequence[Leftover]) -> bool:
    """Set back what nobody else will. Return whether anything was changed."""
    if not found:
        return False
    with waiting.signals_noted() as interruption:
        fleet = fleet_of(cluster, request, interruption)
        done, errors = fleet.patch_all({each.node: _repair_of(each) for each in found})
        fleet.finish()
    for error in errors.values():
        if error.reason != "NodeDeleted":
            raise error
    return any(changed for dummy, changed in done.values())


def _repair_of(found: Leftover) -> driver_annotations.MakePatch:
    def patch(node: Json) -> Json | None:
        made = driver_annotations.repair_patch(node)
        if found.is_cordoned and nodes.is_cordoned(node):
            lifted = driver_annotations.uncordon_patch(node)
            labels = {
                "labels": driver_annotations.paused_operands(node),
                "annotations": {driver_annotations.NOTE: None},
            }
            made = {**lifted, "metadata": {**lifted["metadata"], **labels}}
        return made

    return patch


# ---- pause --------------------------------------------------------------------------------------------------------


def pause(cluster: Cluster, request: DriverRolloutRequest, warn: Warn) -> Json:
    """Let no further node begin: neither a run that is at work, nor the operator. Return the module's result."""
    with waiting.signals_noted() as interruption:
        fleet = fleet_of(cluster, request, interruption)
        reader = DriverReader(cluster, WantedDrivers(request.namespace, request.policy_name))
        sights, now = reader.look(fleet), reader.now
        due = [name for name, sight in sights.items() if not (sight.is_begun or sight.is_proved(now))]
        done, errors = fleet.patch_all(dict.fromkeys(due, lambda node: driver_annotations.pause_patch(node, now)))
        fleet.finish()
    for error in errors.values():
        if error.reason != "NodeDeleted":
            raise error
    busy = sorted(name for name, sight in sights.items() if sight.is_begun)
    if busy:
        warn(f"{first_few(busy)} {'are' if len(busy) > 1 else 'is'} in the upgrade already, which continues.")
    return {
        "changed": any(changed for dummy, changed in done.values()),
        "paused": sorted(name for name, (node, dummy) in done.items() if driver_annotations.is_ours(node)),
        "upgrading": busy,
        "finished": not due and not busy,
    }
