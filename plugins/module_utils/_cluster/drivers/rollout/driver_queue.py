# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The order of a rollout's nodes, and who of them may begin now: canaries, waves, soak, windows and limits. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import turns
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import DriverRow
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.rollout_options import (
    DriverRolloutRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import Members, NodePacing
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import stages
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Admission, Standing


class DriverQueue:
    """The nodes of one rollout in their order. Nodes that have their driver or are in their upgrade come first."""

    def __init__(
        self,
        members: t.Sequence[str],
        done: t.Sequence[str],
        sights: t.Mapping[str, DriverNode],
        request: DriverRolloutRequest,
    ) -> None:
        asked = request.rollout.pace_of({name: sights[name].node for name in members})
        asked.wishes.check(members)
        begun = frozenset(name for name in members if sights[name].is_begun)
        self._pacing = NodePacing(Members(tuple(members), halfway=begun, done=dict.fromkeys(done, 0.0)), asked)
        self._well_since: dict[str, float] = {}
        self._slowest_s = 0.0

    @property
    def waves(self) -> dict[str, int]:
        """The number of each node's stage. The canaries are a stage, too."""
        return self._pacing.waves

    def ended(self, name: str, seconds: float, well_since: float) -> None:
        """Note that a node has its driver: how long that took, and since when the node is well."""
        self._slowest_s = max(self._slowest_s, seconds)
        self._well_since[name] = well_since

    def gate(self, rows: t.Mapping[str, DriverRow], now: float) -> stages.Gate:
        """Return who must wait for an earlier stage."""
        done = {name: self._well_since.get(name, 0.0) for name, row in rows.items() if row.step == "done"}
        out = {name for name, row in rows.items() if row.step in ("failed", "left out")}
        return self._pacing.gate(done, out, now)

    def closed_for(self, sight: DriverNode, now: float) -> str:
        """Return what a node waits for that this call does not wait for, or an empty string."""
        if turns.is_paused(sight):
            return "whoever has paused it, until the rollout is asked for again"
        return self._pacing.closed(now, self._slowest_s)

    def admit(self, rows: t.Mapping[str, DriverRow], postponed: frozenset[str]) -> Admission:
        """Return who may begin now, and whether the rollout has to stop."""
        failed = {name: row.reason for name, row in rows.items() if row.failed}
        standing = Standing(
            busy=frozenset(name for name, row in rows.items() if row.step == "upgrade"),
            done=frozenset(name for name, row in rows.items() if row.step in ("done", "left out")),
            failed=failed,
            away=frozenset(name for name in failed if rows[name].unschedulable),
            postponed=postponed,
        )
        return self._pacing.admit(standing)
