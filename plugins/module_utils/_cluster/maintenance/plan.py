# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes a call is about, and what it changes on each of them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction, hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import matches, selector_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]
MakePatch = t.Callable[[Json], "Json | None"]
"""Returns the patch for a node as it is now, or None if there is nothing to change."""
HoldersOf = t.Callable[[Json], list[Holder]]
"""Returns the other maintainers that have marked a node, according to the last look."""

PURPOSE = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_MINIMA = {
    "timeout": 1,
    "parallel": 1,
    "max_in_maintenance": 1,
    "grace_period": 0,
    "lease": 1,
    "skip_wait_for_delete_timeout": 1,
}


# ---- which nodes --------------------------------------------------------------------------------------------------


def check_options(options: Options) -> None:
    """Raise an error if an option has an invalid value."""
    if not PURPOSE.fullmatch(options["purpose"]):
        raise GpuOpsError(
            "purpose must be at most 40 lower-case letters, digits and dashes, without a dash at either end.",
            reason="Invalid",
        )
    if options["taint_reason"] and options["state"] == "restored":
        raise GpuOpsError(
            "taint_reason needs state=cordoned or state=drained; state=restored removes the taint.", reason="Invalid"
        )
    refuse_below(options, **_MINIMA)


def select(nodes: list[Json], options: Options) -> list[Json]:
    """Return the nodes that the options choose.

    Without a choice, these are the nodes that are held for the purpose, and those whose cordon was left for others.
    """
    if options["nodes"] is not None:
        return _by_name(nodes, options)
    if options["node_selector"] is not None:
        return _by_label(nodes, selector_of(options["node_selector"]))
    held = ((node, hold.hold_of(node)) for node in nodes)
    return [node for node, its in held if options["purpose"] in its.purposes or its.left_cordoned]


def absent(nodes: list[Json], options: Options) -> list[str]:
    """Return the named nodes that the cluster does not have."""
    existing = set(map(name_of, nodes))
    return [name for name in dict.fromkeys(options["nodes"] or []) if name not in existing]


def _by_name(nodes: list[Json], options: Options) -> list[Json]:
    missing = absent(nodes, options)
    # A node that is gone has nothing to restore, and must not keep others out of service.
    if missing and options["state"] != "restored":
        message = f"The cluster has no node {first_few(missing)}. Correct the option nodes."
        raise GpuOpsError(message, reason="NotFound")
    by_name = {name_of(node): node for node in nodes}
    return [by_name[name] for name in dict.fromkeys(options["nodes"]) if name in by_name]


def _by_label(nodes: list[Json], selector: dict[str, str]) -> list[Json]:
    chosen = [node for node in nodes if matches(selector, node)]
    if not chosen:
        message = f"No node has the labels {selector}. Correct the option node_selector."
        raise GpuOpsError(message, reason="NotFound")
    return chosen


def check_nodes(nodes: list[Json], chosen: list[Json], claim: hold.Claim, options: Options, of: HoldersOf) -> None:
    """Raise an error if the chosen nodes must not be held: others work on one, or there would be too many."""
    if options["state"] != "restored":
        elsewhere = [node for node in chosen if hold.is_held_elsewhere(node, claim)]
        if elsewhere:
            raise hold.held_elsewhere(elsewhere, claim.purpose)
        if not options["allow_shared"]:
            _check_holders(chosen, claim.purpose, of)
        _check_number(nodes, chosen, options["max_in_maintenance"])


def _check_holders(chosen: list[Json], purpose: str, of: HoldersOf) -> None:
    busy = {name_of(node): _at_work(node, purpose, of) for node in chosen}
    found = [f"{name} ({holder})" for name, holders in busy.items() for holder in holders]
    if found:
        raise GpuOpsError(
            f"Other maintainers are at work on {first_few(found)}, and may uncordon a node during the maintenance. "
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
        return hold.has_stamp(node, self.claim.purpose, self.claim.stamp)

    def undo_patch(self, node: Json) -> Json | None:
        """Return the patch that releases the node, or None if this call does not hold it."""
        held = self.is_held_by_this_call(node)
        return hold.release_patch(node, self.claim.purpose, self.holders_of(node)) if held else None


def plan(
    nodes: list[Json], pods: t.Mapping[str, list[Json]], options: Options, claim: hold.Claim, holders_of: HoldersOf
) -> list[NodeChange]:
    """Return what the call changes on each of these nodes. Raises an error if a permission is missing.

    ``pods`` are the pods on each node that must leave it.
    """

    def release(node: Json) -> Json | None:
        return hold.release_patch(node, claim.purpose, holders_of(node))

    def take(node: Json) -> Json | None:
        if not options["allow_shared"]:
            _check_holders([node], claim.purpose, holders_of)
        return hold.hold_patch(node, claim, holders_of(node))

    make_patch = release if options["state"] == "restored" else take
    changes = [NodeChange(node, make_patch, pods.get(name_of(node), []), claim, holders_of) for node in nodes]
    found = [obstacle for change in changes for obstacle in eviction.obstacles(change.pods, options)]
    if found:
        raise eviction.pods_in_the_way(found)
    return changes
