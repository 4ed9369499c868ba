# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from fractions import Fraction

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _quantities


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("80Gi", 80 * 1024**3),
        ("81559Mi", 81559 * 1024**2),
        ("1Ei", 1024**6),
        ("1.5Ki", 1536),
        ("10G", 10**10),
        ("2k", 2000),
        ("250m", Fraction(1, 4)),
        ("5u", Fraction(5, 10**6)),
        ("7n", Fraction(7, 10**9)),
        ("1e3", 1000),
        ("1E-1", Fraction(1, 10)),
        ("12E", 12 * 10**18),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("-1Gi", -(1024**3)),
        ("+3", 3),
        (" 4 ", 4),
        (16, 16),
        (1.5, Fraction(3, 2)),
    ],
)
def test_a_quantity_is_a_number(text: t.Any, number: Fraction) -> None:
    assert _quantities.parsed(text) == number


@pytest.mark.parametrize("text", ["", "Gi", "10GB", "1K", "10 Gi", "1e", "1e3Ki", ".", "many", None, True, [], {}])
def test_what_is_no_quantity(text: t.Any) -> None:
    assert _quantities.parsed(text) is None
