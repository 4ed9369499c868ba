# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The turns of nodes whose upgrade the operator does itself: let it begin, and take note of the end."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sight import (
    DRIVER_PURPOSE,
    TICK_TEXT,
    Sight,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SERVES = (
    f"It serves with the driver before, and the label {names.UPGRADE_SKIP} keeps it from another try: remove the cause "
    "and run this again."
)


def is_paused(sight: Sight) -> bool:
    """Return whether somebody has asked that the node gets no turn."""
    note = sight.note
    return note is not None and note.kind == "paused" and not sight.is_begun


def obstacle(sight: Sight, fleet: Fleet, allow_shared: bool) -> str:
    """Return what a node waits for before it may get its turn, or an empty string."""
    if not nodes.is_ready(sight.node):
        return "its kubelet to be Ready"
    if sight.driver.automatic and sight.blocked:
        return f"the operator, which upgrades no node while {sight.blocked}"
    if sight.driver.automatic and sight.state not in (names.UPGRADE_REQUIRED, names.UPGRADE_FAILED):
        return f"the operator to notice that its driver is outdated ({TICK_TEXT})"
    others = [purpose for purpose in hold.hold_of(sight.node).purposes if purpose != DRIVER_PURPOSE]
    if others:
        return f"its maintenance for {first_few(others)} to end"
    at_work = [each for each in fleet.holders_of(sight.node) if each.at_work and each.owner != names.OPERATOR]
    if at_work and not allow_shared:
        return f"{first_few(list(map(str, at_work)))} to finish its work on the node"
    return ""


class Turns:
    """Writes on nodes what the operator acts on."""

    def __init__(self, cluster: Cluster, fleet: Fleet) -> None:
        self._cluster, self._fleet = cluster, fleet

    def begin(self, sight: Sight, now: float) -> Json | None:
        """Give a node its turn. Return the node after that, or None if it was not changed."""
        made = self._patch(sight, lambda node: marks.turn_patch(node, now))
        return made[0] if made and made[1] else None

    def end(self, sight: Sight, now: float, keeps: bool) -> bool:
        """Remove what a rollout has written on a node that has its driver. Return whether there was anything."""
        if marks.done_patch(sight.node, now, keeps) is None:
            return False
        made = self._patch(sight, lambda node: marks.done_patch(node, now, keeps))
        return bool(made and made[1])

    def fail(self, sight: Sight, reason: str, now: float) -> tuple[str, Json | None]:
        """Put a node back whose driver was not touched, and note a failure on any other.

        Return what was done, and the node after that.
        """
        parks = sight.keeps_old_driver
        fleet = self._fleet

        def patch(node: Json) -> Json | None:
            if parks:
                return marks.park_patch(node, now, reason, fleet.holders_of)
            return marks.fail_patch(node, now, reason)

        made = self._patch(sight, patch)
        return SERVES if parks else "", made[0] if made else None

    def _patch(self, sight: Sight, make_patch: marks.MakePatch) -> tuple[Json, bool] | None:
        """Patch a node. A node that is gone is left out at the next look."""
        try:
            return self._fleet.patch(sight.name, make_patch)
        except GpuOpsError as e:
            if e.reason != "NodeDeleted":
                raise
            return None
