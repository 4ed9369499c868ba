# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.layout_request import LayoutWish
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.targets import of_others, targets
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import cpu_node, node

NODES = [node(0), node(1), cpu_node()]
EVERY = {"nvidia.com/gpu.present": "true"}


def chosen(*wishes: LayoutWish) -> dict[str, str]:
    return targets(NODES, wishes)


def test_one_layout_for_named_or_selected_nodes() -> None:
    assert chosen(LayoutWish("x", nodes=("gpu-0001",))) == {"gpu-0001": "x"}
    assert chosen(LayoutWish("x", selector=EVERY)) == {"gpu-0000": "x", "gpu-0001": "x"}
    every = {"gpu-0000": "x", "gpu-0001": "x"}
    assert chosen(LayoutWish("x", selector={})) == every, "nodes without a GPU are left out"
    assert chosen(LayoutWish("x")) == every and chosen(LayoutWish("x", nodes=())) == {}


def layout_of(name: str, label: str, mark: str | None, notes: dict[str, str] | None = None) -> dict:
    made = node(int(name))
    made["metadata"]["labels"]["nvidia.com/mig.config"] = label
    made["metadata"]["annotations"] = {**(notes or {}), **({"gpuops.nvidia/mig": mark} if mark else {})}
    return made


def test_an_end_by_labels_takes_only_layouts_that_this_collection_has_set() -> None:
    ours = layout_of("0", "all-1g.10gb", "all-1g.10gb")
    theirs = layout_of("1", "all-1g.10gb", None)
    changed_since = layout_of("2", "all-2g.20gb", "all-1g.10gb")
    whole = layout_of("3", "all-disabled", None)
    held = layout_of("4", "all-1g.10gb", None, {"gpuops.nvidia/maintenance.mig": "{}"})
    every = [ours, theirs, changed_since, whole, held, cpu_node()]
    end = [LayoutWish("all-disabled", is_end=True)]
    assert list(targets(every, end)) == ["gpu-0000", "gpu-0003", "gpu-0004"]
    assert of_others(every, end) == ["gpu-0001", "gpu-0002"]
    by_label = [LayoutWish("all-disabled", selector=EVERY, is_end=True)]
    assert targets(every, by_label) == targets(every, end) and of_others(every, by_label) == of_others(every, end)
    assert targets([theirs], by_label) == {}, "a selector that finds only layouts of others is no mistake"
    by_name = [LayoutWish("all-disabled", nodes=("gpu-0001",), is_end=True)]
    assert list(targets(every, by_name)) == ["gpu-0001"] and of_others(every, by_name) == []
    assert len(targets(every, [LayoutWish("x")])) == 5 and of_others(every, [LayoutWish("x")]) == []


def test_a_layout_for_each_group_may_name_a_node_twice_if_it_is_the_same() -> None:
    by_label = LayoutWish("x", selector=EVERY)
    assert chosen(LayoutWish("x", nodes=("gpu-0000",)), by_label) == {"gpu-0000": "x", "gpu-0001": "x"}
    with pytest.raises(GpuOpsError) as error:
        chosen(LayoutWish("y", nodes=("gpu-0000",)), by_label)
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "The layouts overlap: two are asked for gpu-0000 (y and x). Change the selectors, so that each node is in one of them."
    )


def test_a_choice_of_no_node_is_refused() -> None:
    with pytest.raises(GpuOpsError) as error:
        chosen(LayoutWish("x", nodes=("gone", "gpu-0000")))
    assert error.value.reason == "NotFound"
    assert error.value.msg == wording("The cluster has no node gone. Correct the option nodes.")
    with pytest.raises(GpuOpsError) as error:
        chosen(LayoutWish("x", selector={"pool": "a"}))
    assert error.value.reason == "NotFound"
    assert error.value.msg == wording("No GPU node has the labels {'pool': 'a'}. Correct the option node_selector.")


@pytest.mark.parametrize(
    "suffix", ["", "-MIG-1g.10gb", "-MIG-1g.10gb.me-SHARED", "-SHARED", "-MIG-INVALID", "-MIG-1g.24gb-me"]
)
def test_a_selector_still_finds_a_node_whose_product_has_got_a_suffix(suffix: str) -> None:
    made = node(0)
    made["metadata"]["labels"]["nvidia.com/gpu.product"] += suffix
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert targets([made, cpu_node()], [LayoutWish("x", selector=selector)]) == {"gpu-0000": "x"}


@pytest.mark.parametrize("shown", [None, "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Ed-MIG-1g.24gb"])
def test_a_selector_still_finds_a_node_whose_product_is_too_long_for_its_label(shown: str | None) -> None:
    made, whole = node(0), "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition"
    made["metadata"]["annotations"] = {"gpuops.nvidia/gpu-product": whole}
    del made["metadata"]["labels"]["nvidia.com/gpu.product"]
    made["metadata"]["labels"] |= {"nvidia.com/gpu.product": shown} if shown else {}
    wish = LayoutWish("x", selector={"nvidia.com/gpu.product": whole})
    assert targets([made], [wish]) == {"gpu-0000": "x"}
    made["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-L40S"
    with pytest.raises(GpuOpsError):
        targets([made], [wish])
