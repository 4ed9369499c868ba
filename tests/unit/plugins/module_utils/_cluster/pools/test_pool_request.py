# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools import pool_request
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import NodePool, request_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.gpu_pools import SPEC

from tests.unit.fakes.pools import FOUR
from tests.unit.fakes.stack import cpu_node, node

Json = dict[str, t.Any]

FLEET = [node(), node(1), cpu_node()]
ONE: Json = {"name": "one", "nodes": ["gpu-0000"]}
BY_PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def assigned(*entries: Json) -> dict[str, str]:
    found = pool_request.assigned([NodePool.of(entry) for entry in entries], FLEET)
    return {name: pool.name for name, pool in found.items()}


def test_nodes_are_chosen_by_name_or_label_and_those_without_gpus_are_left_out() -> None:
    assert assigned({**ONE, "nodes": ["gpu-0000", "gpu-0000"]}) == {"gpu-0000": "one"}
    assert assigned({"name": "all", "node_selector": {}}) == {"gpu-0000": "all", "gpu-0001": "all"}
    assert assigned() == {}


def test_a_node_is_found_again_once_its_product_has_a_suffix() -> None:
    shared = node()
    shared["metadata"]["labels"]["nvidia.com/gpu.product"] += "-SHARED"
    assert NodePool.of({"name": "all", "node_selector": BY_PRODUCT}).chosen({"gpu-0000": shared}) == ["gpu-0000"]


@pytest.mark.parametrize(
    ("entries", "reason", "named"),
    [
        ([{"name": "One", "node_selector": {}}], "Invalid", "One"),
        ([{"name": "one"}], "Invalid", "one"),
        ([{**ONE, "node_selector": {}}], "Invalid", "one"),
        ([{**ONE, "nodes": ["nowhere"]}], "NotFound", "nowhere"),
        ([{**ONE, "nodes": ["cpu-0000"]}], "Invalid", "cpu-0000"),
        ([{"name": "one", "node_selector": {"pool": "none"}}], "NotFound", "one"),
        ([ONE, {"name": "two", "node_selector": {}}], "Invalid", "gpu-0000"),
        ([{**ONE, "kind": "vm-passthrough", "mig_layout": "all-1g.10gb"}], "Invalid", "mig_layout"),
        ([{**ONE, "kind": "vm-vgpu", "sharing": FOUR}], "Invalid", "sharing"),
        ([{"name": "one", "kind": "vm-vgpu", "node_selector": BY_PRODUCT}], "Invalid", "nvidia.com/gpu.product"),
        ([{"name": "one", "node_selector": {"nvidia.com/mig.config": "x"}}], "Invalid", "nvidia.com/mig.config"),
        ([{"name": "one", "node_selector": {"nvidia.com/gpu.deploy.driver": "true"}}], "Invalid", "deploy.driver"),
        ([{**ONE, "sharing": {"strategy": "time-slicing"}}], "Invalid", "one"),
    ],
)
def test_pools_that_cannot_be_meant(entries: list[Json], reason: str, named: str) -> None:
    with pytest.raises(GpuOpsError) as refused:
        assigned(*entries)
    assert refused.value.reason == reason and named in refused.value.msg


def test_a_cluster_without_gpu_nodes_has_none_to_choose() -> None:
    with pytest.raises(GpuOpsError, match="all"):
        NodePool("all", selector={}).chosen({"cpu-0000": cpu_node()})


def options(**given: t.Any) -> Json:
    return {**{name: option.get("default") for name, option in SPEC.options.items()}, "pools": [], **given}


def test_what_a_call_asks_for() -> None:
    request = request_of(options(pools=[ONE], canary=["gpu-0000"], stop_machines=True))
    assert [pool.name for pool in request.pools] == ["one"] and request.stops_machines
    assert request.rollout.canaries == ["gpu-0000"] and request_of(options(canary=1)).rollout.canaries == []
    with pytest.raises(GpuOpsError, match="one"):
        request_of(options(pools=[ONE, ONE]))
