# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The module's one call: give nodes their kinds, prove them, or predict all of that."""

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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import KIND_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import (
    kind_checks,
    kind_plan,
    kind_request,
    kinds,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_change import (
    KindChange,
    OperandReader,
    write,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_plan import Switch, Target
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_request import (
    KIND_PURPOSE,
    KindRequest,
    Options,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kinds import Kind
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.machines import MachineFleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.workload_words import VM_PASSTHROUGH
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Warn = t.Callable[[str], None]


def ensure(cluster: Cluster, options: Options, warn: Warn) -> Json:
    """Bring nodes to the kinds that the options ask for; return the result of the module."""
    request = kind_request.request_of(options)
    gpuclusters = cluster.list_readable(observe.GPUCLUSTERS_PATH).items
    kind_checks.refuse_gpucluster(gpuclusters)
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
        call = KindCall(cluster, request, fleet, spec, OperandReader(cluster, namespace), found)
        for warning in call.plan():
            warn(warning)
        return call.predict(warn) if cluster.check_mode else call.act(warn)


@dataclasses.dataclass
class KindCall:
    """What a call has read, and what it is going to change."""

    cluster: Cluster
    request: KindRequest
    fleet: MachineFleet
    spec: Json
    """The ClusterPolicy's."""
    reader: OperandReader
    nodes: dict[str, Json]
    changes: list[Switch] = dataclasses.field(default_factory=list)
    holds: dict[str, NodeChange] = dataclasses.field(default_factory=dict)
    """How each node is held whose kind changes."""
    pacing: NodePacing = dataclasses.field(default_factory=NodePacing)
    deferred: frozenset[str] = frozenset()
    """The nodes that this call does not begin, because no window is open."""

    # ---- planning

    def plan(self) -> list[str]:
        """Decide what changes. Return warnings. Raises for whatever must not happen."""
        targets = self._targets()
        unknown = [name for name in self.request.rollout.canaries if name not in targets]
        if unknown:
            message = f"canary names {first_few(unknown)}, which this call does not change. Name nodes of kinds."
            raise GpuOpsError(message, reason="Invalid")
        self.changes = [self._change(name, target) for name, target in targets.items()]
        self._find_stuck()
        refusals = self._plan_holds()
        self._pace()
        closed = [self.pacing.why_closed(self.fleet.now)] if self.deferred else []
        return [*refusals, *kind_plan.degraded(self.changes), *self._doubts(), *closed]

    def _targets(self) -> dict[str, Target]:
        """Return what each node of the call shall be."""
        wanted = kind_request.assign(self.request.choices, self.nodes.values())
        if self.request.is_end:
            return self._targets_at_end(wanted)
        self._refuse(wanted)
        if not self.request.replaces_labels:
            kind_checks.refuse_foreign(wanted, self.nodes)
        return {name: Target(Kind.of(kind, self.spec), kind) for name, kind in wanted.items()}

    def _targets_at_end(self, wanted: t.Mapping[str, str]) -> dict[str, Target]:
        """Return the nodes with a label of ours, of the kinds that are named, and those that an end has left held."""
        default = Kind.of(nodes.workload_kind({"metadata": {}}, self.spec), self.spec)
        found = {}
        for name, node in self.nodes.items():
            is_chosen = not self.request.choices or wanted.get(name) == KIND_LABEL.value_of(node)
            is_left = KIND_PURPOSE in hold.hold_of(node).purposes and not KIND_LABEL.value_of(node)
            if (KIND_LABEL.is_ours(node) and is_chosen) or (is_left and name in (wanted or self.nodes)):
                found[name] = Target(default, None)
        if found:
            self._refuse(dict.fromkeys(found, default.name))
        return found

    def _refuse(self, wanted: t.Mapping[str, str]) -> None:
        """Raise if the ClusterPolicy or a node cannot have a kind."""
        drivers = self.cluster.list_readable(observe.NVIDIADRIVERS_PATH).items
        kind_checks.refuse_policy(set(wanted.values()), self.spec, drivers)
        kind_checks.refuse_nodes(wanted, self.nodes, self.spec)

    def _change(self, name: str, target: Target) -> Switch:
        node = self.nodes[name]
        is_young = KIND_LABEL.is_young(node, self.fleet.now, self.request.timeout_s)
        return kind_plan.change_of(node, target, self.spec, is_young)

    def _find_stuck(self) -> None:
        """Find the labels that a killed manager has left paused, on the nodes of the call."""
        for change in self.changes:
            node = self.nodes[change.name]
            if kinds.paused(change.kind, node):
                daemonsets, pods = self.reader.daemonsets(), self.reader.pods(change.name)
                kind_plan.mark_stuck(change, node, kinds.stuck(change.kind, node, daemonsets, pods))

    def _plan_holds(self) -> list[str]:
        """Plan how each node is held and emptied. Return refusals that check mode shall only warn of."""
        due = [change for change in self.changes if change.switches]
        chosen = [self.nodes[change.name] for change in due]
        if not due:
            return []
        fleet, refusals = self.fleet, list[str]()
        claim = rollout_call.claimed(fleet, chosen)
        fleet.stays = {change.name: change.kind for change in due if change.kind.name == change.kind_before}
        pods = fleet.pods(chosen)
        for change in due:
            machines = filter(None, map(fleet.machine, pods[change.name]))
            change.machines = [machine.as_result() for machine in machines]
            change.pods = [full_name(pod) for pod in pods[change.name]]

        def refuse(error: GpuOpsError) -> None:
            rows = rollout_call.report(self.changes)
            with_rows = GpuOpsError(error.msg, **{**error.details, **rows})
            refusals.append(_check_refusal.refuse(with_rows, self.request.only_warns and self.cluster.check_mode))

        made = node_plan.plan(chosen, pods, fleet.request, claim, fleet.holders_of, refuse, fleet.obstacles)
        self.holds = {change.name: change for change in made}
        return refusals

    def _doubts(self) -> list[str]:
        """Return warnings about what the operator may decide otherwise, and what NVIDIA does not document."""
        targets = {change.name: change for change in self.changes}
        fleet = {name: node for name, node in self.nodes.items() if nodes.is_gpu_node(node)}
        after = {name: nodes.workload_kind(node, self.spec) for name, node in fleet.items()}
        labels = {name: KIND_LABEL.value_of(node) for name, node in fleet.items()}
        after |= {name: change.kind.name for name, change in targets.items()}
        labels |= {name: change.label or "" for name, change in targets.items()}
        wanted = {name: change.kind.name for name, change in targets.items()}
        said = [kind_checks.unlabelled(after, labels, self.spec), kind_checks.on_new_kernels(wanted, self.nodes)]
        paused = [
            f"Node {change.name}: {first_few(change.paused)} is paused by a manager that still runs there. If it stays "
            "so, set it to true."
            for change in self.changes
            if change.paused
        ]
        return [*filter(None, said), *paused]

    def _pace(self) -> None:
        """Decide in which order the nodes change, and which of them must wait for a maintenance window."""
        due = [change for change in self.changes if change.step != NOTHING and not change.proves]
        self.pacing = rollout_call.pace(
            self.changes, due, self.nodes, self.request.rollout, lambda change: change.switches
        )
        closed = self.pacing.closed(self.fleet.now)
        self.deferred = self.pacing.deferred(self.fleet.now)
        for change in due:
            change.waits_for = closed if change.name in self.deferred else change.waits_for

    # ---- carrying it out

    @property
    def _due(self) -> list[Switch]:
        return [each for each in self.changes if each.step != NOTHING and each.name not in self.deferred]

    def predict(self, warn: Warn) -> Json:
        """Send the writes as dry runs, and return the result that a run would have."""
        due = {change.name: change for change in self._due}
        holds = {name: each for name, each in self.holds.items() if name in due}
        for result in rollout_call.predict(self.fleet, self.nodes, holds, warn):
            due[result.node].held.evicted = result.evicted
        for warning in kind_plan.predicted(due.values()):
            warn(warning)
        for change in due.values():
            if change.relabels or change.stuck:
                write(self.cluster, change, change.stuck)
            change.changed = change.changed or change.switches
        return self._result(finished=not self.deferred)

    def act(self, warn: Warn) -> Json:
        """Make the changes, and return the result of the module."""
        with rollout_call.reported(self.changes):
            finished = self._roll_out(warn)
        return self._result(finished=finished and not self.deferred)

    def _roll_out(self, warn: Warn) -> bool:
        """Bring the nodes to their kinds. Return whether none is left. Raises if too many failed."""
        at_once = [change.name for change in self.changes if change.proves]
        work = KindChange(self.cluster, self.reader, self.changes, self.request.timeout_s)
        holds = {name: each for name, each in self.holds.items() if name not in self.deferred}
        rollout = HeldNodesRollout(self.fleet, work, holds, self.pacing.without(self.deferred), at_once)
        rollout.run()
        proved = [change for change in self.changes if change.name in at_once]
        return rollout_call.conclude(
            rollout, self.changes, self.pacing, self.fleet.now, warn, lambda: kind_plan.degraded(proved)
        )

    def _result(self, finished: bool) -> Json:
        changed = any(change.changed for change in self.changes)
        made = rollout_call.report(self.changes)
        return {**made, "changed": changed, "finished": finished, "diff": kind_plan.diff(self.changes)}
