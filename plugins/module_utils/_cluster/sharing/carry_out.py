# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Publish the configurations, give them to the nodes, and remove what nobody uses; or predict all of that."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import configmap_reference, ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import rollout_call
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.held_nodes import HeldNodesRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import sharing_plan, unmount
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.doctor import Doctor
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_change import SharingChange, label
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_scene import Scene
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_FIELD = "devicePlugin.config.name"

Warn = t.Callable[[str], None]


# ---- the reference in the ClusterPolicy ---------------------------------------------------------------------------


def pointer_of(scene: Scene) -> str | None:
    """Return what the ClusterPolicy shall name: the ConfigMap, nothing (an empty string), or what it names (None)."""
    if scene.wanted and scene.referenced != scene.store.name:
        return scene.store.name
    is_ours = ownership.owned_by(scene.policy, configmap_reference.SHARING.manager)
    if scene.retires(scene.stale) and scene.referenced == scene.store.name and is_ours:
        return ""
    return None


# ---- acting -------------------------------------------------------------------------------------------------------


def predict(scene: Scene, warn: Warn) -> Json:
    """Send the writes as dry runs, and return the result that a run would have."""
    pointer = _pointer(scene)
    result = _writes(scene, pointer)
    scene.store.publish(scene.missing)
    if pointer is not None:
        _point(scene, pointer)
    due = {each.name: each for each in scene.due}
    holds = {name: each for name, each in scene.holds.items() if name in due}
    rollout_call.predict(scene.fleet, scene.nodes, holds, warn)
    for change in scene.labelled:
        label(scene.cluster, change)
    for change in due.values():
        change.changed = change.changed or change.is_held
    has_written = bool(result["published"] or result["pruned"] or pointer is not None)
    changed = _has_changed(scene) or has_written
    return {**result, **rollout_call.report(scene.changes), "changed": changed, "finished": not scene.deferred}


def act(scene: Scene, warn: Warn) -> Json:
    """Make the changes, and return the result of the module."""
    pointer, doctor = _pointer(scene), Doctor(scene.cluster, scene.namespace)
    result, pruned = _writes(scene, pointer), list[str]()
    with rollout_call.reported(scene.changes):
        scene.store.publish(scene.missing)
        if pointer:
            _point(scene, pointer)
        finished = _roll_out(scene, doctor, warn)
        scene.fleet.interruption.check()
        if finished:
            pruned = _remove_stale(scene, pointer, doctor, warn)
    changed = _has_changed(scene) or bool(result["published"] or pruned or pointer is not None)
    made = {**result, **rollout_call.report(scene.changes), "pruned": pruned}
    return {**made, "changed": changed, "finished": finished and not scene.deferred}


def _pointer(scene: Scene) -> str | None:
    """Return what this call lets the ClusterPolicy name. While nodes wait for a window, it stays as it is."""
    return None if scene.deferred else pointer_of(scene)


def _writes(scene: Scene, pointer: str | None) -> Json:
    """Return the part of the result about other objects than nodes."""
    return {
        "config_map": f"{scene.namespace}/{scene.store.name}",
        "published": sorted(scene.missing),
        "pruned": sorted(scene.stale),
        "reference": pointer or "",
        "diff": _diff(scene, pointer),
    }


def _roll_out(scene: Scene, doctor: Doctor, warn: Warn) -> bool:
    """Bring the nodes to their configurations. Return whether none is left. Raises if too many failed."""
    if not scene.request.waits:
        scene.fleet.each(lambda change: label(scene.cluster, change, scene.nodes[change.name]), scene.labelled)
        return True
    at_once = [change.name for change in scene.changes if change.proves]
    rollout = _rollout(scene, doctor, at_once)
    rollout.run()
    for change in scene.changes:
        change.repaired = doctor.repaired.get(change.name, [])
    proved = [change for change in scene.changes if change.name in at_once]
    return rollout_call.conclude(
        rollout, scene.changes, scene.pacing, scene.fleet.now, warn, lambda: sharing_plan.degraded(proved)
    )


def _rollout(scene: Scene, doctor: Doctor, at_once: t.Collection[str]) -> HeldNodesRollout:
    """Return the rollout of the nodes that this call begins."""
    work = SharingChange(scene.cluster, doctor, scene.changes, scene.request.timeout_s)
    holds = {name: each for name, each in scene.holds.items() if name not in scene.deferred}
    return HeldNodesRollout(scene.fleet, work, holds, scene.pacing.without(scene.deferred), at_once)


def _remove_stale(scene: Scene, pointer: str | None, doctor: Doctor, warn: t.Callable[[str], None]) -> list[str]:
    """Remove the keys that nobody uses. Return them.

    The rollout took its time: nodes have joined and got labels, and somebody may have edited the ConfigMap. So all of
    it is read again, and what is written carries the version that was read.
    """
    if not scene.stale or doctor.look([change.name for change in scene.changes if change.changed]):
        return []
    try:
        return _remove_now(scene, pointer, warn)
    except GpuOpsError as e:
        if e.reason != "Conflict":
            raise
        warn(
            f"Somebody else has changed the ConfigMap {scene.store.name} just now, so its unused keys stay until the "
            "next call."
        )
        return []


def _remove_now(scene: Scene, pointer: str | None, warn: t.Callable[[str], None]) -> list[str]:
    stale = _look_again(scene)
    if not scene.retires(stale):
        scene.store.prune(stale)
        return stale
    left = _point(scene, pointer).after if pointer is not None else {"name": scene.referenced}
    if left.get("name") == scene.store.name:
        warn(
            f"The ConfigMap {scene.store.name} keeps its last keys ({first_few(stale)}), because config-manager fails "
            f"without any as long as the ClusterPolicy names the ConfigMap. Remove {_FIELD} where it is set."
        )
        return []
    if pointer is not None:
        unmount.wait(scene)
        stale = _look_again(scene)
    if scene.store.is_ours and scene.retires(stale):
        scene.store.delete()
    else:
        scene.store.prune(stale)
    return stale


def _look_again(scene: Scene) -> list[str]:
    """Read everything again that says which keys are used, and return those that nobody uses."""
    request = scene.request
    scene.policy, dummy = configmap_reference.policy_of(scene.cluster, request.policy_name, request.namespace)
    scene.nodes = {name_of(node): node for node in observe.NodeReader(scene.cluster).read()}
    scene.store.read()
    return scene.stale_now()


def _point(scene: Scene, pointer: str) -> configmap_reference.ReferenceChange:
    """Let the ClusterPolicy name a ConfigMap, or with an empty string give up what this module has set there."""
    if pointer:
        return configmap_reference.point(scene.cluster, scene.policy, configmap_reference.SHARING, {"name": pointer})
    return configmap_reference.give_up(scene.cluster, scene.policy, configmap_reference.SHARING)


def _has_changed(scene: Scene) -> bool:
    return any(change.changed or change.repaired for change in scene.changes)


def _diff(scene: Scene, pointer: str | None) -> Json:
    changed = [change for change in scene.labelled if change.relabels]
    before = set(scene.store.keys)
    after = (before | scene.missing.keys()) - set(scene.stale)
    return {
        "before": {
            "keys": sorted(before),
            "labels": {change.name: change.key_before for change in changed},
            _FIELD: scene.referenced,
        },
        "after": {
            "keys": sorted(after),
            "labels": {change.name: change.key for change in changed},
            _FIELD: scene.referenced if pointer is None else pointer,
        },
    }
