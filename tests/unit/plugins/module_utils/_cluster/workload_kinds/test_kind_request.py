# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kind_request
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_request import KindChoice
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.stack import cpu_node, node

Json = dict[str, t.Any]

FLEET = [node(), node(1), cpu_node()]


def chosen(is_end: bool = False, **entry: t.Any) -> dict[str, str]:
    return kind_request.assign([KindChoice.of({"kind": "vm-vgpu", **entry}, is_end)], FLEET)


def test_nodes_are_chosen_by_name_or_label_and_those_without_gpus_are_left_out() -> None:
    assert chosen(nodes=["gpu-0001", "gpu-0001"]) == {"gpu-0001": "vm-vgpu"}
    assert chosen(node_selector={}) == chosen(is_end=True) == dict.fromkeys(["gpu-0000", "gpu-0001"], "vm-vgpu")
    assert chosen(node_selector={"nvidia.com/gpu.present": True}) == chosen(node_selector={})


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, "Invalid"),
        ({"nodes": [], "node_selector": {}}, "Invalid"),
        ({"nodes": ["cpu-0000"]}, "Invalid"),
        ({"nodes": ["nowhere"]}, "NotFound"),
        ({"node_selector": {"pool": "a"}}, "NotFound"),
        ({"node_selector": {"nvidia.com/gpu.deploy.driver": "true"}}, "Invalid"),
        ({"node_selector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}, "Invalid"),
    ],
)
def test_a_choice_that_cannot_be_meant(entry: Json, reason: str) -> None:
    with pytest.raises(GpuOpsError) as refused:
        chosen(**entry)
    assert refused.value.reason == reason


def test_a_cluster_without_gpu_nodes_has_none_to_choose() -> None:
    with pytest.raises(GpuOpsError, match="of this cluster"):
        KindChoice("container").chosen({"cpu-0000": cpu_node()})
