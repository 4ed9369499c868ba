# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import dcgm_fields

V25_10, V26_3, V26_7 = (25, 10), (26, 3), (26, 7)


@pytest.mark.parametrize(("line", "count"), [(V25_10, 609), (V26_3, 679), (V26_7, 679), (None, 607)])
def test_each_line_knows_its_names(line: dcgm_fields.OperatorLine | None, count: int) -> None:
    """605 and 675 of go-dcgm, without its markers of ranges, and four of the exporter itself. Unknown: what both have."""
    assert len(dcgm_fields.names(line)) == count


def test_names_come_and_go_between_lines() -> None:
    came, went = "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "DCGM_FI_DEV_CPU_TEMP_SHUTDOWN"
    assert came not in dcgm_fields.names(V25_10) and came in dcgm_fields.names(V26_3)
    assert went in dcgm_fields.names(V25_10) and went not in dcgm_fields.names(V26_3)
    assert not {came, went} & dcgm_fields.names(None)
    for name in (came, went, "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TMP"):
        lines = [dcgm_fields.may_be(name, line) for line in (V25_10, V26_3)]
        assert lines == [name in dcgm_fields.names(line) for line in (V25_10, V26_3)]
        assert dcgm_fields.may_be(name, None) is any(lines)


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", "DCGM_FI_DEV_NVLINK_BANDWIDTH_L17"])
def test_ranges_are_whole(name: str) -> None:
    assert name in dcgm_fields.names(None)
    assert not [each for each in dcgm_fields.names(None) if ".." in each]


def test_the_exporters_own_names_are_known() -> None:
    assert "DCGM_EXP_XID_ERRORS_COUNT" in dcgm_fields.names(V25_10)


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_GPU_TMP", "dcgm_fi_dev_gpu_temp"])
def test_two_likely_names_are_found(name: str) -> None:
    best, second = dcgm_fields.near(name, None)
    assert best == "DCGM_FI_DEV_GPU_TEMP" and second in dcgm_fields.names(None)


def test_nothing_is_near_an_unrelated_name() -> None:
    assert dcgm_fields.near("nvidia_gpu_temperature", None) == []
