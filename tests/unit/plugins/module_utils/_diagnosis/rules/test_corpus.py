# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All rules, over evidence that strangers published, read as the module explain reads a text that somebody pasted.

tests/unit/fixtures/diagnosis/corpus/README.md describes the evidence.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.explain import explain
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CORPUS = Path(__file__).parents[4] / "fixtures" / "diagnosis" / "corpus"
CLASSES: dict[str, list[str]] = yaml.safe_load((CORPUS / "classes.yml").read_text())
CODES = {rule.code for rule in RULES if not rule.rest}
"""Codes that name a cause. What the floor quotes without an explanation is no answer."""
UNKNOWN = "unknown"

RIGHT_AT_LEAST = 98
"""Per cent. Measured on 2026-11-25; may only rise."""

Outcome = t.Literal["right", "right, not certain", "missed", "guessed wrong", "wrong"]


@dataclasses.dataclass(frozen=True)
class Case:
    """An excerpt, and what is known about it."""

    id: str
    source: str
    failure: str
    excerpt: str
    cause: str
    confirmed_by: str
    shows: bool = True
    """Whether the lines alone show the cause."""
    also: tuple[str, ...] = ()
    must_not: str = ""

    @property
    def expected(self) -> frozenset[str]:
        return frozenset(CLASSES[self.failure])

    @property
    def speaks(self) -> bool:
        """Return whether a rule ought to name the cause."""
        return self.shows and self.failure != UNKNOWN


def load(path: Path) -> t.Iterator[Case]:
    for entry in yaml.safe_load(path.read_text()):
        yield Case(**{**entry, "also": tuple(entry.get("also", ()))})


FILES = sorted(path for path in CORPUS.glob("*.yml") if path.name != "classes.yml")
CASES = [case for path in FILES for case in load(path)]


@functools.cache
def found(case: Case) -> list[Json]:
    """Return what rules find. Which pods wait is a fact that any table of pods shows, and no answer."""
    findings = explain({"text": case.excerpt, "path": "", "limit_mib": 1})["findings"]
    return [each for each in findings if each["code"] in CODES]


def outcome(case: Case) -> Outcome:
    """Judge the findings. Only causes count: what a rule lists as a consequence of another is not its answer."""
    right = [each for each in found(case) if each["code"] in case.expected]
    others = [each for each in found(case) if each["code"] not in case.expected | {*case.also}]
    if any(each["certainty"] == "certain" for each in others):
        return "wrong"
    if right:
        return "right" if any(each["certainty"] == "certain" for each in right) else "right, not certain"
    if others:
        return "guessed wrong"
    return "missed" if case.speaks else "right"


def test_the_corpus_is_large_and_every_entry_is_complete() -> None:
    assert len(CASES) >= 100
    assert len({case.id for case in CASES}) == len(CASES)
    assert sum(case.failure == UNKNOWN for case in CASES) >= 20
    for case in CASES:
        assert case.source.startswith("https://"), case.id
        assert case.excerpt.strip() and case.cause.strip() and case.confirmed_by.strip(), case.id


def test_every_failure_has_a_class_and_every_code_exists() -> None:
    assert {case.failure for case in CASES} == set(CLASSES)
    assert CLASSES[UNKNOWN] == []
    assert sorted({code for expected in CLASSES.values() for code in expected} - CODES) == []
    assert sorted({code for case in CASES for code in case.also} - CODES) == []


@pytest.mark.parametrize("case", [*load(CORPUS / "families.yml")], ids=lambda case: case.id)
def test_failures_of_components_that_had_no_rules_are_named(case: Case) -> None:
    assert outcome(case).startswith("right")


HEALTHY: list[dict[str, str]] = yaml.safe_load((CORPUS.parent / "healthy.yml").read_text())


@pytest.mark.parametrize("log", HEALTHY, ids=lambda log: log["source"].partition("github.com/")[2])
def test_a_log_without_a_fault_has_no_failure_and_no_warning(log: dict[str, str]) -> None:
    findings = explain({"text": log["excerpt"], "path": "", "limit_mib": 1})["findings"]
    assert [(each["code"], each["severity"]) for each in findings if each["severity"] != "ok"] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_no_excerpt_gets_a_wrong_certain_answer(case: Case) -> None:
    answers = [(each["code"], each["certainty"], each["quotes"]) for each in found(case)]
    assert outcome(case) != "wrong", f"{case.cause} {answers}"


def test_enough_answers_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    """Silence is right where the lines do not show a cause. Both kinds are counted apart."""
    counts: dict[bool, collections.Counter[Outcome]] = {True: collections.Counter(), False: collections.Counter()}
    for case in CASES:
        counts[case.speaks][outcome(case)] += 1
    with capsys.disabled():
        print(f"\ncause shown: {dict(counts[True])}\ncause not shown: {dict(counts[False])}")
    shown = counts[True]
    right = shown["right"] + shown["right, not certain"]
    assert 100 * right >= RIGHT_AT_LEAST * shown.total()
