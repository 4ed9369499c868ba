# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is special about a change of pools: nodes that are held and empty take all of their steps, one after another.

`maintenance.held_nodes` holds, empties and puts back the nodes, so each of them is drained once for all steps.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    PROVED,
    WAIT,
    NodeWork,
    Outcome,
    progress_line,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools import rehearsal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.node_view import NodeView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_plan import PoolMember
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import POOL_PURPOSE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_steps import Rows, Step, Warn, Wishes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.rehearsal import Course
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.observe import NodeReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kinds
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

TAKES_STEPS = "steps"
"""The step of a node that is held and empty, beside those that every change has."""

_REFUSALS = ("Invalid", "LayoutRefused", "NotFound", "Conflict", "Unsupported", "HeldElsewhere", "PodsInTheWay")
"""Why a step ends before it has changed anything."""


class PoolChange(NodeWork[PoolMember]):
    """The change of nodes to what their pools say. ``spec`` is the ClusterPolicy's."""

    purpose = POOL_PURPOSE

    def __init__(
        self,
        cluster: Cluster,
        course: Course,
        members: t.Iterable[PoolMember],
        spec: Json,
        timeout_s: float,
        warn: Warn,
    ) -> None:
        super().__init__()
        self._cluster, self._course, self._spec, self._warn = cluster, course, spec, warn
        self.timeout_s = timeout_s
        self.rows: dict[str, PoolMember] = {member.name: member for member in members}
        self._reader = NodeReader(cluster)
        self._nodes: dict[str, Json] = {}
        self._ready: set[str] = set()
        """Nodes that are held and empty, and have not taken their steps."""
        self._proved: set[str] = set()

    def look(self) -> dict[str, Json]:
        """Return all nodes by name."""
        self._nodes = {name_of(node): node for node in self._reader.read()}
        return self._nodes

    def consult(self, busy: t.Collection[str]) -> None:
        """Look at nothing else: each step explains its own waits."""

    def begin(self, name: str, now: float) -> None:
        """Let a node take its steps at the next look."""
        self.rows[name].step = TAKES_STEPS
        self._ready.add(name)

    def advance(self, name: str, node: Json, now: float) -> Outcome:
        """Return whether a node has taken all of its steps."""
        return PROVED if name in self._proved else WAIT

    def prove_together(self) -> dict[str, str]:
        """Take all steps of the nodes that are ready, together. Return the reason for each node that failed."""
        ready, self._ready = {name: self.rows[name].pool for name in sorted(self._ready)}, set()
        failed: dict[str, str] = {}
        gone = rehearsal.leaving(ready, self._nodes, self._spec) if ready else frozenset()
        for step, chosen in self._course.of(ready, gone):
            left = {name: pool for name, pool in chosen.items() if name not in failed}
            failed |= self._take(step, left)
        self._proved |= ready.keys() - failed.keys()
        return failed

    def _take(self, step: Step, wishes: Wishes) -> dict[str, str]:
        """Take a step on the nodes that it concerns. Return the reason for each node that failed."""
        fleet = {name_of(node): node for node in NodeReader(self._cluster).read() if name_of(node) in wishes}
        chosen = {name: wishes[name] for name, node in fleet.items() if step.concerns(node, wishes[name])}
        if not chosen:
            return {}
        view = NodeView(self._cluster, lambda node: node if name_of(node) in chosen else None)
        touched, self.touched = set(self.touched), self.touched | chosen.keys()
        said: list[str] = []
        try:
            rows = step.take(view, chosen, fleet, said.append)
        except GpuOpsError as e:
            if e.reason not in _REFUSALS:
                raise
            self.touched = touched
            return dict.fromkeys(chosen, one_line(e.msg))
        self.touched = touched | {name for name, row in rows.items() if row.changed or row.is_kept}
        reasons = [row.reason for row in rows.values() if row.reason]
        for warning in said:  # what failed is said once, with what follows from it
            if not any(reason in warning for reason in reasons):
                self._warn(warning)
        return self._note(rows)

    def _note(self, rows: Rows) -> dict[str, str]:
        failed = {}
        for name, row in rows.items():
            member = self.rows[name]
            member.changed = member.changed or row.changed
            member.evicted.update(row.evicted)
            member.degraded = row.degraded or member.degraded
            if row.reason or row.waits_for:
                failed[name] = row.cause or f"{row.waits_for}."
        return failed

    def illness(self, name: str, node: Json) -> str:
        """Return what a node that was done lacks again, or an empty string."""
        return "" if nodes.is_ready(node) else "the node is not Ready"

    def describe(self, name: str, node: Json) -> None:
        """Note in a row what a node offers now."""
        self.rows[name].after = kinds.allocatable(node)

    def progress(self, now: float, closed: str) -> str:
        """Return a line about how far the nodes are, and what the first of those that wait waits for."""
        return progress_line(self.rows, "are as their pools say", {}, now, closed)
