# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a diagnosis knows: the stack, the checks, the hosts, and text. Pure.

Everything is plain JSON, so that a bundle of evidence can be written and read back. What could not be read is a gap,
and the diagnosis continues.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import statuses
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import whose_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import (
    Hit,
    Pattern,
    Scanner,
    TextLine,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Gap:
    """Something that the diagnosis could not see, and why."""

    what: str
    why: str


@dataclasses.dataclass(frozen=True)
class Evidence:
    """All that was collected. Without a cluster, ``stack`` is None and the lists about the cluster are empty."""

    taken: str = ""
    """When it was collected (ISO 8601)."""
    stack: Json | None = None
    """The result of gpu_stack_info: nodes, operands, policy, namespace, verdict with its reasons."""
    spec: Json = dataclasses.field(default_factory=dict)
    """The spec of the ClusterPolicy, without secrets."""
    preflight: list[Json] = dataclasses.field(default_factory=list)
    """The findings of gpu_preflight_info about the cluster as it is."""
    pods: list[Json] = dataclasses.field(default_factory=list)
    """Whole pods, without secrets: those of the stack that are in trouble, and those that wait for a GPU."""
    objects: dict[str, list[Json]] = dataclasses.field(default_factory=dict)
    """Other objects by the plural of their kind: nodes, daemonsets, deployments, events, nvidiadrivers, ...

    A kind is absent if it could not be read, and empty if there are no objects of it.
    """
    hosts: dict[str, Json] = dataclasses.field(default_factory=dict)
    """By the name of the node: ``facts`` (gpu_facts), ``preflight`` (findings of host_preflight_info), ``state``."""
    lines: list[TextLine] = dataclasses.field(default_factory=list)
    """Lines of logs and messages of events."""
    gaps: list[Gap] = dataclasses.field(default_factory=list)
    owner: Json = dataclasses.field(default_factory=dict)
    """Who has installed the operator, as `owner.verdict` returns it."""
    is_pasted: bool = False
    """Whether it is text that somebody gave. A table of pods in it is no cluster that was looked at."""
    pinned: list[Json] = dataclasses.field(default_factory=list)
    """What a user expects of equal machines, by GPU model: `drift.PINNED_OPTIONS`."""


Made = t.TypeVar("Made")


def _present(evidence: Evidence) -> list[TextLine]:
    if not evidence.stack:
        return evidence.lines
    daemonsets = evidence.objects.get("daemonsets") or []
    return statuses.without_past(evidence.lines, evidence.pods, evidence.stack, daemonsets)


_NEAR = 200
"""How many lines of a text are looked at for the name of the program that wrote it."""


def text_of_line(line: TextLine) -> tuple[str, str]:
    """Return which text a line belongs to: its node, and its source without the number of the line."""
    return line.node, line.source.rpartition(" line ")[0] or line.source


class View:
    """The evidence as rules see it: by node, by pattern, by reason."""

    def __init__(self, evidence: Evidence, patterns: t.Iterable[Pattern] = ()) -> None:
        self.evidence = evidence
        self._made: dict[t.Callable[[View], t.Any], t.Any] = {}
        self._hits: dict[Pattern, list[Hit]] = {}
        self._near: dict[tuple[str, str], str] = {}
        self._scanner = Scanner(patterns)
        self._scanner.scan(_present(evidence))
        self._scanner.scan(statuses.of_pods(evidence.pods))
        self._scanner.scan(statuses.of_reasons(self.reasons))

    def once(self, make: t.Callable[[View], Made]) -> Made:
        """Return what a function makes of the view. Rules that share it pay for it once."""
        if make not in self._made:
            self._made[make] = make(self)
        return t.cast("Made", self._made[make])

    def hits(self, pattern: Pattern, node: str | None = None) -> list[Hit]:
        """Return the matches of a pattern: all of them, or those of a node.

        A line whose own words name no component is of the one that the text around it names, if that is one.
        """
        if pattern not in self._hits:
            found = [(hit, self.near(hit.line) if hit.is_ownerless else "") for hit in self._scanner.hits(pattern)]
            self._hits[pattern] = [
                dataclasses.replace(hit, is_ownerless=False) if near else hit
                for hit, near in found
                if not near or near in pattern.of
            ]
        hits = self._hits[pattern]
        return hits if node is None else [hit for hit in hits if hit.line.node == node]

    def near(self, line: TextLine) -> str:
        """Return the key of the one component that the text names in which a line stands, or an empty string."""
        text = text_of_line(line)
        if text not in self._near:
            self._near[text] = whose_line.near(self._texts.get(text, ()))
        return self._near[text]

    @functools.cached_property
    def _texts(self) -> dict[tuple[str, str], list[str]]:
        texts: dict[tuple[str, str], list[str]] = {}
        for line in self.evidence.lines:
            if line.kind == "text" and len(known := texts.setdefault(text_of_line(line), [])) < _NEAR:
                known.append(line.text)
        return texts

    @functools.cached_property
    def rows(self) -> dict[str, Json]:
        """The GPU nodes by name, as gpu_stack_info returns them."""
        return {row["name"]: row for row in (self.evidence.stack or {}).get("nodes") or []}

    @functools.cached_property
    def nodes(self) -> dict[str, Json]:
        """All nodes of the cluster by name, as objects of the API."""
        return {node["metadata"]["name"]: node for node in self.evidence.objects.get("nodes") or []}

    @functools.cached_property
    def names(self) -> list[str]:
        """The names of all GPU nodes and of all hosts, sorted."""
        return sorted({*self.rows, *self.evidence.hosts})

    def listed(self, kind: str) -> list[Json] | None:
        """Return the objects of a kind (its plural), or None if they are unknown. The unknown has no consequences."""
        return self.evidence.objects.get(kind)

    def facts(self, node: str) -> Json:
        """Return the facts of a node's host, or an empty dict if its host was not looked at."""
        return (self.evidence.hosts.get(node) or {}).get("facts") or {}

    @functools.cached_property
    def reasons(self) -> list[Json]:
        """The reasons of the verdict."""
        return ((self.evidence.stack or {}).get("verdict") or {}).get("reasons") or []
