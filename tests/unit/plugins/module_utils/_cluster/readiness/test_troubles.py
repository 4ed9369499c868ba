# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which pods of operands are in trouble, and what blocks them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, observe, troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import DAEMONSETS, DEPLOYMENTS, EVENTS, NODES, PODS, REVISIONS, FakeApi, refusal
from tests.unit.fakes.stack import NAMESPACE, Json, pod, progress

EXPORTER = "nvidia-dcgm-exporter"


def look(api: FakeApi) -> Observation:
    return observe.observe(Cluster(api.connection), NAMESPACE, "cluster-policy")


def trouble(api: FakeApi, status: str, restarts: str = "0", **pod_status: t.Any) -> None:
    """Give one of the two exporter pods a problem."""
    item = next(item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == EXPORTER)
    item["status"].update(progress(2, 2, 2, 1))
    broken = pod(item, 1, **pod_status)
    api.lists[PODS] = [broken]
    api.table = [
        [f"{EXPORTER}-abcd0", "1/1", "Running", "0", "1m", "10.0.0.1", "gpu-0000"],
        [broken["metadata"]["name"], "0/1", status, restarts, "1m", "10.0.0.2", "gpu-0001"],
        [f"{EXPORTER}-of-somebody-else", "0/1", "Pending", "0", "1m", "<none>", "<none>"],
    ]


def test_a_troubled_pod_is_explained_by_its_container(api: FakeApi) -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}}
    trouble(api, "ImagePullBackOff", containerStatuses=[{"name": EXPORTER, "state": waiting}])
    seen = look(api)
    row = seen.troubled[EXPORTER][0]
    assert (row.node, row.status, row.current, row.cause) == (
        "gpu-0001",
        "ImagePullBackOff",
        True,
        f'container {EXPORTER}: Back-off pulling image "x"',
    )
    assert (row.message, row.age_s > 1e6) == ('Back-off pulling image "x"', True)
    assert len(seen.troubled[EXPORTER]) == 1 and judge.judge(seen).state == "progressing"


def test_a_pod_of_an_old_revision_is_recognized(api: FakeApi) -> None:
    trouble(api, "ImagePullBackOff")
    api.lists[PODS][0]["metadata"]["labels"]["controller-revision-hash"] = "old"
    assert not look(api).troubled[EXPORTER][0].current


def test_what_an_admission_policy_adds_to_a_pod_does_not_make_it_old(api: FakeApi) -> None:
    trouble(api, "ImagePullBackOff")
    containers = api.lists[PODS][0]["spec"]["containers"]
    containers[0].update(image="mirror.example.com/other", env=[{"name": "HTTPS_PROXY", "value": "p"}])
    containers.append({"name": "sidecar", "image": "istio/proxyv2"})
    assert look(api).troubled[EXPORTER][0].current


def test_without_permission_to_read_revisions_no_pod_counts_as_newest(api: FakeApi) -> None:
    trouble(api, "ImagePullBackOff")
    api.answer = lambda method, path: refusal(403, "no") if path in (REVISIONS, EVENTS) else None
    row = look(api).troubled[EXPORTER][0]
    assert (row.status, row.current, row.cause) == ("ImagePullBackOff", False, "")


@pytest.mark.parametrize("path", [REVISIONS, EVENTS])
def test_other_failures_of_these_reads_end_the_look(api: FakeApi, path: str) -> None:
    trouble(api, "ImagePullBackOff")
    api.answer = lambda method, asked: refusal(500, "no") if asked == path else None
    with pytest.raises(GpuOpsError, match="no"):
        look(api)


def test_the_newest_revision_is_the_one_with_the_highest_number(api: FakeApi) -> None:
    names = ["Name", "Controller", "Revision", "Age"]
    rows = [
        ["nvidia-dcgm-aaa", "daemonset.apps/nvidia-dcgm", 9, "1m"],
        ["nvidia-dcgm-bbb", "daemonset.apps/nvidia-dcgm", 10, "1h"],
        ["nvidia-dcgm-exporter-ccc", "daemonset.apps/nvidia-dcgm-exporter", 1, "1m"],
        ["nvidia-dcgm-ddd", "statefulset.apps/nvidia-dcgm", 99, "1m"],
    ]
    table = {"columnDefinitions": [{"name": name} for name in names], "rows": [{"cells": row} for row in rows]}
    api.answer = lambda method, path: (200, table) if path == REVISIONS else None
    found = troubles.newest_revisions(Cluster(api.connection), NAMESPACE)
    assert found == {"nvidia-dcgm": "bbb", "nvidia-dcgm-exporter": "ccc"}


def refused(kind: str, name: str, message: str, last: str) -> Json:
    return {"involvedObject": {"kind": kind, "name": name}, "message": message, "lastTimestamp": last}


def test_why_pods_cannot_be_created(api: FakeApi) -> None:
    item = next(item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == EXPORTER)
    item["status"].update(progress(2, 1, 1, 1))
    api.lists[EVENTS] = [
        refused("DaemonSet", EXPORTER, "newest", "2026-01-01T00:00:09Z"),
        refused("DaemonSet", EXPORTER, "older", "2026-01-01T00:00:01Z"),
        refused("DaemonSet", "nvidia-dcgm", "has its pods", "2026-01-01T00:00:01Z"),
        refused("ReplicaSet", "gpu-operator-5d4f", "works", "2026-01-01T00:00:01Z"),
    ]
    found = look(api).refusals
    assert {name: refusal.message for name, refusal in found.items()} == {EXPORTER: "newest"}
    assert found[EXPORTER].age_s > 1e6 and found[EXPORTER].seen_s == 0
    assert {"reason=FailedCreate,type=Warning"} == {
        query["fieldSelector"] for dummy, path, query in api.log if path == EVENTS
    }


def test_why_the_operators_pod_cannot_be_created(api: FakeApi) -> None:
    api.lists[DEPLOYMENTS][0]["status"] = {}
    event = refused("ReplicaSet", "gpu-operator-5d4f", "exceeded quota", "")
    event["series"] = {"lastObservedTime": "2026-01-01T00:00:09.123456Z"}
    api.lists[EVENTS] = [event, refused("ReplicaSet", "other-5d4f", "exceeded quota", "")]
    assert list(look(api).refusals) == ["gpu-operator"]


def test_the_operators_pod_is_explained(api: FakeApi) -> None:
    api.lists[DEPLOYMENTS][0]["status"] = {}
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "x: not found"}}
    api.lists[PODS] = [
        {
            "metadata": {"name": "gpu-operator-5d4f-abcde", "labels": {"pod-template-hash": "5d4f"}},
            "spec": {"nodeName": "gpu-0000"},
            "status": {"containerStatuses": [{"name": "op", "state": waiting}]},
        }
    ]
    api.table = [
        ["gpu-operator-5d4f-abcde", "0/1", "ErrImagePull", "0", "1m", "<none>", "gpu-0000"],
        ["gpu-operator-node-feature-discovery-gc-5d4f-abcde", "0/1", "Pending", "0", "1m", "<none>", "<none>"],
    ]
    seen = look(api)
    assert [row.message for row in seen.others["gpu-operator"]] == ["x: not found"] and seen.troubled == {}
    found = judge.judge(seen)
    assert found.state == "failed" and "pod gpu-operator-5d4f-abcde is ErrImagePull" in found.message


def test_node_feature_discovery_is_looked_at_without_gpu_nodes_only(api: FakeApi) -> None:
    worker = {
        "metadata": {
            "name": "nfd-worker",
            "labels": {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"},
        },
        "status": progress(2, 2, 2, 0),
    }
    api.lists[DAEMONSETS].append(worker)
    api.table = [["nfd-worker-abcde", "0/1", "Init:0/1", "0", "1m", "<none>", "gpu-0000"]]
    assert look(api).others == {}
    api.lists[NODES].clear()
    assert [row.status for row in look(api).others["nfd-worker"]] == ["Init:0/1"]
    worker["status"] = progress(2, 2, 2, 2)
    assert look(api).others == {}


def test_without_a_cause_the_last_warning_explains_a_pod(api: FakeApi) -> None:
    trouble(api, "ContainerCreating")
    api.lists[EVENTS] = [
        {"message": "older", "lastTimestamp": "2026-01-01T00:00:00Z"},
        {"message": 'MountVolume.SetUp failed: configmap "x" not found.', "lastTimestamp": "2026-01-01T00:01:00Z"},
    ]
    assert look(api).troubled[EXPORTER][0].cause == 'MountVolume.SetUp failed: configmap "x" not found'
    assert f"involvedObject.name={EXPORTER}-abcd1,type=Warning" in [
        query.get("fieldSelector") for dummy, path, query in api.log if path == EVENTS
    ]


def test_a_pod_that_has_just_been_deleted(api: FakeApi) -> None:
    trouble(api, "Terminating", "3 (5m ago)")
    api.lists[PODS] = []
    assert look(api).troubled[EXPORTER][0].restarts == 3 and look(api).troubled[EXPORTER][0].cause == ""


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ({}, ""),
        ({"initContainerStatuses": [{"name": "a", "state": {"running": {}}}]}, "container a is still running"),
        (
            {
                "containerStatuses": [
                    {"name": "a", "state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}}
                ]
            },
            "container a exited with 1",
        ),
        (
            {"containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 2, "message": "no\nluck."}}}]},
            "container a exited with 2: no luck",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available"}]},
            "0/4 nodes are available",
        ),
        (
            {"containerStatuses": [{"name": "a", "state": {"waiting": {"message": "x" * 400}}}]},
            "container a: " + "x" * 297 + "...",
        ),
        ({"containerStatuses": [{"name": "a", "ready": True, "state": {"running": {}}}]}, ""),
    ],
)
def test_what_blocks_a_pod(status: Json, cause: str) -> None:
    assert troubles.held_up_by({"status": status}) == cause


def test_only_a_few_pods_are_read_one_by_one(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble(api, "ContainerCreating")
    monkeypatch.setattr(troubles, "EXPLAINED_PODS", 0)
    row = look(api).troubled[EXPORTER][0]
    assert (row.status, row.cause) == ("ContainerCreating", "")
    assert not any(path.startswith(PODS + "/") for dummy, path, query in api.log)
