# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""New settings of the toolkit, node by node: plan, pace, proof, and the end of a rollout that was cut off.

Left to Kubernetes, the toolkit's DaemonSet crosses a fleet without a proof, because its pods have no readiness probe:
four nodes in five seconds with the operator v26.7.0. A wrong setting then keeps every new GPU pod of the fleet from
starting. So the ClusterPolicy is applied with updates that wait (`paused_updates`), the nodes get their turn, and the
ClusterPolicy is applied as it was asked for.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    declarers,
    disruption,
    handover,
    paused_updates,
    permission,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.apply import Made, Stage, Warn, Write
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.prediction import Apply
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.spec import PolicyRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold, maintenance_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import NODES, Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.held_nodes import HeldNodesRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import (
    NodeRolloutRequest,
    rollout_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import NodePacing
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import edits, rollouts, troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.observe import NodeReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit import toolkit_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit.toolkit_change import ToolkitChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit.toolkit_plan import (
    TOOLKIT_PURPOSE,
    ToolkitRow,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OBEYS_S = 120.0
"""How long the operator has to write the toolkit's DaemonSet. A new one needs up to 17 s for the lease of one that was
killed, and then some seconds to read the cluster."""

_NO_EVICTION = {"force": False, "delete_emptydir_data": False, "grace_period": None, "drain_timeout": 1}
"""A node keeps its pods."""


def stage_of(options: t.Mapping[str, t.Any]) -> Stage:
    """Return what makes the change in steps if it concerns the toolkit. Raises for options that cannot be meant."""
    own = options["toolkit_rollout"]
    rollout = rollout_of({**own, **_NO_EVICTION, "progress_path": options["progress_path"]}, TOOLKIT_PURPOSE)
    return functools.partial(_stage, rollout, own["timeout"])


def _stage(
    rollout: NodeRolloutRequest,
    timeout_s: float,
    cluster: Cluster,
    request: PolicyRequest,
    apply: Apply,
    predicted: Json,
    warn: Warn,
) -> ToolkitRollout | None:
    """Return the rollout of a change, or None if the change does not concern a toolkit that runs."""
    if apply.existing is None or paused_updates.waits(predicted["spec"]):
        return None
    scene, is_paused = RunningToolkit(cluster, request.namespace), paused_updates.is_paused(apply.existing)
    found = disruption.of_toolkit(apply.existing.get("spec") or {}, predicted["spec"], scene.is_outdated)
    fields = [change.field for change in found]
    if not (fields or is_paused) or scene.daemonset is None or "toolkit.enabled" in fields:
        return None
    scene.read()
    obstacle = _obstacle(scene, apply, request.waits)
    if obstacle and is_paused:
        message = f"A rollout of the toolkit's settings has not ended, and this call cannot continue it: {obstacle}."
        raise GpuOpsError(message, reason="Conflict")
    if obstacle:
        warn(f"Kubernetes replaces the toolkit's pods one after the other, without a proof between them: {obstacle}.")
        return None
    existing, allowed = apply.existing, request.allows_disruption
    permit = functools.partial(
        permission.permit_managers, cluster, request.namespace, existing, predicted["spec"], allowed
    )
    patience_s = (timeout_s, min(OBEYS_S, request.timeout_s))
    return ToolkitRollout(scene, rollout, patience_s, apply, fields, warn, permit)


def _obstacle(scene: RunningToolkit, apply: Apply, waits: bool) -> str:
    """Return why the nodes cannot get their turn, or an empty string."""
    if not waits:
        return "it does not wait (wait: false)"
    existing = apply.existing or {"metadata": {}}
    others = [
        manager
        for manager in paused_updates.other_owners(existing, [FIELD_MANAGER, *declarers.PLAYBOOKS])
        if not (apply.forces or (apply.adopts and handover.is_helm(manager)))
    ]
    if others and not paused_updates.is_paused(existing):
        return f"{first_few(others)} owns {paused_updates.FIELD}"
    return scene.missing_right()


class RunningToolkit:
    """The toolkit as it runs: its DaemonSet, and its nodes."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._pods = namespaced("v1", namespace, "pods")
        self.operands: dict[str, Json] = {}
        """The DaemonSets of the operands whose pods Kubernetes replaces. The operator replaces the driver's."""
        self.nodes: dict[str, Json] = {}
        self.running: dict[str, str] = {}
        """The toolkit's pod on each node."""
        self.read_operands()

    def read(self) -> None:
        """Look at the DaemonSets, the toolkit's pods and the nodes. Changes of other fields need no pods and nodes."""
        self.read_operands()
        selector = f"app={operands.TOOLKIT.daemonset}"
        table = self.cluster.table(self._pods, labelSelector=selector, resourceVersion="")
        self.running = {str(row["node"]): str(row["name"]) for row in table if row.get("node") not in (None, "<none>")}
        self.nodes = {objects.name_of(each): each for each in NodeReader(self.cluster).read()}

    def read_operands(self) -> None:
        """Look at the DaemonSets only."""
        listed = self.cluster.list(namespaced("apps/v1", self.namespace, "daemonsets"), resourceVersion="") or []
        named = {str(operands.operand_name(item)): item for item in listed if operands.operand_name(item)}
        self.operands = {name: item for name, item in named.items() if name != operands.DRIVER.name}

    @property
    def daemonset(self) -> Json | None:
        """The toolkit's DaemonSet."""
        return self.operands.get(operands.TOOLKIT.name)

    @property
    def is_outdated(self) -> bool:
        """Whether pods of the toolkit wait for their replacement."""
        return self.daemonset is not None and rollouts.is_rolling(self.daemonset)

    def newest(self) -> str:
        """Return the hash of the newest revision of the toolkit's DaemonSet."""
        name = operands.TOOLKIT.daemonset
        found = troubles.newest_revisions(self.cluster, self.namespace).get(name)
        if found is None:
            message = f"The newest revision of DaemonSet {name} is not known. Grant list on controllerrevisions."
            raise GpuOpsError(message, reason="Forbidden")
        return found

    def outdated(self) -> frozenset[str]:
        """Return the nodes whose pod has other settings than the DaemonSet."""
        item = self.daemonset
        return troubles.on_old_revision(self.cluster, self.namespace, item, self.newest()) if item else frozenset()

    def missing_right(self) -> str:
        """Return which right the user lacks to give the nodes their turn, or an empty string."""
        node, pod = next(iter(self.running.items()), ("", ""))
        try:
            if node in self.nodes:
                patch = ({"dryRun": "All"}, '{"metadata": {}}', "application/merge-patch+json")
                self.cluster.ask("PATCH", f"{NODES}/{node}", *patch)
                self.cluster.request("DELETE", f"{self._pods}/{pod}", body={"dryRun": ["All"]})
        except GpuOpsError as e:
            if e.reason == "Forbidden":
                return "this user may not patch nodes and delete the operator's pods"
            if e.reason not in ("NotFound", "Conflict"):
                raise
        return ""


class ToolkitRollout:
    """One change of the toolkit's settings."""

    def __init__(
        self,
        scene: RunningToolkit,
        rollout: NodeRolloutRequest,
        patience_s: tuple[float, float],
        apply: Apply,
        fields: list[str],
        warn: Warn,
        permit_rest: t.Callable[[], None],
    ) -> None:
        """Plan the rollout. ``patience_s`` is how long a node, and the operator, may take.

        ``permit_rest`` raises if the operands that are replaced at the end must not be.
        """
        self._scene, self._rollout, (self._timeout_s, self._obeys_s) = scene, rollout, patience_s
        self._apply, self._fields, self._warn, self._permit_rest = apply, fields, warn, permit_rest
        self._waited_before = paused_updates.waits((apply.existing or {}).get("spec") or {})
        self._is_new = any(field != paused_updates.FIELD for field in fields)
        """Whether the DaemonSet changes, rather than pods that wait for a change of before."""
        outdated = frozenset(scene.running) if self._is_new else scene.outdated()
        self._rows = self._planned(outdated)
        self._pacing = self._paced()
        self._refuse_held_elsewhere()

    # ---- planning

    def _planned(self, outdated: t.Collection[str]) -> list[ToolkitRow]:
        """Return a row for each node whose pod can be replaced now."""
        ready = [name for name in self._scene.running if nodes.is_ready(self._scene.nodes.get(name) or {})]
        return toolkit_plan.rows_of(self._scene.nodes, ready, outdated)

    def _paced(self) -> NodePacing:
        seen = self._scene.nodes
        members = toolkit_plan.members_of(self._rows, seen)
        pace = self._rollout.pace_of({name: seen[name] for name in (*members.done, *members.names)})
        named = pace.wishes.canary if isinstance(pace.wishes.canary, list) else []
        unknown = [name for name in named if name not in [row.name for row in self._rows]]
        if unknown:
            raise GpuOpsError(
                f"toolkit_rollout.canary names {first_few(unknown)}, which does not run the toolkit, or is not Ready. "
                "Name nodes that do.",
                reason="Invalid",
            )
        pacing = NodePacing(members, pace)
        for row in self._rows:
            row.wave = pacing.waves.get(row.name, 0)
        return pacing

    def _refuse_held_elsewhere(self) -> None:
        fleet = Fleet(self._scene.cluster, self._rollout.maintenance)
        claim = fleet.request.claim(fleet.now)
        held = [self._scene.nodes[row.name] for row in self._rows if row.is_held]
        elsewhere = [node for node in held if hold.is_held_elsewhere(node, claim)]
        if elsewhere:
            raise hold.held_elsewhere(elsewhere, TOOLKIT_PURPOSE)

    @property
    def _left_out(self) -> list[str]:
        """The nodes that are not Ready: Kubernetes replaces their pods at the end."""
        return sorted(self._scene.running.keys() - {row.name for row in self._rows})

    # ---- the result

    def predict(self) -> Json:
        """Return the part of the result about nodes, for check mode."""
        closed = self._pacing.why_closed(self._scene.cluster.now())
        if closed:
            self._warn(closed)
        return self._result(finished=not closed)

    def _result(self, finished: bool) -> Json:
        return {
            "fields": self._fields,
            "nodes": [row.as_result() for row in self._rows],
            "finished": finished,
        }

    # ---- acting

    def carry_out(self, write: Write) -> Made:
        """Apply the ClusterPolicy in steps, and return what became of it. Raises if too many nodes failed."""
        before = self._apply.existing or {}
        paused = dataclasses.replace(self._apply, manifest=paused_updates.paused(self._apply.manifest))
        policy = write(paused)
        is_written = objects.version_of(policy) != objects.version_of(before)
        try:
            if is_written:
                self._await_operator()
            finished = self._roll_out()
            if finished:
                self._permit_rest()
        except GpuOpsError as e:
            raise GpuOpsError(e.msg, **{**e.details, **self._so_far(is_written)}) from e
        except KeyboardInterrupt as e:
            message = f"The call was interrupted. {toolkit_plan.closing(self._rows)}"
            raise GpuOpsError(message, reason="Interrupted", **self._so_far(is_written)) from e
        if finished:
            policy = write(dataclasses.replace(self._apply, adopts=False))
            self._obeyed(False)  # Else the verdict would be about pods that wait.
        changed = finished or is_written or any(row.changed for row in self._rows)
        return Made(policy, changed, finished, self._result(finished))

    def _so_far(self, is_written: bool) -> Json:
        changed = is_written or any(row.changed for row in self._rows)
        return {"changed": changed, "toolkit_rollout": self._result(finished=False)}

    def _await_operator(self) -> None:
        """Wait until the toolkit's DaemonSet has the new settings, and lets its pods stay."""
        former = _hash_of(self._scene.daemonset)
        is_edit = self._is_new or not self._waited_before
        # An edit that changes no DaemonSet leaves no trace, if they have waited before.
        has_obeyed = self._obeyed(True, lambda: not is_edit or _hash_of(self._scene.daemonset) != former)
        if not has_obeyed and not self._waited_before:
            raise GpuOpsError(
                f"The operator has not taken {paused_updates.FIELD} within {int(self._obeys_s)} s. Look whether it "
                "runs (gpuops.nvidia.diagnose), and run this again.",
                reason="TimedOut",
            )

    def _obeyed(self, paused: bool, more: t.Callable[[], bool] = lambda: True) -> bool:
        """Wait until the operator has written all operands with updates that wait, or with those of before."""

        def look() -> bool | None:
            self._scene.read_operands()
            found = self._scene.operands.values()
            return (all(_waits(item) == paused and rollouts.is_observed(item) for item in found) and more()) or None

        return bool(waiting.until(look, edits.UNSEEN_S if self._waited_before else self._obeys_s))

    def _roll_out(self) -> bool:
        """Give each node its turn. Return whether none is left."""
        self._scene.read()
        self._rows = self._planned(self._scene.outdated())
        self._pacing = self._paced()
        if self._left_out:
            self._warn(
                f"{first_few(self._left_out)} is not Ready. Kubernetes replaces the toolkit's pod there when the "
                "other nodes are done, without a proof."
            )
        with waiting.signals_noted() as interruption:
            fleet = Fleet(self._scene.cluster, self._rollout.maintenance, interruption)
            fleet.look_elsewhere()
            due = [self._scene.nodes[name] for name in self._pacing.members.names]
            claim = fleet.request.claim(fleet.now)
            holds = maintenance_plan.plan(due, {}, fleet.request, claim, fleet.holders_of)
            work = ToolkitChange(
                self._scene.cluster, self._scene.namespace, self._scene.newest(), self._rows, self._timeout_s
            )
            rollout = HeldNodesRollout(fleet, work, {each.name: each for each in holds}, self._pacing)
            rollout.run()
        return self._ended(rollout)

    def _ended(self, rollout: HeldNodesRollout) -> bool:
        for row in self._rows:
            for note in row.held.notes:
                self._warn(f"Node {row.name}: {note}")
        failed = [row for row in self._rows if row.failed]
        if rollout.stop or len(failed) > self._pacing.budget:
            raise toolkit_plan.failure(self._rows, rollout.stop)
        for row in failed:
            self._warn(f"Node {row.name}: {row.reason}")
        if not rollout.finished:
            self._warn(self._pacing.why_left(rollout.left, self._scene.cluster.now()))
        return rollout.finished


def _waits(daemonset: Json) -> bool:
    return bool((daemonset["spec"].get("updateStrategy") or {}).get("type") == paused_updates.WAITS)


def _hash_of(daemonset: Json | None) -> str | None:
    return objects.annotations_of(daemonset or {"metadata": {}}).get(edits.HASH)
