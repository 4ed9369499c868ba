# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""The module's one call: publish configurations, give them to nodes, prove them, and remove what nobody uses."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership, reference
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import plan as node_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import run as maintenance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import (
    ROLLOUT_MINIMA,
    drain_options,
    wishes_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.plan import NodeChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe, rollouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import assign, config, plan, rollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.config import Configuration
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.doctor import SHARING_OPERANDS, Doctor
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.plan import Change
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.store import Store
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

_FIELD = "devicePlugin.config.name"


@dataclasses.dataclass
class Scene:
    """What a call has read, and what it is going to change."""

    cluster: Cluster
    options: Options
    policy: Json
    namespace: str
    fleet: Fleet
    nodes: dict[str, Json]
    store: Store
    choices: list[assign.Choice]
    wanted: dict[str, Configuration] = dataclasses.field(default_factory=dict)
    changes: list[Change] = dataclasses.field(default_factory=list)
    holds: dict[str, NodeChange] = dataclasses.field(default_factory=dict)
    """How each node is held whose pods its change interrupts."""

    @property
    def spec(self) -> Json:
        """The ClusterPolicy's spec."""
        return self.policy.get("spec") or {}

    @property
    def referenced(self) -> str:
        """The ConfigMap that the ClusterPolicy names, or an empty string."""
        return str(self._config.get("name") or "")

    @property
    def default(self) -> str:
        """The key that the ClusterPolicy gives to nodes without a label, or an empty string."""
        return str(self._config.get("default") or "")

    @property
    def _config(self) -> Json:
        return (self.spec.get("devicePlugin") or {}).get("config") or {}

    @property
    def names(self) -> set[str]:
        """The names of the configurations that the call is about."""
        return {entry["name"] for entry in self.options["configs"] or []}

    def is_ours(self, key: str) -> bool:
        """Return whether a key is one of ours. One that the ConfigMap lacks is, if its form is ours."""
        return key in self.store.keys or bool(config.name_in(key) and key not in self.store.texts)

    def concerns(self, key: str) -> bool:
        """Return whether a key belongs to a configuration that the call is about."""
        is_about_all = self.options["purge"] or (self.options["state"] == "absent" and not self.names)
        return self.is_ours(key) and (is_about_all or config.name_in(key) in self.names)

    @property
    def missing(self) -> dict[str, str]:
        """The keys to publish, with their texts."""
        return self.store.unpublished(self.wanted.values())

    @property
    def stale(self) -> list[str]:
        """The keys that nobody uses once the changes are made. Without a proof of that, none."""
        if not self.options["wait"]:
            return []
        after = {name: labels_of(node).get(names.PLUGIN_CONFIG) for name, node in self.nodes.items()}
        after |= {change.name: change.key for change in self.changes}
        used = {*after.values(), *(each.key for each in self.wanted.values()), self.default}
        return [key for key in self.store.keys if self.concerns(key) and key not in used]

    @property
    def retires(self) -> bool:
        """Whether no key is left. config-manager fails without any, so then the ConfigMap must go as a whole."""
        return bool(self.stale) and not self.wanted and set(self.stale) == set(self.store.texts)


def ensure(cluster: Cluster, options: Options, warn: t.Callable[[str], None]) -> Json:
    """Bring the fleet's sharing into the state that the options ask for; return the result of the module."""
    _check_options(options)
    with waiting.signals_noted() as interruption:
        fleet = Fleet(cluster, drain_options(options, plan.HELD_FOR), interruption)
        return _ensure(_read(cluster, options, fleet), warn)


def _ensure(scene: Scene, warn: t.Callable[[str], None]) -> Json:
    for warning in _plan(scene):
        warn(warning)
    pointer = _pointer(scene)
    result = {
        "config_map": f"{scene.namespace}/{scene.store.name}",
        "published": sorted(scene.missing),
        "pruned": sorted(scene.stale),
        "reference": pointer or "",
        "diff": _diff(scene, pointer),
    }
    if scene.cluster.check_mode:
        return {**result, **_predict(scene, pointer, warn)}
    return {**result, **_act(scene, pointer, warn)}


def _check_options(options: Options) -> None:
    refuse_below(options, timeout=1, **ROLLOUT_MINIMA)
    if options["state"] == "present" and options["configs"] is None and not options["purge"]:
        raise GpuOpsError("Give configs, or purge: true to end all sharing of this collection.", reason="Invalid")
    wishes_of(options).check(options["canary"] if isinstance(options["canary"], list) else [])


# ---- reading ------------------------------------------------------------------------------------------------------


def _read(cluster: Cluster, options: Options, fleet: Fleet) -> Scene:
    choices = assign.choices_of(options["configs"] or []) if options["state"] == "present" else []
    policy, namespace = reference.policy_of(cluster, options["policy_name"], options["namespace"])
    return Scene(
        cluster=cluster,
        options=options,
        policy=policy,
        namespace=namespace,
        fleet=fleet,
        nodes={name_of(node): node for node in observe.NodeReader(cluster).read()},
        store=Store(cluster, namespace, options["config_map"]),
        choices=choices,
    )


# ---- planning -----------------------------------------------------------------------------------------------------


def _plan(scene: Scene) -> list[str]:
    """Decide what changes. Return warnings. Raises for whatever must not happen."""
    options = scene.options
    scene.wanted = assign.assign(scene.choices, list(scene.nodes.values()), scene.spec)
    assign.refuse_impossible(scene.wanted, scene.nodes, scene.spec)
    _refuse_other_config_map(scene)
    if not options["replace_labels"]:
        assign.refuse_foreign(scene.wanted, scene.nodes, scene.is_ours)
    targets: dict[str, tuple[str | None, Configuration | None]] = {
        name: (each.key, each) for name, each in scene.wanted.items()
    }
    plain = None if scene.default else config.PLAIN
    for name, node in scene.nodes.items():
        key = labels_of(node).get(names.PLUGIN_CONFIG)
        if name not in targets and key and scene.concerns(key):
            targets[name] = (None, plain)
    _refuse_unknown_canaries(options["canary"], targets)
    scene.changes = plan.changes_of(targets, scene.nodes)
    scene.changes += _left_behind(scene, targets)
    if any(change.relabels for change in scene.changes):
        running = pods.gpu_pods(scene.cluster, scene.namespace)
        plan.find_interruptions(scene.changes, scene.nodes, running)
    _refuse_without_wait(scene)
    warnings = plan.permit(scene.changes, options["allow_disruption"], scene.cluster.check_mode)
    scene.holds = _holds(scene) if options["allow_disruption"] else {}
    return warnings


def _holds(scene: Scene) -> dict[str, NodeChange]:
    """Return how each node is held whose pods its change interrupts. Raises if a pod must not go, or a node is held."""
    named = [change.name for change in scene.changes if change.interrupts or change.is_held]
    if not named:
        return {}
    fleet = scene.fleet
    fleet.look_elsewhere()
    claim = _claim(scene)
    elsewhere = [scene.nodes[name] for name in named if hold.is_held_elsewhere(scene.nodes[name], claim)]
    if elsewhere:
        raise hold.held_elsewhere(elsewhere, plan.HELD_FOR)
    chosen = [scene.nodes[change.name] for change in scene.changes if change.interrupts]
    made = node_plan.plan(chosen, fleet.pods(chosen), fleet.options, claim, fleet.holders_of)
    return {change.name: change for change in made}


def _claim(scene: Scene) -> hold.Claim:
    options, now = scene.options, scene.fleet.now
    limits = (options["lease"], options["take_over"], options["pause_nvsentinel"])
    return hold.Claim(plan.HELD_FOR, hold.new_stamp(now), now, *limits)


def _refuse_unknown_canaries(canary: t.Any, targets: t.Container[str]) -> None:
    unknown = [name for name in canary if name not in targets] if isinstance(canary, list) else []
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
    claim, is_end = _claim(scene), scene.options["state"] == "absent"
    return [
        change
        for change in plan.changes_of(found, scene.nodes)
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
    if hit and not scene.options["wait"]:
        raise GpuOpsError(
            f"{first_few(hit)} must be drained and put back, for which the call must wait. Set wait: true.",
            reason="Invalid",
        )


def _diff(scene: Scene, pointer: str | None) -> Json:
    changed = [change for change in scene.changes if change.relabels]
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


# ---- the reference in the ClusterPolicy ---------------------------------------------------------------------------


def _pointer(scene: Scene) -> str | None:
    """Return what the ClusterPolicy shall name: the ConfigMap, nothing (an empty string), or what it names (None)."""
    if scene.wanted and scene.referenced != scene.store.name:
        return scene.store.name
    is_ours = ownership.owned_by(scene.policy, reference.SHARING.manager)
    if scene.retires and scene.referenced == scene.store.name and is_ours:
        return ""
    return None


# ---- acting -------------------------------------------------------------------------------------------------------


def _predict(scene: Scene, pointer: str | None, warn: t.Callable[[str], None]) -> Json:
    """Send the writes as dry runs, and return the result that a run would have."""
    scene.store.publish(scene.missing)
    if pointer is not None:
        _point(scene, pointer)
    busy = {name: scene.fleet.others_at_work(scene.nodes[name]) for name in scene.holds}
    for name, others in busy.items():
        if others:
            warn(f"Node {name} is not begun before others have finished their work on it: {first_few(others)}.")
    free = [each for name, each in scene.holds.items() if not busy[name]]
    for warning in maintenance.warnings_of(scene.fleet, maintenance.predict(scene.fleet, free), check_mode=True):
        warn(warning)
    for change in scene.changes:
        if change.relabels:
            rollout.label(scene.cluster, change)
    return _result(scene, pointer)


def _act(scene: Scene, pointer: str | None, warn: t.Callable[[str], None]) -> Json:
    doctor = Doctor(scene.cluster, scene.namespace)
    try:
        scene.store.publish(missing := scene.missing)
        if pointer:
            _point(scene, pointer)
        _roll_out(scene, doctor, warn)
        scene.fleet.interruption.check()
        pruned = _remove_stale(scene, pointer, doctor, warn)
    except GpuOpsError as e:
        raise GpuOpsError(e.msg, **{**e.details, **plan.report(scene.changes)}) from e
    except KeyboardInterrupt as e:
        message = "The call was interrupted. Run it again; it does not repeat what is done."
        raise GpuOpsError(message, reason="Interrupted", **plan.report(scene.changes)) from e
    has_written = bool(missing or pruned or pointer is not None)
    return {**_result(scene, pointer), "pruned": pruned, "changed": _has_changed(scene) or has_written}


def _roll_out(scene: Scene, doctor: Doctor, warn: t.Callable[[str], None]) -> None:
    """Bring the nodes to their configurations. Raises if one failed."""
    due = [change for change in scene.changes if change.state != "unchanged"]
    if not scene.options["wait"]:
        relabelled = [change for change in due if change.relabels]
        scene.fleet.each(lambda change: rollout.label(scene.cluster, change), relabelled)
        return
    groups = {change.name: labels_of(scene.nodes[change.name]).get(scene.options["group_by"]) for change in due}
    work = rollout.Work(scene.cluster, scene.fleet, scene.options, doctor, scene.holds, groups)
    stop = rollout.roll_out(work, due)
    for change in scene.changes:
        change.repaired = doctor.repaired.get(change.name, [])
        for note in change.notes:
            warn(f"Node {change.name}: {note}")
    if any(change.state == "failed" for change in scene.changes):
        raise plan.failure(scene.changes, stop)


def _remove_stale(scene: Scene, pointer: str | None, doctor: Doctor, warn: t.Callable[[str], None]) -> list[str]:
    """Remove the keys that nobody uses. Return them."""
    stale = scene.stale
    relabelled = [change.name for change in scene.changes if change.changed]
    if not stale or doctor.look(relabelled):
        return []
    if not scene.retires:
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
        _wait_until_unmounted(scene)
    if scene.store.is_ours:
        scene.store.delete()
    else:
        scene.store.prune(stale)
    return stale


def _wait_until_unmounted(scene: Scene) -> None:
    """Wait until no pod of the operands mounts the ConfigMap any more, so that it can be deleted."""
    path = namespaced("apps/v1", scene.namespace, "daemonsets")

    def look() -> bool | None:
        scene.fleet.interruption.check()
        listed = scene.cluster.list(path, resourceVersion="") or []
        concerned = [item for item in listed if name_of(item) in SHARING_OPERANDS]
        left = [item for item in concerned if _mounts(item, scene.store.name) or not rollouts.is_complete(item)]
        return None if left else True

    if waiting.until(look, scene.options["timeout"]) is None:
        raise GpuOpsError(
            f"The operands still use the ConfigMap {scene.store.name} after {scene.options['timeout']} s. "
            "Run it again when they are ready.",
            reason="TimedOut",
        )


def _mounts(daemonset: Json, config_map: str) -> bool:
    volumes = daemonset["spec"]["template"]["spec"].get("volumes") or []
    return any((volume.get("configMap") or {}).get("name") == config_map for volume in volumes)


def _point(scene: Scene, pointer: str) -> reference.Change:
    """Let the ClusterPolicy name a ConfigMap, or with an empty string give up what this module has set there."""
    if pointer:
        return reference.point(scene.cluster, scene.policy, reference.SHARING, {"name": pointer})
    return reference.give_up(scene.cluster, scene.policy, reference.SHARING)


def _has_changed(scene: Scene) -> bool:
    return any(change.changed or change.repaired or change.is_held for change in scene.changes)


def _result(scene: Scene, pointer: str | None) -> Json:
    for change in scene.changes:
        change.changed = change.changed or change.is_held
    changed = _has_changed(scene) or bool(scene.missing or scene.stale or pointer is not None)
    return {"changed": changed, **plan.report(scene.changes)}
