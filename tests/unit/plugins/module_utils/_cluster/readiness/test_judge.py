# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stack in which all is well is ready; each test breaks it in one way and reads what the judge says of it."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.operands import OPERANDS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.judge import judge, last_write, suspects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Observation,
    PodRow,
    Reason,
    Verdict,
)

from tests.unit.stack import (
    COMPONENT_LABELS,
    LONG_AGO,
    NAMESPACE,
    NOW,
    Json,
    Stack,
    cpu_node,
    daemonset,
    policy,
    progress,
    ready,
)

DRIVER = "nvidia-driver-daemonset"
EXPORTER = "nvidia-dcgm-exporter"


def observed(stack: Stack, **changes: t.Any) -> Observation:
    facts: Json = {
        "name": "cluster-policy",
        "namespace": NAMESPACE,
        "policies": stack.policies,
        "gpuclusters": [],
        "daemonsets": list(stack.daemonsets.values()),
        "operators": stack.operators,
        "nodes": stack.nodes,
        "now": NOW,
    }
    return Observation(**{**facts, **changes})


def verdict(stack: Stack, **changes: t.Any) -> Verdict:
    return judge(observed(stack, **changes))


def reason(found: Verdict, code: str) -> Reason:
    return next(item for item in found.reasons if item.code == code)


def codes(found: Verdict) -> list[str]:
    return [item.code for item in found.reasons]


def stamp(seconds_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW - seconds_ago))


def written(stack: Stack, seconds_ago: float) -> Stack:
    stack.policies[0]["metadata"]["managedFields"] = [
        {"manager": "gpuops.nvidia", "time": stamp(seconds_ago)},
        {"manager": "gpu-operator", "time": stamp(0), "subresource": "status"},
    ]
    return stack


def set_labels(stack: Stack, count: int, **labels: str) -> Stack:
    for node in stack.nodes[:count]:
        node["metadata"]["labels"].update({key.replace("__", "/"): value for key, value in labels.items()})
    return stack


# All is well


def test_ready() -> None:
    found = verdict(ready(3))
    assert (found.state, found.reasons, found.nodes_ready, found.nodes_total) == ("ready", (), 3, 3)
    assert found.message == "The GPU stack is ready: 3 of 3 GPU nodes have allocatable GPUs."
    states = {rollout.operand: rollout.state for rollout in found.operands}
    assert states.pop("node-status-exporter") == "disabled" and set(states.values()) == {"ready"}
    assert suspects(observed(ready(3))) == []


def test_nodes_without_gpus_do_not_count() -> None:
    stack = ready(2)
    stack.nodes.append(cpu_node())
    assert verdict(stack).nodes_total == 2 and verdict(stack).state == "ready"


def test_nodes_for_virtual_machines_do_not_count() -> None:
    stack = ready(2, sandboxWorkloads={"enabled": True})
    stack.nodes[1]["metadata"]["labels"] = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.workload.config": "vm-passthrough",
    }
    for item in stack.daemonsets.values():
        item["status"].update(progress(1, 1, 1, 1))
    assert verdict(stack).state == "ready" and verdict(stack).nodes_total == 1


def test_a_host_driver_needs_no_driver_pod() -> None:
    stack = set_labels(ready(2), 2, **{"nvidia.com__gpu.deploy.driver": "pre-installed"})
    stack.daemonsets[DRIVER]["status"].update(progress(0, 0, 0, 0))
    assert verdict(stack).state == "ready"


def test_a_daemonset_that_is_no_operand_is_left_alone() -> None:
    stack = ready()
    other = daemonset(OPERANDS[0], 2)
    other["metadata"]["name"] = "node-feature-discovery-worker"
    other["status"].update(progress(2, 2, 0, 0))
    assert verdict(stack, daemonsets=[*stack.daemonsets.values(), other]).state == "ready"


# The ClusterPolicy


def test_no_crd() -> None:
    found = verdict(ready(), policies=None)
    assert found.state == "failed" and codes(found) == ["CRDMissing"]


def test_no_clusterpolicy() -> None:
    found = verdict(ready(), policies=[])
    assert found.state == "progressing" and codes(found) == ["NoClusterPolicy"]


def test_a_gpucluster_beside_it() -> None:
    found = verdict(ready(), gpuclusters=[{"metadata": {"name": "gpu-cluster"}}])
    assert found.state == "failed" and "gpu-cluster" in found.message


def test_an_older_clusterpolicy_is_in_charge() -> None:
    stack = ready()
    stack.policies.append(policy("older"))
    stack.policies[0]["metadata"]["creationTimestamp"] = stamp(60)
    found = verdict(stack)
    assert found.state == "failed" and found.reasons[0].code == "NotInCharge" and "older" in found.message


def test_a_younger_clusterpolicy_is_ignored() -> None:
    stack = ready()
    stack.policies.append(policy("zzz"))
    found = verdict(stack)
    assert found.state == "ready" and codes(found) == ["IgnoredClusterPolicy"]


@pytest.mark.parametrize(
    ("operators", "code"), [([], "OperatorMissing"), ([{"metadata": {"name": "op"}}], "OperatorNotAvailable")]
)
def test_nobody_acts_on_it(operators: list[Json], code: str) -> None:
    found = verdict(ready(), operators=operators)
    assert found.state == "progressing" and codes(found) == [code]


@pytest.mark.parametrize(("age", "state"), [(1, "progressing"), (5, "ready")])
def test_ready_is_not_believed_right_after_an_edit(age: float, state: str) -> None:
    assert verdict(written(ready(), age)).state == state


def test_status_updates_are_no_edits() -> None:
    assert last_write(written(ready(), 100).policies[0]) == NOW - 100
    assert last_write({"metadata": {"creationTimestamp": stamp(7)}}) == NOW - 7
    assert last_write({"metadata": {}}) == 0


def set_error(stack: Stack, why: str, message: str, since: str) -> Stack:
    stack.policies[0]["status"] = {
        "state": "notReady",
        "conditions": [
            {"type": "Error", "status": "True", "reason": why, "message": message, "lastTransitionTime": since}
        ],
    }
    return stack


@pytest.mark.parametrize(("since", "state"), [(stamp(2), "progressing"), (stamp(60), "failed")])
def test_an_operator_that_cannot_reconcile_may_heal_for_a_while(since: str, state: str) -> None:
    found = verdict(set_error(ready(), "ReconcileFailed", "Failed to reconcile state-driver: no image", since))
    assert found.state == state and "no image" in found.message


def test_an_error_from_before_the_edit_may_be_corrected_by_it() -> None:
    stack = written(set_error(ready(), "ReconcileFailed", "Failed to reconcile state-driver: no image", LONG_AGO), 20)
    assert verdict(stack).state == "progressing" and verdict(written(stack, 40)).state == "failed"


def test_operands_not_ready_by_the_operators_word() -> None:
    found = verdict(set_error(ready(), "OperandNotReady", "states not ready: [state-driver]", LONG_AGO))
    assert found.state == "progressing" and "states not ready: [state-driver]" in found.message


def test_no_status_yet() -> None:
    stack = ready()
    del stack.policies[0]["status"]
    assert "not set yet" in verdict(stack).message


# Nodes


@pytest.mark.parametrize(("age", "state"), [(10, "progressing"), (100, "failed")])
@pytest.mark.parametrize("labelled", [True, False])
def test_no_gpu_node(age: float, state: str, labelled: bool) -> None:
    node = cpu_node()
    if not labelled:
        node["metadata"]["labels"] = {}
    found = verdict(written(ready(0), age), nodes=[node])
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


def test_a_taint_that_keeps_no_pod_away() -> None:
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


# Operands


def test_the_daemonset_controller_has_not_looked_yet() -> None:
    """The status is all zeros, and the operator calls that ready."""
    stack = ready(2)
    for item in stack.daemonsets.values():
        item["status"] = {}
    found = verdict(stack)
    assert found.state == "progressing" and reason(found, "NotScheduled").operand == "driver"


def test_an_operand_without_daemonset() -> None:
    stack = ready()
    del stack.daemonsets[EXPORTER]
    found = verdict(stack)
    assert found.state == "progressing" and f"has not made DaemonSet {EXPORTER}" in found.message


def test_an_operand_that_was_switched_off_is_still_there() -> None:
    assert codes(verdict(ready(dcgmExporter={"enabled": False}))) == ["OperandNotRemoved"]


def test_a_driver_left_to_nobody() -> None:
    stack = ready(driver={"useNvidiaDriverCRD": True})
    del stack.daemonsets[DRIVER]
    found = verdict(stack)
    assert codes(found) == ["NoNVIDIADriver"] and "Create an NVIDIADriver" in found.message


def test_a_driver_of_an_nvidiadriver() -> None:
    stack = ready(driver={"useNvidiaDriverCRD": True})
    own = stack.daemonsets.pop(DRIVER)
    own["metadata"] |= {
        "name": "nvidia-gpu-driver-ubuntu24.04-658cd9b8cf",
        "labels": {"app.kubernetes.io/component": "nvidia-driver"},
    }
    assert verdict(stack, daemonsets=[*stack.daemonsets.values(), own]).state == "ready"


IMAGE = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}


@pytest.mark.parametrize(
    ("running", "state"),
    [
        ("nvcr.io/nvidia/driver:595.91.07-ubuntu24.04", "ready"),
        ("nvcr.io/nvidia/driver:580.126.20-ubuntu24.04", "progressing"),
        ("nvcr.io/nvidia/driver:595.91.071-ubuntu24.04", "progressing"),
    ],
)
def test_the_image_is_the_one_that_the_spec_demands(running: str, state: str) -> None:
    stack = ready(2, driver=IMAGE)
    stack.daemonsets[DRIVER] = daemonset(OPERANDS[0], 2, running)
    found = verdict(stack)
    assert found.state == state and codes(found) == ([] if state == "ready" else ["OldImage"])


def roll(stack: Stack, name: str, *numbers: int, generation: int = 1) -> Stack:
    stack.daemonsets[name]["metadata"]["generation"] = generation
    stack.daemonsets[name]["status"].update(progress(*numbers))
    return stack


def test_a_rollout_under_way() -> None:
    found = verdict(roll(ready(4), EXPORTER, 4, 4, 2, 4))
    assert found.state == "progressing" and "2 of 4 nodes run the new revision" in found.message
    assert (found.reasons[0].count, found.reasons[0].total) == (2, 4)
    found = verdict(roll(ready(4), EXPORTER, 4, 4, 4, 3))
    assert "3 of 4 nodes run an available pod" in found.message


def test_a_generation_that_the_controller_has_not_seen() -> None:
    assert verdict(roll(ready(2), EXPORTER, 2, 2, 2, 2, generation=2)).state == "progressing"


UPGRADES = {"upgradePolicy": {"autoUpgrade": True}}


@pytest.mark.parametrize(
    ("driver", "numbers", "state"),
    [
        ({}, (4, 4, 1, 4), "failed"),
        (UPGRADES, (4, 4, 1, 4), "progressing"),
        ({}, (4, 1, 1, 1), "progressing"),  # pods are still to be made: nothing is outdated
    ],
)
def test_driver_pods_that_nobody_replaces(driver: Json, numbers: tuple[int, ...], state: str) -> None:
    found = verdict(roll(ready(4, driver=driver), DRIVER, *numbers))
    assert found.state == state
    assert ("driver.upgradePolicy.autoUpgrade" in found.message) == (state == "failed")


def test_operands_that_nobody_replaces() -> None:
    stack = roll(ready(2), EXPORTER, 2, 2, 0, 2)
    stack.daemonsets[EXPORTER]["spec"]["updateStrategy"]["type"] = "OnDelete"
    assert "daemonsets.updateStrategy" in verdict(stack).message


def troubled(status: str, restarts: int = 0, current: bool = True, name: str = DRIVER) -> dict[str, tuple[PodRow, ...]]:
    return {name: (PodRow(f"{name}-abcde", "gpu-0001", status, restarts, "container x: because", current),)}


@pytest.mark.parametrize(
    ("status", "restarts", "state"),
    [
        ("ImagePullBackOff", 0, "failed"),
        ("Init:ImagePullBackOff", 0, "failed"),
        ("CreateContainerConfigError", 0, "failed"),
        ("CrashLoopBackOff", 2, "progressing"),
        ("CrashLoopBackOff", 3, "failed"),
        ("Init:0/1", 0, "progressing"),
        ("Pending", 0, "progressing"),
    ],
)
def test_what_pods_say(status: str, restarts: int, state: str) -> None:
    stack = roll(ready(2), DRIVER, 2, 2, 2, 1)
    found = verdict(stack, troubled=troubled(status, restarts))
    assert found.state == state
    assert found.message.startswith(
        f"driver: 1 of 2 nodes ready; pod {DRIVER}-abcde on gpu-0001 is {status}: container x: because."
    )
    assert (found.reasons[0].operand, found.reasons[0].node, found.reasons[0].pod) == (
        "driver",
        "gpu-0001",
        f"{DRIVER}-abcde",
    )
    assert next(rollout.state for rollout in found.operands if rollout.operand == "driver") == state


def test_a_failure_of_an_old_revision_is_not_about_the_new_spec() -> None:
    stack = roll(ready(2), DRIVER, 2, 2, 2, 1)
    assert verdict(stack, troubled=troubled("ImagePullBackOff", current=False)).state == "progressing"


def test_a_failure_right_after_an_edit_may_be_about_the_spec_before() -> None:
    stack = written(roll(ready(2), DRIVER, 2, 2, 2, 1), 5)
    assert verdict(stack, troubled=troubled("ImagePullBackOff")).state == "progressing"


def test_the_cause_comes_before_its_consequences() -> None:
    stack = ready(2)
    waits = {}
    for name in stack.daemonsets:
        roll(stack, name, 2, 2, 2, 0)
        waits.update(troubled("Init:0/1" if name != DRIVER else "Running", name=name))
    found = verdict(stack, troubled=waits)
    assert found.reasons[0].operand == "driver" and "more)" in found.message
    # What can never come right comes first, wherever it stands.
    found = verdict(stack, troubled=waits | troubled("ImagePullBackOff", name=EXPORTER))
    assert found.state == "failed" and found.reasons[0].operand == "dcgm-exporter"


# Labels, upgrades and GPUs


def test_nodes_that_the_operator_has_not_labelled() -> None:
    stack = ready(2)
    for key in COMPONENT_LABELS.values():
        stack.nodes[1]["metadata"]["labels"].pop(key, None)
    for item in stack.daemonsets.values():
        item["status"].update(progress(1, 1, 1, 1))
    assert "NodesNotLabelled" in codes(verdict(stack))


def test_operands_that_were_left_paused() -> None:
    stack = set_labels(ready(2), 1, **{"nvidia.com__gpu.deploy.dcgm": "paused-for-driver-upgrade"})
    assert "set its nvidia.com/gpu.deploy.* labels back to true" in reason(verdict(stack), "OperandsPaused").remedy


def test_a_device_plugin_kept_away_is_a_note() -> None:
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


def test_without_device_plugin_nothing_is_allocatable_by_intent() -> None:
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


def test_a_verdict_as_a_result() -> None:
    result = verdict(ready(), policies=[]).as_result()
    assert result["state"] == "progressing" and result["nodes_total"] == 2
    assert result["reasons"][0]["code"] == "NoClusterPolicy" and result["reasons"][0]["node"] is None
