# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import text_search
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Scanner, TextLine, pattern

CODE = pattern(r"code (?P<code>\d+)(?: of (?P<unit>\w+))?", "code", "kernel")


def scanned(wanted: text_search.Pattern, *lines: TextLine) -> list[text_search.Hit]:
    scanner = Scanner([wanted])
    scanner.scan(lines)
    return scanner.hits(wanted)


def test_a_match_has_its_line_and_the_groups_that_matched() -> None:
    line = TextLine("CODE 79", "kernel", "kernel log", "gpu-1")
    (hit,) = scanned(CODE, line)
    assert hit.line == line
    assert hit.values == {"code": "79"}


def test_only_lines_of_its_kinds_and_of_unknown_origin_are_compared() -> None:
    lines = [TextLine("code 1", kind) for kind in ("kernel", "unit", "pod", "event", "text")]
    assert [hit.line.kind for hit in scanned(CODE, *lines)] == ["kernel", "text"]


def test_a_pattern_without_kinds_looks_everywhere() -> None:
    everywhere = pattern("code", "code")
    assert len(scanned(everywhere, TextLine("code", "pod"), TextLine("code", "event"))) == 2


def test_a_line_with_the_literal_alone_is_no_match() -> None:
    assert scanned(CODE, TextLine("code without number")) == []


def test_the_first_matches_of_each_source_are_kept() -> None:
    many = [TextLine(f"code {number}", "pod", "one") for number in range(text_search.HITS + 5)]
    anywhere = pattern(r"code \d+", "code")
    found = scanned(anywhere, *many, TextLine("code 1", "pod", "other"), TextLine("code 1", "pod", "one", "gpu-2"))
    assert [hit.line.text for hit in found[:2]] == ["code 0", "code 1"]
    assert len(found) == text_search.HITS + 2


def test_a_long_line_is_cut() -> None:
    line = TextLine("code 1" + "x" * text_search.LINE_LENGTH)
    assert len(scanned(CODE, line)[0].line.text) == text_search.LINE_LENGTH
    assert scanned(CODE, TextLine("x" * text_search.LINE_LENGTH + "code 1")) == []


def test_patterns_that_nobody_has_looked_for_have_no_matches() -> None:
    assert Scanner([]).hits(CODE) == []


def test_several_patterns_share_a_literal() -> None:
    other = pattern("other code", "code")
    scanner = Scanner([CODE, other, CODE])
    scanner.scan([TextLine("other code 5")])
    assert (len(scanner.hits(CODE)), len(scanner.hits(other))) == (1, 1)


def test_a_pattern_that_does_not_match_leaves_the_line_to_the_next_one() -> None:
    other = pattern("code X", "code")
    scanner = Scanner([other, CODE])
    scanner.scan([TextLine("code 5", "kernel")])
    assert (len(scanner.hits(CODE)), len(scanner.hits(other))) == (1, 0)


def test_words_that_contain_others_are_found_with_them_and_never_without_reason() -> None:
    words = text_search.Words(("failed", "failed to fetch", "nvidia-smi has failed", "use", "driver"))
    assert sorted(words.found("nvidia-smi has failed because")) == ["failed", "nvidia-smi has failed", "use"]
    assert words.found("it failed to fetch") == ["failed", "failed to fetch"]
    assert words.found("the fan is loud") == []
