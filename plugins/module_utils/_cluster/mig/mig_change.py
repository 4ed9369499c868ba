# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is special about a change of MIG: how a node gets its layout, how it is proved, and what a failure means.

`maintenance.held_nodes` holds, empties and puts back the nodes.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import NODES
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    DRAIN,
    GONE,
    PROVED,
    WAIT,
    NodeWork,
    Outcome,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import mig_result, proof, steps
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import (
    Action,
    Seen,
    Settings,
    Step,
    Track,
    tidied,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_plan import NodePlan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_result import Row
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.read import Reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import MIG_PURPOSE, Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_DISABLED
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import version_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MANAGERS_S = 5.0
"""How often to read the MIG managers' pods while a node waits for one."""

MANAGER_RUNS = "Running"

UNCHANGED_S = 60.0
"""How long operands may take, after a failed run of the MIG manager, to show that the GPUs are as they were."""


class MigChange(NodeWork[Row]):
    """The change of nodes to their layouts. ``removes`` says that their labels are removed in the end."""

    purpose = MIG_PURPOSE

    def __init__(
        self,
        cluster: Cluster,
        reader: Reader,
        settings: Settings,
        plans: t.Mapping[str, NodePlan],
        before: t.Mapping[str, Sight],
        rows: t.Mapping[str, Row],
        removes: bool = False,
    ) -> None:
        super().__init__()
        self._cluster, self._reader, self._settings = cluster, reader, settings
        self._plans, self._before, self.rows, self._removes = plans, before, rows, removes
        self.timeout_s = settings.timeout_s
        self._nodes: dict[str, Json] = {}
        self._managers: dict[str, str] | None = None
        """The statuses of the MIG managers' pods, once they have been read."""
        self._looked_at_managers = time.monotonic()
        self._tracks: dict[str, Track] = {}
        self._marks: dict[str, t.Any] = {}
        self._to_test: set[str] = set()

    def look(self) -> dict[str, Json]:
        """Return all nodes by name."""
        self._nodes = self._reader.nodes()
        return self._nodes

    def consult(self, busy: t.Collection[str]) -> None:
        """Read now and then what the MIG managers' pods are doing, if a node waits for one."""
        now = time.monotonic()
        waits = any(
            now - self._tracks[name].moved >= MANAGERS_S for name in busy if self.rows[name].step in ("set", "watch")
        )
        if waits and now - self._looked_at_managers >= MANAGERS_S:
            self._managers = self._reader.managers()
            self._looked_at_managers = now

    # ---- the steps of one node

    def begin(self, name: str, now: float) -> None:
        """Begin with the label, or go on with a change that is under way or lacks only its proof."""
        if self._plans[name].todo in ("repair", "prove"):
            step: Step = "prove"
        else:
            step = "set" if self.rows[name].step == DRAIN else "watch"
        self._track(name, Track(step, now, now))

    def is_under_way(self, name: str, node: Json) -> bool:
        """Return whether the MIG manager has been asked for the layout already, and has not failed."""
        sight = Sight(node)
        return self._plans[name].todo == "resume" and sight.config == self.rows[name].layout and sight.state != "failed"

    def advance(self, name: str, node: Json, now: float) -> Outcome:
        """Take as many steps on a node as are possible now."""
        while True:
            seen = self._seen(name, node, now)
            action = steps.decide(seen)
            if action.kind == "go":
                self._track(name, dataclasses.replace(self._tracks[name], step=action.step, since=now, moved=now))
                continue
            return self._act(name, seen, action)

    def _track(self, name: str, track: Track) -> None:
        self._tracks[name] = track
        self.rows[name].step = track.step

    def _seen(self, name: str, node: Json, now: float) -> Seen:
        sight, track = Sight(node), self._tracks[name]
        if self._marks.get(name) != sight.marks:
            self._marks[name] = sight.marks
            self._tracks[name] = track = dataclasses.replace(track, moved=now)
        self.rows[name].state = sight.state
        status = MANAGER_RUNS if self._managers is None else self._managers.get(name, "")
        has_failed = sight.state == "failed" and track.step in ("watch", "prove")
        cause = self._reader.last_error(name) if has_failed else ""
        return Seen(sight, self._plans[name], track, self._settings, now, version_of(node), status, cause)

    def _act(self, name: str, seen: Seen, action: Action) -> Outcome:
        """Do what was decided for a node."""
        if action.kind == "fail":
            return self._failed(name, seen, action)
        if action.kind in ("patch", "restart"):
            return self._patch(name, action)
        if action.kind == "restore":
            return PROVED
        if action.kind == "test":
            self._to_test.add(name)
        self.rows[name].wait(action.waits_for, seen.now)
        return WAIT

    def _failed(self, name: str, seen: Seen, action: Action) -> Outcome:
        """Return the failure, once the operands have had time to show GPUs as they were, or as they are wanted."""
        is_whole = seen.sight.is_like(self._before[name]) or self._is_as_wanted(name, seen.sight)
        if action.may_be_unchanged and not is_whole and seen.still_s < min(UNCHANGED_S, self._settings.timeout_s):
            self.rows[name].wait("a sign that its GPUs are as they were before the failure", seen.now)
            return WAIT
        return Outcome("failed", action.reason, is_unchanged=action.may_be_unchanged and is_whole)

    def _is_as_wanted(self, name: str, sight: Sight) -> bool:
        """Return whether a node offers what is wanted, although its MIG manager has failed after that."""
        plan = self._plans[name]
        return sight.is_ready and not sight.paused and not plan.differs(sight) and not plan.unknown(sight)

    def _patch(self, name: str, action: Action) -> Outcome:
        """Patch a node and note what was repaired."""
        row, track = self.rows[name], self._tracks[name]
        try:
            with self.touching(name):
                node = self._cluster.merge(f"{NODES}/{name}", action.patch or {})
        except GpuOpsError as e:
            if e.reason != "NotFound":
                raise
            return Outcome("failed", GONE)
        if action.kind == "restart":
            self._reader.restart_manager(name)
        now, row.changed = time.monotonic(), True
        if action.repair:
            row.repaired.append(action.reason)
            track = dataclasses.replace(track, tried=(*track.tried, action.repair))
        track = dataclasses.replace(track, step=action.step, since=now, moved=now, version=version_of(node))
        self._track(name, dataclasses.replace(track, asked=now) if action.step == "watch" else track)
        row.wait("the MIG manager to notice its label", now)
        return WAIT

    def prove_together(self) -> dict[str, str]:
        """Run a workload on the nodes that are ready for it."""
        names, self._to_test = sorted(self._to_test), set()
        resources = {name: proof.resource_of(Sight(self._nodes[name]).offered) for name in names}
        wanted = {name: resource for name, resource in resources.items() if resource}
        failed = proof.prove(self._cluster, self._settings.workload, wanted) if wanted else {}
        for name in names:
            self._tracks[name] = dataclasses.replace(self._tracks[name], tested=name not in failed)
        return {name: f"The workload on {resources[name]} did not pass: {reason}." for name, reason in failed.items()}

    # ---- the end of a node's change

    def explain(self, name: str, reason: str) -> str:
        """Return the reason of a failure with the last error of the MIG manager."""
        cause = self._reader.last_error(name) if self.rows[name].state == "failed" else ""
        return f"{reason} It says: {cause}." if cause else reason

    def illness(self, name: str, node: Json) -> str:
        """Return what a node that had its layout lacks again, or an empty string."""
        sight = Sight(node)
        return self._plans[name].differs(sight) or ("" if sight.is_ready else "its kubelet is not Ready")

    def tidies(self, name: str) -> bool:
        """Return true: whole GPUs need no note of their number."""
        return True

    def end_patch(self, name: str, node: Json, released: Json | None) -> Json | None:
        """Return the patch that ends the change, and removes from whole GPUs what they no longer need."""
        return tidied(node, released, self._removes) if self.rows[name].layout == MIG_DISABLED else released

    def describe(self, name: str, node: Json) -> None:
        """Note in a row what a node offers now."""
        sight, row = Sight(node), self.rows[name]
        row.state, row.after = sight.state, sight.offered
        if not row.failed:
            row.degraded = self._plans[name].unknown(sight)

    def progress(self, now: float, closed: str) -> str:
        """Return a line about how far the nodes are."""
        line = mig_result.progress(self.rows.values(), now)
        return f"{line}; the others wait for {closed}" if closed else line
