# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes a call is about, and what it changes on each of them."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction, hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.names import UPGRADE_IDLE, UPGRADE_STATE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.nodes import matches, selector_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import full_name, labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]
MakePatch = t.Callable[[Json], "Json | None"]
"""Returns the patch for a node as it is now, or None if there is nothing to change."""

PURPOSE = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_MINIMA = (("timeout", 1), ("parallel", 1), ("max_in_maintenance", 1), ("grace_period", 0))


# ---- which nodes --------------------------------------------------------------------------------------------------


def check_options(options: Options) -> None:
    """Raise an error if an option has an invalid value."""
    if not PURPOSE.fullmatch(options["purpose"]):
        raise GpuOpsError(
            "purpose must be at most 40 lower-case letters, digits and dashes, without a dash at either end.",
            reason="Invalid",
        )
    for name, minimum in _MINIMA:
        if options[name] is not None and options[name] < minimum:
            raise GpuOpsError(f"{name} must be at least {minimum}.", reason="Invalid")


def select(nodes: list[Json], options: Options) -> list[Json]:
    """Return the nodes that the options choose. Without a choice, these are the nodes that are held for the purpose."""
    if options["nodes"] is not None:
        return _by_name(nodes, list(dict.fromkeys(options["nodes"])))
    if options["node_selector"] is not None:
        return _by_label(nodes, selector_of(options["node_selector"]))
    return [node for node in nodes if options["purpose"] in hold.hold_of(node).purposes]


def _by_name(nodes: list[Json], names: list[str]) -> list[Json]:
    by_name = {name_of(node): node for node in nodes}
    missing = [name for name in names if name not in by_name]
    if missing:
        message = f"The cluster has no node {first_few(missing)}. Correct the option nodes."
        raise GpuOpsError(message, reason="NotFound")
    return [by_name[name] for name in names]


def _by_label(nodes: list[Json], selector: dict[str, str]) -> list[Json]:
    chosen = [node for node in nodes if matches(selector, node)]
    if not chosen:
        message = f"No node has the labels {selector}. Correct the option node_selector."
        raise GpuOpsError(message, reason="NotFound")
    return chosen


def check_nodes(nodes: list[Json], chosen: list[Json], options: Options) -> None:
    """Raise an error if the chosen nodes must not be held: the operator works on one, or there would be too many."""
    if options["state"] != "restored":
        _check_upgrades(chosen)
        _check_number(nodes, chosen, options["max_in_maintenance"])


def _check_upgrades(chosen: list[Json]) -> None:
    states = {name_of(node): labels_of(node).get(UPGRADE_STATE, "") for node in chosen}
    busy = [f"{name} ({state})" for name, state in states.items() if state not in UPGRADE_IDLE]
    if busy:
        raise GpuOpsError(
            f"A driver upgrade is in progress on {first_few(busy)}, and the operator would uncordon the node during "
            "maintenance. Wait until it has finished, or set driver.upgradePolicy.autoUpgrade to false.",
            reason="DriverUpgrade",
        )


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
    purpose: str
    stamp: str

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
        """The node after the patch, with only the fields that say how it is held."""
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
        return _diff_part(self.node, self.evictions)

    @property
    def after(self) -> Json:
        """The node's part of the diff, after the call."""
        return _diff_part(self.node_after, [])

    def is_held_by_this_call(self, node: Json) -> bool:
        """Return whether this call holds the node, rather than an earlier call."""
        return hold.has_stamp(node, self.purpose, self.stamp)

    def undo_patch(self, node: Json) -> Json | None:
        """Return the patch that releases the node, or None if this call does not hold it."""
        return hold.release_patch(node, self.purpose) if self.is_held_by_this_call(node) else None


def _diff_part(node: Json, pods: list[Json]) -> Json:
    held = hold.hold_of(node)
    names = sorted(map(full_name, pods))
    return {"unschedulable": held.unschedulable, "purposes": list(held.purposes), "pods": names}


def plan(nodes: list[Json], pods: t.Mapping[str, list[Json]], options: Options, stamp: str) -> list[NodeChange]:
    """Return what the call changes on each of these nodes. Raises an error if a permission is missing.

    ``pods`` are the pods on each node that must leave it.
    """
    purpose = options["purpose"]
    if options["state"] == "restored":
        make_patch = functools.partial(hold.release_patch, purpose=purpose)
    else:
        make_patch = functools.partial(hold.hold_patch, purpose=purpose, stamp=stamp)
    changes = [NodeChange(node, make_patch, pods.get(name_of(node), []), purpose, stamp) for node in nodes]
    found = [obstacle for change in changes for obstacle in eviction.obstacles(change.pods, options)]
    if found:
        raise eviction.pods_in_the_way(found)
    return changes
