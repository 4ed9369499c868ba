# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which lines of a log are kept."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import wanted_lines
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

ERROR = pattern(r"^ERROR: ", "error")


def test_lines_with_words_of_rules_and_those_that_are_errors() -> None:
    wanted = wanted_lines.WantedLines(("nvrm", "moon"), (ERROR,))
    present = wanted.present("NVRM: x\nERROR: y\n0 errors")
    assert sorted(present) == ["error", "nvrm"]
    lines = ("NVRM: x", "ERROR: y", "0 errors", "z")
    assert [wanted.of_line(line, present) for line in lines] == [["nvrm"], ["error"], [], []]


def test_so_many_are_kept_of_each_source() -> None:
    wanted = wanted_lines.WantedLines(("nvrm",), (ERROR,))
    kept = [wanted.is_kept("n", "log", ["error"]) for dummy in range(wanted_lines.KEPT_ERRORS + 1)]
    assert kept == [True] * wanted_lines.KEPT_ERRORS + [False]
    assert wanted.is_kept("n", "other", ["error"]) and wanted.is_kept("n", "log", ["error", "nvrm"])


def test_a_flood_of_errors_is_not_compared_for_ever() -> None:
    wanted = wanted_lines.WantedLines((), (ERROR,))
    found = [wanted.of_line("ERROR: y", ["error"]) for dummy in range(wanted_lines.ALL_ERRORS + 1)]
    assert found[-2:] == [["error"], []]
