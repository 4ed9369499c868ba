# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.batches import Batch, plan, waves
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.former import Former
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from hypothesis import given
from hypothesis import strategies as st

FLEET = [f"gpu-{number:04}" for number in range(1000)]
RACKS = {name: f"rack-{number // 18:02}" for number, name in enumerate(FLEET)}


def members(batches: t.Iterable[Batch]) -> list[str]:
    """Return who is in each batch, with the canary marked."""
    return [("canary " if batch.canary else "") + " ".join(batch.members) for batch in batches]


def former(canaries: str = "", **states: str) -> Former:
    return Former({name: {"state": state} for name, state in states.items()}, frozenset(canaries))


def test_one_after_the_other_in_the_given_order() -> None:
    assert plan(["b", "a"], RolloutRequest(), Former()) == [Batch(1, ("b",)), Batch(2, ("a",))]
    assert plan([], RolloutRequest(), Former()) == []


def test_sizes_are_numbers_percentages_or_a_list() -> None:
    assert members(plan(list("abcdefgh"), RolloutRequest("25%"), Former())) == ["a b", "c d", "e f", "g h"]
    assert members(plan(list("abcdefgh"), RolloutRequest([1, 2, "50%"]), Former())) == ["a", "b c", "d e f g", "h"]


def test_the_canary_comes_first_and_has_a_size_of_its_own() -> None:
    assert members(plan(list("abcdef"), RolloutRequest(3, canary=1), Former())) == ["canary a", "b c d", "e f"]
    assert members(plan(list("abcdef"), RolloutRequest(4, canary="50%"), Former())) == ["canary a b c", "d e f"]
    assert members(plan(list("abcdef"), RolloutRequest([2, 4], canary=["e", "b"]), Former())) == [
        "canary b e",
        "a c",
        "d f",
    ]


def test_one_member_alone_proves_for_the_others_what_nobody_has_proved() -> None:
    unproved = {"b": "6.8", "c": "6.8", "d": "6.17", "e": "6.17", "f": "6.1", "g": ""}
    alone = members(plan(list("abcdefg"), RolloutRequest("100%"), Former(), unproved=unproved))
    assert alone == ["canary b", "canary d", "a c e f g"]
    assert members(plan(list("ab"), RolloutRequest(2), Former(), unproved={})) == ["a b"]


def test_a_canary_proves_first_and_who_is_halfway_before_it() -> None:
    unproved = dict.fromkeys("abcdef", "6.8")
    canaries = RolloutRequest(3, canary=["c", "d"])
    assert members(plan(list("abcdef"), canaries, Former(), unproved=unproved)) == [
        "canary c",
        "canary d",
        "a b e",
        "f",
    ]
    halfway = members(plan(list("abcdef"), canaries, Former(), ["e"], unproved))
    assert halfway == ["canary e", "canary c d", "a b f"]


def test_who_has_failed_to_prove_tries_again_before_others() -> None:
    unproved = dict.fromkeys("abc", "6.8")
    assert members(plan(list("abc"), RolloutRequest(3), former("b", b="failed"), unproved=unproved)) == [
        "canary b",
        "a c",
    ]
    assert members(plan(list("abc"), RolloutRequest(3), former(a="failed"), unproved=unproved)) == [
        "canary b",
        "c",
        "a",
    ]


def test_a_named_canary_on_which_nothing_is_due_is_none() -> None:
    assert members(plan(["a", "b"], RolloutRequest(2, canary=["c"]), Former())) == ["a b"]


def test_a_batch_has_members_of_one_group_and_a_percentage_is_one_of_the_group() -> None:
    groups = {"a": "x", "b": "y", "c": "x", "d": "y", "e": "x", "f": "x"}
    batches = plan(list("abcdef"), RolloutRequest("50%", groups=groups), Former())
    assert [(batch.members, batch.group) for batch in batches] == [
        (("a", "c"), "x"),
        (("e", "f"), "x"),
        (("b",), "y"),
        (("d",), "y"),
    ]
    batches = plan(list("abcdef"), RolloutRequest("100%", canary=["a", "b"], groups=groups), Former())
    assert [(batch.members, batch.group) for batch in batches] == [
        (("a", "b"), None),
        (("c", "e", "f"), "x"),
        (("d",), "y"),
    ]


def test_a_list_of_sizes_goes_on_over_the_groups() -> None:
    groups = dict(zip("abcdef", "xxxyyy"))
    assert members(plan(list("abcdef"), RolloutRequest([1, 2, 3], groups=groups), Former())) == ["a", "b c", "d e f"]


def test_who_is_halfway_comes_first_and_who_failed_comes_last() -> None:
    before = former(a="failed", b="waiting", c="changing", d="done", e="left out")
    assert members(plan(list("abcdefg"), RolloutRequest(), before, resuming=["f"])) == [
        "c",
        "f",
        "b",
        "d",
        "e",
        "g",
        "a",
    ]
    assert members(plan(list("ab"), RolloutRequest(), former(a="failed"), resuming=["a"])) == ["a", "b"]


def test_halfway_waiting_and_failed_members_are_not_mixed_in_a_batch() -> None:
    before = former(a="failed", b="waiting", c="changing")
    assert members(plan(list("abcd"), RolloutRequest(4), before)) == ["c", "b d", "a"]


def test_canaries_that_passed_are_not_repeated_while_the_rollout_is_not_finished() -> None:
    before = former("a", a="done", b="done", c="waiting")
    assert members(plan(["c"], RolloutRequest(canary=1), before)) == ["c"]
    finished = former("a", a="done", b="done", c="done")
    assert members(plan(["c"], RolloutRequest(canary=1), finished)) == ["canary c"]


def test_canaries_on_which_something_is_due_again_are_the_canaries_again() -> None:
    before = former("b", a="done", b="done", c="waiting")
    assert members(plan(["a", "b", "c"], RolloutRequest(2, canary=1), before)) == ["canary b", "a c"]


def test_the_same_canary_is_tried_again_after_it_failed_but_no_other_member_that_failed() -> None:
    before = former("b", a="failed", b="failed", c="waiting")
    assert members(plan(["a", "b", "c"], RolloutRequest(canary=1), before)) == ["canary b", "c", "a"]
    assert members(plan(["a", "b", "c"], RolloutRequest(canary=2), before)) == ["canary b c", "a"]
    assert members(plan(["a"], RolloutRequest(canary=1), before)) == ["canary a"]


def test_waves_hold_whole_batches_and_enough_members() -> None:
    batches = [Batch(number, ("x",) * size) for number, size in enumerate([1, 1, 3, 2, 9, 1, 1])]
    assert waves(batches, least=4) == [5, 13]
    assert waves(batches, least=1) == [1, 1, 3, 2, 9, 1, 1]
    assert waves(batches) == [18]
    assert waves(batches[:1], least=4) == [1]
    assert waves([]) == []


def test_a_thousand_hosts_in_racks_of_eighteen() -> None:
    batches = plan(FLEET, RolloutRequest("50%", canary=1, groups=RACKS), Former())
    assert batches[0] == Batch(1, ("gpu-0000",), True, "rack-00")
    assert [len(batch.members) for batch in batches[1:5]] == [9, 8, 9, 9]
    assert [len(batch.members) for batch in batches[-2:]] == [5, 5]
    assert len(batches) == 1 + 2 * 56
    assert [batch.number for batch in batches] == list(range(1, 114))
    assert all(len({RACKS[member] for member in batch.members}) == 1 for batch in batches)
    assert min(waves(batches)) >= 16


names = st.lists(st.sampled_from(FLEET), unique=True, max_size=60)
amounts = st.one_of(st.integers(1, 70), st.integers(1, 100).map("{}%".format))
canaries = st.one_of(st.just(0), amounts, st.lists(st.sampled_from(FLEET[:50])))
states = st.dictionaries(
    st.sampled_from(FLEET), st.sampled_from(["waiting", "changing", "done", "failed"]), max_size=60
)


@given(names, st.one_of(amounts, st.lists(amounts, min_size=1)), canaries, st.booleans(), states, names)
def test_everybody_changes_once(
    who: list[str], sizes: t.Any, canary: t.Any, grouped: bool, states: dict[str, str], before: list[str]
) -> None:
    known = Former({name: {"state": state} for name, state in states.items()}, frozenset(before[:3]))
    batches = plan(who, RolloutRequest(sizes, canary, RACKS if grouped else None), known)
    changed = [member for batch in batches for member in batch.members]
    assert sorted(changed) == sorted(who)
    assert all(batch.members for batch in batches)
    assert [batch.number for batch in batches] == list(range(1, len(batches) + 1))
    assert [batch.canary for batch in batches[1:]] == [False] * len(batches[1:])
    assert sum(waves(batches)) == len(who)
    assert not grouped or all(batch.group for batch in batches if not batch.canary)
