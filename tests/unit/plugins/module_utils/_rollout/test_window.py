# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Standing, Window
from inline_snapshot import snapshot as wording

NAMES = {"members": "nodes", "sizes": "max_unavailable", "max_out": "max_failed"}
ABCDE = ("a", "b", "c", "d", "e")


def window(members: t.Sequence[str] = ABCDE, halfway: t.Collection[str] = (), **wishes: t.Any) -> Window:
    return Window(members, RolloutRequest(**{"sizes": 2, "names": NAMES, **wishes}), halfway)


def standing(busy: str = "", done: str = "", failed: str = "", away: str = "", postponed: str = "") -> Standing:
    reasons = {member: f"{member} broke." for member in failed}
    return Standing(frozenset(busy), frozenset(done), reasons, frozenset(away), frozenset(postponed))


def test_never_more_members_change_at_once_than_permitted() -> None:
    assert window().admit(standing()).members == ("a", "b")
    assert window().admit(standing(busy="ab")).members == ()
    assert window().admit(standing(busy="b", done="a")).members == ("c",), "nobody waits for the slowest member"
    assert window().admit(standing(done="abcde")).members == ()


def test_a_percentage_is_one_of_all_members_and_at_least_one() -> None:
    assert window(sizes="40%").admit(standing()).members == ("a", "b")
    assert window(sizes="1%").admit(standing()).members == ("a",)


def test_the_others_wait_until_the_canaries_are_done() -> None:
    canary = window(canary=1, sizes=3)
    assert canary.canaries == ("a",)
    assert canary.admit(standing()).members == ("a",)
    assert canary.admit(standing(busy="a")).members == ()
    assert canary.admit(standing(done="a")).members == ("b", "c", "d")


def test_canaries_can_be_named() -> None:
    named = window(canary=["d"])
    assert named.canaries == ("d",) and named.admit(standing()).members == ("d",)
    with pytest.raises(GpuOpsError, match="canary names z"):
        window(canary=["z"])


def test_a_canary_that_fails_ends_the_rollout_whatever_may_fail() -> None:
    stop = window(canary=1, max_out=5).admit(standing(failed="a")).stop
    assert stop == "The canary a failed. a: a broke."


def test_the_rollout_ends_when_more_members_failed_than_permitted() -> None:
    assert window(max_out=1).admit(standing(failed="a")).members == ("b", "c")
    stopped = window(max_out=1).admit(standing(failed="ab", busy="c"))
    assert stopped.members == ()
    assert stopped.stop == "2 of 5 nodes failed, and max_failed allows 1. a: a broke; b: b broke."


def test_a_failed_member_that_does_not_serve_takes_room() -> None:
    assert window(max_out=3).admit(standing(failed="a", away="a")).members == ("b",)
    stop = window(max_out=3).admit(standing(failed="ab", away="ab")).stop
    assert stop == wording(
        "a, b failed and do not serve, so max_unavailable (2) leaves no room for others. Repair them, or raise max_unavailable."
    )
    assert window(max_out=3).admit(standing(failed="ab", away="ab", busy="c")).stop == "", "c may still be done"


def test_members_that_are_halfway_come_first() -> None:
    assert window(halfway=["d"]).admit(standing()).members == ("d", "a")
    assert window(halfway=["d"], canary=1).canaries == ("d",)


def test_a_postponed_member_is_passed_over_for_now() -> None:
    assert window().admit(standing(postponed="a")).members == ("b", "c")
    assert window().admit(standing(postponed="abcde")) == window().admit(standing(done="abcde"))


def test_members_of_two_groups_never_change_at_the_same_time() -> None:
    racks = {"a": "one", "b": "two", "c": "one", "d": "two", "e": "two"}
    grouped = window(groups=racks, sizes="50%")
    assert grouped.admit(standing()).members == ("a",)
    assert grouped.admit(standing(busy="a")).members == ()
    assert grouped.admit(standing(done="a")).members == ("c",), "a group is finished before the next one begins"
    assert grouped.admit(standing(done="a", busy="c")).members == ()
    assert grouped.admit(standing(done="ac")).members == ("b",), "half of three nodes, rounded down"


def test_nobody_begins_while_more_are_away_than_permitted() -> None:
    assert window(sizes=1).admit(standing(busy="a", away="de")).members == ()


def test_members_that_stay_available_begin_first_and_take_no_room() -> None:
    quiet = Window(ABCDE, RolloutRequest(sizes="50%", names=NAMES), quiet=("b", "d", "e"))
    assert quiet.admit(standing()).members == ("b", "d", "e")
    assert quiet.admit(standing(busy="b", done="de")).members == (), "those that leave service wait for them"
    assert quiet.admit(standing(done="bde")).members == ("a",), "half of the two that leave service"


def test_members_that_stay_available_keep_to_their_groups() -> None:
    quiet = Window("ab", RolloutRequest(groups={"a": "x", "b": "y"}, names=NAMES), quiet=("a", "b"))
    assert quiet.admit(standing()).members == ("a",) and quiet.admit(standing(busy="a")).members == ()
    assert quiet.admit(standing(done="a")).members == ("b",)
