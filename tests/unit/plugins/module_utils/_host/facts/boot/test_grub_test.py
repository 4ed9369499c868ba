# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_test import evaluate
from hypothesis import given
from hypothesis import strategies as st

SIZES = {"/there": 5, "/empty": 0, "/none": -1}


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("", False),
        ("a", True),
        ("a = a", True),
        ("a == b", False),
        ("a != b", True),
        ("-n a", True),
        ("-z a", False),
        ("10 -gt 9", True),
        ("10 -lt 9", False),
        ("9 -eq 9 -a 8 -ne 9", True),
        ("9 -le 8 -o 9 -ge 8", True),
        ("x -gt 9", None),
        ("! a = a", False),
        ("( a = b ) -o ( c = c )", True),
        ("a = b c = c", False),
        ("a b", True),
        ("-f /there", True),
        ("-e /none", False),
        ("-s /empty", False),
        ("-d /there", False),
        ("-d /empty", False),
        ("-d /none", None),
        ("-f /elsewhere", None),
        ("-f \0", None),
        ("\0", None),
        ("\0 = a", None),
        ("\0 = a -o a = a", True),
        ("\0 = a -a a = b", False),
        ("! \0", None),
        ("2.06 < 2.12", None),
        ("-n", True),
        ("!", True),
    ],
)
def test_an_expression(expression: str, answer: bool | None) -> None:
    assert evaluate(expression.split(), SIZES.get) is answer


@given(st.lists(st.sampled_from(["a", "", "\0", "=", "-n", "-f", "-a", "-o", "!", "(", ")", "-gt", "1"])))
def test_any_words_have_an_answer(words: list[str]) -> None:
    assert evaluate(words, SIZES.get) in (True, False, None)
