# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""The module's one call: publish configurations, give them to nodes, prove them, and remove what nobody uses."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import configmap_reference
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import (
    hold,
    rollout_call,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import maintenance_plan as node_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import NodeChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import NOTHING
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import NodePacing
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import (
    assign,
    carry_out,
    config,
    sharing_plan,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.config import Configuration
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_plan import Change
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_request import (
    Options,
    SharingRequest,
    request_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_scene import Scene
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.store import Store
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import SHARING_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_FIELD = "devicePlugin.config.name"


def ensure(cluster: Cluster, options: Options, warn: t.Callable[[str], None]) -> Json:
    """Bring the fleet's sharing into the state that the options ask for; return the result of the module."""
    request = request_of(options)
    with waiting.signals_noted() as interruption:
        fleet = Fleet(cluster, request.rollout.maintenance, interruption)
        return _ensure(_read(cluster, request, fleet), warn)


def _ensure(scene: Scene, warn: t.Callable[[str], None]) -> Json:
    for warning in _plan(scene):
        warn(warning)
    _pace(scene)
    if scene.deferred:
        warn(scene.pacing.why_closed(scene.fleet.now))
    return carry_out.predict(scene, warn) if scene.cluster.check_mode else carry_out.act(scene, warn)


# ---- reading ------------------------------------------------------------------------------------------------------


def _read(cluster: Cluster, request: SharingRequest, fleet: Fleet) -> Scene:
    policy, namespace = configmap_reference.policy_of(cluster, request.policy_name, request.namespace)
    named = configmap_reference.SHARING.of(policy).get("name", "")
    other = Store(cluster, namespace, named) if named not in ("", request.config_map) else None
    return Scene(
        cluster=cluster,
        request=request,
        policy=policy,
        namespace=namespace,
        fleet=fleet,
        nodes={name_of(node): node for node in observe.NodeReader(cluster).read()},
        store=Store(cluster, namespace, request.config_map),
        foreign=frozenset(other.texts if other else ()),
    )


# ---- planning -----------------------------------------------------------------------------------------------------


def _plan(scene: Scene) -> list[str]:
    """Decide what changes. Return warnings. Raises for whatever must not happen."""
    request = scene.request
    scene.wanted = assign.assign(request.choices, list(scene.nodes.values()), scene.spec)
    assign.refuse_impossible(scene.wanted, scene.nodes, scene.spec)
    _refuse_other_config_map(scene)
    if not request.replaces_labels:
        assign.refuse_foreign(scene.wanted, scene.nodes, scene.owns)
    targets: dict[str, tuple[str | None, Configuration | None]] = {
        name: (each.key, each) for name, each in scene.wanted.items()
    }
    plain = None if scene.default else config.PLAIN
    for name, node in scene.nodes.items():
        if name not in targets and scene.owns(node) and scene.is_about(SHARING_LABEL.value_of(node)):
            targets[name] = (None, plain)
    _refuse_unknown_canaries(request.rollout.canaries, targets)
    now, age_s = scene.fleet.now, request.timeout_s
    scene.changes = sharing_plan.changes_of(targets, scene.nodes, lambda node: SHARING_LABEL.is_young(node, now, age_s))
    scene.changes += _left_behind(scene, targets)
    if any(change.relabels for change in scene.changes):
        running = pods.gpu_pods(scene.cluster, scene.namespace)
        sharing_plan.find_interruptions(scene.changes, scene.nodes, running)
    _refuse_without_wait(scene)
    warns = request.only_warns and scene.cluster.check_mode
    warnings = sharing_plan.permit(scene.changes, request.allows_disruption, warns)
    scene.holds = _holds(scene) if request.allows_disruption else {}
    return [*warnings, *sharing_plan.degraded(scene.changes), *_foreign_labels(scene)]


def _foreign_labels(scene: Scene) -> list[str]:
    """Return a warning about labels of others that name one of our keys: both stay."""
    found = scene.unmarked
    if not found:
        return []
    keys = first_few(sorted({SHARING_LABEL.value_of(scene.nodes[name]) for name in found}))
    return [
        f"Somebody else has given {first_few(found)} the label {names.PLUGIN_CONFIG} with {keys}, so the label stays, "
        "and the key too. Remove the label where it was set."
    ]


def _holds(scene: Scene) -> dict[str, NodeChange]:
    """Return how each node is held whose pods its change interrupts. Raises if a pod must not go, or a node is held."""
    named = [change.name for change in scene.changes if change.interrupts or change.is_held]
    if not named:
        return {}
    fleet = scene.fleet
    claim = rollout_call.claimed(fleet, [scene.nodes[name] for name in named])
    chosen = [scene.nodes[change.name] for change in scene.changes if change.interrupts]
    made = node_plan.plan(chosen, fleet.pods(chosen), fleet.request, claim, fleet.holders_of)
    return {change.name: change for change in made}


def _refuse_unknown_canaries(canaries: t.Iterable[str], targets: t.Container[str]) -> None:
    unknown = [name for name in canaries if name not in targets]
    if unknown:
        raise GpuOpsError(
            f"canary names {first_few(unknown)}, which this call does not change. Name nodes that configs chooses.",
            reason="Invalid",
        )


def _left_behind(scene: Scene, targets: t.Container[str]) -> list[Change]:
    """Return the nodes whose label an earlier run has removed, without the end of their maintenance.

    A run on another machine that may still be at work is left alone, unless this call ends all sharing.
    """
    found = {name: (None, None) for name in scene.nodes if name not in targets}
    claim, is_end = scene.fleet.request.claim(scene.fleet.now), scene.request.is_end
    return [
        change
        for change in sharing_plan.changes_of(found, scene.nodes)
        if change.is_held
        and not change.key_before
        and (is_end or not hold.is_held_elsewhere(scene.nodes[change.name], claim))
    ]


def _refuse_other_config_map(scene: Scene) -> None:
    if scene.wanted and scene.referenced not in ("", scene.store.name):
        raise GpuOpsError(
            f"ClusterPolicy {name_of(scene.policy)} takes configurations from the ConfigMap {scene.referenced}. "
            f"Set config_map: {scene.referenced} to add yours there, or remove {_FIELD} where it is set.",
            reason="Conflict",
        )


def _refuse_without_wait(scene: Scene) -> None:
    hit = [change.name for change in scene.changes if change.interrupts]
    if hit and not scene.request.waits:
        raise GpuOpsError(
            f"{first_few(hit)} must be drained and put back, for which the call must wait. Set wait: true.",
            reason="Invalid",
        )


# ---- the pace -----------------------------------------------------------------------------------------------------


def _pace(scene: Scene) -> None:
    """Decide in which order the nodes change, and which of them must wait for a maintenance window."""
    due = [change for change in scene.changes if change.step != NOTHING and not change.proves]
    pacing = scene.pacing = rollout_call.pace(
        scene.changes, due, scene.nodes, scene.request.rollout, lambda change: change.interrupts
    )
    _defer(scene, pacing)


def _defer(scene: Scene, pacing: NodePacing) -> None:
    """Leave nodes to a later call if no window is open: all that are in service, or all that need the reference first.

    The reference restarts the device plugin on every node, so it waits for a window, too.
    """
    closed = pacing.closed(scene.fleet.now)
    if not closed:
        return
    halfway = frozenset() if carry_out.pointer_of(scene) is not None else pacing.members.halfway
    scene.closed, scene.deferred = closed, frozenset(pacing.members.names) - halfway
    for change in scene.changes:
        if change.name in scene.deferred:
            change.waits_for = closed
