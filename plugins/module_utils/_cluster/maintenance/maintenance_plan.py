# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes a call is about, and what it changes on each of them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction, hold, hold_stamp
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import (
    MaintenanceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MakePatch = t.Callable[[Json], "Json | None"]
"""Returns the patch for a node as it is now, or None if there is nothing to change."""
HoldersOf = t.Callable[[Json], list[Holder]]
"""Returns the other maintainers that have marked a node, according to the last look."""


# ---- which nodes --------------------------------------------------------------------------------------------------


def select(nodes: list[Json], request: MaintenanceRequest) -> list[Json]:
    """Return the nodes that the request chooses.

    Without a choice, these are the nodes that are held for the purpose, and those whose cordon was left for others.
    """
    if request.nodes is not None:
        return _by_name(nodes, request.nodes, request)
    if request.selector is not None:
        return _by_label(nodes, request.selector)
    held = ((node, hold.hold_of(node)) for node in nodes)
    return [node for node, its in held if request.purpose in its.purposes or its.left_cordoned]


def absent(nodes: list[Json], request: MaintenanceRequest) -> list[str]:
    """Return the named nodes that the cluster does not have."""
    existing = set(map(name_of, nodes))
    return [name for name in request.nodes or () if name not in existing]


def _by_name(nodes: list[Json], named: t.Sequence[str], request: MaintenanceRequest) -> list[Json]:
    missing = absent(nodes, request)
    # A node that is gone has nothing to restore, and must not keep others out of service.
    if missing and request.state != "restored":
        message = f"The cluster has no node {first_few(missing)}. Correct the option nodes."
        raise GpuOpsError(message, reason="NotFound")
    by_name = {name_of(node): node for node in nodes}
    return [by_name[name] for name in named if name in by_name]


def _by_label(nodes: list[Json], selector: t.Mapping[str, str]) -> list[Json]:
    chosen = [node for node in nodes if matches(selector, node)]
    if not chosen:
        message = f"No node has the labels {selector}. Correct the option node_selector."
        raise GpuOpsError(message, reason="NotFound")
    return chosen


def check_nodes(
    nodes: list[Json], chosen: list[Json], claim: hold.Claim, request: MaintenanceRequest, of: HoldersOf
) -> None:
    """Raise an error if the chosen nodes must not be held: others work on one, or there would be too many."""
    if request.state != "restored":
        elsewhere = [node for node in chosen if hold.is_held_elsewhere(node, claim)]
        if elsewhere:
            raise hold.held_elsewhere(elsewhere, claim.purpose)
        if not request.allows_shared:
            _check_holders(chosen, claim.purpose, of)
        _check_number(nodes, chosen, request.max_in_maintenance)


def _check_holders(chosen: list[Json], purpose: str, of: HoldersOf) -> None:
    busy = {name_of(node): _at_work(node, purpose, of) for node in chosen}
    found = [f"{name} ({holder})" for name, holders in busy.items() for holder in holders]
    if found:
        raise GpuOpsError(
            f"Other maintainers are changing {first_few(found)}, and may uncordon a node during the maintenance. "
            "Wait until they have finished, or set allow_shared: true.",
            reason="NodesBusy",
        )


def _at_work(node: Json, purpose: str, of: HoldersOf) -> list[Holder]:
    """Return who else works on a node that is not held for the purpose yet."""
    return [] if purpose in hold.hold_of(node).purposes else [holder for holder in of(node) if holder.at_work]


def _check_number(nodes: list[Json], chosen: list[Json], limit: int | None) -> None:
    held = {name_of(node) for node in nodes if hold.hold_of(node).purposes}
    new = {name_of(node) for node in chosen} - held
    total = len(held) + len(new)
    if limit is not None and new and total > limit:
        already = f"; {len(held)} of them already are ({first_few(sorted(held))})" if held else ""
        raise GpuOpsError(
            f"{total} nodes would be in maintenance at once{already}, and max_in_maintenance is {limit}. "
            "Choose fewer nodes, or restore others first.",
            reason="TooManyNodes",
        )


# ---- what changes on each node ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class NodeChange:
    """What a call changes on one node."""

    node: Json
    make_patch: MakePatch
    pods: list[Json]
    """The pods that must leave the node. Some may be ending already."""
    claim: hold.Claim
    holders_of: HoldersOf

    @property
    def name(self) -> str:
        """The node's name."""
        return name_of(self.node)

    @property
    def patch(self) -> Json | None:
        """The patch for the node as it was read."""
        return self.make_patch(self.node)

    @property
    def node_after(self) -> Json:
        """The node after the patch."""
        return hold.patched(self.node, self.patch)

    @property
    def evictions(self) -> list[Json]:
        """The pods that are not ending yet."""
        return [pod for pod in self.pods if not eviction.is_ending(pod)]

    @property
    def changed(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.patch or self.evictions)

    @property
    def before(self) -> Json:
        """The node's part of the diff, before the call."""
        return self._diff_part(self.node, self.evictions)

    @property
    def after(self) -> Json:
        """The node's part of the diff, after the call."""
        return self._diff_part(self.node_after, [])

    def _diff_part(self, node: Json, pods: list[Json]) -> Json:
        held = hold.hold_of(node)
        names = sorted(map(full_name, pods))
        part = {"unschedulable": held.unschedulable, "purposes": list(held.purposes), "pods": names}
        changed = ((self.patch or {}).get("metadata") or {}).get("labels") or {}
        part |= {"labels": {key: labels_of(node).get(key) for key in sorted(changed)}} if changed else {}
        return part | ({"failures": hold.failures_of(node)} if "taints" in (self.patch or {}).get("spec", {}) else {})

    def is_held_by_this_call(self, node: Json) -> bool:
        """Return whether this call holds the node, rather than an earlier call."""
        return hold_stamp.has_stamp(node, self.claim.purpose, self.claim.stamp)

    def undo_patch(self, node: Json) -> Json | None:
        """Return the patch that releases the node, or None if this call does not hold it."""
        held = self.is_held_by_this_call(node)
        return hold.release_patch(node, self.claim.purpose, self.holders_of(node)) if held else None


Refuse = t.Callable[[GpuOpsError], object]
FindObstacles = t.Callable[[list[Json]], list[str]]


def _stop(error: GpuOpsError) -> t.NoReturn:
    raise error


def plan(
    nodes: list[Json],
    pods: t.Mapping[str, list[Json]],
    request: MaintenanceRequest,
    claim: hold.Claim,
    holders_of: HoldersOf,
    refuse: Refuse = _stop,
    find_obstacles: FindObstacles | None = None,
) -> list[NodeChange]:
    """Return what the call changes on each of these nodes. ``refuse`` is told if a permission is missing.

    ``pods`` are the pods on each node that must leave it. ``find_obstacles`` returns why pods must not be evicted, by
    default by the rules for pods.
    """

    def release(node: Json) -> Json | None:
        return hold.release_patch(node, claim.purpose, holders_of(node))

    def take(node: Json) -> Json | None:
        if not request.allows_shared:
            _check_holders([node], claim.purpose, holders_of)
        return hold.hold_patch(node, claim, holders_of(node))

    make_patch = release if request.state == "restored" else take
    changes = [NodeChange(node, make_patch, pods.get(name_of(node), []), claim, holders_of) for node in nodes]
    find = find_obstacles or (lambda listed: eviction.obstacles(listed, request.permits))
    found = [obstacle for change in changes for obstacle in find(change.pods)]
    if found:
        refuse(eviction.pods_in_the_way(found))
    return changes
