# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reasons why GPU nodes keep a stack from being ready."""

from __future__ import annotations

import pytest

from tests.unit.fakes.stack import COMPONENT_LABELS, Stack, cpu_node, policy, progress, ready
from tests.unit.plugins.module_utils._cluster.readiness.judged import codes, edited, reason, roll, set_labels, verdict


@pytest.mark.parametrize(("age", "state"), [(10, "progressing"), (100, "failed")])
@pytest.mark.parametrize("labelled", [True, False])
def test_no_gpu_node(age: float, state: str, labelled: bool) -> None:
    node = cpu_node()
    if not labelled:
        node["metadata"]["labels"] = {}
    found = verdict(edited(ready(0), age), nodes=[node])
    assert found.state == state and found.reasons[0].code == ("NoGPUNodes" if labelled else "NoNFDLabels")
    assert found.reasons[0].remedy


def taint(stack: Stack, count: int, effect: str = "NoSchedule") -> Stack:
    for node in stack.nodes[:count]:
        node["spec"]["taints"] = [{"key": "dedicated", "value": "training", "effect": effect}]
    for item in stack.daemonsets.values():
        item["status"].update(progress(*[len(stack.nodes) - count] * 4))
    return stack


def test_every_gpu_node_tainted() -> None:
    found = verdict(taint(ready(2), 2))
    assert found.state == "failed" and found.reasons[0].code == "NodesTainted"
    assert "dedicated=training:NoSchedule" in found.message and "daemonsets.tolerations" in found.message


def test_some_gpu_nodes_tainted_are_a_note() -> None:
    found = verdict(taint(ready(3), 1))
    assert found.state == "ready" and (reason(found, "NodesTainted").count, reason(found, "NodesTainted").total) == (
        1,
        3,
    )


def test_a_taint_that_does_not_keep_pods_away() -> None:
    stack = taint(ready(2), 2, effect="PreferNoSchedule")
    for item in stack.daemonsets.values():
        item["status"].update(progress(2, 2, 2, 2))
    assert verdict(stack).state == "ready"


def test_every_gpu_node_switched_off() -> None:
    stack = set_labels(ready(2), 2, **{"nvidia.com__gpu.deploy.operands": "false"})
    found = verdict(stack)
    assert found.state == "failed" and found.reasons[0].code == "OperandsSwitchedOff"


def test_a_node_that_is_not_ready() -> None:
    stack = ready(2)
    stack.nodes[1]["status"]["conditions"][0]["status"] = "Unknown"
    found = verdict(stack)
    assert found.state == "progressing" and "1 of 2 GPU nodes (gpu-0001)" in found.message and found.nodes_ready == 1


def test_a_message_names_a_few_nodes_and_counts_the_others() -> None:
    stack = ready(8)
    for node in stack.nodes:
        node["status"]["conditions"][0]["status"] = "Unknown"
    examples = "gpu-0000, gpu-0001, gpu-0002, gpu-0003, gpu-0004, and 3 more"
    assert f"8 of 8 GPU nodes ({examples}): the kubelet does not report Ready." in verdict(stack).message


# Labels, upgrades and GPUs


def test_nodes_that_the_operator_has_not_labelled() -> None:
    stack = ready(2)
    for key in COMPONENT_LABELS.values():
        stack.nodes[1]["metadata"]["labels"].pop(key, None)
    for item in stack.daemonsets.values():
        item["status"].update(progress(1, 1, 1, 1))
    assert "NodesNotLabelled" in codes(verdict(stack))


@pytest.mark.parametrize("value", ["paused-for-driver-upgrade", "mine_paused-for-driver-upgrade"])
def test_operands_that_were_left_paused(value: str) -> None:
    stack = set_labels(ready(2), 1, **{"nvidia.com__gpu.deploy.dcgm": value})
    assert (
        "set the node's nvidia.com/gpu.deploy.* labels back to true" in reason(verdict(stack), "OperandsPaused").remedy
    )


def test_a_device_plugin_that_is_switched_off_is_a_note() -> None:
    stack = set_labels(ready(2), 1, **{"nvidia.com__gpu.deploy.device-plugin": "false"})
    roll(stack, "nvidia-device-plugin-daemonset", 1, 1, 1, 1)
    found = verdict(stack)
    assert found.state == "ready" and codes(found) == ["DevicePluginSwitchedOff"]


@pytest.mark.parametrize(
    ("upgrade", "state"), [("validation-required", "progressing"), ("upgrade-failed", "failed"), ("", "ready")]
)
def test_driver_upgrades(upgrade: str, state: str) -> None:
    """The operator is ready again while a node is still cordoned."""
    found = verdict(set_labels(ready(2), 1, **{"nvidia.com__gpu-driver-upgrade-state": upgrade}))
    assert found.state == state and (state == "ready" or upgrade in found.message or "stays cordoned" in found.message)


def test_no_allocatable_gpu() -> None:
    stack = ready(2)
    stack.nodes[1]["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    found = verdict(stack)
    assert found.state == "progressing" and codes(found) == ["NoAllocatableGPUs"] and found.nodes_ready == 1
    assert (
        verdict(Stack([policy(devicePlugin={"enabled": False})], *ready(2)[1:])).state == "progressing"
    )  # its DaemonSet is still there


def test_without_a_device_plugin_no_allocatable_gpu_is_expected() -> None:
    stack = ready(2, devicePlugin={"enabled": False})
    del stack.daemonsets["nvidia-device-plugin-daemonset"]
    for node in stack.nodes:
        node["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert verdict(stack).state == "ready"


def test_mig_devices_are_gpus() -> None:
    stack = ready(1)
    for field in ("capacity", "allocatable"):
        stack.nodes[0]["status"][field] = {"nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu": "0"}
    assert verdict(stack).state == "ready"


def test_unhealthy_gpus_are_a_note() -> None:
    stack = ready(2)
    stack.nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    found = verdict(stack)
    assert found.state == "ready" and codes(found) == ["UnhealthyGPUs"]
