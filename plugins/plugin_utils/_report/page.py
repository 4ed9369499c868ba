# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The page as a whole: totals, states, versions, holders, findings and changes, as the template shows them. Pure."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import typing as t
from datetime import datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.plugin_utils import _devices
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import changes
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.nodes import (
    NODE_STATES,
    Node,
    State,
    nodes_of,
)
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.texts import short
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.usage import Usage, usage_of

DRIFT = "FleetDrift"
"""How the codes of findings about drift begin."""

NAMESPACES, NODES_LISTED = 30, 20
"""How many namespaces are listed, and how many nodes of a finding."""

LONG = 1000
"""How much is shown of a sentence or of a line of a log."""

MEASURED = ("taken", "took_s", "usage")
"""The parts of the module's result that differ each time. They are no change of the fleet."""

LEVELS = {"failure": "Failure", "warning": "Warning", "ok": "Note"}


@dataclasses.dataclass(frozen=True)
class Share:
    """A part of a whole: ``percent`` is the length of its bar."""

    name: str
    number: int
    percent: int
    more: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """The versions of something, the most common first."""

    title: str
    rows: tuple[Share, ...]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A finding as the page shows it."""

    number: int
    code: str
    title: str
    severity: str
    level: str
    certainty: str
    cause: str
    remedy: str
    url: str
    nodes: tuple[tuple[str, int | None], ...]
    more_nodes: int
    objects: tuple[str, ...]
    quotes: tuple[tuple[str, str], ...]
    consequences: tuple[str, ...]
    tell_apart: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Totals:
    """The fleet in numbers."""

    nodes: int
    serving: int
    missing: int
    """How many devices should be there, and pods cannot get them."""
    devices: tuple[Share, ...]
    """What pods hold of each resource."""
    held: int | None
    """What pods hold together, or None if nobody has counted it."""

    @property
    def serving_percent(self) -> int:
        """How many of the nodes are in service."""
        return percent(self.serving, self.nodes)


@dataclasses.dataclass(frozen=True)
class Page:
    """All that the template shows."""

    title: str
    headline: str
    message: str
    taken: str
    taken_words: str
    took_s: float
    totals: Totals
    states: tuple[tuple[State, int], ...]
    models: tuple[tuple[str, tuple[Node, ...]], ...]
    nodes: tuple[Node, ...]
    findings: tuple[Finding, ...]
    drift: tuple[Finding, ...]
    versions: tuple[Table, ...]
    namespaces: tuple[Share, ...]
    usage: Usage | None
    gaps: tuple[tuple[str, str], ...]
    changes: changes.Changes
    state: Json

    @property
    def levels(self) -> dict[str, int]:
        """How many findings there are of each severity."""
        found = [each.level for each in (*self.findings, *self.drift)]
        return {level: found.count(level) for level in LEVELS}

    @property
    def since_words(self) -> str:
        """When the report was made with which this one compares itself."""
        return _words(self.changes.since or "")

    @property
    def size(self) -> str:
        """How large the cells of the picture are: the fewer nodes, the larger."""
        return "l" if len(self.nodes) <= 48 else "m" if len(self.nodes) <= 300 else "s"


def percent(number: int, total: int) -> int:
    """Return a share in percent, at least 1 for anything that exists."""
    return max(1, round(100 * number / total)) if number and total else 0


def page_of(data: Json, title: str, former: Json | None) -> Page:
    """Return the page for the module's result and the state that the former page has kept, if any."""
    nodes = tuple(nodes_of(data))
    found = tuple(_finding(number, each, nodes) for number, each in enumerate(data["findings"]))
    state, changed = changes.compare(_state(data, nodes), former)
    verdict = (data["stack"] or {}).get("verdict") or {}
    totals = _totals(nodes, data["stack"] or {})
    return Page(
        title=short(title),
        headline=_headline(totals),
        message=short(verdict.get("message") or "The cluster could not be read."),
        taken=short(data["taken"]),
        taken_words=_words(data["taken"]),
        took_s=float(data["took_s"]),
        totals=totals,
        states=tuple((state, number) for state in NODE_STATES.values() if (number := _in(state, nodes))),
        models=_by_model(nodes),
        nodes=nodes,
        findings=tuple(each for each in found if not each.code.startswith(DRIFT)),
        drift=tuple(each for each in found if each.code.startswith(DRIFT)),
        versions=tuple(_versions(nodes)),
        namespaces=_namespaces(data["pods"]),
        usage=usage_of(data),
        gaps=tuple((short(gap["what"]), short(gap["why"])) for gap in data["gaps"]),
        changes=changed,
        state=state,
    )


def _in(state: State, nodes: t.Sequence[Node]) -> int:
    return sum(node.state is state for node in nodes)


def _words(taken: str) -> str:
    """Return a time as people write it. All times are in UTC."""
    try:
        at = datetime.fromisoformat(taken)
    except ValueError:
        return short(taken)
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def _headline(totals: Totals) -> str:
    if not totals.nodes:
        return "No GPU node was found."
    every = "Both" if totals.nodes == 2 else f"All {totals.nodes:,}"
    if totals.serving == totals.nodes:
        return "The GPU node is in service." if totals.nodes == 1 else f"{every} GPU nodes are in service."
    return f"{totals.serving:,} of {totals.nodes:,} GPU nodes are in service."


def _totals(nodes: t.Sequence[Node], stack: Json) -> Totals:
    rows = stack.get("nodes") or []
    devices = _devices.totals(rows)
    held = [each.held for each in devices if each.held is not None]
    return Totals(
        nodes=len(nodes),
        serving=sum(node.state.key in ("ok", "warn") for node in nodes),
        missing=sum(max(0, part["expected"] - part["allocatable"]) for row in rows for part in row["slices"]),
        devices=tuple(map(_of_resource, devices)),
        held=sum(held) if len(held) == len(devices) else None,
    )


def _of_resource(each: _devices.Devices) -> Share:
    offered = f"{each.offered:,}"
    more = offered if each.held is None else f"{each.held:,} of {offered}"
    return Share(short(each.resource), each.offered, percent(each.held or 0, each.offered), more)


def _by_model(nodes: t.Sequence[Node]) -> tuple[tuple[str, tuple[Node, ...]], ...]:
    groups: dict[str, list[Node]] = collections.defaultdict(list)
    for node in nodes:
        groups[node.product].append(node)
    return tuple((name, tuple(found)) for name, found in sorted(groups.items(), key=lambda each: -len(each[1])))


def _versions(nodes: t.Sequence[Node]) -> t.Iterator[Table]:
    fields: dict[str, t.Callable[[Node], str]] = {
        "Driver": lambda node: node.driver,
        "Kernel": lambda node: node.kernel,
        "Operating system": lambda node: node.os,
        "Container runtime": lambda node: node.runtime,
        **{name: _firmware(name) for name in ("VBIOS", "infoROM", "GSP firmware")},
    }
    for title, field in fields.items():
        found: dict[str, list[str]] = collections.defaultdict(list)
        for node in nodes:
            if field(node):
                found[field(node)].append(node.name)
        ordered = sorted(found.items(), key=lambda each: (-len(each[1]), each[0]))[:NAMESPACES]
        rows = tuple(Share(name, len(on), percent(len(on), len(nodes)), _few(on)) for name, on in ordered)
        if rows:
            yield Table(title, rows)


def _firmware(name: str) -> t.Callable[[Node], str]:
    return lambda node: dict(node.firmware).get(name, "")


def _few(on: t.Sequence[str]) -> str:
    """Return the names of nodes if they are few."""
    return ", ".join(on) if len(on) <= 3 else ""


def _namespaces(pods: t.Sequence[Json]) -> tuple[Share, ...]:
    """Return who holds devices, by namespace."""
    held: collections.Counter[str] = collections.Counter()
    number: collections.Counter[str] = collections.Counter()
    for pod in pods:
        held[pod["namespace"]] += sum(pod["gpus"].values())
        number[pod["namespace"]] += 1
    total = sum(held.values())
    shown = held.most_common(NAMESPACES)
    rows = [Share(short(name), many, percent(many, total), f"{number[name]:,}") for name, many in shown]
    rest = total - sum(many for name, many in shown)
    if rest:
        others = len(pods) - sum(number[name] for name, many in shown)
        rows.append(Share(f"{len(held) - NAMESPACES} more namespaces", rest, percent(rest, total), f"{others:,}"))
    return tuple(rows)


def _finding(number: int, found: Json, nodes: t.Sequence[Node]) -> Finding:
    places = {node.name: node.number for node in nodes}
    on = [(short(name), places.get(short(name))) for name in found["nodes"]]
    url = str(found["url"])
    return Finding(
        number=number,
        code=short(found["code"]),
        title=short(found["title"]),
        severity=LEVELS[found["severity"]],
        level=found["severity"],
        certainty=found["certainty"],
        cause=short(found["cause"], LONG),
        remedy=short(found["remedy"], LONG),
        url=url if url.startswith("https://") else "",
        nodes=tuple(on[:NODES_LISTED]),
        more_nodes=max(0, len(on) - NODES_LISTED),
        objects=tuple(short(each) for each in found["objects"][:NODES_LISTED]),
        quotes=tuple(
            (short(each["text"], LONG), short(f"{each['source']}, {each['node']}" if each["node"] else each["source"]))
            for each in found["quotes"]
        ),
        consequences=tuple(short(each["title"]) for each in found["consequences"]),
        tell_apart=tuple(short(each, LONG) for each in found["tell_apart"]),
    )


def _state(data: Json, nodes: t.Sequence[Node]) -> Json:
    """Return what the next report compares itself with."""
    shown = {key: value for key, value in data.items() if key not in MEASURED}
    return {
        "taken": short(data["taken"]),
        "digest": hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest(),
        "nodes": {node.name: [node.state.title, node.counts, node.driver, node.kernel] for node in nodes},
        "findings": [[short(each[key]) for key in ("code", "cause", "title")] for each in data["findings"]],
    }
