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

from tests.unit.fakes.api import DAEMONSETS, EVENTS, PODS, FakeApi
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
    assert len(seen.troubled[EXPORTER]) == 1 and judge.judge(seen).state == "failed"


def test_a_pod_of_an_old_revision_is_recognized(api: FakeApi) -> None:
    trouble(api, "ImagePullBackOff")
    api.lists[PODS][0]["spec"]["containers"][0]["image"] = "old"
    assert not look(api).troubled[EXPORTER][0].current


def test_without_a_cause_the_last_warning_explains_a_pod(api: FakeApi) -> None:
    trouble(api, "ContainerCreating")
    api.lists[EVENTS] = [
        {"message": "older", "lastTimestamp": "2026-01-01T00:00:00Z"},
        {"message": 'MountVolume.SetUp failed: configmap "x" not found.', "lastTimestamp": "2026-01-01T00:01:00Z"},
    ]
    assert look(api).troubled[EXPORTER][0].cause == 'MountVolume.SetUp failed: configmap "x" not found'
    assert api.log[-1][2]["fieldSelector"] == f"involvedObject.name={EXPORTER}-abcd1,type=Warning"


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
