# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What matters in a recording: the order of what clients act on, what holds at the end, and the moments that mislead."""

from __future__ import annotations

import json
import typing as t

Json = dict[str, t.Any]

START = 1.0
"""Lines before this moment show what was there already."""
_STATE = "label nvidia.com/gpu-driver-upgrade-state"
_OF_DEVELOPMENT = "main-latest"
"""The version that the chart in NVIDIA's repository carries; a released one has its number there."""


def facts(lines: t.Iterable[Json], version: str = "v26.7.0") -> Json:
    """Reduce a recording."""
    everything = json.loads(json.dumps(list(lines)).replace(_OF_DEVELOPMENT, version))
    last: dict[tuple[str, str, str], t.Any] = {}
    policies: dict[str, list[str | None]] = {}
    journeys: dict[str, list[str]] = {}
    for line in everything:
        key = (line["kind"], line["name"], line["field"])
        last[key] = line["value"]
        if key[0] == "ClusterPolicy":
            states = policies.setdefault(key[1], [None])
            if key[2] == "state":
                states.append(line["value"])
        if line["t"] >= START:
            _travel(journeys, *key, line["value"])
    travelled = sorted(filter(None, journeys.values()))
    return {
        "policies": {name: {"states": _without_repeats(states), "conditions": last["ClusterPolicy", name, "conditions"]} for name, states in policies.items()},
        "daemonsets": _daemonsets(last),
        "nodes": _labels(last),
        "journeys": travelled,
        "failed journeys": [steps for steps in travelled if "upgrade-failed" in steps],
        "moments": sorted(_moments(everything)),
    }


def _travel(journeys: dict[str, list[str]], kind: str, name: str, field: str, value: t.Any) -> None:
    """Note a node's step of an upgrade. It begins with upgrade-required: the states before it depend on the last rollout."""
    if kind != "Node" or field not in (_STATE, "unschedulable"):
        return
    steps = journeys.setdefault(name, [])
    step = value if field == _STATE else "cordoned" if value else "uncordoned"
    if steps or step == "upgrade-required":
        steps.append(str(step))


def _without_repeats(states: list[str | None]) -> list[str | None]:
    return [state for before, state in zip([object(), *states], states) if state != before]


def _daemonsets(last: dict[tuple[str, str, str], t.Any]) -> Json:
    found: Json = {}
    for (kind, name, field), value in sorted(last.items()):
        if kind == "DaemonSet" and field == "status" and value:
            found.setdefault(name, {})[field] = {count: number for count, number in value.items() if count != "observedGeneration"}
        elif kind == "DaemonSet" and field != "generation":
            found.setdefault(name, {})[field] = value
    return {name: entry if entry.get("containers") else None for name, entry in found.items()}


def _labels(last: dict[tuple[str, str, str], t.Any]) -> Json:
    """What the operator keeps on each node, without what discovery or a rollout writes there."""
    nodes: Json = {}
    for (kind, name, field), value in sorted(last.items()):
        key = field.split(" ")[-1]
        ours = key.startswith(("nvidia.com/gpu.deploy.", "nvidia.com/gpu.present", "nvidia.com/mig.config", "nvidia.com/gpu-driver-upgrade-enabled"))
        if kind == "Node" and value is not None and ours and key != "nvidia.com/mig.config.state":
            nodes.setdefault(name, {})[key] = value
    return nodes


class _Watcher:
    """What a client sees at one moment."""

    def __init__(self) -> None:
        self.states: dict[str, str | None] = {}
        self.cordoned: set[str] = set()
        self.counts: dict[str, Json] = {}

    def see(self, line: Json) -> None:
        kind, name, field, value = (line[key] for key in ("kind", "name", "field", "value"))
        if kind == "ClusterPolicy" and field == "state":
            self.states[name] = value
        elif kind == "Node" and field == "unschedulable":
            (self.cordoned.add if value else self.cordoned.discard)(name)
        elif kind == "DaemonSet" and field == "status":
            self.counts[name] = value or {}

    @property
    def ready(self) -> bool:
        return "ready" in self.states.values()


def _moments(lines: list[Json]) -> set[str]:
    """Moments at which the ClusterPolicy says ready and is not to be believed."""
    watcher, found = _Watcher(), set()
    for line in lines:
        watcher.see(line)
        if line["t"] < START or not watcher.ready:
            continue
        if line["kind"] == "ClusterPolicy" and line["field"] == "generation" and watcher.states.get(line["name"]) == "ready":
            found.add("ready before the change was looked at")
        if line["kind"] == "ClusterPolicy" and line["field"] == "state" and watcher.cordoned:
            found.add("ready while a node is cordoned")
        if watcher.counts and not any(counts.get("desiredNumberScheduled") for counts in watcher.counts.values()):
            found.add("ready without any pod")
        if line["kind"] == "DaemonSet" and line["field"] == "status" and line["value"] and not line["value"]["observedGeneration"]:
            found.add("ready with a DaemonSet that nobody has looked at")
    return found
