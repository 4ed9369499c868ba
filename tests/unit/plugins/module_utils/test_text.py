# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Helpers for messages that name several things, and for numbers in text."""

from __future__ import annotations

import unicodedata

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _text
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c"], "a, b, and 1 more")],
)
def test_a_message_names_a_few_and_counts_the_others(names: list[str], text: str) -> None:
    assert _text.first_few(names, 2) == text


def test_the_separator_also_precedes_the_count() -> None:
    assert _text.first_few(["a", "b", "c"], 1, "; ") == "a; and 2 more"


def test_five_names_are_given_by_default() -> None:
    assert _text.first_few([*"abcdef"]) == "a, b, c, d, e, and 1 more"


def test_an_error_becomes_part_of_a_sentence() -> None:
    assert _text.one_line(OSError("no route\n  to host.")) == "no route to host"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "\x1b]0;OWNED\x07\x1b[2K\x1b[1A\x1b[32mok: [localhost]",
            "\\x1b]0;OWNED\\x07\\x1b[2K\\x1b[1A\\x1b[32mok: [localhost]",
        ),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("50%\r100%", "50%\\r100%"),
        ("left\u202eright", "left\\u202eright"),
        ("\udc80", "\\udc80"),
        ("a\r\n\tb ä 漢", "a\n\tb ä 漢"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    assert _text.printable(text) == shown
    assert _text.printable(shown) == shown


def test_every_text_of_a_result_becomes_printable() -> None:
    value = {"a\x1b": ["\x07", {"b": ("\x08", 1, None, True, 0.5)}]}
    assert _text.all_printable(value) == {"a\\x1b": ["\\x07", {"b": ["\\x08", 1, None, True, 0.5]}]}


@given(st.text())
def test_no_text_moves_the_cursor(text: str) -> None:
    shown = _text.printable(text)
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in shown if letter not in "\t\n")
    assert "\n" not in _text.one_line(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("0", 0), ("", None), (None, None), ("8 MiB", None), ("-1", None), ("9" * 6000, None)],
)
def test_only_digits_are_read_as_a_whole_number(text: str | None, number: int | None) -> None:
    assert _text.whole_number(text) == number


def test_a_message_is_short_and_other_texts_stay_whole() -> None:
    limit = _text.LONGEST_MESSAGE
    assert _text.message("a" * limit) == "a" * limit
    shown = f"{'a' * limit} ... (2 more characters)"
    assert _text.message("a" * (limit + 2)) == shown
    assert _text.message("a" * (limit + 1)).endswith(" ... (1 more characters)")
    value = {"message": "a" * (limit + 2), "text": "a" * (limit + 2), "findings": [{"remedy": "a" * (limit + 2)}]}
    whole = {"message": shown, "text": "a" * (limit + 2), "findings": [{"remedy": shown}]}
    assert _text.all_printable(value) == whole
