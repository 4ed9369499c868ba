# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reasons why GPU nodes keep a stack from being ready."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import Tolerance
from inline_snapshot import snapshot as wording

from tests.unit.fakes.claimed import offered, slice_of
from tests.unit.fakes.judged import (
    codes,
    edited,
    reason,
    roll,
    set_labels,
    troubled,
    verdict,
)
from tests.unit.fakes.stack import COMPONENT_LABELS, Stack, cpu_node, policy, progress, ready

# How many nodes there are


@pytest.mark.parametrize(("min_nodes", "state"), [(1, "progressing"), (0, "ready")])
@pytest.mark.parametrize("labelled", [True, False])
def test_no_gpu_node(min_nodes: int, state: str, labelled: bool) -> None:
    """A pool that is scaled down to zero, or whose first node joins in a minute, is no failure."""
    node = cpu_node()
    if not labelled:
        node["metadata"]["labels"] = {}
    found = verdict(edited(ready(0), 100), Tolerance(min_nodes=min_nodes), nodes=[node])
    assert found.state == state and found.reasons[0].code == ("NoGPUNodes" if labelled else "NoNFDLabels")
    assert found.reasons[0].remedy


def test_a_cluster_without_feature_discovery_ends_a_long_wait() -> None:
    node = cpu_node()
    node["metadata"]["labels"] = {}
    assert verdict(ready(0), nodes=[node], waited_s=200).state == "progressing"
    assert verdict(ready(0), nodes=[node], waited_s=301).state == "failed"
    assert verdict(ready(0), Tolerance(min_nodes=0), nodes=[node], waited_s=301).state == "ready"
    assert verdict(ready(0), nodes=[cpu_node()], waited_s=10_000).state == "progressing"


def test_fewer_gpu_nodes_than_there_must_be() -> None:
    found = verdict(ready(2), Tolerance(min_nodes=3))
    assert found.state == "progressing" and found.message == wording(
        "2 GPU nodes are left, but min_nodes is 3. Add GPU nodes, repair those that are left out, or correct min_nodes."
    )
    assert verdict(ready(2), Tolerance(min_nodes=2)).state == "ready"


def down(stack: Stack, number: int) -> Stack:
    """Power a node off: the kubelet does not report, and its pods are not available."""
    stack.nodes[number]["status"]["conditions"][0]["status"] = "Unknown"
    for item in stack.daemonsets.values():
        item["status"]["numberAvailable"] -= 1
    return stack


def test_a_node_that_is_down_blocks_unless_it_is_excluded() -> None:
    stack = down(ready(3), 1)
    assert verdict(stack).state == "progressing"
    found = verdict(stack, Tolerance(exclude_nodes=("gpu-0001",)))
    assert found.state == "ready" and codes(found) == ["NodesExcluded"]
    assert found.message == (
        wording("The GPU stack is ready: 2 of 2 GPU nodes have allocatable GPUs. 1 other GPU node is left out.")
    )
    message = reason(found, "NodesExcluded").message
    assert message == wording("1 of 3 GPU nodes (gpu-0001): exclude_nodes names them, so they are not judged.")
    driver = next(item for item in found.operands if item.operand == "driver")
    assert (driver.state, driver.expected, driver.desired, driver.updated, driver.available) == ("ready", 2, 2, 2, 2)


def test_only_the_selected_nodes_are_judged() -> None:
    stack = set_labels(down(ready(3), 1), 1, pool="a")
    assert verdict(stack, Tolerance("pool=a")).state == "ready"
    assert verdict(stack, Tolerance("pool!=a")).state == "progressing"
    found = verdict(stack, Tolerance("pool=b"))
    assert found.state == "progressing" and codes(found) == ["NodesNotSelected", "TooFewNodes"]
    assert found.message.startswith("3 of 3 GPU nodes (gpu-0000, gpu-0001, gpu-0002): node_selector does not select")
    assert verdict(stack, Tolerance("pool=b", min_nodes=0)).state == "ready"


def test_as_many_unready_nodes_as_are_tolerated_do_not_block() -> None:
    stack = down(down(ready(4), 1), 2)
    assert verdict(stack, Tolerance(max_unready="1")).state == "progressing"
    for limit in ("2", "50%"):
        found = verdict(stack, Tolerance(max_unready=limit))
        assert found.state == "ready" and codes(found) == ["NodesTolerated"]
        assert reason(found, "NodesTolerated").message.startswith("2 of 4 GPU nodes (gpu-0001, gpu-0002): ")
        assert found.message == wording(
            "The GPU stack is ready: 2 of 2 GPU nodes have allocatable GPUs. 2 other GPU nodes are left out."
        )
    assert verdict(stack, Tolerance(max_unready="2", min_nodes=3)).reasons[0].code == "TooFewNodes"


def test_nodes_that_are_fine_are_not_left_out_as_tolerated() -> None:
    found = verdict(ready(4), Tolerance(max_unready="100%"))
    assert found.state == "ready" and codes(found) == [] and found.nodes_total == 4


def test_a_pod_in_trouble_makes_its_node_unready() -> None:
    stack = roll(ready(3), "nvidia-dcgm-exporter", 3, 3, 3, 2)
    trouble = troubled("nvidia-dcgm-exporter", "CrashLoopBackOff", restarts=9)
    assert verdict(stack, troubled=trouble).state == "failed"
    found = verdict(stack, Tolerance(max_unready="1"), troubled=trouble)
    assert found.state == "ready" and codes(found) == ["NodesTolerated"]


def test_a_pod_of_an_old_revision_makes_its_node_unready() -> None:
    stack = roll(ready(3), "nvidia-dcgm-exporter", 3, 3, 2, 3)
    outdated = {"nvidia-dcgm-exporter": frozenset({"gpu-0002"})}
    assert verdict(stack, outdated=outdated).state == "progressing"
    found = verdict(stack, Tolerance(max_unready="1"), outdated=outdated)
    assert found.state == "ready" and codes(found) == ["NodesTolerated"]


def test_a_fleet_for_virtual_machines_only() -> None:
    spec = {"sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-passthrough"}}
    stack = ready(2, **spec)
    for item in stack.daemonsets.values():
        item["status"].update(progress(0, 0, 0, 0))
    found = verdict(stack)
    assert found.state == "progressing" and codes(found) == ["VirtualMachineNodes", "TooFewNodes"]
    assert found.message == wording(
        "2 of 2 GPU nodes (gpu-0000, gpu-0001): they are for virtual machines (label nvidia.com/gpu.workload.config, or sandboxWorkloads.defaultWorkload), so they offer no GPUs to containers. (1 more)"
    )
    assert verdict(stack, Tolerance(min_nodes=0)).state == "ready"


def test_a_node_that_is_switched_off_does_not_block_when_it_is_down() -> None:
    stack = set_labels(ready(2), 1, **{"nvidia.com__gpu.deploy.operands": "false"})
    for key in COMPONENT_LABELS.values():
        stack.nodes[0]["metadata"]["labels"].pop(key)
    stack.nodes[0]["status"]["conditions"][0]["status"] = "Unknown"
    for item in stack.daemonsets.values():
        item["status"].update(progress(1, 1, 1, 1))
    found = verdict(stack)
    assert found.state == "ready" and codes(found) == ["OperandsSwitchedOff"] and found.nodes_total == 1


# Taints, cordons and kubelets


def taint(stack: Stack, count: int, effect: str = "NoSchedule") -> Stack:
    for node in stack.nodes[:count]:
        node["spec"]["taints"] = [{"key": "dedicated", "value": "training", "effect": effect}]
    for item in stack.daemonsets.values():
        item["status"].update(progress(*[len(stack.nodes) - count] * 4))
    return stack


def test_every_gpu_node_tainted() -> None:
    found = verdict(taint(ready(2), 2))
    assert found.state == "progressing" and found.reasons[0].code == "NodesTainted"
    assert verdict(taint(ready(2), 2), waited_s=61).state == "failed"
    assert "dedicated=training:NoSchedule" in found.message and "daemonsets.tolerations" in found.message
    twice = taint(ready(1), 1)
    twice.nodes[0]["spec"]["taints"].append({"key": "later", "effect": "NoSchedule"})
    assert "dedicated=training:NoSchedule" in verdict(twice).message, "the first one is named"


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
    assert found.state == "progressing" and found.reasons[0].code == "OperandsSwitchedOff"
    assert verdict(stack, waited_s=61).state == "failed"
    assert verdict(stack, Tolerance(min_nodes=0), waited_s=61).state == "ready"


def test_cordoned_nodes_are_a_note_unless_there_is_no_other() -> None:
    stack = ready(2)
    stack.nodes[1]["spec"]["unschedulable"] = True
    found = verdict(stack)
    assert found.state == "ready" and codes(found) == ["NodesCordoned"]
    assert "1 of 2 GPU nodes (gpu-0001): cordoned" in found.reasons[0].message
    stack.nodes[0]["spec"]["unschedulable"] = True
    stack.nodes[0]["metadata"]["annotations"] = {"weave.works/kured-reboot-in-progress": "2026-01-01T00:00:00Z"}
    assert "cordoned (with marks of kured), so no new pod" in verdict(stack).message
    stack.nodes[0]["metadata"]["annotations"] = {}
    found = verdict(stack)
    assert found.state == "progressing" and "2 of 2 GPU nodes (gpu-0000, gpu-0001): cordoned" in found.message


def test_a_node_that_is_not_ready() -> None:
    stack = ready(2)
    stack.nodes[1]["status"]["conditions"][0]["status"] = "Unknown"
    found = verdict(stack)
    assert found.state == "progressing" and "1 of 2 GPU nodes (gpu-0001)" in found.message and found.nodes_ready == 1


def test_a_message_names_a_few_nodes_and_counts_the_others() -> None:
    stack = ready(8)
    for node in stack.nodes:
        node["status"]["conditions"][0]["status"] = "Unknown"
    assert verdict(stack).message == wording(
        "8 of 8 GPU nodes (gpu-0000, gpu-0001, gpu-0002, gpu-0003, gpu-0004, and 3 more): the kubelet does not report Ready. See `kubectl describe node`."
    )


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


def without_device_plugin() -> Stack:
    stack = ready(2, devicePlugin={"enabled": False})
    del stack.daemonsets["nvidia-device-plugin-daemonset"]
    for node in stack.nodes:
        node["status"]["allocatable"]["nvidia.com/gpu"] = node["status"]["capacity"]["nvidia.com/gpu"] = "0"
    return stack


def test_without_a_device_plugin_something_else_must_offer_the_gpus() -> None:
    found = verdict(without_device_plugin())
    assert found.state == "progressing" and codes(found) == ["NoAllocatableGPUs"]
    assert "no ResourceSlice of gpu.nvidia.com offers their GPUs" in found.message
    assert "Set devicePlugin.enabled: true" in found.message


def test_gpus_that_can_be_claimed_need_no_device_plugin() -> None:
    found = verdict(without_device_plugin(), offered=offered(slice_of(0), slice_of(1)))
    assert found.state == "ready"
    found = verdict(without_device_plugin(), offered=offered(slice_of(0)))
    assert found.state == "progressing" and reason(found, "NoAllocatableGPUs").node == "gpu-0001"


def test_another_device_plugin_may_offer_the_gpus() -> None:
    stack = ready(2, devicePlugin={"enabled": False})
    del stack.daemonsets["nvidia-device-plugin-daemonset"]
    assert verdict(stack).state == "ready"


def test_mig_devices_are_gpus() -> None:
    stack = ready(1)
    for field in ("capacity", "allocatable"):
        stack.nodes[0]["status"][field] = {"nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu": "0"}
    assert verdict(stack).state == "ready"


def test_a_node_with_fewer_gpus_than_it_has_is_not_ready() -> None:
    stack = ready(2)
    stack.nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    found = verdict(stack)
    assert found.state == "progressing" and codes(found) == ["UnhealthyGPUs"]
    assert "gpu-0000 lacks 1 of its GPUs" in found.message and "Xid" in found.message
    assert verdict(stack, Tolerance(max_unready="1")).state == "ready"


@pytest.mark.parametrize(("state", "expected"), [("pending", "MIGChange"), ("rebooting", "MIGChange")])
def test_a_mig_change_is_waited_for(state: str, expected: str) -> None:
    found = verdict(set_labels(ready(2), 1, **{"nvidia.com__mig.config.state": state}))
    assert found.state == "progressing" and codes(found) == [expected]


def test_a_mig_change_that_failed() -> None:
    failed = {"nvidia.com__mig.config.state": "failed", "nvidia.com__mig.config": "all-1g.10gb"}
    found = verdict(set_labels(ready(2), 1, **failed))
    assert found.state == "failed" and codes(found) == ["MIGFailed"]
    assert "all-1g.10gb could not be applied" in found.message and "MIG manager's pod" in found.message
    without = set_labels(ready(2, migManager={"enabled": False}), 1, **failed)
    del without.daemonsets["nvidia-mig-manager"]
    assert verdict(without).state == "ready"


def test_mig_devices_that_do_not_fit_the_strategy() -> None:
    found = verdict(set_labels(ready(2), 1, **{"nvidia.com__gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID"}))
    assert found.state == "progressing" and codes(found) == ["MIGInvalid"] and "mig.strategy: mixed" in found.message


def layout(name: str, product: str = "NVIDIA-H100-80GB-HBM3", **more: str) -> Stack:
    """Return a stack of which one node counts as having this layout."""
    labels = {"config": name, "config.state": "success", "strategy": "single"}
    labels = {f"nvidia.com__mig.{key}": value for key, value in labels.items()} | {"nvidia.com__gpu.product": product}
    return set_labels(ready(2), 1, **{**labels, **more})


def test_a_layout_that_counts_as_applied_and_is_not_there() -> None:
    found = verdict(layout("all-1g.10gb"))
    assert found.state == "progressing" and codes(found) == ["MIGNotApplied"]
    assert "the layout all-1g.10gb counts as applied, but gpu-0000 offers undivided GPUs" in found.message
    other = verdict(layout("all-2g.20gb", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"))
    assert codes(other) == ["MIGNotApplied"] and "gpu-0000 offers 1g.10gb" in other.message
    left = verdict(layout("all-disabled", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"))
    assert codes(left) == ["MIGNotApplied"]


@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("all-1g.10gb", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"),
        ("all-1g.10gb.me", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gbme-SHARED"),
        ("all-disabled", "NVIDIA-H100-80GB-HBM3"),
        ("all-balanced", "NVIDIA-H100-80GB-HBM3"),
        ("mine", "NVIDIA-H100-80GB-HBM3"),
    ],
)
def test_a_layout_that_is_there_or_that_only_its_map_knows(name: str, product: str) -> None:
    assert verdict(layout(name, product)).state == "ready"


def test_without_a_strategy_nobody_shows_mig_devices() -> None:
    assert verdict(layout("all-1g.10gb", **{"nvidia.com__mig.strategy": "none"})).state == "ready"


def test_a_layout_on_a_node_without_a_mig_manager() -> None:
    stack = set_labels(ready(2), 1, **{"nvidia.com__mig.config": "all-1g.10gb"})
    del stack.nodes[0]["metadata"]["labels"]["nvidia.com/gpu.deploy.mig-manager"]
    found = verdict(roll(stack, "nvidia-mig-manager", 1, 1, 1, 1))
    assert codes(found) == ["MIGIgnored"] and "mig.config=all-1g.10gb has no effect" in found.message
    stack.nodes[0]["metadata"]["labels"]["nvidia.com/mig.config"] = "all-disabled"
    assert verdict(stack).state == "ready"


# Driver upgrades


def waiting(driver: dict, out: int) -> Stack:
    """Let nodes of a policy with this driver wait for their upgrade while ``out`` others are cordoned."""
    stack = ready(4)
    stack.policies[0]["spec"]["driver"] = driver
    for number, node in enumerate(stack.nodes):
        if number < out:
            node["spec"]["unschedulable"] = True
        else:
            node["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = "upgrade-required"
    return stack


@pytest.mark.parametrize(("waited_s", "state"), [(300, "progressing"), (301, "failed")])
def test_a_cordoned_node_stops_the_upgrade_of_all_others(waited_s: float, state: str) -> None:
    found = verdict(waiting({"upgradePolicy": {"autoUpgrade": True}}, 1), waited_s=waited_s)
    assert found.state == state and found.reasons[0].code == "DriverUpgradeBlocked"
    assert found.message == wording(
        "3 of 4 GPU nodes (gpu-0001, gpu-0002, gpu-0003): their driver upgrade cannot begin: gpu-0000 uses up maxUnavailable: 25%. (1 more) Repair or uncordon the nodes that are out, or raise the limit in driver.upgradePolicy."
    )


@pytest.mark.parametrize(
    "driver",
    [
        {"upgradePolicy": {"autoUpgrade": False}},
        {"upgradePolicy": {"autoUpgrade": True}, "useNvidiaDriverCRD": True},
        {"upgradePolicy": {"autoUpgrade": True, "maxUnavailable": 2}},
    ],
)
def test_an_upgrade_that_is_not_the_policys_or_has_a_free_place(driver: dict) -> None:
    assert "DriverUpgradeBlocked" not in codes(verdict(waiting(driver, 1)))


def test_a_node_that_is_kept_out_of_upgrades_does_not_block() -> None:
    skipped = {
        "nvidia.com__gpu-driver-upgrade.skip": "true",
        "nvidia.com__gpu-driver-upgrade-state": "upgrade-required",
    }
    stack = roll(set_labels(ready(3), 1, **skipped), "nvidia-driver-daemonset", 3, 3, 2, 3)
    found = verdict(stack, outdated={"nvidia-driver-daemonset": frozenset({"gpu-0000"})})
    assert found.state == "ready" and codes(found) == ["UpgradeSkipped"]
    assert "nvidia.com/gpu-driver-upgrade.skip=true" in found.reasons[0].message


def test_only_the_skipped_nodes_pod_may_be_outdated() -> None:
    stack = roll(
        set_labels(ready(3), 1, **{"nvidia.com__gpu-driver-upgrade.skip": "true"}),
        "nvidia-driver-daemonset",
        3,
        3,
        1,
        3,
    )
    outdated = {"nvidia-driver-daemonset": frozenset({"gpu-0000", "gpu-0001"})}
    assert verdict(stack, outdated=outdated).state != "ready"


def test_a_failed_upgrade_says_why() -> None:
    stack = set_labels(ready(2), 2, **{"nvidia.com__gpu-driver-upgrade-state": "upgrade-failed"})
    found = verdict(stack, upgrade_failures={"gpu-0001": "Failed to drain the node, timed out waiting for pods"})
    assert found.state == "failed" and found.message == (
        wording(
            "2 of 2 GPU nodes (gpu-0000, gpu-0001): the driver upgrade failed and the node stays cordoned. On gpu-0001: Failed to drain the node, timed out waiting for pods. Remove the cause, then run gpuops.nvidia.upgrade_driver with driver_container_state=recovered."
        )
    )
    assert verdict(stack).message == wording(
        "2 of 2 GPU nodes (gpu-0000, gpu-0001): the driver upgrade failed and the node stays cordoned. Remove the cause (see the log of the driver's pod on gpu-0000), then run gpuops.nvidia.upgrade_driver with driver_container_state=recovered."
    )


# Taints and the device plugin


def test_the_taint_of_gpu_nodes_is_tolerated_by_default() -> None:
    stack = ready(2)
    for node in stack.nodes:
        node["spec"]["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert verdict(stack).state == "ready" and codes(verdict(stack)) == []


def test_a_tainted_node_need_not_offer_gpus() -> None:
    stack = taint(ready(2), 1)
    stack.nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert codes(verdict(stack)) == ["NodesTainted"]


def test_a_device_plugin_that_is_disabled_is_not_switched_off_as_well() -> None:
    stack = without_device_plugin()
    for node in stack.nodes:
        node["metadata"]["labels"]["nvidia.com/gpu.deploy.device-plugin"] = "false"
    assert "DevicePluginSwitchedOff" not in codes(verdict(stack))


def test_an_absent_enabled_means_that_the_device_plugin_is_wanted() -> None:
    stack = set_labels(ready(2, devicePlugin={}), 1, **{"nvidia.com__gpu.deploy.device-plugin": "false"})
    roll(stack, "nvidia-device-plugin-daemonset", 1, 1, 1, 1)
    assert codes(verdict(stack)) == ["DevicePluginSwitchedOff"]


def test_upgrades_of_the_driver_replace_no_pods_of_other_operands() -> None:
    stack = roll(ready(2, driver={"upgradePolicy": {"autoUpgrade": True}}), "nvidia-dcgm-exporter", 2, 2, 1, 2)
    stack.daemonsets["nvidia-dcgm-exporter"]["spec"]["updateStrategy"]["type"] = "OnDelete"
    found = verdict(stack)
    assert found.state == "failed" and "PodsOutdated" in codes(found)
