# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import (
    Members,
    NodePacing,
    PaceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import maintenance_windows
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Standing
from inline_snapshot import snapshot as wording

ALL = ("a", "b", "c", "d")
TUESDAY = 1_795_514_400.0
"""2026-11-24T10:00:00Z"""


def pacing(
    names: tuple[str, ...] = ALL, *, waves: tuple[str, ...] = (), soak_s: float = 0.0, **given: t.Any
) -> NodePacing:
    of_members = {key: given.pop(key) for key in ("quiet", "halfway", "held", "done") if key in given}
    windows = maintenance_windows.parse(given.pop("windows", []), "UTC")
    return NodePacing(Members(tuple(names), **of_members), PaceRequest(RolloutRequest(**given), waves, soak_s, windows))


def test_each_node_has_the_number_of_its_wave() -> None:
    assert pacing().waves == dict.fromkeys(ALL, 1) and pacing().awaited == frozenset()
    paced = pacing(canary=1, waves=("1", "100%"))
    assert paced.waves == {"a": 1, "b": 2, "c": 3, "d": 3} and paced.awaited == {"a", "b"}


def test_a_wave_waits_for_the_soak_of_the_one_before() -> None:
    paced = pacing(canary=1, soak_s=60.0)
    assert paced.gate({}, (), 100.0).closed == {"b", "c", "d"}
    gate = paced.gate({"a": 100.0}, (), 159.0)
    assert gate.closed == {"b", "c", "d"} and gate.waits_for == "stage 1 of 2 to be well for 60 s"
    assert paced.gate({"a": 100.0}, (), 160.0).closed == frozenset()


def test_a_node_that_an_unfinished_rollout_has_done_is_the_canary() -> None:
    paced = pacing(("b", "a"), done={"c": 5.0}, canary=1)
    assert paced.waves == {"c": 1, "b": 2, "a": 2}
    assert paced.admit(Standing(done=frozenset("c"))).members == ("b",)


def test_a_named_canary_that_has_nothing_to_change_is_done() -> None:
    assert pacing(("b", "c"), canary=["a", "c"]).waves == {"c": 1, "b": 2}
    assert pacing(("6", "7"), canary=[7]).waves == {"7": 1, "6": 2}, "YAML reads such a name as a number"


def test_quiet_nodes_take_no_room_and_come_first() -> None:
    paced = pacing(quiet=frozenset("bc"), sizes=1)
    assert paced.admit(Standing()).members == ("b", "c")
    assert paced.admit(Standing(busy=frozenset("b"), done=frozenset("c"))).members == ()
    assert paced.admit(Standing(done=frozenset("bc"))).members == ("a",)


def test_a_window_must_be_open_for_the_slowest_change() -> None:
    assert pacing().closed(TUESDAY) == "" and pacing().why_closed(TUESDAY) == ""
    paced = pacing(windows=["tue 09:00-10:10"])
    assert paced.closed(TUESDAY) == "" and paced.closed(TUESDAY, 600.0) == ""
    assert paced.closed(TUESDAY, 601.0) == "the next maintenance window (tue 09:00-10:10 (UTC))"
    assert pacing(windows=["tue 11:30-12:00"]).why_closed(TUESDAY) == (
        wording("No maintenance window is open now (tue 11:30-12:00 (UTC)). The next one opens in 90 minutes.")
    )


@pytest.mark.parametrize(
    ("window", "opens"),
    [
        ("tue 10:30-11:00", "30 minutes"),
        ("tue 12:00-12:30", "2 hours"),
        ("wed 20:00-21:00", "34 hours"),
        ("thu 10:00-11:00", "2 days"),
    ],
)
def test_who_waits_for_the_next_window_is_told_when_it_opens(window: str, opens: str) -> None:
    paced = pacing(windows=[window])
    said = paced.why_left(["a"], TUESDAY)
    assert said.startswith("a waits") and window in said and f" {opens}." in said
    assert paced.why_left(["a", "b"], TUESDAY).startswith("a, b wait ")
    assert paced.why_left([], TUESDAY) == "" and pacing().why_left(["a"], TUESDAY) == ""


def test_the_sentence_about_who_waits() -> None:
    assert pacing(windows=["wed 10:00-11:00"]).why_left(["a"], TUESDAY) == wording(
        "a waits for the next maintenance window (wed 10:00-11:00 (UTC)), which opens in 24 hours. Run it again then."
    )


def test_the_budget_is_one_of_all_members() -> None:
    assert pacing(max_out="50%").budget == 2 and pacing(("a", "b", "c"), done={"d": 0.0}, max_out="50%").budget == 2
    with pytest.raises(GpuOpsError):
        pacing(max_out="many")


def test_the_pace_of_fewer_nodes_keeps_the_rest() -> None:
    paced = pacing(quiet=frozenset("a"), canary=1)
    fewer = paced.without({"a", "b"})
    assert fewer.members.names == ("c", "d") and fewer.members.quiet == {"a"} and fewer.waves == {"c": 1, "d": 2}
    assert paced.without(()) is paced
