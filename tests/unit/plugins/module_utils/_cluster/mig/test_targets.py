# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.targets import targets
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.stack import cpu_node, node

NODES = [node(0), node(1), cpu_node()]
EVERY = {"nvidia.com/gpu.present": True}


def chosen(**options: t.Any) -> dict[str, str]:
    return targets(
        NODES, {**dict.fromkeys(("layouts", "layout", "nodes", "node_selector")), "state": "present", **options}
    )


def test_one_layout_for_named_or_selected_nodes() -> None:
    assert chosen(layout="x", nodes=["gpu-0001", "gpu-0001"]) == {"gpu-0001": "x"}
    assert chosen(layout="x", node_selector=EVERY) == {"gpu-0000": "x", "gpu-0001": "x"}
    assert chosen(layout="x", node_selector={}) == {"gpu-0000": "x", "gpu-0001": "x"}, (
        "nodes without a GPU are left out"
    )
    assert chosen(layout="x", nodes=[]) == {}


def test_a_layout_for_each_group_may_name_a_node_twice_if_it_is_the_same() -> None:
    both = [{"layout": "x", "nodes": ["gpu-0000"]}, {"layout": "x", "node_selector": EVERY}]
    assert chosen(layouts=both) == {"gpu-0000": "x", "gpu-0001": "x"}
    with pytest.raises(GpuOpsError, match=r"two are asked for gpu-0000 \(y and x\)"):
        chosen(layouts=[{"layout": "y", "nodes": ["gpu-0000"]}, {"layout": "x", "node_selector": EVERY}])


def test_absent_means_whole_gpus() -> None:
    assert chosen(state="absent", nodes=["gpu-0000"]) == {"gpu-0000": "all-disabled"}
    same = [{"layout": "x", "nodes": ["gpu-0000"]}, {"layout": "y", "nodes": ["gpu-0001"]}]
    assert chosen(state="absent", layouts=same) == {"gpu-0000": "all-disabled", "gpu-0001": "all-disabled"}
    with pytest.raises(GpuOpsError, match="leave out layout"):
        chosen(state="absent", layout="x", nodes=["gpu-0000"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layout": "x", "nodes": ["gone"]}, "no node gone"),
        ({"layout": "x", "node_selector": {"pool": "a"}}, "No GPU node has the labels {'pool': 'a'}"),
        ({"nodes": ["gpu-0000"]}, "layout is missing"),
        ({"layouts": [{"layout": "x"}]}, "either nodes or node_selector for the layout x"),
        ({"layouts": [{"layout": "x", "nodes": [], "node_selector": {}}]}, "either nodes or node_selector"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(options: dict, said: str) -> None:
    with pytest.raises(GpuOpsError, match=said.replace("{", "\\{").replace("}", "\\}")):
        chosen(**options)


@pytest.mark.parametrize("suffix", ["", "-MIG-1g.10gb", "-MIG-1g.10gb.me-SHARED", "-SHARED", "-MIG-INVALID"])
def test_a_selector_still_finds_a_node_whose_product_has_got_a_suffix(suffix: str) -> None:
    made = node(0)
    made["metadata"]["labels"]["nvidia.com/gpu.product"] += suffix
    unset = dict.fromkeys(("layouts", "nodes"))
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    options = {**unset, "state": "present", "layout": "x", "node_selector": selector}
    assert targets([made, cpu_node()], options) == {"gpu-0000": "x"}
