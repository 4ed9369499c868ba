# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.former import Former, parse
from inline_snapshot import snapshot as wording


def written(canary: t.Sequence[str] = (), **states: str) -> dict[str, t.Any]:
    return {"format": 1, "canary": list(canary), "hosts": {name: {"state": state} for name, state in states.items()}}


@pytest.mark.parametrize("nothing", [None, {}, ""])
def test_without_a_file_there_was_no_former_run(nothing: t.Any) -> None:
    assert parse(nothing) == Former()
    assert (parse(nothing).unfinished, parse(nothing).canaries_passed) == (False, False)


def test_the_file_says_who_is_halfway_and_who_failed() -> None:
    former = parse(written(a="changing", b="failed", c="done", d="left out", e="waiting"))
    assert (former.halfway, former.failed) == ({"a"}, {"b"})


@pytest.mark.parametrize(
    ("state", "unfinished"),
    [
        ("waiting", True),
        ("changing", True),
        ("failed", True),
        ("left out", True),
        ("done", False),
        ("current", False),
        ("postponed", False),
    ],
)
def test_a_rollout_is_finished_when_nobody_is_left_to_change(state: str, unfinished: bool) -> None:
    assert parse(written(a="done", b=state)).unfinished is unfinished


@pytest.mark.parametrize(
    ("content", "passed"),
    [
        (written(["a"], a="done", b="waiting"), True),
        (written(["a"], a="current", b="waiting"), True),
        (written(["a", "b"], a="done", b="waiting"), False),
        (written(["a"], a="failed", b="waiting"), False),
        (written(["a"], a="done", b="done"), False),
        (written([], a="done", b="waiting"), False),
    ],
)
def test_canaries_have_passed_if_they_are_done_and_others_are_not(content: dict[str, t.Any], passed: bool) -> None:
    assert parse(content).canaries_passed is passed


@pytest.mark.parametrize(
    "content",
    [
        ["a"],
        "text",
        {"hosts": {}},
        {"format": 2, "hosts": {}},
        {"format": 1},
        {"format": 1, "hosts": ["a"]},
        {"format": 1, "hosts": {"a": "done"}},
        {"format": 1, "hosts": {"a": {"state": "finished"}}},
    ],
)
def test_a_file_of_somebody_else_is_refused(content: t.Any) -> None:
    with pytest.raises(GpuOpsError) as error:
        parse(content)
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "The rollout file does not come from this version of the collection (format 1). Name another file, or remove it to start over."
    )
