# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.batches import Batch
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.former import Former, parse
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.progress import (
    Member,
    MemberEvidence,
    Position,
    Progress,
    content,
    lines,
    look,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from inline_snapshot import snapshot as wording

NAMES = {"max_out": "gpuops_max_failed", "members": "hosts"}
BATCHES = [Batch(1, ("a",), canary=True), Batch(2, ("b", "c")), Batch(3, ("d",))]
ALL = frozenset("abcdef")
SILENT = MemberEvidence()
CHANGED = MemberEvidence(passed="change")


def seen(
    fleet: t.Mapping[str, MemberEvidence], position: Position, max_out: t.Any = "100%", former: Former | None = None
) -> Progress:
    return look(fleet, BATCHES, position, RolloutRequest(max_out=max_out, names=NAMES), former or Former())


def test_the_batches_tell_who_waits_who_changes_and_who_was_lost() -> None:
    fleet = {"a": CHANGED, "b": CHANGED, "c": SILENT, "d": SILENT, "e": SILENT}
    during = seen(fleet, Position("plan", ALL, begun=2, ended=1)).members
    assert {name: member.state for name, member in during.items()} == {
        "a": "done",
        "b": "done",
        "c": "changing",
        "d": "waiting",
        "e": "current",
    }
    assert during["d"] == Member("waiting", 3)
    after = seen(fleet, Position("plan", ALL, begun=2, ended=2)).members
    assert after["c"] == Member("failed", 2, wording("became unreachable in the middle of the run"))
    assert after["d"] == Member("waiting", 3)


def test_who_fails_its_change_has_failed_and_who_is_out_before_is_left_out() -> None:
    fleet = {
        "b": MemberEvidence(left_out_at="change", reason="No driver."),
        "e": MemberEvidence(left_out_at="check", reason="No GPU."),
    }
    assert seen(fleet, Position("plan", ALL, 2, 2)).members == {
        "b": Member("failed", 2, "No driver."),
        "e": Member("left out", None, "No GPU."),
    }


@pytest.mark.parametrize("over", ["check", "prepare", "plan"])
def test_who_is_no_longer_there_at_the_end_of_a_stage_was_lost(over: str) -> None:
    progress = seen({"e": SILENT, "f": SILENT}, Position(over, frozenset("f")))
    assert progress.members["e"] == Member("left out", None, wording("became unreachable in the middle of the run"))
    assert progress.members["f"].state == ("current" if over == "plan" else "waiting")


def test_who_may_not_change_now_is_postponed_and_not_out() -> None:
    progress = seen({"e": MemberEvidence(postponed="A reboot is due.")}, Position("plan", ALL), max_out=0)
    assert progress.members == {"e": Member("postponed", None, "A reboot is due.")}
    assert progress.stop == ""


def test_who_was_changed_by_a_former_run_is_done() -> None:
    former = parse({"format": 1, "hosts": {"e": {"state": "done", "batch": 7}, "f": {"state": "failed"}}})
    progress = seen({"e": SILENT, "f": SILENT}, Position("plan", ALL), former=former)
    assert progress.members == {"e": Member("done", 7), "f": Member("current")}


@pytest.mark.parametrize(
    ("max_out", "stops"),
    [(1, True), ("1", True), (2, False), ("39%", True), ("40%", False), (0, True), ("100%", False)],
)
def test_the_run_stops_if_more_are_out_than_may_be(max_out: t.Any, stops: bool) -> None:
    fleet = {
        "c": MemberEvidence(left_out_at="change", reason="The driver is not loaded."),
        **dict.fromkeys("bde", SILENT),
        "f": MemberEvidence(left_out_at="check", reason="No GPU"),
    }
    progress = seen(fleet, Position("plan", ALL, 2, 1), max_out)
    assert bool(progress.stop) is stops
    if max_out == 1:
        assert progress.stop == (
            wording(
                "2 of 5 hosts are out, and gpuops_max_failed allows 1. Repair these hosts, or leave them out of the "
                "inventory, and run this again. c: The driver is not loaded; f: No GPU."
            )
        )


def test_a_canary_that_is_out_stops_the_run_whatever_the_limit() -> None:
    fleet = {
        "e": MemberEvidence(left_out_at="check", reason="No GPU."),
        "a": MemberEvidence(left_out_at="change", reason="No driver."),
        "b": SILENT,
    }
    stop = seen(fleet, Position("plan", ALL, 1, 1)).stop
    assert stop.startswith("The canary a did not pass. Repair these hosts")
    assert stop.endswith("run this again. a: No driver; e: No GPU.")


def test_a_named_canary_may_not_be_out_before_the_rollout_either() -> None:
    fleet = {"a": SILENT, "e": MemberEvidence(left_out_at="check", reason="No.")}
    wishes = RolloutRequest(canary=["e", "f"], max_out=9, names=NAMES)
    progress = look(fleet, [], Position("check", ALL), wishes, Former())
    assert (progress.canaries, progress.stop.partition(".")[0]) == (("e",), "The canary e did not pass")


def test_a_message_names_a_few_of_a_thousand() -> None:
    fleet = {f"gpu-{number:04}": MemberEvidence(left_out_at="check", reason="No GPU") for number in range(1000)}
    stop = look(fleet, [], Position("check", frozenset(fleet)), RolloutRequest(), Former()).stop
    assert stop.startswith("1000 of 1000 members are out, and max_out allows 0. ")
    assert stop.endswith("gpu-0004: No GPU; and 995 more.")


def test_the_file_has_everybody_with_what_is_known() -> None:
    fleet = {
        "a": CHANGED,
        "b": MemberEvidence(left_out_at="change", reason="The driver\nis gone."),
        "d": SILENT,
        "e": SILENT,
    }
    assert content(seen(fleet, Position("plan", ALL, 2, 2)), Former()) == {
        "format": 1,
        "canary": ["a"],
        "counts": {"waiting": 1, "done": 1, "current": 1, "failed": 1},
        "hosts": {
            "a": {"state": "done", "batch": 1},
            "b": {"state": "failed", "batch": 2, "reason": "The driver is gone"},
            "d": {"state": "waiting", "batch": 3},
            "e": {"state": "current"},
        },
    }


def test_what_the_former_run_knew_stays_until_the_change_is_planned() -> None:
    hosts = {"e": {"state": "changing", "batch": 4}, "f": {"state": "failed", "reason": "x"}, "z": {"state": "done"}}
    former = parse({"format": 1, "canary": ["z"], "hosts": hosts})
    fleet = {"e": SILENT, "f": MemberEvidence(left_out_at="check", reason="No GPU")}
    written = content(look(fleet, [], Position("check", ALL), RolloutRequest(max_out=1), former), former)
    assert written["hosts"] == hosts | {"f": {"state": "left out", "reason": "No GPU"}}
    assert written["canary"] == ["z"]
    assert parse(written).halfway == {"e"}


def test_the_canaries_of_a_finished_rollout_are_forgotten() -> None:
    former = parse({"format": 1, "canary": ["e"], "hosts": {"e": {"state": "done"}}})
    written = content(look({"e": SILENT}, [], Position("plan", ALL), RolloutRequest(), former), former)
    assert (written["canary"], written["hosts"]) == ([], {"e": {"state": "done"}})


def test_the_report_shows_who_is_out_or_waits_and_the_totals() -> None:
    fleet = {
        "a": CHANGED,
        "b": CHANGED,
        "c": MemberEvidence(left_out_at="change", reason="No driver."),
        "d": SILENT,
        "e": SILENT,
        "f": MemberEvidence(postponed="A reboot is due."),
    }
    assert lines(seen(fleet, Position("plan", ALL, 2, 2)), "hosts") == [
        "NAME  STATE      BATCH  REASON",
        "c     failed     2      No driver",
        "d     waiting    3      -",
        "f     postponed  -      A reboot is due",
        "6 hosts: 2 changed, 1 with nothing to change, 1 postponed, 1 not yet changed, 1 failed",
    ]
    assert lines(seen({"a": CHANGED}, Position("plan", ALL, 3, 3))) == ["1 member: 1 changed"]
