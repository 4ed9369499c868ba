# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.amounts import amount


@pytest.mark.parametrize(
    ("value", "total", "least", "expected"),
    [
        (3, 10, 0, 3),
        ("3", 10, 1, 3),
        (" 25 % ", 10, 0, 2),
        ("100%", 7, 1, 7),
        ("1%", 10, 0, 0),
        ("1%", 10, 1, 1),
        ("1%", 99, 0, 0),
        (0, 10, 0, 0),
        (50, 10, 0, 50),
    ],
)
def test_a_percentage_is_rounded_down_but_not_below_the_least(
    value: t.Any, total: int, least: int, expected: int
) -> None:
    assert amount(value, total, "x", least) == expected


@pytest.mark.parametrize("value", ["", "x", "-1", -1, 1.5, "101%", None, True, [1]])
def test_anything_else_is_refused_by_name(value: t.Any) -> None:
    with pytest.raises(GpuOpsError, match=r"^gpuops_max_failed is ") as error:
        amount(value, 10, "gpuops_max_failed")
    assert error.value.msg.endswith("as 3 or 5%.")


@pytest.mark.parametrize("value", [0, "0%", "0"])
def test_a_batch_has_at_least_one_member(value: t.Any) -> None:
    with pytest.raises(GpuOpsError, match=r"such as 1 or 10%\.$"):
        amount(value, 10, "gpuops_serial", least=1)
