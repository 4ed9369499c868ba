# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which lines of a log are kept."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import wanted_lines
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

ERROR = pattern(r"^ERROR: ", "error")


def test_lines_with_words_of_rules_and_those_that_are_errors() -> None:
    wanted = wanted_lines.WantedLines(("nvrm", "moon"), (ERROR,))
    lines = ("NVRM: x", "ERROR: y", "0 errors", "z")
    assert wanted.of_lines(lines) == wanted.of_lines(lines) == [["nvrm"], ["error"], [], []]


def test_lines_that_differ_in_digits_are_one_form_and_keep_their_own_words() -> None:
    wanted = wanted_lines.WantedLines(("failed to load", "error 401"))
    lines = (
        "gpu 1 failed to load",
        "gpu 2 failed to load",
        "gpu 3 failed 4to load",
        "error 401",
        "error 402",
        "\u20ac 1",
    )
    assert wanted.of_lines(lines) == [["failed to load"], ["failed to load"], [], ["error 401"], [], []]


def test_a_log_of_very_many_forms_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted_lines, "_KNOWN_FORMS", 1)
    wanted = wanted_lines.WantedLines(("nvrm",))
    for text in ("a", "b", "nvrm c", "a", "nvrm c"):
        assert wanted.of_lines([text, "nvrm"]) == [["nvrm"] if "nvrm" in text else [], ["nvrm"]]


def test_so_many_are_kept_of_each_source() -> None:
    wanted = wanted_lines.WantedLines(("nvrm",), (ERROR,))
    kept = [wanted.is_kept("n", "log", ["error"]) for dummy in range(wanted_lines.KEPT_ERRORS + 1)]
    assert kept == [True] * wanted_lines.KEPT_ERRORS + [False]
    assert wanted.is_kept("n", "other", ["error"]) and wanted.is_kept("n", "log", ["error", "nvrm"])


def test_a_flood_of_errors_is_not_compared_for_ever() -> None:
    wanted = wanted_lines.WantedLines((), (ERROR,))
    found = wanted.of_lines(["ERROR: y"] * (wanted_lines.ALL_ERRORS + 1))
    assert found[-2:] == [["error"], []]


def test_identifiers_are_no_part_of_a_form_and_a_word_behind_a_digit_is() -> None:
    wanted = wanted_lines.WantedLines(("failed to load", "error"))
    lines = ("pod 3f2a9c failed to load", "pod 77e10b failed to load", "\u20ac 1error", "5failed to load", "pod 3f2a9c")
    words = [["failed to load"], ["failed to load"], ["error"], ["failed to load"], []]
    assert wanted.of_lines(lines) == wanted.of_lines(lines) == words


def test_lines_that_contain_an_end_of_line_are_taken_one_by_one() -> None:
    wanted = wanted_lines.WantedLines(("error",))
    assert wanted.of_lines(["1\nerror 22", "x 3"]) == [["error"], []]


def test_a_large_text_of_one_source_is_no_longer_searched_for_what_it_shows_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wanted_lines, "MANY_LINES", wanted_lines.KEPT_OFTEN)
    wanted = wanted_lines.WantedLines(("nvrm", "moon", "error 401"))
    line = "nvrm error 401"
    for dummy in range(wanted_lines.KEPT_OFTEN):
        assert wanted.is_kept("n", "log", *wanted.of_lines([line]))
    assert wanted.of_lines([line, "nvrm moon"]) == [[], ["moon"]]
    assert wanted.is_kept("n", "other", ["moon"])
    assert wanted.of_lines([line]) == [["nvrm", "error 401"]]
