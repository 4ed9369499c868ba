# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the cluster, and waiting, against a small API server in this process."""

from __future__ import annotations

import itertools
import time
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe as _observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.judge import judge
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.observe import (
    observe,
    wait_until_ready,
    waiting_for,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fake_api import DAEMONSETS, EVENTS, GPUCLUSTERS, NODES, PODS, POLICIES, FakeApi, refusal, serving
from tests.unit.stack import NAMESPACE, Json, pod, progress, ready

EXPORTER = "nvidia-dcgm-exporter"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[FakeApi]:
    monkeypatch.setattr(_observe, "POLL_S", 0.01)
    with serving(ready(2)) as server:
        yield server


def look(api: FakeApi) -> _observe.Observation:
    return observe(Cluster(api.connection), NAMESPACE, "cluster-policy")


def trouble(api: FakeApi, status: str, restarts: str = "0", **pod_status: t.Any) -> None:
    """One of the two exporter pods is not fine."""
    item = next(item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == EXPORTER)
    item["status"].update(progress(2, 2, 2, 1))
    broken = pod(item, 1, **pod_status)
    api.lists[PODS] = [broken]
    api.table = [
        [f"{EXPORTER}-abcd0", "1/1", "Running", "0", "1m", "10.0.0.1", "gpu-0000"],
        [broken["metadata"]["name"], "0/1", status, restarts, "1m", "10.0.0.2", "gpu-0001"],
        [f"{EXPORTER}-of-somebody-else", "0/1", "Pending", "0", "1m", "<none>", "<none>"],
    ]


def test_a_stack_in_order_takes_five_small_lists(api: FakeApi) -> None:
    assert judge(look(api)).state == "ready"
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


def test_ages_are_told_by_the_servers_clock(api: FakeApi) -> None:
    api.skew_s = -3600
    assert abs(look(api).now - (time.time() - 3600)) < 5


def test_no_crd(api: FakeApi) -> None:
    del api.lists[POLICIES]
    assert look(api).policies is None


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
    assert len(seen.troubled[EXPORTER]) == 1 and judge(seen).state == "failed"


def test_a_pod_of_an_old_revision_is_told_apart(api: FakeApi) -> None:
    trouble(api, "ImagePullBackOff")
    api.lists[PODS][0]["spec"]["containers"][0]["image"] = "old"
    assert not look(api).troubled[EXPORTER][0].current


def test_else_the_last_warning_explains_it(api: FakeApi) -> None:
    trouble(api, "ContainerCreating")
    api.lists[EVENTS] = [
        {"message": "older", "lastTimestamp": "2026-01-01T00:00:00Z"},
        {"message": 'MountVolume.SetUp failed: configmap "x" not found.', "lastTimestamp": "2026-01-01T00:01:00Z"},
    ]
    assert look(api).troubled[EXPORTER][0].cause == 'MountVolume.SetUp failed: configmap "x" not found'
    assert api.log[-1][2]["fieldSelector"] == f"involvedObject.name={EXPORTER}-abcd1,type=Warning"


def test_a_pod_that_has_just_gone(api: FakeApi) -> None:
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
def test_what_a_pod_waits_for(status: Json, cause: str) -> None:
    assert waiting_for({"status": status}) == cause


# Waiting


def wait(api: FakeApi, timeout_s: float = 5) -> str:
    return wait_until_ready(Cluster(api.connection), NAMESPACE, "cluster-policy", timeout_s)[1].state


def on_poll(api: FakeApi, change: t.Callable[[int], t.Any]) -> None:
    """Call ``change`` with 0, 1, 2... whenever a wait looks at the ClusterPolicies; what it returns is the answer."""
    number = itertools.count()
    api.answer = lambda method, path: change(next(number)) if path == POLICIES else None


def test_a_wait_ends_when_the_stack_is_ready(api: FakeApi) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"
    on_poll(api, lambda number: api.lists[POLICIES][0]["status"].update(state="ready") if number == 2 else None)
    assert wait(api) == "ready"


def test_a_wait_without_hope_ends_at_once(api: FakeApi) -> None:
    api.lists[GPUCLUSTERS] = [{"metadata": {"name": "gpu-cluster"}}]
    with pytest.raises(GpuOpsError, match="cannot become ready") as e:
        wait(api)
    assert (
        e.value.reason == "NotReady" and e.value.details["verdict"]["state"] == "failed" and e.value.details["operands"]
    )


def test_time_is_up(api: FakeApi) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"
    with pytest.raises(GpuOpsError, match="not ready after 0 s: The operator does not call") as e:
        wait(api, 0.1)
    assert e.value.reason == "TimedOut" and e.value.details["verdict"]["state"] == "progressing"


@pytest.mark.parametrize("status", [500, 503])
def test_a_short_outage_is_sat_out(api: FakeApi, status: int) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"

    def flaky(number: int) -> t.Any:
        if number in (1, 2):
            return refusal(status, "etcdserver: no leader")
        return api.lists[POLICIES][0]["status"].update(state="ready") if number == 3 else None

    on_poll(api, flaky)
    assert wait(api) == "ready"


def test_an_outage_that_stays_is_told_with_the_last_verdict(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_observe, "OUTAGE_S", 0.05)
    api.lists[POLICIES][0]["status"]["state"] = "notReady"
    on_poll(api, lambda number: refusal(500, "etcdserver: no leader") if number else None)
    with pytest.raises(GpuOpsError, match=r"no leader.*Its last answer was 0 s ago") as e:
        wait(api)
    assert e.value.reason == "ServerError" and e.value.details["verdict"]["state"] == "progressing"


@pytest.mark.parametrize(("status", "reason"), [(401, "Unauthorized"), (403, "Forbidden"), (500, "ServerError")])
def test_what_fails_at_the_start_fails_at_once(api: FakeApi, status: int, reason: str) -> None:
    on_poll(api, lambda number: refusal(status, "no"))
    with pytest.raises(GpuOpsError) as e:
        wait(api)
    assert e.value.reason == reason and "verdict" not in e.value.details
