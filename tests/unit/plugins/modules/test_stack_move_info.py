# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real ``main()`` against a small API server in this process."""

from __future__ import annotations

import copy
import typing as t

import pytest

from tests.unit.fakes.api import ALL_PODS, GPUCLUSTERS, NODES, POLICIES, FakeApi, refusal
from tests.unit.fakes.claimed import CLASSES, GPUCLUSTER, separate_driver
from tests.unit.fakes.stack import workload

Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    """Return what runs the module on a cluster with a ClusterPolicy and drivers of the hosts."""
    api.lists |= {GPUCLUSTERS: [], CLASSES: []}
    api.lists[POLICIES][0]["spec"]["driver"] = {"enabled": False}
    return lambda **options: run_module("stack_move_info", **{**api.connection, "to": "claims", **options})


def test_an_idle_cluster_may_move(api: FakeApi, module: Run) -> None:
    result = module().result
    assert (result["needed"], result["step"], result["policy"]) == (True, "drain", "cluster-policy")
    assert (result["nodes"], result["workloads"], result["findings"]) == (["gpu-0000", "gpu-0001"], [], [])
    assert result["changed"] is False and {method for method, *dummy in api.log} == {"GET"}


def test_pods_that_use_gpus_need_permission(api: FakeApi, module: Run) -> None:
    api.lists[ALL_PODS] = [workload("train-0", gpus=4), workload("train-1", 1, gpus=4)]
    run = module()
    assert (run.rc, run.result["reason"]) == (1, "Disruption")
    assert "2 pods use GPUs (default/train-0, default/train-1)" in run.result["msg"]
    assert "stack_move_allow_disruption" in run.result["msg"]
    check = module(check_refusal="warn", _ansible_check_mode=True)
    assert check.rc == 0 and "2 pods use GPUs" in check.warnings[0]
    allowed = module(allow_disruption=True).result
    assert [row["owner"] for row in allowed["workloads"]] == ["ReplicaSet/train-0", "ReplicaSet/train-1"]


def test_what_is_in_the_way_is_one_error(api: FakeApi, module: Run) -> None:
    del api.lists[CLASSES]
    api.lists[POLICIES][0]["spec"]["driver"] = {}
    run = module()
    assert (run.rc, run.result["reason"], run.result["summary"]["failures"]) == (1, "ChecksFailed", 2)
    assert "upgrade_driver" in run.result["msg"] and "Upgrade Kubernetes" in run.result["msg"]


def test_what_the_move_costs_is_a_warning(api: FakeApi, module: Run) -> None:
    api.lists[NODES][0]["metadata"]["labels"]["nvidia.com/mig.config"] = "all-1g.10gb"
    assert "MIG layout" in module().warnings[0]


def held(api: FakeApi) -> None:
    stamp = "2026-11-28T10:00:00Z somewhere run"
    api.lists[NODES][0]["metadata"]["annotations"] = {"gpuops.nvidia/maintenance.stack-move": stamp}


@pytest.mark.parametrize("to", ["claims", "device_plugin"])
def test_a_move_that_was_killed_goes_on(api: FakeApi, module: Run, to: str) -> None:
    policies, gpuclusters = api.lists[POLICIES], [copy.deepcopy(GPUCLUSTER)]
    old, new = (POLICIES, GPUCLUSTERS) if to == "claims" else (GPUCLUSTERS, POLICIES)
    api.lists |= {POLICIES: policies, GPUCLUSTERS: gpuclusters}
    api.lists |= {new: []}
    assert module(to=to).result["step"] == "drain"
    objects = policies if new == POLICIES else gpuclusters
    api.lists |= {old: []}
    assert module(to=to).result["step"] == "install", "the old stack is gone, and the new one is not there"
    api.lists |= {new: objects}
    held(api)
    proving = module(to=to).result
    assert (proving["step"], proving["held"]) == ("prove", ["gpu-0000"])
    del api.lists[NODES][0]["metadata"]["annotations"]
    api.lists[ALL_PODS] = [workload("train")]
    done = module(to=to)
    assert (done.rc, done.result["step"], done.result["needed"]) == (0, "done", False)


def test_a_cluster_without_the_crd_stays(api: FakeApi, module: Run) -> None:
    del api.lists[GPUCLUSTERS]
    assert "Upgrade the operator first" in module().result["msg"]


QUEUES = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"


def test_queues_of_kueue_are_read_in_the_version_that_is_served(api: FakeApi, module: Run) -> None:
    groups = [{"coveredResources": ["nvidia.com/gpu"]}]
    api.lists[QUEUES] = [{"metadata": {"name": "training"}, "spec": {"resourceGroups": groups}}]
    run = module()
    assert run.rc == 0 and "training (nvidia.com/gpu)" in run.warnings[0]
    api.answer = lambda method, path: refusal(403, "no", "Forbidden") if path == QUEUES else None
    assert "Kueue" in module().warnings[0] and "unknown" in module().warnings[0]
    del api.lists[QUEUES]
    assert module().warnings == [], "a cluster without Kueue has no queues, whatever the user may list"


def test_the_drivers_own_chart_stops_the_move(api: FakeApi, module: Run) -> None:
    api.lists["/apis/apps/v1/daemonsets"] = [separate_driver()]
    run = module(allow_disruption=True)
    assert (run.rc, run.result["reason"]) == (1, "ChecksFailed")
    assert "helm uninstall dra --namespace nvidia-dra-driver-gpu" in run.result["msg"]
