# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The turns of nodes whose upgrade the operator does itself: let it begin, keep it going, and take note of the end."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import (
    DRIVER_PURPOSE,
    TICK_TEXT,
    DriverNode,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SERVES = (
    f"It serves with the driver before, and the label {names.UPGRADE_SKIP} keeps it from another try: remove the cause "
    "and run this again."
)

WAKE_AFTER_S = 2.0
"""For how long a node must have been ready for the operator's next step: by then the operator has the news, too."""


def is_paused(sight: DriverNode) -> bool:
    """Return whether somebody has asked that the node gets no turn."""
    note = sight.note
    return note is not None and note.kind == "paused" and not sight.is_begun


def obstacle(sight: DriverNode, fleet: Fleet, allow_shared: bool) -> str:
    """Return what a node waits for before it may get its turn, or an empty string."""
    if not nodes.is_ready(sight.node):
        return "its kubelet to be Ready"
    if sight.driver.automatic and sight.blocked:
        return f"the operator, which upgrades no node while {sight.blocked}"
    if sight.driver.automatic and sight.state not in (names.UPGRADE_REQUIRED, names.UPGRADE_FAILED):
        return f"the operator to notice that its driver is outdated ({TICK_TEXT})"
    others = [purpose for purpose in sight.purposes if purpose != DRIVER_PURPOSE]
    if others:
        return f"its maintenance for {first_few(others)} to end"
    holders = (*sight.holders, *fleet.holders_elsewhere(sight.name))
    at_work = [each for each in holders if each.at_work and each.owner != names.OPERATOR]
    if at_work and not allow_shared:
        return f"{first_few(list(map(str, at_work)))} to finish its work on the node"
    return ""


class Turns:
    """Writes on nodes what the operator acts on."""

    def __init__(self, cluster: Cluster, fleet: Fleet) -> None:
        self._cluster, self._fleet = cluster, fleet

    def fail(self, sight: DriverNode, reason: str, now: float) -> tuple[str, Json | None]:
        """Put a node back whose driver was not touched, and note a failure on any other.

        Return what was done, and the node after that.
        """
        parks = sight.keeps_old_driver
        fleet = self._fleet

        def patch(node: Json) -> Json | None:
            if parks:
                return driver_annotations.park_patch(node, now, reason, fleet.holders_of)
            return driver_annotations.fail_patch(node, now, reason)

        made = self._patch(sight, patch)
        return SERVES if parks else "", made[0] if made else None

    def wake(self, sight: DriverNode) -> bool:
        """Make the operator look at all nodes, by means of this one. Return whether that was possible."""
        return self._write(sight, driver_annotations.wake_patch)

    def require(self, sight: DriverNode) -> bool:
        """Mark a node for its upgrade in place of the operator. Return whether that was possible."""
        return self._write(sight, driver_annotations.require_patch)

    def _write(self, sight: DriverNode, make_patch: driver_annotations.MakePatch) -> bool:
        if make_patch(sight.node) is None:
            return False
        try:
            made = self._patch(sight, make_patch)
        except GpuOpsError as e:
            if e.reason != "Conflict":  # then the operator is working on the node, and so it is awake
                raise
            return False
        return bool(made and made[1])

    def _patch(self, sight: DriverNode, make_patch: driver_annotations.MakePatch) -> tuple[Json, bool] | None:
        """Patch a node. A node that is gone is left out at the next look."""
        try:
            return self._fleet.patch(sight.name, make_patch)
        except GpuOpsError as e:
            if e.reason != "NodeDeleted":
                raise
            return None


class Waker:
    """Makes the operator look when there is something for it to see, which it would find up to two minutes later.

    It begins nothing by that: whom it may begin with is said by the labels of the nodes. Each step of a node is worth
    one call, so an operator that does not answer, or sees it otherwise, is not called again and again.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._since: dict[tuple[str, str], float] = {}
        """The nodes that are ready for the operator's next step, each with its state, and since when."""
        self._called: set[tuple[str, str]] = set()
        self._by = ""
        """The node by whose state the operator was called last."""

    def look(self, sights: t.Mapping[str, DriverNode], chosen: t.Iterable[str], now: float) -> None:
        """Call the operator if one of the chosen nodes has waited for it long enough."""
        ready = {(name, sights[name].state) for name in chosen if name in sights and sights[name].awaits_look}
        self._since = {step: self._since.get(step, now) for step in ready}
        self._called &= ready
        due = {step for step in ready - self._called if now - self._since[step] >= WAKE_AFTER_S}
        orphaned = {step for step in due if step[1] in names.UPGRADE_FINISHED and sights[step[0]].is_orphaned}
        due -= orphaned
        self._called |= {step for step in sorted(orphaned) if self._turns.require(sights[step[0]])}
        is_answered = self._by not in sights or sights[self._by].state != ""
        if due and is_answered and self._call(sights):
            self._called |= due

    def _call(self, sights: t.Mapping[str, DriverNode]) -> bool:
        """Call the operator by a node that is done, or else by one that is kept back."""
        for sight in sorted(sights.values(), key=lambda sight: sight.state != names.UPGRADE_DONE):
            if self._turns.wake(sight):
                self._by = sight.name
                return True
        return False
