# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, NODES, POLICIES, FakeApi, refusal
from tests.unit.fakes.stack import policy, workload

ALL_DAEMONSETS = "/apis/apps/v1/daemonsets"
GPU = {"key": "nvidia.com/gpu", "effect": "NoSchedule", "node_selector": {"nvidia.com/gpu.present": True}}
TEXT = "nvidia.com/gpu:NoSchedule"


@pytest.fixture
def keep(run_module: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    api.lists[ALL_DAEMONSETS] = []
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.1)
    return functools.partial(run_module, "node_taints", **api.connection)


def taints(api: FakeApi) -> list[list[str]]:
    return [[taint["key"] for taint in item["spec"].get("taints") or []] for item in api.lists[NODES]]


def patches(api: FakeApi) -> list[str]:
    return [query.get("dryRun", "real") for method, dummy, query in api.log if method == "PATCH"]


def test_taints_come_stay_and_go(api: FakeApi, keep: t.Callable) -> None:
    dry = keep(taints=[GPU], _ansible_check_mode=True, _ansible_diff=True).result
    assert dry["changed"] and patches(api) == ["All", "All"] and taints(api) == [[], []]
    assert dry["diff"]["before"] == {"gpu-0000": [], "gpu-0001": []}
    assert dry["diff"]["after"] == {"gpu-0000": [TEXT], "gpu-0001": [TEXT]}
    done = keep(taints=[GPU]).result
    row = {"node": "gpu-0000", "changed": True, "added": [TEXT], "removed": [], "evicted": [], "not_replaced": []}
    assert done["nodes"][0] == row
    assert taints(api) == [["nvidia.com/gpu"], ["nvidia.com/gpu"]]
    assert json.loads(api.lists[NODES][0]["metadata"]["annotations"]["gpuops.nvidia/taints"]) == [TEXT]
    api.log.clear()
    again = keep(taints=[GPU]).result
    assert not again["changed"] and patches(api) == [] and [row["added"] for row in again["nodes"]] == [[], []]
    assert not [path for dummy, path, dummy2 in api.log if path == ALL_PODS]  # nobody is concerned
    gone = keep(taints=[]).result
    assert [row["removed"] for row in gone["nodes"]] == [[TEXT], [TEXT]] and taints(api) == [[], []]
    assert api.lists[NODES][0]["metadata"]["annotations"] == {}
    nothing = keep(taints=[]).result
    assert not nothing["changed"] and nothing["nodes"] == [] and nothing["diff"] == {"before": {}, "after": {}}


def test_only_the_taint_of_nodes_that_left_the_selector_goes(api: FakeApi, keep: t.Callable) -> None:
    keep(taints=[GPU])
    one = {"key": "nvidia.com/gpu", "effect": "NoSchedule", "nodes": ["gpu-0001"]}
    assert [row["removed"] for row in keep(taints=[one]).result["nodes"]] == [[TEXT], []]
    assert taints(api) == [[], ["nvidia.com/gpu"]]


def test_a_stack_that_does_not_tolerate_changes_nothing(api: FakeApi, keep: t.Callable) -> None:
    api.lists[POLICIES][:] = [policy(daemonsets={"tolerations": [{"key": "x", "operator": "Exists"}]})]
    failed = keep(taints=[GPU])
    assert failed.rc == 1 and failed.result["reason"] == "NotTolerated" and patches(api) == []


def test_drivers_count_if_the_policy_leaves_the_driver_to_them(api: FakeApi, keep: t.Callable) -> None:
    drivers = [{"metadata": {"name": "default"}, "spec": {}}]
    api.lists["/apis/nvidia.com/v1alpha1/nvidiadrivers"] = drivers
    team = {**GPU, "key": "team"}
    tolerant = {"tolerations": [{"key": "team", "operator": "Exists"}]}
    api.lists[POLICIES][:] = [policy(daemonsets=tolerant)]
    assert keep(taints=[team], _ansible_check_mode=True).result["changed"]
    api.lists[POLICIES][:] = [policy(daemonsets=tolerant, driver={"useNvidiaDriverCRD": True})]
    assert "The driver of NVIDIADriver default would not tolerate" in keep(taints=[team]).result["msg"]


def test_pods_with_gpus_are_named_and_other_daemonsets_too(api: FakeApi, keep: t.Callable) -> None:
    api.lists[ALL_PODS][:] = [workload("train"), workload("web", gpus=0)]
    other = {"metadata": {"name": "cni", "namespace": "kube-system"}, "spec": {"template": {"spec": {}}}}
    api.lists[ALL_DAEMONSETS] = [other]
    run = keep(taints=[GPU])
    assert run.result["nodes"][0]["not_replaced"] == ["default/train"]
    assert [text.split(":")[0] for text in run.warnings] == [
        wording("DaemonSet kube-system/cni does not tolerate the taints"),
        wording("1 pods with GPUs do not tolerate the new taints"),
    ]


def test_an_eviction_needs_permission(api: FakeApi, keep: t.Callable) -> None:
    api.lists[ALL_PODS][:] = [workload("train", 1)]
    tolerant = {"tolerations": [{"operator": "Exists"}]}
    api.lists[POLICIES][:] = [policy(daemonsets=tolerant)]
    evicting = {**GPU, "effect": "NoExecute"}
    failed = keep(taints=[evicting])
    assert failed.result["reason"] == "Disruption" and patches(api) == []
    assert "evict 1 pods" in failed.result["msg"] and "default/train on gpu-0001" in failed.result["msg"]
    allowed = keep(taints=[evicting], allow_disruption=True).result
    assert [row["evicted"] for row in allowed["nodes"]] == [[], ["default/train"]]


def test_many_nodes_are_looked_at_with_one_list_of_pods(
    api: FakeApi, keep: t.Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling.keep_taints.FEW_NODES", 1
    )
    elsewhere = workload("elsewhere", 7)
    api.lists[ALL_PODS][:] = [workload("train", 1), elsewhere]
    result = keep(taints=[GPU]).result
    assert [row["not_replaced"] for row in result["nodes"]] == [[], ["default/train"]]
    assert [path for dummy, path, dummy2 in api.log].count(ALL_PODS) == 1


def test_a_node_that_cannot_be_changed_fails_the_call_by_name(api: FakeApi, keep: t.Callable) -> None:
    def answer(method: str, path: str) -> t.Any:
        return refusal(403, "nodes is forbidden", "Forbidden") if method == "PATCH" else None

    api.answer = answer
    failed = keep(taints=[GPU]).result
    assert failed["msg"].startswith("Node gpu-0000: ") and failed["msg"].endswith("(1 more nodes failed)")
    assert (failed["reason"], failed["failed_nodes"]) == ("Forbidden", ["gpu-0000", "gpu-0001"])


def test_daemonsets_that_may_not_be_read_are_unknown(api: FakeApi, keep: t.Callable) -> None:
    def answer(method: str, path: str) -> t.Any:
        return refusal(403, "daemonsets is forbidden", "Forbidden") if path == ALL_DAEMONSETS else None

    api.answer = answer
    assert keep(taints=[GPU]).warnings[0] == wording(
        "This user may not list DaemonSets in all namespaces, so whether all tolerate the taints is unknown."
    )
