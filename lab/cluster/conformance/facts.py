# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What matters in a recording: the order of what clients act on, what holds at the end, and the moments that mislead."""

from __future__ import annotations

import json
import re
import typing as t

Json = dict[str, t.Any]

START = 1.0
"""Lines before this moment show what was there already."""
_STATE = "label nvidia.com/gpu-driver-upgrade-state"
_OWNER = "label nvidia.com/gpu-operator.driver.owner"
_OF_DEVELOPMENT = "main-latest"
"""The version that the chart in NVIDIA's repository carries; a released one has its number there."""
_KEPT = tuple(
    f"nvidia.com/{end}"
    for end in ("gpu.deploy.", "gpu.present", "mig.config", "gpu-driver-upgrade-enabled", "gpu-operator.driver.owner")
)
_POOL = re.compile(r"(nvidia-(?:v?gpu|vgpu-host-manager)-driver-\w[\w.]*)-[b-df-hj-np-tv-z24-9]+")
"""The name of an NVIDIADriver's DaemonSet, which ends in a hash of what is new in each cluster; and the names of its pods."""


def facts(lines: t.Iterable[Json], version: str = "v26.7.0") -> Json:
    """Reduce a recording."""
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
    """The states that custom resources went through, and their conditions at the end."""
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
    """What happens to each node and its driver pods from the moment that the node is given to an NVIDIADriver."""
    nodes: dict[str, list[str]] = {}
    homes: dict[str, str] = {}
    for line in lines:
        kind, name, field, value = (line[key] for key in ("kind", "name", "field", "value"))
        if kind == "Node" and field == _OWNER:
            nodes.setdefault(name, []).append(f"owned by {value}")
        elif kind == "DriverPod":
            homes[name] = value[0] if value and value[0] else homes.get(name, "")
            if homes[name] in nodes:
                nodes[homes[name]].append(_pod_step(name, value))
        elif name in nodes:
            _travel({name: nodes[name]}, kind, name, field, value)
    return sorted(_without_repeats([step for step in steps if step]) for steps in nodes.values())


def _pod_step(name: str, value: list[t.Any] | None) -> str:
    """What a driver pod came to; nothing while it is on its way."""
    whose = "NVIDIADriver's pod" if _POOL.match(name) else "ClusterPolicy's pod"
    if value is None:
        return f"{whose} gone"
    return f"{whose} leaves" if value[4] else f"{whose} ready" if value[3] == "True" else ""


def _travel(journeys: dict[str, list[str]], kind: str, name: str, field: str, value: t.Any) -> None:
    """Note a node's step of an upgrade. It begins with upgrade-required: the states before it depend on the last rollout."""
    if kind != "Node" or field not in (_STATE, "unschedulable"):
        return
    steps = journeys.setdefault(name, [])
    step = value if field == _STATE else "cordoned" if value else "uncordoned"
    if steps or step == "upgrade-required":
        steps.append(str(step))


def _without_repeats(states: list[t.Any]) -> list[t.Any]:
    return [state for before, state in zip([object(), *states], states) if state != before]


def _daemonsets(last: dict[tuple[str, str, str], t.Any]) -> Json:
    found: Json = {}
    for (kind, name, field), value in sorted(last.items()):
        if kind == "DaemonSet" and field == "status" and value:
            found.setdefault(name, {})[field] = {
                count: number for count, number in value.items() if count != "observedGeneration"
            }
        elif kind == "DaemonSet" and field != "generation":
            found.setdefault(name, {})[field] = value
    return {_POOL.sub(r"\1-*", name): entry if entry.get("containers") else None for name, entry in found.items()}


def _labels(last: dict[tuple[str, str, str], t.Any]) -> Json:
    """What the operator keeps on each node, without what discovery or a rollout writes there."""
    nodes: Json = {}
    for (kind, name, field), value in sorted(last.items()):
        key = field.split(" ")[-1]
        if kind == "Node" and value is not None and key.startswith(_KEPT) and key != "nvidia.com/mig.config.state":
            nodes.setdefault(name, {})[key] = value
    return nodes


class _Watcher:
    """What a client sees at one moment."""

    def __init__(self) -> None:
        self.states: dict[str, str | None] = {}
        self.drivers: dict[str, str | None] = {}
        self.cordoned: set[str] = set()
        self.counts: dict[str, Json] = {}

    def see(self, line: Json) -> None:
        kind, name, field, value = (line[key] for key in ("kind", "name", "field", "value"))
        if kind == "ClusterPolicy" and field == "state":
            self.states[name] = value
        elif kind == "NVIDIADriver" and field == "state":
            self.drivers[name] = value
        elif kind == "Node" and field == "unschedulable":
            (self.cordoned.add if value else self.cordoned.discard)(name)
        elif kind == "DaemonSet" and field == "status":
            self.counts[name] = value or {}

    @property
    def ready(self) -> bool:
        return "ready" in self.states.values()


def _moments(lines: list[Json]) -> set[str]:
    """Moments at which the ClusterPolicy or an NVIDIADriver says ready and is not to be believed."""
    watcher, found = _Watcher(), set[str]()
    for line in lines:
        watcher.see(line)
        if line["t"] >= START and watcher.ready:
            found.update(_of_policy(line, watcher))
        if (
            line["t"] >= START
            and line["kind"] == "NVIDIADriver"
            and line["field"] == "state"
            and line["value"] == "ready"
        ):
            found.update(_of_driver(watcher))
    return found


def _of_policy(line: Json, watcher: _Watcher) -> t.Iterator[str]:
    kind, field, value = line["kind"], line["field"], line["value"]
    if kind == "ClusterPolicy" and field == "generation" and watcher.states.get(line["name"]) == "ready":
        yield "ready before the change was looked at"
    if kind == "ClusterPolicy" and field == "state" and watcher.cordoned:
        yield "ready while a node is cordoned"
    if kind == "Node" and field == _STATE and value == "upgrade-required":
        yield "ready with a driver to be replaced"
    if watcher.counts and not any(counts.get("desiredNumberScheduled") for counts in watcher.counts.values()):
        yield "ready without any pod"
    if kind == "DaemonSet" and field == "status" and value and not value["observedGeneration"]:
        yield "ready with a DaemonSet that nobody has looked at"


def _of_driver(watcher: _Watcher) -> t.Iterator[str]:
    if watcher.cordoned:
        yield "NVIDIADriver ready while a node is cordoned"
    if not any(_POOL.match(name) and counts for name, counts in watcher.counts.items()):
        yield "NVIDIADriver ready without a DaemonSet"
