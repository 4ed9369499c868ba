# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels of GPU Feature Discovery in a row of the fleet. The tests of the module gpu_stack_info cover the rest."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows

OLD = {f"nvidia.com/cuda.driver.{part}": number for part, number in (("major", "570"), ("minor", "86"), ("rev", "10"))}


@pytest.mark.parametrize(
    ("labels", "version"),
    [
        ({"nvidia.com/cuda.driver-version.full": "595.91.07", **OLD}, "595.91.07"),
        (OLD, "570.86.10"),
        ({**OLD, "nvidia.com/cuda.driver.rev": ""}, "570.86"),
        ({}, None),
    ],
)
def test_the_drivers_version_in_both_spellings(labels: dict[str, str], version: str | None) -> None:
    assert node_rows.driver_version(labels) == version


def test_values_that_a_kubelet_has_not_reported_are_none() -> None:
    row = node_rows.row_of({"metadata": {"name": "gpu-0000"}, "spec": {}, "status": {}}, {}, {})
    assert {row[field] for field in ("os", "kernel", "runtime", "product", "driver")} == {None}
