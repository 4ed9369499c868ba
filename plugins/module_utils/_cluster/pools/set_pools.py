# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The module's one call: bring nodes to what their pools say, prove them, or predict all of that."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import configmap_reference
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import (
    hold,
    rollout_call,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import maintenance_plan as node_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.held_nodes import HeldNodesRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import NodeChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import NOTHING
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import NodePacing
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools import pool_plan, pool_request
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_change import PoolChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_plan import PoolMember
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import (
    POOL_PURPOSE,
    Options,
    PoolRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_steps import (
    PERMITTED,
    KindStep,
    LayoutStep,
    SharingStep,
    Warn,
    Wishes,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.rehearsal import Course, Rehearsal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.store import Store
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kinds import Kind
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.machines import MachineFleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.workload_words import VM_PASSTHROUGH
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def ensure(cluster: Cluster, options: Options, warn: Warn) -> Json:
    """Bring nodes to what their pools say; return the result of the module."""
    request = pool_request.request_of(options)
    policy, namespace = configmap_reference.policy_of(cluster, request.policy_name, request.namespace)
    spec = policy.get("spec") or {}
    with waiting.signals_noted() as interruption:
        fleet = MachineFleet(
            cluster,
            request.rollout.maintenance,
            interruption,
            request.stops_machines,
            Kind.of(VM_PASSTHROUGH, spec).aliases,
        )
        found = {name_of(node): node for node in observe.NodeReader(cluster).read()}
        call = PoolCall(cluster, request, fleet, spec, namespace, found)
        for warning in call.plan(warn):
            warn(warning)
        return call.predict(warn) if cluster.check_mode else call.act(warn)


@dataclasses.dataclass
class PoolCall:
    """What a call has read, and what it is going to change."""

    cluster: Cluster
    request: PoolRequest
    fleet: MachineFleet
    spec: Json
    """The ClusterPolicy's."""
    namespace: str
    nodes: dict[str, Json]
    wishes: Wishes = dataclasses.field(default_factory=dict)
    rehearsal: Rehearsal = dataclasses.field(init=False)
    members: list[PoolMember] = dataclasses.field(default_factory=list)
    holds: dict[str, NodeChange] = dataclasses.field(default_factory=dict)
    """How each node is held whose steps interrupt pods or machines."""
    pacing: NodePacing = dataclasses.field(default_factory=NodePacing)
    deferred: frozenset[str] = frozenset()
    """The nodes that this call does not begin, because no window is open."""
    pruned: list[str] = dataclasses.field(default_factory=list)
    """The keys of sharing that nobody uses any more."""

    # ---- planning

    def plan(self, warn: Warn) -> list[str]:
        """Decide what changes. Return warnings. Raises for whatever must not happen."""
        self.wishes = self._wishes()
        unknown = [name for name in self.request.rollout.canaries if name not in self.wishes]
        if unknown:
            message = f"canary names {first_few(unknown)}, which this call does not change. Name nodes of pools."
            raise GpuOpsError(message, reason="Invalid")
        said: list[str] = []
        self.rehearsal = Rehearsal(self.cluster, self.nodes, self.spec, said.append)
        self.rehearsal.play(self._course({**self.request.options, **PERMITTED}), self.wishes)
        self.members = [
            pool_plan.member_of(self.nodes[name], pool, self.rehearsal.rows.get(name, {}))
            for name, pool in self.wishes.items()
        ]
        refusals = self._plan_holds()
        self._pace()
        closed = [self.pacing.why_closed(self.fleet.now)] if self.deferred else []
        known = [*pool_plan.warnings_of(self.members), *closed]
        heard = dict.fromkeys(said) if self.cluster.check_mode else {}
        # What a step lacks in the middle of a change is no news: the rows say what stays degraded.
        return [*refusals, *known, *(each for each in heard if not each.startswith(pool_plan.DEGRADED))]

    def _wishes(self) -> Wishes:
        """Return the pool of each node that is in one, or has something of ours, or is left of an earlier run."""
        found: dict[str, t.Any] = dict(pool_request.assigned(self.request.pools, self.nodes.values()))
        course = self._course(self.request.options)
        for name, node in self.nodes.items():
            is_held = POOL_PURPOSE in hold.hold_of(node).purposes
            steps = (course.kind, course.layout, course.sharing)
            if name not in found and (is_held or any(step.concerns(node, None) for step in steps)):
                found[name] = None
        return found

    def _course(self, options: Options) -> Course:
        return Course(KindStep(options), LayoutStep(options), SharingStep(options))

    def _plan_holds(self) -> list[str]:
        """Plan how each node is held and emptied. Return refusals that check mode shall only warn of."""
        due = [member for member in self.members if member.step != NOTHING and member.interrupts]
        if not due:
            return []
        chosen, fleet, refusals = [self.nodes[member.name] for member in due], self.fleet, list[str]()
        claim = rollout_call.claimed(fleet, chosen)
        pods = fleet.pods(chosen)
        for member in due:
            member.pods = [full_name(pod) for pod in pods[member.name]]

        def refuse(error: GpuOpsError) -> None:
            with_rows = GpuOpsError(error.msg, **{**error.details, **rollout_call.report(self.members)})
            refusals.append(_check_refusal.refuse(with_rows, self.request.only_warns and self.cluster.check_mode))

        made = node_plan.plan(chosen, pods, fleet.request, claim, fleet.holders_of, refuse, fleet.obstacles)
        self.holds = {change.name: change for change in made}
        return refusals

    def _pace(self) -> None:
        """Decide in which order the nodes change, and which of them must wait for a maintenance window."""
        due = [member for member in self.members if member.step != NOTHING]
        self.pacing = rollout_call.pace(
            self.members, due, self.nodes, self.request.rollout, lambda member: member.interrupts
        )
        closed = self.pacing.closed(self.fleet.now)
        self.deferred = self.pacing.deferred(self.fleet.now)
        for member in due:
            member.waits_for = closed if member.name in self.deferred else ""

    # ---- carrying it out

    @property
    def _due(self) -> list[PoolMember]:
        return [each for each in self.members if each.step != NOTHING and each.name not in self.deferred]

    @property
    def _left_out(self) -> bool:
        return any(member.step == NOTHING and member.waits_for for member in self.members)

    def predict(self, warn: Warn) -> Json:
        """Send the cordons and evictions as dry runs, and return the result that a run would have."""
        due = {member.name: member for member in self._due}
        holds = {name: each for name, each in self.holds.items() if name in due}
        for result in rollout_call.predict(self.fleet, self.nodes, holds, warn):
            due[result.node].held.evicted = result.evicted
        for member in due.values():
            member.changed = True
            if member.is_held:
                warn(f"Node {member.name}: an earlier run has left it held. A run would go on with it.")
        if not self.deferred:
            self._tidy(warn)
        return self._result(finished=not self.deferred and not self._left_out)

    def act(self, warn: Warn) -> Json:
        """Make the changes, and return the result of the module."""
        with rollout_call.reported(self.members):
            finished = self._roll_out(warn)
            self.fleet.interruption.check()
            if finished and not self.deferred and not any(member.failed for member in self.members):
                self._tidy(warn)
        return self._result(finished=finished and not self.deferred and not self._left_out)

    def _roll_out(self, warn: Warn) -> bool:
        """Bring the nodes to what their pools say. Return whether none is left. Raises if too many failed."""
        work = PoolChange(
            self.cluster, self._course(self.request.options), self.members, self.spec, self.request.timeout_s, warn
        )
        holds = {name: each for name, each in self.holds.items() if name not in self.deferred}
        rollout = HeldNodesRollout(self.fleet, work, holds, self.pacing.without(self.deferred))
        rollout.run()
        return rollout_call.conclude(rollout, self.members, self.pacing, self.fleet.now, warn)

    def _tidy(self, warn: Warn) -> None:
        """Remove the configurations for sharing that no pool names any more, once every node is as it should be.

        The nodes have theirs by then, so the call changes none. It looks at all of them again, since a key that a node
        names must stay.
        """
        store = Store(self.cluster, self.namespace, self.request.options["sharing_config_map"])
        if not (store.is_ours and store.keys):
            return
        is_check = self.cluster.check_mode
        permitted = PERMITTED if is_check else {"allow_disruption": False}
        step = SharingStep({**self.request.options, **permitted}, keeps_keys=False)
        wishes = {name: pool for name, pool in self.wishes.items() if pool and pool.sharing}
        try:
            result = step.tell(self.rehearsal.outcome if is_check else self.cluster, wishes, lambda said: None)
        except GpuOpsError as e:
            if e.reason not in ("Disruption", "NodesFailed"):
                raise
            warn(f"The configurations that no pool names stay until the next call: {e.msg}")
            return
        self.pruned = result["pruned"]

    def _result(self, finished: bool) -> Json:
        report = rollout_call.report(self.members)
        changed = report["summary"]["changed"] > 0 or bool(self.pruned)
        return {
            **report,
            "changed": changed,
            "finished": finished,
            "pruned": self.pruned,
            "diff": pool_plan.diff(self.members),
        }
