# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack_move import move_plan


@pytest.mark.parametrize("count", [1, 2])
def test_pods_of_one_owner_are_one_row(count: int) -> None:
    held = [
        GpuPod("ml", f"train-{number}", "gpu-0", {"nvidia.com/gpu": 4}, owner="Job/train") for number in range(count)
    ]
    assert move_plan._workloads(held) == [
        {"namespace": "ml", "owner": "Job/train", "pods": count, "gpus": {"nvidia.com/gpu": 4 * count}}
    ]


def test_a_pod_without_a_controller_is_its_own_owner() -> None:
    [row] = move_plan._workloads([GpuPod("ml", "alone", "gpu-0", {"gpu.nvidia.com": 1})])
    assert row["owner"] == "Pod/alone"
