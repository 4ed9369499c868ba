# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_choice import UnknownBootError, choose
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_state import LoadedEntry
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_test import UNKNOWN_TEXT
from inline_snapshot import snapshot as wording

FIRST, SECOND, NUMERAL = (
    LoadedEntry("First", "one", ()),
    LoadedEntry("Second > third", "two", ()),
    LoadedEntry("2 fast", "fast", ()),
)
OF_A_FILE = LoadedEntry("0 of a file", "0", (), False, "/boot/loader/entries/0.conf")
MENU = [FIRST, SECOND, NUMERAL]


@pytest.mark.parametrize(
    ("wanted", "entry", "rest"),
    [
        ("", FIRST, ""),
        ("1", SECOND, ""),
        (" 0x1>4>5", SECOND, "4>5"),
        ("two", SECOND, ""),
        ("Second >> third>inner", SECOND, "inner"),
        ("2 fast", NUMERAL, ""),
        ("9", FIRST, ""),
        ("nothing", FIRST, ""),
    ],
)
def test_numbers_names_and_what_fits_nothing(wanted: str, entry: LoadedEntry, rest: str) -> None:
    assert choose(MENU, wanted) == (entry, rest)


def test_the_name_of_an_entry_from_a_file_goes_before_a_number() -> None:
    assert choose([FIRST, SECOND, OF_A_FILE], "0") == (OF_A_FILE, "")
    assert choose([FIRST, SECOND, LoadedEntry("0", "0", ())], "0") == (FIRST, "")


def test_entries_behind_unknown_ones_have_unknown_numbers() -> None:
    assert choose([FIRST, None, SECOND], "0") == (FIRST, "")
    for wanted in ("2", "nothing"):
        with pytest.raises(UnknownBootError) as error:
            choose([FIRST, None, SECOND], wanted)
        assert str(error.value) == wording("which entries it has depends on what only GRUB knows")


@pytest.mark.parametrize(("menu", "wanted", "problem"), [([], "0", "has no entries"), (MENU, UNKNOWN_TEXT, "in a way")])
def test_a_choice_that_nobody_knows(menu: list[LoadedEntry | None], wanted: str, problem: str) -> None:
    with pytest.raises(UnknownBootError, match=problem):
        choose(menu, wanted)
