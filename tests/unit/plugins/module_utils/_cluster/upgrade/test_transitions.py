# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of the steps between releases, and which steps a jump consists of."""

from __future__ import annotations

import itertools
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import conditions, transitions
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_lines import LINES, STEPS
from inline_snapshot import snapshot as wording

ROOT = Path(__file__).parents[6]
RECORDS = STEPS
KNOWN = transitions.parse(RECORDS)


def release(text: str) -> tuple[int, int, int]:
    found = operands.release(text)
    assert found
    return found


def jump(before: str, after: str) -> transitions.Jump:
    return transitions.jump(KNOWN, release(before), release(after))


# ---- the table ----------------------------------------------------------------------------------------------------


def test_every_step_since_v24_9_to_the_charts_default_has_a_record() -> None:
    """A new default of the chart's version needs a record of the step that leads to it."""
    defaults = yaml.safe_load((ROOT / "roles/operator/defaults/main.yml").read_text())
    newest = release(defaults["operator_chart_version"])
    whole = transitions.jump(KNOWN, (24, 9, 0), newest)
    assert whole.gap == "" and whole.steps[-1].newer == newest[:2]
    assert not transitions.is_newer_than_known(KNOWN, newest), "Add the release to the record of its line (last)."
    assert transitions.jump(KNOWN, (*newest[:2], 0), (*newest[:2], 99)).gap == "", "The line has no record of its own."


def test_every_line_of_the_compatibility_data_has_records() -> None:
    lines = {line for item in KNOWN for line in (item.older, item.newer)}
    assert {tuple(map(int, name.split("."))) for name in LINES} <= lines


def test_the_lines_are_in_order_and_without_gaps() -> None:
    steps = [(item.older, item.newer) for item in KNOWN if item.older != item.newer]
    assert steps == sorted(steps) and all(one[1] == other[0] for one, other in itertools.pairwise(steps))
    assert all(item.since[:2] == item.newer and item.since <= item.last for item in KNOWN)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['from']}-{record['to']}")
def test_every_record_is_complete(record: dict[str, t.Any]) -> None:
    assert record["restarts"].keys() == {"operator", "operands", "runtime", "driver"}
    assert record["restarts"]["driver"] in ("evicts", "in_place")
    makers = ("https://docs.nvidia.com/", "NVIDIA/gpu-operator ", "kubernetes-sigs/node-feature-discovery ")
    assert all(source.startswith(makers) for source in record["sources"])
    assert str(record["date"]).count("-") == 2
    names = [change["name"] for change in record["changes"]]
    assert len(set(names)) == len(names)
    for change in record["changes"]:
        assert change["what"] in ("removed", "renamed", "changed", "image", "image_tag")
        assert change["level"] in ("warning", "failure") and change["message"] and change["remedy"]
        conditions.applies(
            change["when"], conditions.UpgradeView((26, 3, 3), (26, 7, 0), {})
        )  # raises for unknown words
    has_failure = any(change["level"] == "failure" for change in record["changes"])
    assert not has_failure or record["verdict"] == "manual"


# ---- reading it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"verdict": "fine"}, "verdict is one of"),
        ({"sources": []}, "there is a source"),
        ({"from": "old"}, "is no release"),
        ({"changes": [{}]}, "name"),
        ({"back": None}, "incomplete"),
    ],
)
def test_a_record_that_is_incomplete_is_refused(changes: dict[str, t.Any], word: str) -> None:
    with pytest.raises(GpuOpsError, match=word):
        transitions.parse([{**RECORDS[0], **changes}])


def test_a_record_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(GpuOpsError, match="incomplete"):
        transitions.parse(["v24.9"])  # type: ignore[list-item]


def test_two_records_of_one_step_are_refused() -> None:
    with pytest.raises(GpuOpsError) as error:
        transitions.parse([RECORDS[0], RECORDS[0]])
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("There are two records of the step from v24.9 to v24.9. Delete one.")


# ---- a jump -------------------------------------------------------------------------------------------------------


def test_one_step() -> None:
    found = jump("v26.3.3", "v26.7.0")
    assert [step.title for step in found.steps] == ["v26.3 to v26.7"] and not found.is_back
    assert (found.verdict, found.gap, found.stops, found.evicts) == ("manual", "", [], True)
    assert found.restarts == ["operator", "operands", "runtime"]


def test_a_jump_over_lines_stops_at_the_newest_release_of_each() -> None:
    found = jump("v24.9.2", "v26.7.0")
    assert len(found.steps) == 4 and found.stops == ["v25.3.4", "v25.10.1", "v26.3.3"]


def test_a_step_within_a_line() -> None:
    found = jump("v26.7.0", "v26.7.1")
    assert (found.verdict, found.evicts, found.gap) == ("safe", False, "")
    assert jump("v26.3.0", "v26.3.3").evicts


def test_no_step_at_all() -> None:
    found = jump("v26.7.0", "v26.7.0")
    assert (found.steps, found.restarts, found.verdict, found.gap, found.is_back) == ((), [], "safe", "", False)


def test_the_way_back_has_verdicts_of_its_own() -> None:
    found = jump("v26.7.0", "v25.10.1")
    assert found.is_back and [step.title for step in found.steps] == ["v26.3 to v26.7", "v25.10 to v26.3"]
    assert found.verdict == "manual" and found.stops == ["v26.3"]


@pytest.mark.parametrize(
    ("before", "after", "gap"),
    [("v26.7.0", "v26.9.0", "v26.7 to v26.9"), ("v24.6.0", "v24.9.0", "v24.6 to v24.9"), ("v23.1.0", "v23.1.1", "v23")],
)
def test_a_step_that_nothing_is_known_of(before: str, after: str, gap: str) -> None:
    found = jump(before, after)
    assert found.gap.startswith(gap) and found.verdict == "unknown" and found.evicts


@pytest.mark.parametrize(("text", "is_newer"), [("v26.7.0", False), ("v26.7.1", True), ("v26.9.0", False)])
def test_a_release_that_is_newer_than_known(text: str, is_newer: bool) -> None:
    assert transitions.is_newer_than_known(KNOWN, release(text)) is is_newer
