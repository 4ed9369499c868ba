# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_state import (
    OTHER,
    Linux,
    LoadedEntry,
    State,
    entry,
    linux,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_test import UNKNOWN_TEXT

A, B = LoadedEntry("A", "a", ()), LoadedEntry("B", "b", ())


def merged(one: State, other: State) -> State:
    state = State({}, set())
    state.be_either(one, other)
    return state


def test_only_what_is_the_same_on_both_branches_is_known() -> None:
    one = State({"same": "1", "set": "1", "empty": ""}, {"x"}, [A, B], Linux("/k", ("a",)))
    other = State({"same": "1", "set": "2"}, {"y"}, [A], Linux("/k", ("b",)))
    state = merged(one, other)
    assert state.variables == {"same": "1", "set": UNKNOWN_TEXT, "empty": ""}
    assert state.exported == {"x", "y"}
    assert state.menu == [A, None]
    assert state.loaded == Linux("/k", (UNKNOWN_TEXT,))


def test_two_kernels_are_none_that_is_known() -> None:
    kernel = Linux("/k", ())
    assert merged(State({}, set(), loaded=kernel), State({}, set(), loaded=kernel)).loaded == kernel
    for other in (None, Linux("/other", ())):
        assert merged(State({}, set(), loaded=kernel), State({}, set(), loaded=other)).loaded == OTHER


def test_a_copy_and_a_submenu_leave_the_state_alone() -> None:
    state = State({"x": "1", "y": "2"}, {"x", "z"}, [A], Linux("/k", ()))
    inside = state.submenu()
    assert inside == State({"x": "1"}, {"x", "z"})
    copy = state.copy()
    copy.variables["x"] = "3"
    copy.menu.append(B)
    copy.exported.clear()
    inside.exported.add("w")
    assert state == State({"x": "1", "y": "2"}, {"x", "z"}, [A], Linux("/k", ()))


def test_menus_that_differ_from_the_first_entry_have_nothing_in_common() -> None:
    assert merged(State({}, set(), [A]), State({}, set(), [B])).menu == [None]
    assert merged(State({}, set(), [A, A]), State({}, set(), [A, B])).menu == [A, None]


@pytest.mark.parametrize(
    ("command", "title", "identity", "is_submenu"),
    [
        ("menuentry One", "One", "One", False),
        ("menuentry One --id one", "One", "one", False),
        ("menuentry One --id=one", "One", "one", False),
        ("menuentry --class os One --users me two --unrestricted", "One", "One", False),
        ("menuentry --unrestricted One", "One", "One", False),
        ("menuentry --id", "", "", False),
        ("menuentry --class", "", "", False),
        ("menuentry", "", "", False),
        ("submenu More --id more", "More", "more", True),
        ("menuentry submenu", "submenu", "submenu", False),
    ],
)
def test_a_title_is_the_first_word_that_belongs_to_no_option(
    command: str, title: str, identity: str, is_submenu: bool
) -> None:
    assert entry(command.split(), ()) == LoadedEntry(title, identity, (), is_submenu)


def test_arguments_are_written_as_the_kernel_reads_them() -> None:
    assert linux(["linux", "/k", "ro", "quiet"]) == Linux("/k", ("ro", "quiet"))
    assert linux(["linux", "/k"]) == Linux("/k", ())
    assert linux(["linux"]) == OTHER
    assert linux(["linux", "/k", "a b", "c'd", 'e"f', "g\\h"]).arguments == ('"a b"', "c\\'d", 'e\\"f', "g\\\\h")
