# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of a recording: the order of visible changes, the final state, and the moments that mislead clients."""

from __future__ import annotations

import json
import re
import typing as t

Json = dict[str, t.Any]

START = 1.0
"""Lines before this moment show the initial state."""
_STATE = "label nvidia.com/gpu-driver-upgrade-state"
_OWNER = "label nvidia.com/gpu-operator.driver.owner"
_OF_DEVELOPMENT = "main-latest"
"""The version of the chart in NVIDIA's repository; a released chart has its number instead."""
_KEPT = tuple(
    f"nvidia.com/{end}"
    for end in ("gpu.deploy.", "gpu.present", "mig.config", "gpu-driver-upgrade-enabled", "gpu-operator.driver.owner")
)
_OF_MIG_MANAGERS = ("nvidia.com/mig.config.state", "nvidia.com/gpu.deploy.nvsm")
_POOL = re.compile(r"(nvidia-(?:v?gpu|vgpu-host-manager)-driver-\w[\w.]*)-[b-df-hj-np-tv-z24-9]+")
"""The name of an NVIDIADriver's DaemonSet, which ends in a hash that differs in each cluster, or of its pod."""


def facts(lines: t.Iterable[Json], version: str = "v26.7.0") -> Json:
    """Return the facts of a recording."""
    everything = json.loads(json.dumps(list(lines)).replace(_OF_DEVELOPMENT, version))
    last: dict[tuple[str, str, str], t.Any] = {}
    journeys: dict[str, list[str]] = {}
    for line in everything:
        key = (line["kind"], line["name"], line["field"])
        last[key] = line["value"]
        if line["t"] >= START:
            _travel(journeys, *key, line["value"])
    travelled = sorted(filter(None, journeys.values()))
    return {
        "policies": _resources("ClusterPolicy", everything, last),
        "drivers": _resources("NVIDIADriver", everything, last),
        "daemonsets": _daemonsets(last),
        "nodes": _labels(last),
        "journeys": travelled,
        "failed journeys": [steps for steps in travelled if "upgrade-failed" in steps],
        "hand-overs": _hand_overs(everything),
        "moments": sorted(_moments(everything)),
    }


def _resources(kind: str, lines: list[Json], last: dict[tuple[str, str, str], t.Any]) -> Json:
    """Return the states of each custom resource in their order, and its final conditions."""
    states: dict[str, list[str | None]] = {}
    for line in lines:
        if line["kind"] == kind:
            been = states.setdefault(line["name"], [None])
            been += [line["value"]] if line["field"] == "state" else []
    return {
        name: {"states": _without_repeats(been), "conditions": last[kind, name, "conditions"]}
        for name, been in states.items()
    }


def _hand_overs(lines: list[Json]) -> list[list[str]]:
    """Return what happens to each node and its driver pods after an NVIDIADriver has become its owner."""
    nodes: dict[str, list[str]] = {}
    homes: dict[str, str] = {}
    known: set[tuple[str, str, str]] = set()
    """What has been seen before. The first sight of a pod, or of a node's cordon, is no step."""
    for line in lines:
        kind, name, field, value = (line[key] for key in ("kind", "name", "field", "value"))
        is_news = (kind, name, field) in known
        known.add((kind, name, field))
        if kind == "Node" and field == _OWNER:
            nodes.setdefault(name, []).append(f"owned by {value}")
        elif kind == "DriverPod":
            homes[name] = _node_of(value) or homes.get(name, "")
            if is_news and homes[name] in nodes:
                nodes[homes[name]].append(_pod_step(name, value))
        elif name in nodes and (is_news or field != "unschedulable"):
            _travel({name: nodes[name]}, kind, name, field, value)
    return sorted(_without_repeats(list(filter(None, steps))) for steps in nodes.values())


def _node_of(pod: list[t.Any] | None) -> str:
    return str(pod[0]) if pod and pod[0] else ""


def _pod_step(name: str, value: list[t.Any] | None) -> str:
    """Return the step that a driver pod has reached; an empty string while it starts."""
    whose = "NVIDIADriver's pod" if _POOL.match(name) else "ClusterPolicy's pod"
    if value is None:
        return f"{whose} gone"
    _node, _revision, _phase, ready, deleting = value
    if deleting:
        return f"{whose} leaves"
    return f"{whose} ready" if ready == "True" else ""


def _travel(journeys: dict[str, list[str]], kind: str, name: str, field: str, value: t.Any) -> None:
    """Note a step of a node's upgrade, from upgrade-required on: earlier states depend on the last rollout."""
    if kind != "Node" or field not in (_STATE, "unschedulable"):
        return
    steps = journeys.setdefault(name, [])
    cordon = "cordoned" if value else "uncordoned"
    step = value if field == _STATE else cordon
    if steps or step == "upgrade-required":
        steps.append(str(step))


def _without_repeats(states: list[t.Any]) -> list[t.Any]:
    return [state for before, state in zip([object(), *states], states) if state != before]


def _daemonsets(last: dict[tuple[str, str, str], t.Any]) -> Json:
    found: Json = {}
    for (kind, name, field), value in sorted(last.items()):
        if kind != "DaemonSet" or field == "generation":
            continue
        found.setdefault(name, {})[field] = _counts(value) if field == "status" and value else value
    names = {name: _POOL.sub(r"\1-*", name) for name in found}
    twice = {short for short in names.values() if list(names.values()).count(short) > 1}
    return {
        short + (f" of {_owner(found[name])}" if short in twice else ""): found[name] if _exists(found[name]) else None
        for name, short in names.items()
    }


def _exists(daemonset: Json) -> bool:
    return bool(daemonset.get("containers"))


def _owner(daemonset: Json) -> str:
    """Return the NVIDIADriver to which a DaemonSet belongs."""
    selector = daemonset.get("nodeSelector") or {}
    return str(selector.get(_OWNER.removeprefix("label "), "nobody"))


def _counts(status: Json) -> Json:
    return {count: number for count, number in status.items() if count != "observedGeneration"}


def _labels(last: dict[tuple[str, str, str], t.Any]) -> Json:
    """Return the operator's labels and annotations of each node, without those of discovery or of a rollout.

    A driver manager sets labels of operands that a node lacks to an empty text. They are left out too.
    """
    nodes: Json = {}
    for (kind, name, field), value in sorted(last.items()):
        key = field.split(" ")[-1]
        if kind == "Node" and value and key.startswith(_KEPT) and key not in _OF_MIG_MANAGERS:
            nodes.setdefault(name, {})[key] = value
    return nodes


class _Watcher:
    """What a client sees at a moment of the recording."""

    def __init__(self) -> None:
        self.states: dict[str, str | None] = {}
        self.drivers: dict[str, str | None] = {}
        self.cordoned: set[str] = set()
        self.counts: dict[str, Json] = {}

    def see(self, line: Json) -> None:
        name, value = line["name"], line["value"]
        what = (line["kind"], line["field"])
        if what == ("ClusterPolicy", "state"):
            self.states[name] = value
        elif what == ("NVIDIADriver", "state"):
            self.drivers[name] = value
        elif what == ("Node", "unschedulable"):
            (self.cordoned.add if value else self.cordoned.discard)(name)
        elif what == ("DaemonSet", "status"):
            self.counts[name] = value or {}

    @property
    def ready(self) -> bool:
        return "ready" in self.states.values()

    @property
    def wants_pods(self) -> bool:
        return any(counts.get("desiredNumberScheduled") for counts in self.counts.values())


def _moments(lines: list[Json]) -> set[str]:
    """Return the moments at which the ClusterPolicy or an NVIDIADriver is ready only by its status."""
    watcher, found = _Watcher(), set[str]()
    for line in lines:
        watcher.see(line)
        if line["t"] < START:
            continue
        if watcher.ready:
            found.update(_of_policy(line, watcher))
        if (line["kind"], line["field"], line["value"]) == ("NVIDIADriver", "state", "ready"):
            found.update(_of_driver(watcher))
    return found


def _of_policy(line: Json, watcher: _Watcher) -> t.Iterator[str]:
    what, value = (line["kind"], line["field"]), line["value"]
    if what == ("ClusterPolicy", "generation") and watcher.states.get(line["name"]) == "ready":
        yield "ready before the operator has seen the change"
    if what == ("ClusterPolicy", "state") and watcher.cordoned:
        yield "ready while a node is cordoned"
    if what == ("Node", _STATE) and value == "upgrade-required":
        yield "ready with a driver to be replaced"
    if watcher.counts and not watcher.wants_pods:
        yield "ready without any pod"
    if what == ("DaemonSet", "status") and value and not value["observedGeneration"]:
        yield "ready with a DaemonSet that its controller has not seen"


def _of_driver(watcher: _Watcher) -> t.Iterator[str]:
    if watcher.cordoned:
        yield "NVIDIADriver ready while a node is cordoned"
    if not any(_POOL.match(name) and counts for name, counts in watcher.counts.items()):
        yield "NVIDIADriver ready without a DaemonSet"
