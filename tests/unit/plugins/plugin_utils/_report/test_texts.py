# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpu-0000", "gpu-0000"),
        (7, "7"),
        (" two\n lines\t", "two lines"),
        ("x" * texts.LONGEST, "x" * texts.LONGEST),
        ("x" * (texts.LONGEST + 1), "x" * texts.LONGEST + "…"),
    ],
)
def test_a_text_is_one_line_and_not_too_long(text: object, shown: str) -> None:
    assert texts.short(text) == shown


def test_control_characters_are_not_printed() -> None:
    assert "\x1b" not in texts.short("\x1b[31mred")


def test_the_length_can_be_chosen() -> None:
    assert texts.short("abcdef", 3) == "abc…"
