# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the size of a bundle is divided."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle import size_shares


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ([10, 20], 100, [10, 20]),
        ([10, 1000, 1000], 110, [10, 50, 50]),
        ([1000, 10, 30], 100, [60, 10, 30]),
        ([5, 5], -1, [0, 0]),
        ([], 10, []),
    ],
)
def test_small_sources_are_whole_and_large_ones_share_the_rest(
    sizes: list[int], limit: int, expected: list[int]
) -> None:
    assert size_shares.shares(sizes, limit) == expected


def test_the_first_and_the_last_lines_are_kept_and_those_in_between_are_left_out() -> None:
    assert size_shares.ends([1] * 10, 4) == [0, 1, 8, 9]
    assert size_shares.ends([1] * 10, 5) == [0, 1, 2, 8, 9]


def test_what_is_wanted_is_kept_first() -> None:
    assert size_shares.ends([1] * 10, 4, [5]) == [0, 1, 5, 9]
    assert size_shares.ends([1, 9, 1], 2, [1]) == [0, 2]


def test_a_wanted_piece_is_not_counted_twice() -> None:
    assert size_shares.ends([1, 1, 1], 2, [0]) == [0, 2]


def test_the_piece_in_the_middle_is_kept_if_it_fits() -> None:
    assert size_shares.ends([1, 1, 1], 3) == [0, 1, 2]


def test_after_the_first_piece_that_is_too_large_nothing_is_kept() -> None:
    assert size_shares.ends([1, 9, 1, 9, 1], 5) == [0, 4], "otherwise the place of what is left out would be a riddle"
