# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From bytes to text."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import decode


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        (b"a\tb", "a    b"),
        (b"Taints: &lt;none&gt; &amp; &#27;[31m", "Taints: <none> & [31m"),
        (b"a &amp; b", "a &amp; b"),
        ("\ufeffgrün".encode(), "grün"),
        ("grün".encode("utf-16"), "grün"),
        ("grün".encode("utf-32"), "grün"),
        ("grün".encode("latin-1"), "grün"),
        (b"a\x00b" + b"x" * 50, "ab" + "x" * 50),
        (b"", ""),
    ],
)
def test_encodings_colours_and_line_ends(data: bytes, text: str) -> None:
    assert decode.text_of(data) == text


def test_a_character_that_the_limit_has_cut_does_not_change_the_encoding() -> None:
    data = ("grün und blau " * 50).encode() + "ü".encode()[:1]
    text = decode.text_of(data)
    assert text is not None and text.startswith("grün und blau") and text.endswith("\ufffd")


def test_a_text_with_as_many_broken_characters_as_whole_ones_is_in_another_encoding() -> None:
    data = "é".encode() * 2 + b"a" * 50 + "é".encode("latin-1") * 2
    assert decode.text_of(data) == "éé" + "a" * 50 + "\ufffd" * 2
    assert "\ufffd" not in str(decode.text_of(data + "é".encode("latin-1")))


@pytest.mark.parametrize("data", [bytes(range(256)) * 20, b"\0" * 1000, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0"])
def test_binary_data_is_no_text(data: bytes) -> None:
    assert decode.text_of(data) is None


def test_half_an_escape_is_left_for_printing() -> None:
    assert decode.cleaned("a\x1b[") == "a\x1b["


def test_a_message_of_the_driver_in_several_lines_is_one_again() -> None:
    """With the breaks of rsyslog, Talos and JSON. What stands before the first line stands before all."""
    for mark in ("#012", "\\x0a", "\\n"):
        text = f"Jun 30 11:07:05 gpu-0 kernel: NVRM: The GPU has{mark}NVRM: fallen{mark}x"
        start = "Jun 30 11:07:05 gpu-0 kernel: NVRM: "
        assert decode.cleaned(text) == f"{start}The GPU has\n{start}fallen{mark}x"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark(encoding: str) -> None:
    assert decode.text_of("NVRM: Gr\u00fc\u00dfe\n".encode(encoding) * 20) == "NVRM: Gr\u00fc\u00dfe\n" * 20


def test_quotes_of_a_word_processor_are_those_of_programs() -> None:
    assert decode.cleaned("no runtime for \u201cnvidia\u201d, couldn\u2019t") == 'no runtime for "nvidia", couldn\'t'
