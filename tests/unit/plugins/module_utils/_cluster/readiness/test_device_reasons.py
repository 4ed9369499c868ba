# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Devices that cannot all be claimed, or that are offered twice."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Verdict
from inline_snapshot import snapshot as wording

from tests.unit.fakes.claimed import GPUCLUSTER, claimed, gpu, offered, slice_of, taint
from tests.unit.fakes.judged import codes, reason, roll, troubled, verdict
from tests.unit.fakes.stack import Json, ready


def judged(*slices: Json, rules: t.Sequence[Json] = (), **changes: t.Any) -> Verdict:
    facts: Json = {"gpuclusters": [GPUCLUSTER], "offered": offered(*slices, rules=rules)}
    return verdict(claimed(2), **{**facts, **changes})


def test_every_node_with_a_whole_pool_is_ready() -> None:
    found = judged(slice_of(0), slice_of(1))
    assert (found.state, codes(found), found.nodes_ready) == ("ready", [], 2)


def test_a_pool_without_all_its_slices_gives_nothing() -> None:
    found = judged(slice_of(0, total=3), slice_of(1))
    assert (found.state, codes(found), found.nodes_ready) == ("progressing", ["PoolIncomplete"], 1)
    assert reason(found, "PoolIncomplete").message == wording(
        "1 of 2 GPU nodes (gpu-0000): the scheduler allocates none of their GPUs, because generation 1 of the pool gpu-0000 lacks 2 ResourceSlices."
    )
    assert reason(found, "PoolIncomplete").operand == "dra-driver"


def test_slices_of_a_former_generation_do_not_count() -> None:
    found = judged(slice_of(0), slice_of(0, gpu(0), generation=2, total=2), slice_of(1))
    assert codes(found) == ["PoolIncomplete"]
    found = judged(slice_of(0, total=5), slice_of(0, gpu(0), generation=2), slice_of(1))
    assert codes(found) == []


def test_a_slice_without_devices() -> None:
    empty = slice_of(0)
    empty["spec"]["devices"] = []
    found = judged(empty, slice_of(1))
    assert (codes(found), found.nodes_ready) == (["NoDevices"], 1)


def test_a_node_that_is_switched_off_counts_since_a_gpucluster_ignores_the_label() -> None:
    stack = claimed(2)
    stack.nodes[0]["metadata"]["labels"]["nvidia.com/gpu.deploy.operands"] = "false"
    found = verdict(stack, gpuclusters=[GPUCLUSTER], offered=offered(slice_of(0), slice_of(1)))
    assert (found.state, codes(found), found.nodes_ready, found.nodes_total) == ("ready", [], 2, 2)
    found = verdict(stack, gpuclusters=[GPUCLUSTER], offered=offered(slice_of(1)))
    assert (codes(found), found.nodes_total) == (["NoAllocatableGPUs"], 2)


def test_a_node_without_a_slice() -> None:
    found = judged(slice_of(1))
    assert codes(found) == ["NoAllocatableGPUs"]
    assert reason(found, "NoAllocatableGPUs").message == wording(
        "1 of 2 GPU nodes (gpu-0000): no ResourceSlice of gpu.nvidia.com offers their GPUs."
    )
    assert reason(found, "NoAllocatableGPUs").remedy == wording(
        "See the log of the container gpus of nvidia-dra-driver-kubelet-plugin on the node."
    )


@pytest.mark.parametrize(("effect", "found"), [("NoSchedule", 1), ("NoExecute", 1), ("None", 0)])
def test_a_taint_keeps_claims_from_a_device(effect: str, found: int) -> None:
    lost = {**gpu(1), "taints": [taint(effect=effect)]}
    seen = judged(slice_of(0, gpu(0), lost), slice_of(1))
    assert codes(seen) == ["DevicesTainted"] * found
    assert seen.nodes_ready == 2, "the other GPU can be claimed"


def test_what_to_do_about_a_taint() -> None:
    lost = {**gpu(1), "taints": [taint()]}
    found = reason(judged(slice_of(0, gpu(0), lost), slice_of(1)), "DevicesTainted")
    assert found.message == wording(
        "1 of 2 GPU nodes (gpu-0000): gpu-0000 has 1 of 2 devices with a taint (gpu.nvidia.com/xid=79:NoSchedule)."
    )
    assert found.remedy == wording(
        "The driver sets taints after errors of GPUs: look for Xid errors in the kernel log, and reset the GPU or reboot the node. A restart of the plugin's pod removes the taint and repairs nothing."
    )


def test_a_rule_of_the_cluster_taints_devices_too() -> None:
    rule = {
        "metadata": {"name": "hot-rack"},
        "spec": {
            "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "gpu-0001"},
            "taint": {"key": "example.com/hot", "effect": "NoExecute"},
        },
    }
    found = judged(slice_of(0), slice_of(1), rules=[rule])
    assert (codes(found), found.nodes_ready) == (["DevicesTainted"], 1)
    assert "hot-rack" in reason(found, "DevicesTainted").remedy
    assert reason(found, "DevicesTainted").node == "gpu-0001"


def test_gpus_that_two_offer_are_named() -> None:
    found = verdict(ready(2), offered=offered(slice_of(1)))
    assert (found.state, codes(found)) == ("ready", ["OfferedTwice"])
    assert reason(found, "OfferedTwice").node == "gpu-0001"
    assert reason(found, "OfferedTwice").message == wording(
        "1 of 2 GPU nodes (gpu-0001): the device plugin and gpu.nvidia.com both offer their GPUs, so that two pods can get the same one."
    )


def test_nobody_installs_the_driver() -> None:
    stack = claimed(2)
    roll(stack, "nvidia-dra-driver-kubelet-plugin", 2, 2, 2, 0)
    waits = troubled(
        "nvidia-dra-driver-kubelet-plugin", "Init:0/1", cause="container driver-validation is still running"
    )
    facts: Json = {"gpuclusters": [GPUCLUSTER], "offered": offered(slice_of(0), slice_of(1)), "troubled": waits}
    found = verdict(stack, **facts)
    assert codes(found)[0] == "NoNVIDIADriver"
    assert (reason(found, "NoNVIDIADriver").message, reason(found, "NoNVIDIADriver").remedy) == wording(
        (
            "1 nodes have no driver: there is no NVIDIADriver, and a GPUCluster installs none.",
            "Create an NVIDIADriver (driver.nvidiaDriverCRD.enabled in the Helm values), or use role host_driver.",
        )
    )
    driver = {"metadata": {"name": "default"}, "spec": {}, "status": {"state": "ready"}}
    changes: tuple[Json, ...] = ({"nvidiadrivers": [driver]}, {"unreadable": ("NVIDIADrivers",)}, {"troubled": {}})
    for change in changes:
        said = [item.message for item in verdict(stack, **{**facts, **change}).reasons]
        assert not any("a GPUCluster installs none" in message for message in said), "it may come, or is unknown"


def test_operands_of_a_gpucluster_are_rolled_out() -> None:
    stack = claimed(2)
    del stack.daemonsets["nvidia-dra-validator"]
    facts: Json = {"gpuclusters": [GPUCLUSTER], "offered": offered(slice_of(0), slice_of(1))}
    found = verdict(stack, **facts)
    assert (codes(found), reason(found, "OperandMissing").operand) == (["OperandMissing"], "dra-validator")
    wanted = {"draDriver": {"repository": "nvcr.io/nvidia", "image": "dra-driver", "version": "v1"}, "dcgmExporter": {}}
    found = verdict(claimed(2), **{**facts, "gpuclusters": [{**GPUCLUSTER, "spec": wanted}]})
    assert {item.operand for item in found.reasons} == {"dra-driver", "dcgm-exporter-dra"}
