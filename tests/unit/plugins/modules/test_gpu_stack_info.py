# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, GPUCLUSTERS, NODES, POLICIES, FakeApi, refusal
from tests.unit.fakes.claimed import CLAIMS, GPUCLUSTER, SLICES, claim, claimed, gpu, mig, slice_of, taint
from tests.unit.fakes.health import with_health
from tests.unit.fakes.stack import cpu_node, workload

Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    return lambda **options: run_module("gpu_stack_info", **{**api.connection, **options})


def test_the_fleet(api: FakeApi, module: Run) -> None:
    api.lists[NODES] = [cpu_node(), *reversed(api.lists[NODES])]
    api.lists[NODES][1]["spec"] = {"unschedulable": True, "taints": [{"key": "a", "value": "b", "effect": "NoExecute"}]}
    workload = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    metadata = {"name": "train", "namespace": "ml"}
    api.lists[ALL_PODS] = [
        {"metadata": {**metadata, "name": f"train-{number}"}, "spec": {**workload, "nodeName": "gpu-0001"}}
        for number in range(2)
    ] + [{"metadata": metadata, "spec": workload}]
    result = module().result
    assert [row["name"] for row in result["nodes"]] == ["gpu-0000", "gpu-0001"]
    assert result["nodes"][0] == {
        "name": "gpu-0000",
        "product": "NVIDIA-H100-80GB-HBM3",
        "gpus": 8,
        "replicas": None,
        "memory_mib": 81559,
        "driver": "595.91.07",
        "mig": {"capable": True, "strategy": None, "config": None, "state": None},
        "sharing": {"strategy": None, "config": None},
        "slices": [
            {
                "resource": "nvidia.com/gpu",
                "profile": None,
                "devices": 8,
                "replicas": 1,
                "expected": 8,
                "allocatable": 8,
                "allocated": 0,
            }
        ],
        "os": "ubuntu24.04",
        "kernel": "6.8.0-31-generic",
        "runtime": "containerd://2.1.4",
        "capacity": {"nvidia.com/gpu": 8},
        "allocatable": {"nvidia.com/gpu": 8},
        "allocated": {},
        "ready": True,
        "cordoned": False,
        "taints": [],
        "upgrade_state": "upgrade-done",
        "waiting_for": {},
        "claimable": False,
        "devices": [],
        "device_health": [],
        "kind": "container",
        "machines": [],
        "left_out": None,
    }
    assert (result["policy"], result["namespace"]) == ("cluster-policy", "gpu-operator")
    second = result["nodes"][1]
    assert (second["cordoned"], second["taints"], second["allocated"]) == (
        True,
        ["a=b:NoExecute"],
        {"nvidia.com/gpu": 4},
    )
    assert result["summary"] == {
        "nodes": 2,
        "nodes_ready": 2,
        "gpus": {"nvidia.com/gpu": {"capacity": 16, "allocatable": 16, "allocated": 4}},
        "slices": {},
    }
    assert [row["slices"][0]["allocated"] for row in result["nodes"]] == [0, 4]
    assert result["operands"][0]["operand"] == "driver" and result["changed"] is False


def test_slices_and_shares(api: FakeApi, module: Run) -> None:
    single, mixed = api.lists[NODES]
    single["metadata"]["labels"] |= {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED",
        "nvidia.com/gpu.count": "7",
        "nvidia.com/gpu.replicas": "2",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/device-plugin.config": "two-1a2b3c4d",
    }
    single["status"] |= {"capacity": {"nvidia.com/gpu.shared": "14"}, "allocatable": {"nvidia.com/gpu.shared": "14"}}
    mig = "nvidia.com/mig-1g.10gb"
    mixed["metadata"]["labels"] |= {f"{mig}.count": "7", "nvidia.com/gpu.replicas": "0"}
    mixed["status"] |= {"capacity": {mig: "7"}, "allocatable": {mig: "6"}}
    container = {"resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}
    pod = {"metadata": {"name": "a", "namespace": "ml"}, "spec": {"nodeName": "gpu-0000", "containers": [container]}}
    api.lists[ALL_PODS] = [pod]
    result = module().result
    found = [{key: part[key] for key in ("profile", "expected", "allocatable", "allocated")} for row in result["nodes"]
             for part in row["slices"]]  # fmt: skip
    assert found == [
        {"profile": "1g.10gb", "expected": 14, "allocatable": 14, "allocated": 1},
        {"profile": "1g.10gb", "expected": 7, "allocatable": 6, "allocated": 0},
    ]
    assert result["summary"]["slices"] == {"1g.10gb": {"expected": 21, "allocatable": 20, "allocated": 1}}
    assert result["nodes"][0]["sharing"] == {"strategy": "time-slicing", "config": "two-1a2b3c4d"}
    assert [part["allocated"] for row in module(allocated=False).result["nodes"] for part in row["slices"]] == [
        None,
        None,
    ]
    assert "UnhealthyGPUs" in [reason["code"] for reason in result["verdict"]["reasons"]]


def test_a_gpucluster_gives_its_gpus_by_claims(api: FakeApi, module: Run) -> None:
    """Who has each device is told, and only what is not held for monitoring counts."""
    stack = claimed(2)
    api.lists[POLICIES], api.lists[NODES] = [], stack.nodes
    api.lists[DAEMONSETS] = list(stack.daemonsets.values())
    api.lists[GPUCLUSTERS] = [GPUCLUSTER]
    lost = {**mig(1, 1), "taints": [taint()]}
    place = mig(1, 2)
    del place["attributes"]["uuid"]
    api.lists[SLICES] = [slice_of(0, gpu(0), mig(1, 0), lost, place)]
    api.lists[CLAIMS] = [
        claim("train", "gpu-0000", "gpu-0", pods=["train-0"]),
        claim("watch", "gpu-0000", "gpu-0", pods=["exporter"], admin=True),
    ]
    holder = workload("train-0", gpus=0)
    holder["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "train"}]
    api.lists[ALL_PODS] = [holder]
    result = module().result
    first, second = result["nodes"]
    assert (first["claimable"], second["claimable"], second["devices"]) == (True, False, [])
    assert [reason["code"] for reason in result["verdict"]["reasons"]] == ["NoAllocatableGPUs", "DevicesTainted"]
    assert (result["policy"], result["verdict"]["nodes_ready"], result["verdict"]["nodes_total"]) == (None, 1, 2)
    assert first["devices"][0] == {
        "name": "gpu-0",
        "type": "gpu",
        "uuid": "GPU-0",
        "product": "NVIDIA H100 80GB HBM3",
        "profile": None,
        "parent_uuid": None,
        "memory_mib": 81559,
        "taints": [],
        "claims": [
            {"namespace": "default", "name": "train", "pods": ["train-0"], "admin_access": False},
            {"namespace": "default", "name": "watch", "pods": ["exporter"], "admin_access": True},
        ],
    }
    assert [device["taints"] for device in first["devices"]] == [[], [], ["gpu.nvidia.com/xid=79:NoSchedule"], []]
    counted = {"devices": 1, "replicas": 1, "expected": 1, "allocatable": 1, "allocated": 1}
    assert first["slices"] == [
        {"resource": "gpu.nvidia.com", "profile": None, **counted},
        {"resource": "mig.nvidia.com", "profile": "1g.10gb", **counted, "devices": 2, "expected": 2, "allocated": 0},
    ]
    assert result["summary"]["gpus"] == {
        "gpu.nvidia.com": {"capacity": 1, "allocatable": 1, "allocated": 1},
        "mig.nvidia.com": {"capacity": 2, "allocatable": 1, "allocated": 0},
    }
    uncounted = module(allocated=False).result["nodes"][0]
    assert [device["claims"] for device in uncounted["devices"]] == [None] * 4
    assert [part["allocated"] for part in uncounted["slices"]] == [None, None]


def test_a_sick_gpu_is_told_with_the_pod_that_holds_it(api: FakeApi, module: Run) -> None:
    api.lists[ALL_PODS] = [
        with_health(workload("train-0"), "nvidia.com/gpu", ("GPU-0", "Healthy"), ("GPU-1", "Unhealthy"))
    ]
    first, second = module().result["nodes"]
    assert [(each["pod"], each["device"], each["health"]) for each in first["device_health"]] == [
        ("train-0", "GPU-1", "Unhealthy")
    ]
    assert second["device_health"] == []
    assert [row["device_health"] for row in module(allocated=False).result["nodes"]] == [None, None]


def test_pods_are_read_only_on_request(api: FakeApi, module: Run) -> None:
    assert module(allocated=False).result["verdict"]["state"] == "ready"
    assert ALL_PODS not in [path for dummy, path, more in api.log]


def test_a_node_that_the_stack_has_not_labelled_yet(api: FakeApi, module: Run) -> None:
    api.lists[NODES][0]["metadata"]["labels"] = {"feature.node.kubernetes.io/pci-10de.present": "true"}
    row = module().result["nodes"][0]
    assert (row["product"], row["gpus"], row["driver"], row["os"]) == (None, None, None, "Ubuntu 24.04 LTS")


def test_a_node_whose_operands_are_not_ready(api: FakeApi, module: Run) -> None:
    daemonset = next(
        item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == "nvidia-device-plugin-daemonset"
    )
    daemonset["status"]["numberAvailable"] = 1
    api.table = [
        ["nvidia-device-plugin-daemonset-abcd1", "0/1", "CrashLoopBackOff", "7 (3m ago)", "5m", "10.0.0.1", "gpu-0001"]
    ]
    first, second = module().result["nodes"]
    assert (first["waiting_for"], second["waiting_for"]) == ({}, {"device-plugin": "CrashLoopBackOff"})


def test_no_permission(api: FakeApi, module: Run) -> None:
    api.answer = lambda method, path: refusal(403, "pods is forbidden") if path == ALL_PODS else None
    run = module()
    assert run.rc == 1 and run.result["reason"] == "Forbidden"


def test_a_node_that_is_left_out_says_why(api: FakeApi, module: Run) -> None:
    api.lists[NODES][1]["status"]["conditions"][0]["status"] = "Unknown"
    assert module().result["verdict"]["state"] == "progressing"
    result = module(exclude_nodes=["gpu-0001"]).result
    assert result["verdict"]["state"] == "ready"
    assert [row["left_out"] for row in result["nodes"]] == [None, "NodesExcluded"]
    result = module(max_unready="50%").result
    assert result["verdict"]["state"] == "ready"
    assert [row["left_out"] for row in result["nodes"]] == [None, "NodesTolerated"]


def test_a_tolerance_without_a_meaning_is_refused(module: Run) -> None:
    failed = module(max_unready="some").result
    assert failed["failed"] and failed["reason"] == "Invalid" and "max_unready is 'some'" in failed["msg"]


def test_without_a_policy_there_is_no_name(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES].clear()
    result = module().result
    assert result["policy"] is None and result["verdict"]["reasons"][0]["code"] == "NoClusterPolicy"


def test_the_virtual_machines_on_a_node_with_what_they_have(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES][0]["spec"]["sandboxWorkloads"] = {"enabled": True}
    api.lists[NODES][1]["metadata"]["labels"]["nvidia.com/gpu.workload.config"] = "vm-passthrough"
    devices = {"gpus": [{"name": "gpu", "deviceName": "nvidia.com/GA102GL_A10"}]}
    vm = {"metadata": {"namespace": "research", "name": "windows"}, "spec": {"domain": {"devices": devices}}}
    status = {"nodeName": "gpu-0001", "phase": "Running"}
    machines = "/apis/kubevirt.io/v1/virtualmachineinstances"
    api.lists[machines] = [{**vm, "status": status}, {**vm, "status": {**status, "phase": "Succeeded"}}]
    rows = module().result["nodes"]
    assert [row["kind"] for row in rows] == ["container", "vm-passthrough"]
    expected = [{"name": "research/windows", "devices": ["nvidia.com/GA102GL_A10"]}]
    assert [row["machines"] for row in rows] == [[], expected]
    assert [row["machines"] for row in module(allocated=False).result["nodes"]] == [None, None]
    api.answer = lambda method, path: refusal(403, "no", "Forbidden") if path == machines else None
    assert [row["machines"] for row in module().result["nodes"]] == [None, None]
    api.answer = lambda method, path: None
    del api.lists[machines]
    assert [row["machines"] for row in module().result["nodes"]] == [[], []]
