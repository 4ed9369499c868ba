# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From rules to findings: causes outrank symptoms, equal causes make one finding, and runs are compared. Pure."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import owner
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import adopted
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import (
    CERTAINTIES,
    SEVERITIES,
    Consequence,
    Finding,
    Quote,
    Rule,
    RuleSighting,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.order import may_follow
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import PREVIOUS
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap, View
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

QUOTES = 6
"""How many pieces of evidence a finding shows."""

NOT_SAID = "unknown"
"""What stands in place of a value that a sighting lacks, such as a group of a pattern that did not match."""

_WHY = 200


ODD = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""What code raises that meets evidence of another form than it knows, such as a damaged bundle."""


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The causes that were found, the most severe first, and what could not be examined."""

    findings: list[Finding]
    gaps: list[Gap]
    odd: tuple[str, ...] = ()
    """The rules that could not read the evidence."""


def diagnose(evidence: Evidence, rules: t.Sequence[Rule]) -> Diagnosis:
    """Apply all rules, and return the causes. What follows from a cause is listed with it.

    A rule that cannot read the evidence is a gap. All others still apply.
    """
    view = View(evidence, (pattern for rule in rules for pattern in rule.patterns))
    seen, gaps, odd = list[RuleSighting](), list(evidence.gaps), list[str]()
    checks = [(rule.code, _of(rule)) for rule in rules if not rule.rest]
    last = [(rule.code, _of_rest(rule, seen)) for rule in rules if rule.rest]
    for name, sightings in (*checks, ("judge and the checks", adopted), *last):
        try:
            seen += sightings(view)
        except ODD as e:
            why = f"The evidence has another form than the rule knows ({type(e).__name__}: {one_line(e)[:_WHY]})."
            gaps.append(Gap(f"what the rule {name} looks for", why))
            odd.append(name)
    return Diagnosis([owner.named(each, evidence.owner) for each in ranked(seen)], gaps, tuple(odd))


def _of(rule: Rule) -> t.Callable[[View], t.Iterator[RuleSighting]]:
    return lambda view: (RuleSighting(rule, sighting) for sighting in rule.sightings(view))


def _of_rest(rule: Rule, seen: t.Sequence[RuleSighting]) -> t.Callable[[View], t.Iterator[RuleSighting]]:
    return lambda view: (RuleSighting(rule, sighting) for sighting in (rule.rest(view, seen) if rule.rest else ()))


def ranked(seen: t.Sequence[RuleSighting]) -> list[Finding]:
    """Return the findings, the most severe first. Symptoms of a cause that was seen are its consequences."""
    causes = _CauseFinder(seen)
    groups: dict[tuple[str, ...], list[int]] = {}
    followers: dict[int, list[int]] = {}
    for index, each in enumerate(seen):
        roots = causes.roots(index)
        if roots == {index}:
            groups.setdefault(_key(each), []).append(index)
        for root in roots - {index}:
            followers.setdefault(root, []).append(index)
    rules = [seen[group[0]].rule for group in groups.values()]
    findings = [
        _finding([seen[index] for index in group], [seen[i] for index in group for i in followers.get(index, [])])
        for group in groups.values()
    ]
    return sorted((_told_apart(each, rule, findings) for each, rule in zip(findings, rules)), key=_rank)


class _CauseFinder:
    """Finds what explains a sighting. Sightings are looked up by code and node: a fleet has thousands."""

    def __init__(self, seen: t.Sequence[RuleSighting]) -> None:
        self._seen = seen
        self._by_code: dict[str, dict[str, list[int]]] = {}
        self._roots: dict[int, frozenset[int]] = {}
        for index, each in enumerate(seen):
            for code in each.rule.explains:
                self._by_code.setdefault(code, {}).setdefault(each.sighting.node, []).append(index)

    def roots(self, index: int) -> frozenset[int]:
        """Return the root sightings that explain this one, or this one itself."""
        if index not in self._roots:
            self._roots[index] = frozenset({index})  # ends a circle of rules that explain each other
            causes = self._of(index)
            found = frozenset().union(*(self.roots(cause) for cause in causes)) if causes else frozenset({index})
            self._roots[index] = found
        return self._roots[index]

    def _of(self, index: int) -> list[int]:
        """Return what explains a sighting: a cause on its node, one of the whole cluster, or any if it has no node.

        A cause in one operand explains only what is wrong with that operand and with those that wait for it.
        """
        each = self._seen[index]
        by_node = self._by_code.get(each.rule.code, {})
        node = each.sighting.node
        causes = [*by_node.get(node, []), *by_node.get("", [])] if node else itertools.chain(*by_node.values())
        return [cause for cause in causes if self._explains(self._seen[cause], each)]

    @staticmethod
    def _explains(cause: RuleSighting, each: RuleSighting) -> bool:
        is_same = cause.rule.code == each.rule.code and cause.sighting.operand == each.sighting.operand
        return not is_same and may_follow(each.sighting, cause.sighting)


def _key(each: RuleSighting) -> tuple[str, ...]:
    return each.rule.code, *(f"{k}={v}" for k, v in sorted(each.sighting.values.items()))


def _finding(group: t.Sequence[RuleSighting], followers: t.Sequence[RuleSighting]) -> Finding:
    rule, sighting = group[0].rule, group[0].sighting
    symptoms: dict[str, list[RuleSighting]] = {}
    for each in followers:
        symptoms.setdefault(each.rule.code, []).append(each)
    severities = [rule.severity, *(each.rule.severity for each in followers)]
    return Finding(
        code=rule.code,
        title=rule.title,
        severity=min(severities, key=SEVERITIES.index),
        certainty=min((each.sighting.certainty for each in group), key=CERTAINTIES.index),
        cause=_filled(rule.cause, sighting.values),
        remedy=_filled(rule.remedy, sighting.values),
        nodes=_distinct(each.sighting.node for each in group),
        objects=_distinct(each.sighting.object for each in group),
        quotes=_quotes(group),
        consequences=tuple(
            Consequence(code, found[0].rule.title, _distinct(each.sighting.node for each in found))
            for code, found in symptoms.items()
        ),
        url=rule.page,
    )


def _filled(text: str, values: t.Mapping[str, str]) -> str:
    """Return a text with its blanks filled. Values come from outside, so they are one line of printable text."""
    return text.format_map(collections.defaultdict(lambda: NOT_SAID, {name: one_line(v) for name, v in values.items()}))


def _distinct(texts: t.Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({text for text in texts if text}))


def _quotes(group: t.Sequence[RuleSighting]) -> tuple[Quote, ...]:
    """Return the first few quotes: the first of each sighting, and then the others."""
    first = [each.sighting.quotes[0] for each in group if each.sighting.quotes]
    others = [quote for each in group for quote in each.sighting.quotes[1:]]
    distinct: dict[tuple[str, str, str], Quote] = {}
    for quote in [*first, *others]:
        # What a container says in each of its runs is said once.
        source = quote.source.partition(PREVIOUS)[0]
        distinct.setdefault((_TIME.sub("", quote.text), source, quote.node), quote)
    return tuple(distinct.values())[:QUOTES]


_TIME = re.compile(r"^\S{0,200}?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,12} ")
"""What ``kubectl logs --timestamps`` writes before a line."""


def _told_apart(finding: Finding, rule: Rule, findings: t.Sequence[Finding]) -> Finding:
    """Add what would tell a finding of a rule from the others that were found in the same place."""
    if not rule.unlike:
        return finding
    near = {
        other.code for other in findings if not (finding.nodes and other.nodes) or {*finding.nodes} & {*other.nodes}
    }
    texts = dict.fromkeys(text for code, text in rule.unlike.items() if code in near)
    return dataclasses.replace(finding, tell_apart=tuple(texts))


def _rank(finding: Finding) -> tuple[int, int, int, str]:
    order = SEVERITIES.index(finding.severity), CERTAINTIES.index(finding.certainty)
    return *order, -len(finding.nodes), finding.code


@dataclasses.dataclass(frozen=True)
class DiagnosisChanges:
    """What differs from the last diagnosis: findings by code and cause."""

    new: tuple[str, ...]
    gone: tuple[str, ...]
    known: int


def compare(findings: t.Sequence[Finding], last: t.Sequence[Json]) -> DiagnosisChanges:
    """Compare with the findings of the last run, as `Finding.as_result` returned them."""
    now = {each.identity: each.title for each in findings}
    before = {(each["code"], each["cause"]): str(each["title"]) for each in last}
    return DiagnosisChanges(
        new=tuple(title for identity, title in now.items() if identity not in before),
        gone=tuple(title for identity, title in before.items() if identity not in now),
        known=len(now.keys() & before.keys()),
    )
