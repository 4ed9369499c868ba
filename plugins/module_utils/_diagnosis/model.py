# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a rule of the diagnosis is, and what it says when it applies. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, Pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level

if t.TYPE_CHECKING:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

Certainty = t.Literal["certain", "likely", "possible"]
"""How sure a rule is: only this cause leaves this evidence; other causes are rare; other causes are as common."""

CERTAINTIES: tuple[Certainty, ...] = ("certain", "likely", "possible")
SEVERITIES: tuple[Level, ...] = ("failure", "warning", "ok")

DOCS = "https://gpuops.github.io/gpuops.nvidia/main"
FINDINGS_PAGE = f"{DOCS}/reference/findings.html"
"""The page that explains the code of each rule. `scripts/reference_pages.py` writes it from the rules."""


def at_most(hit: Hit, certainty: Certainty) -> Certainty:
    """Return how sure a rule may be of a match: not more than possible, if the line may be another component's."""
    return "possible" if hit.is_ownerless else certainty


@dataclasses.dataclass(frozen=True)
class Quote:
    """A piece of evidence in the words of its source: a line of a log, or a fact such as ``driver.loaded: null``."""

    text: str
    source: str
    """Where it stands, in words: ``kernel log``, ``pod gpu-operator/nvidia-driver-x, container nvidia-driver-ctr``."""
    node: str = ""


@dataclasses.dataclass(frozen=True)
class Sighting:
    """A place where a rule applies: a node, an object such as ``GPU 0000:01:00.0``, or neither for the whole cluster.

    ``values`` fill the blanks in the rule's cause and remedy. Sightings with equal values make one finding.
    """

    node: str = ""
    object: str = ""
    quotes: tuple[Quote, ...] = ()
    certainty: Certainty = "certain"
    values: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    operand: str = ""
    """The operand that is concerned, such as ``driver``. Of the other operands, only those that wait for it follow."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A published failure of this stack: how it is recognised, what causes it, and what to do.

    A rule with ``patterns`` and no ``check`` applies wherever one of its patterns matches a line. The pattern's named
    groups are then the values of the sighting. A rule with a ``check`` decides by itself; its patterns are what it
    needs to have looked for in the text.
    """

    code: str
    """In CamelCase, as the codes of a verdict's reasons."""
    title: str
    """A few words for a table or a heading."""
    severity: Level
    cause: str
    """One or two sentences. ``{name}`` is a blank that the values of a sighting fill."""
    remedy: str
    """What to do, in the imperative. It may have blanks too."""
    sources: tuple[str, ...]
    """Where this failure is published: addresses of documents, issues or source files."""
    check: t.Callable[[View], t.Iterable[Sighting]] | None = None
    patterns: tuple[Pattern, ...] = ()
    certainty: Certainty = "certain"
    """Of a match of the patterns, for a rule without a check."""
    explains: frozenset[str] = frozenset()
    """The codes of what follows from this cause on the same node, or anywhere if the cause has no node."""
    unlike: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    """For the code of another rule that similar evidence supports: what would tell the two apart."""
    rest: t.Callable[[View, t.Sequence[RuleSighting]], t.Iterable[Sighting]] | None = None
    """A check of what the other rules have left. It gets their sightings."""
    page: str = ""
    """The page that explains the code, if it is not `FINDINGS_PAGE`."""

    def sightings(self, view: View) -> t.Iterator[Sighting]:
        """Yield each place where the rule applies."""
        if self.rest:
            return
        if self.check:
            yield from self.check(view)
            return
        for hit in (hit for pattern in self.patterns for hit in view.hits(pattern)):
            quote = Quote(hit.line.text, hit.line.source, hit.line.node)
            yield Sighting(hit.line.node, hit.line.object, (quote,), at_most(hit, self.certainty), hit.values)


@dataclasses.dataclass(frozen=True)
class RuleSighting:
    """A sighting, and the rule that made it."""

    rule: Rule
    sighting: Sighting


@dataclasses.dataclass(frozen=True)
class Consequence:
    """What follows from a finding: the code and the title of a rule, and the nodes where it was seen."""

    code: str
    title: str
    nodes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Finding:
    """One cause, on all nodes and objects where it was seen."""

    code: str
    title: str
    severity: Level
    certainty: Certainty
    cause: str
    remedy: str
    nodes: tuple[str, ...]
    objects: tuple[str, ...]
    quotes: tuple[Quote, ...]
    """The first few pieces of evidence, at least one of each node while there are few."""
    consequences: tuple[Consequence, ...] = ()
    tell_apart: tuple[str, ...] = ()
    """What would tell this cause from the others that the same evidence supports."""
    url: str = ""
    """The page that explains the code."""

    @property
    def identity(self) -> tuple[str, str]:
        """What makes two findings of different runs the same one."""
        return self.code, self.cause

    def as_result(self) -> dict[str, t.Any]:
        """Return the finding as an element of a module's result."""
        return {**dataclasses.asdict(self), "url": self.url or f"{FINDINGS_PAGE}#{self.code.lower()}"}
