# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the objects that the judge needs, from a small API server in this process."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, observe, troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import Tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import DAEMONSETS, GPUCLUSTERS, NODES, PODS, POLICIES, FakeApi, refusal
from tests.unit.fakes.claimed import GPUCLUSTER, SLICES, slice_of
from tests.unit.fakes.stack import NAMESPACE, Json, node, policy


def look(api: FakeApi) -> Observation:
    return observe.observe(Cluster(api.connection), NAMESPACE, "cluster-policy")


def test_a_ready_stack_is_read_with_five_small_lists(api: FakeApi) -> None:
    assert judge.judge(look(api)).state == "ready"
    assert sorted((method, path) for method, path, dummy in api.log if path in api.lists) == [
        ("GET", NODES),
        ("GET", DAEMONSETS),
        ("GET", "/apis/apps/v1/namespaces/gpu-operator/deployments"),
        ("GET", POLICIES),
    ]
    versions = {path: query.get("resourceVersion") for dummy, path, query in api.log}
    assert versions[NODES] == "0" and versions[POLICIES] is None, (
        "the ClusterPolicy must not come from a cache that lags"
    )


def test_ages_come_from_the_servers_clock(api: FakeApi) -> None:
    api.skew_s = -3600
    assert abs(look(api).now - (time.time() - 3600)) < 5


def test_no_crd(api: FakeApi) -> None:
    del api.lists[POLICIES]
    assert look(api).policies is None


# Names that are found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("", ""), ("gpu-cluster-policy", "nvidia-gpu-operator")),
        (("gpu-cluster-policy", ""), ("gpu-cluster-policy", "nvidia-gpu-operator")),
        (("", "other"), ("gpu-cluster-policy", "other")),
        (("missing", ""), ("missing", "gpu-operator")),
    ],
)
def test_an_empty_name_or_namespace_is_found(options: tuple[str, str], expected: tuple[str, str]) -> None:
    found = policy("gpu-cluster-policy")
    found["status"]["namespace"] = "nvidia-gpu-operator"
    assert observe.found([found], [], *options) == expected


def test_of_two_policies_the_oldest_is_found() -> None:
    younger, older = policy("younger"), policy("older")
    younger["metadata"]["creationTimestamp"] = "2026-05-01T00:00:00Z"
    assert observe.found([younger, older], [], "", "") == ("older", "gpu-operator")


@pytest.mark.parametrize("policies", [None, []])
def test_without_a_policy_the_charts_names_are_meant(policies: list[Json] | None) -> None:
    assert observe.found(policies, [], "", "") == ("cluster-policy", "gpu-operator")


def test_the_operands_are_read_in_the_namespace_that_was_found(api: FakeApi) -> None:
    api.lists[POLICIES][0]["status"]["namespace"] = NAMESPACE
    observation = observe.observe(Cluster(api.connection), "", "")
    assert judge.judge(observation).state == "ready" and observation.namespace == NAMESPACE


# Kinds that may not be read


def test_kinds_that_may_not_be_read_are_unknown(api: FakeApi) -> None:
    forbidden = (403, {"message": "forbidden"})
    api.answer = lambda method, path: forbidden if "v1alpha1" in path else None
    observation = look(api)
    assert observation.unreadable == ("GPUClusters", "NVIDIADrivers")
    verdict = judge.judge(observation)
    assert verdict.state == "ready" and [item.code for item in verdict.reasons] == ["NotReadable"]


def test_nodes_that_may_not_be_read_end_the_look(api: FakeApi) -> None:
    api.answer = lambda method, path: (403, {"message": "nodes is forbidden"}) if path == NODES else None
    with pytest.raises(GpuOpsError, match="nodes is forbidden") as caught:
        look(api)
    assert caught.value.reason == "Forbidden"


# Nodes, read once


class FakeNodes:
    """A connection whose nodes change."""

    def __init__(self, *answers: t.Any) -> None:
        self.answers = list(answers)
        self.log: list[str] = []

    def large_list(self, path: str, keep: t.Callable[[Json], Json]) -> tuple[list[Json], str]:
        self.log.append(f"list {path}")
        return [keep(node(0)), keep(node(1))], "7"

    def changes(self, path: str, version: str) -> tuple[list[tuple[str, Json]], str]:
        self.log.append(f"changes {path} {version}")
        answer = self.answers.pop(0)
        if isinstance(answer, GpuOpsError):
            raise answer
        return answer, str(int(version) + 1)


def names_of(nodes: list[Json]) -> list[str]:
    return [item["metadata"]["name"] for item in nodes]


def test_a_second_look_reads_only_the_nodes_that_changed() -> None:
    changed = node(1)
    changed["spec"]["unschedulable"] = True
    cluster = FakeNodes([("MODIFIED", changed), ("ADDED", node(2)), ("DELETED", node(0))], [("DELETED", node(9))])
    reader = observe.NodeReader(t.cast("Cluster", cluster))
    assert names_of(reader.read()) == ["gpu-0000", "gpu-0001"]
    second = reader.read()
    assert names_of(second) == ["gpu-0001", "gpu-0002"] and second[0]["spec"]["unschedulable"]
    assert names_of(reader.read()) == ["gpu-0001", "gpu-0002"]
    assert cluster.log == ["list /api/v1/nodes", "changes /api/v1/nodes 7", "changes /api/v1/nodes 8"]


@pytest.mark.parametrize("reason", ["Expired", "Forbidden"])
def test_nodes_are_listed_again_when_their_changes_cannot_be_had(reason: t.Any) -> None:
    cluster = FakeNodes(GpuOpsError("too old", reason=reason))
    reader = observe.NodeReader(t.cast("Cluster", cluster))
    reader.read()
    assert names_of(reader.read()) == ["gpu-0000", "gpu-0001"]
    assert cluster.log == ["list /api/v1/nodes", "changes /api/v1/nodes 7", "list /api/v1/nodes"]


def test_another_failure_to_read_changes_is_raised() -> None:
    reader = observe.NodeReader(t.cast("Cluster", FakeNodes(GpuOpsError("away", reason="Unreachable"))))
    reader.read()
    with pytest.raises(GpuOpsError, match="away"):
        reader.read()


# What is read only where something is wrong


def test_a_failed_upgrade_is_explained_by_the_nodes_last_event(api: FakeApi) -> None:
    api.lists[NODES][0]["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = "upgrade-failed"
    api.lists["/api/v1/namespaces/default/events"] = [
        {"lastTimestamp": "2026-01-01T00:00:02Z", "message": "Failed to drain the node, too many pods\n"},
        {"lastTimestamp": "2026-01-01T00:00:01Z", "message": "Failed to cordon the node"},
    ]
    assert look(api).upgrade_failures == {"gpu-0000": "Failed to drain the node, too many pods"}
    query = next(query for dummy, path, query in api.log if path == "/api/v1/namespaces/default/events")
    assert query["fieldSelector"] == (
        "involvedObject.kind=Node,involvedObject.name=gpu-0000,type=Warning,reason=GPUDriverUpgrade"
    )


@pytest.mark.parametrize(
    ("annotation", "written", "told"),
    [
        ("turn 2026-01-01T00:00:30Z", "", ""),
        ("turn 2026-01-01T00:00:02Z", "", "Failed to drain the node"),
        ("failed 2026-01-01T02:00:00Z no", "2026-01-01T02:00:00Z", ""),
        ("", "2026-01-01T00:01:00Z", "Failed to drain the node"),
        ("", "", "Failed to drain the node"),
    ],
)
def test_what_was_said_about_an_upgrade_before_explains_nothing(
    api: FakeApi, annotation: str, written: str, told: str
) -> None:
    metadata = api.lists[NODES][0]["metadata"]
    metadata["labels"]["nvidia.com/gpu-driver-upgrade-state"] = "upgrade-failed"
    metadata["annotations"] = {"gpuops.nvidia/driver-rollout": annotation} if annotation else {}
    fields = {"f:metadata": {"f:labels": {"f:nvidia.com/gpu-driver-upgrade-state": {}}}}
    metadata["managedFields"] = [{"manager": "kubelet", "time": "2026-01-01T09:00:00Z", "fieldsV1": {"f:status": {}}}]
    metadata["managedFields"] += [{"manager": "operator", "time": written, "fieldsV1": fields}] if written else []
    api.lists["/api/v1/namespaces/default/events"] = [
        {"lastTimestamp": "2026-01-01T00:00:02Z", "message": "Failed to drain the node"}
    ]
    assert look(api).upgrade_failures == {"gpu-0000": told}


def test_what_can_be_claimed(api: FakeApi) -> None:
    assert look(api).offered == device_reader.NO_DEVICES
    api.lists[SLICES] = [slice_of(0)]
    seen = look(api).offered
    assert [seen.can_claim(name) for name in ("gpu-0000", "gpu-0001")] == [True, False]
    assert ("GET", SLICES, {"resourceVersion": "0", "fieldSelector": "spec.driver=gpu.nvidia.com"}) in api.log


def test_slices_that_may_not_be_listed_are_unknown(api: FakeApi) -> None:
    api.lists[SLICES] = []
    api.answer = lambda method, path: refusal(403, "forbidden") if path == SLICES else None
    assert look(api).unreadable == ()
    api.lists[GPUCLUSTERS] = [GPUCLUSTER]
    assert look(api).unreadable == ("ResourceSlices",)


def test_outdated_pods_are_read_only_where_one_may_be_tolerated(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "newest_revisions", lambda cluster, namespace: {"nvidia-dcgm": "7d8"})
    for item in api.lists[DAEMONSETS]:
        item["spec"]["selector"] = {"matchLabels": {"app": item["metadata"]["name"]}}
    rolling = next(item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == "nvidia-dcgm")
    rolling["status"]["updatedNumberScheduled"] -= 1
    api.table = [["nvidia-dcgm-abcd1", "1/1", "Running", "0", "1m", "10.0.0.1", "gpu-0001"]]
    assert look(api).outdated == {}
    limits = Tolerance(exclude_nodes=("gpu-0001",))
    observation = observe.observe(Cluster(api.connection), NAMESPACE, "cluster-policy", limits)
    assert observation.outdated == {"nvidia-dcgm": frozenset({"gpu-0001"})}
    selectors = [query.get("labelSelector") for dummy, path, query in api.log if path == PODS]
    assert "app=nvidia-dcgm,controller-revision-hash!=7d8" in selectors
    assert judge.judge(observation, limits).state == "ready"


def test_without_a_clusterpolicy_the_namespace_is_that_of_the_gpucluster() -> None:
    gpucluster = {"metadata": {"name": "gpu-cluster"}, "status": {"namespace": "nvidia"}}
    assert observe.found([], [gpucluster], "", "") == ("cluster-policy", "nvidia")
    assert observe.found([], [{"metadata": {"name": "gpu-cluster"}}], "", "mine") == ("cluster-policy", "mine")
