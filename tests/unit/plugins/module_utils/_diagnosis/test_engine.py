# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import (
    Certainty,
    Consequence,
    Finding,
    Quote,
    Rule,
    RuleSighting,
    Sighting,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import PREVIOUS
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level


def rule(code: str, *explains: str, severity: Level = "failure", **fields: t.Any) -> Rule:
    """Return a rule whose cause and remedy have a blank."""
    texts = {"cause": "{what} is broken.", "remedy": "Mend {what}.", "title": f"title of {code}"}
    return Rule(code=code, severity=severity, sources=(), explains=frozenset(explains), **{**texts, **fields})


def seen(by: Rule, node: str = "", certainty: Certainty = "certain", operand: str = "", **values: str) -> RuleSighting:
    quote = Quote(f"{by.code} on {node}", "a log", node)
    return RuleSighting(by, Sighting(node, "", (quote,), certainty, values, operand))


def codes(*found: RuleSighting) -> list[str]:
    return [each.code for each in engine.ranked(found)]


A, B, C = rule("A", "B"), rule("B", "C"), rule("C")


# ---- causes and symptoms --------------------------------------------------------------------------------------------


def test_what_follows_from_a_cause_is_listed_with_it() -> None:
    (found,) = engine.ranked([seen(C, "gpu-1"), seen(B, "gpu-1"), seen(A, "gpu-1")])
    assert found.code == "A"
    assert set(found.consequences) == {
        Consequence("B", "title of B", ("gpu-1",)),
        Consequence("C", "title of C", ("gpu-1",)),
    }


def test_a_cause_on_another_node_explains_nothing_here() -> None:
    assert sorted(codes(seen(A, "gpu-1"), seen(B, "gpu-2"))) == ["A", "B"]


def test_a_cause_of_the_whole_cluster_explains_every_node() -> None:
    (found,) = engine.ranked([seen(A), seen(B, "gpu-1"), seen(B, "gpu-2")])
    assert found.consequences == (Consequence("B", "title of B", ("gpu-1", "gpu-2")),)


def test_a_symptom_of_the_whole_cluster_follows_from_a_cause_on_any_node() -> None:
    assert codes(seen(A, "gpu-1"), seen(B)) == ["A"]


def test_a_symptom_of_two_causes_is_listed_with_both() -> None:
    both = engine.ranked([seen(A, "gpu-1"), seen(rule("D", "B"), "gpu-1"), seen(B, "gpu-1")])
    assert [(each.code, [one.code for one in each.consequences]) for each in both] == [("A", ["B"]), ("D", ["B"])]


def test_rules_that_explain_each_other_do_not_hide_each_other() -> None:
    circle = rule("A", "B"), rule("B", "A")
    assert codes(*(seen(each, "gpu-1") for each in circle)) != []


def test_a_cause_in_one_operand_does_not_explain_another_one() -> None:
    cause, symptom = rule("A", "B"), rule("B")
    found = [
        seen(cause, "gpu-1", operand="driver"),
        seen(symptom, "gpu-1", operand="container-toolkit", status="Init:0/1"),
        seen(symptom, "gpu-1", operand="dcgm-exporter", status="CrashLoopBackOff"),
    ]
    first, second = engine.ranked(found)
    assert [each.code for each in first.consequences] == ["B"]
    assert (second.code, second.consequences) == ("B", ())


# ---- grouping -------------------------------------------------------------------------------------------------------


def test_the_same_cause_on_many_nodes_is_one_finding() -> None:
    (found,) = engine.ranked([seen(C, f"gpu-{number:02}", what="it") for number in range(40)])
    assert len(found.nodes) == 40
    assert (found.cause, found.remedy) == ("it is broken.", "Mend it.")
    assert [quote.node for quote in found.quotes] == [f"gpu-{number:02}" for number in range(engine.QUOTES)]


def test_another_value_is_another_finding_and_the_surest_sighting_counts() -> None:
    found = engine.ranked([seen(C, what="a"), seen(C, what="b"), seen(C, certainty="possible", what="a")])
    assert [(each.cause, each.certainty) for each in found] == [
        ("a is broken.", "certain"),
        ("b is broken.", "certain"),
    ]


def test_the_first_quote_of_each_place_comes_before_second_ones() -> None:
    quotes = [(Quote(f"{node}-1", "log", node), Quote(f"{node}-2", "log", node)) for node in ("a", "b")]
    (found,) = engine.ranked([RuleSighting(C, Sighting(each[0].node, f"GPU {each[0].node}", each)) for each in quotes])
    assert [quote.text for quote in found.quotes] == ["a-1", "b-1", "a-2", "b-2"]
    assert found.objects == ("GPU a", "GPU b")


def test_a_cause_is_as_severe_as_what_follows_from_it() -> None:
    (found,) = engine.ranked([seen(rule("A", "B", severity="warning"), "gpu-1"), seen(B, "gpu-1")])
    assert found.severity == "failure"


def test_the_most_severe_and_certain_come_first_and_then_those_on_most_nodes() -> None:
    found = engine.ranked(
        [
            seen(rule("Note", severity="ok")),
            seen(rule("Warning", severity="warning")),
            seen(rule("Possible"), certainty="possible"),
            seen(rule("One"), "gpu-1"),
            *(seen(rule("Two"), node) for node in ("gpu-1", "gpu-2")),
        ]
    )
    assert [each.code for each in found] == ["Two", "One", "Possible", "Warning", "Note"]


# ---- texts ----------------------------------------------------------------------------------------------------------


def test_values_are_one_printable_line_and_never_templates() -> None:
    (found,) = engine.ranked([seen(C, what="a\nb\x1b[31m {other} {what.__class__}")])
    assert found.cause == "a b\\x1b[31m {other} {what.__class__} is broken."


def test_a_value_that_is_missing_is_unknown() -> None:
    assert engine.ranked([seen(C)])[0].cause == "unknown is broken."


def test_what_would_tell_two_causes_apart_is_said_where_both_were_found() -> None:
    unsure = rule("A", unlike={"B": "Look at the log.", "C": "Look at the label."})
    found = {
        each.code: each for each in engine.ranked([seen(unsure, "gpu-1"), seen(C, "gpu-2"), seen(rule("B"), "gpu-1")])
    }
    assert found["A"].tell_apart == ("Look at the log.",)
    found = {each.code: each for each in engine.ranked([seen(unsure), seen(C, "gpu-2")])}
    assert found["A"].tell_apart == ("Look at the label.",)


# ---- rules and evidence ---------------------------------------------------------------------------------------------


def test_a_rule_that_cannot_read_the_evidence_is_a_gap() -> None:
    def breaks(view: object) -> t.Iterator[Sighting]:
        yield Sighting("gpu-1")
        raise KeyError("spec")

    rules = [rule("Breaks", check=breaks), rule("Works", check=lambda view: [Sighting("gpu-2")])]
    given = Gap("events", "forbidden")
    found = engine.diagnose(Evidence(gaps=[given]), rules)
    assert {each.code for each in found.findings} == {"Breaks", "Works"}
    assert found.gaps[0] == given
    assert "Breaks" in found.gaps[1].what and "KeyError" in found.gaps[1].why


def test_evidence_of_any_form_breaks_nothing() -> None:
    odd = Evidence(stack={"nodes": [{"name": "gpu-1", "waiting_for": ["driver"]}]}, preflight=[{}])
    assert engine.diagnose(odd, []).gaps


# ---- changes --------------------------------------------------------------------------------------------------------


def finding(code: str, cause: str = "it is.") -> Finding:
    return Finding(code, f"title of {code}", "failure", "certain", cause, "", (), (), ())


def test_runs_are_compared_by_cause() -> None:
    last = [finding("A").as_result(), finding("B").as_result(), finding("C", "old.").as_result()]
    found = engine.compare([finding("A"), finding("C", "new."), finding("D")], last)
    assert found == engine.DiagnosisChanges(
        new=("title of C", "title of D"), gone=("title of B", "title of C"), known=1
    )


def test_the_quotes_are_the_first_of_each_node_and_then_the_others() -> None:
    quotes = {node: [Quote(f"{number} on {node}", "a log", node) for number in range(2)] for node in ("gpu-1", "gpu-2")}
    (found,) = engine.ranked(
        [RuleSighting(A, Sighting(node, "", tuple(own), "certain")) for node, own in quotes.items()]
    )
    assert [quote.text for quote in found.quotes] == ["0 on gpu-1", "0 on gpu-2", "1 on gpu-1", "1 on gpu-2"]


def test_what_a_container_says_in_each_run_is_quoted_once() -> None:
    texts = ("2026-11-25T22:25:37.000000000Z it fails", "2026-11-25T22:20:01.500000000Z it fails", "it fails again")
    runs = (f"pod a, container b{PREVIOUS}", "pod a, container b", "pod a, container b")
    quotes = tuple(Quote(text, source, "gpu-1") for text, source in zip(texts, runs, strict=True))
    (found,) = engine.ranked([RuleSighting(A, Sighting("gpu-1", "", quotes, "certain"))])
    assert [quote.text for quote in found.quotes] == [texts[0], texts[2]]
