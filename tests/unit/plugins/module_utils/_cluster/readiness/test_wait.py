# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for the judge's verdict, on a small API server in this process."""

from __future__ import annotations

import itertools
import os
import signal
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import wait
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.support.clock import Clock
from tests.support.measured import measured
from tests.unit.fakes.api import DAEMONSETS, DEPLOYMENTS, GPUCLUSTERS, POLICIES, FakeApi, refusal
from tests.unit.fakes.stack import LONG_AGO, NAMESPACE


def state_after_wait(api: FakeApi, timeout_s: float = 5, progress_path: Path | None = None) -> str:
    path = str(progress_path) if progress_path else None
    return wait.until_ready(Cluster(api.connection), NAMESPACE, "cluster-policy", timeout_s, path)[1].state


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let no time pass but the pauses of a wait, which are 10 s."""
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    monkeypatch.setattr(wait, "time", clock)
    monkeypatch.setattr(waiting, "POLL_S", 10.0)
    return clock


def on_poll(api: FakeApi, change: t.Callable[[int], t.Any]) -> None:
    """Call ``change`` with 0, 1, 2... each time a wait reads the ClusterPolicies, and answer with its result."""
    number = itertools.count()
    api.answer = lambda method, path: change(next(number)) if path == POLICIES else None


def test_a_wait_ends_when_the_stack_is_ready(api: FakeApi) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"
    on_poll(api, lambda number: api.lists[POLICIES][0]["status"].update(state="ready") if number == 2 else None)
    assert state_after_wait(api) == "ready"


def test_a_wait_that_cannot_succeed_ends_at_once(api: FakeApi) -> None:
    api.lists[GPUCLUSTERS] = [{"metadata": {"name": "gpu-cluster"}}]
    with pytest.raises(GpuOpsError, match="cannot become ready") as e:
        state_after_wait(api)
    assert (
        e.value.reason == "NotReady" and e.value.details["verdict"]["state"] == "failed" and e.value.details["operands"]
    )


def test_the_wait_ends_at_its_timeout(api: FakeApi) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"
    with pytest.raises(GpuOpsError) as e:
        state_after_wait(api, 0.1)
    assert e.value.reason == "TimedOut"
    assert e.value.msg == wording(
        "The GPU stack is not ready after 0 s: The operator does not report the ClusterPolicy as ready: state is notReady."
    )
    assert e.value.details["verdict"]["state"] == "progressing"


def test_the_timeout_names_the_whole_time(api: FakeApi, clock: Clock) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"
    with pytest.raises(GpuOpsError) as error:
        state_after_wait(api, 60)
    assert error.value.reason == "TimedOut"
    assert error.value.msg == wording(
        "The GPU stack is not ready after 60 s: The operator does not report the ClusterPolicy as ready: state is notReady."
    )
    assert clock.now_s == 1060


def test_each_look_appends_a_line(api: FakeApi, clock: Clock, tmp_path: Path) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"

    def change(number: int) -> t.Any:
        if number == 2:
            return refusal(503, "etcdserver: no leader")
        return api.lists[POLICIES][0]["status"].update(state="ready") if number == 4 else None

    on_poll(api, change)
    assert state_after_wait(api, 60, tmp_path / "progress") == "ready"
    lines = (tmp_path / "progress").read_text(encoding="utf-8").splitlines()
    message = "8/8 operands ready; The operator does not report the ClusterPolicy as ready: state is notReady."
    assert lines[:2] == [f"{message} (for 00:00)", f"{message} (for 00:10)"]
    assert "no leader" in lines[2] and lines[2].endswith(" (for 00:00)")
    assert lines[3:] == [f"{message} (for 00:00)"]


def test_the_operator_may_fail_to_reconcile_for_half_a_minute(api: FakeApi, clock: Clock) -> None:
    """The condition has been true for long: its time says nothing about its reason."""
    error = {
        "type": "Error",
        "status": "True",
        "reason": "ReconcileFailed",
        "message": "m",
        "lastTransitionTime": LONG_AGO,
    }
    api.lists[POLICIES][0]["status"] = {"state": "notReady", "conditions": [error]}
    with pytest.raises(GpuOpsError, match="The operator cannot reconcile: m") as e:
        state_after_wait(api, 600)
    assert e.value.reason == "NotReady" and clock.now_s == 1030


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait(api: FakeApi, number: signal.Signals) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"
    on_poll(api, lambda looked: os.kill(os.getpid(), number) if looked == 1 else None)
    with pytest.raises(GpuOpsError, match="The wait was interrupted") as e:
        state_after_wait(api)
    assert e.value.reason == "Interrupted" and e.value.details["verdict"]["state"] == "progressing"


@pytest.mark.parametrize("status", [500, 503])
def test_a_wait_survives_a_short_outage(api: FakeApi, status: int) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"

    def flaky(number: int) -> t.Any:
        if number in (1, 2):
            return refusal(status, "etcdserver: no leader")
        return api.lists[POLICIES][0]["status"].update(state="ready") if number == 3 else None

    on_poll(api, flaky)
    assert state_after_wait(api) == "ready"


def test_a_long_outage_ends_the_wait_with_the_last_verdict(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.05)
    api.lists[POLICIES][0]["status"]["state"] = "notReady"
    on_poll(api, lambda number: refusal(500, "etcdserver: no leader") if number else None)
    with pytest.raises(GpuOpsError) as e:
        state_after_wait(api)
    assert e.value.reason == "ServerError"
    assert measured(e.value.msg) == wording(
        "The Kubernetes API failed on GET /apis/nvidia.com/v1/clusterpolicies (500): etcdserver: no leader. Its last answer was N s ago."
    )
    assert e.value.details["verdict"]["state"] == "progressing"


@pytest.mark.parametrize(("status", "reason"), [(401, "Unauthorized"), (403, "Forbidden"), (500, "ServerError")])
def test_a_failure_at_the_start_ends_the_wait(api: FakeApi, status: int, reason: str) -> None:
    on_poll(api, lambda number: refusal(status, "no"))
    with pytest.raises(GpuOpsError) as e:
        state_after_wait(api)
    assert e.value.reason == reason and "verdict" not in e.value.details


# An edit that no image shows


def run(api: FakeApi, **more: t.Any) -> str:
    return wait.until_ready(Cluster(api.connection), NAMESPACE, "cluster-policy", 600, **more)[1].state


def edit(api: FakeApi, seconds_ago: float) -> None:
    """Change the ClusterPolicy a while ago, as the API server records it."""
    written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds_ago))
    entry = {"manager": "gpuops.nvidia", "time": written, "fieldsV1": {"f:spec": {}}}
    api.lists[POLICIES][0]["metadata"].update(managedFields=[entry], generation=2)


def test_a_wait_compares_with_what_was_before_its_edit(api: FakeApi, clock: Clock) -> None:
    before = wait.read_marks(Cluster(api.connection), NAMESPACE, api.lists[POLICIES][0])
    edit(api, 10)
    exporter = next(item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == "nvidia-dcgm-exporter")
    change = {"annotations": {"nvidia.com/last-applied-hash": "2"}}
    on_poll(api, lambda number: exporter["metadata"].update(change) if number == 2 else None)
    assert run(api, before=before) == "ready"
    assert clock.now_s == 1020
    queries = [query for dummy, path, query in api.log if path == DAEMONSETS]
    assert {query.get("resourceVersion") for query in queries} == {None}, "a cache may show the time before the edit"


def test_an_operator_without_a_live_lease_has_not_acted(api: FakeApi, clock: Clock) -> None:
    template = api.lists[DEPLOYMENTS][0]["spec"]["template"]
    template["spec"] = {"containers": [{"name": "gpu-operator", "args": ["--leader-elect"]}]}
    edit(api, 100)
    lease = {"metadata": {"name": "53822513.nvidia.com"}, "spec": {"acquireTime": LONG_AGO, "renewTime": LONG_AGO}}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    api.lists[leases] = [lease]
    with pytest.raises(GpuOpsError, match="The operator last renewed"):
        wait.until_ready(Cluster(api.connection), NAMESPACE, "cluster-policy", 10)
    assert {query["fieldSelector"] for dummy, path, query in api.log if path == leases} == {
        "metadata.name=53822513.nvidia.com"
    }
    api.answer = lambda method, path: refusal(403, "no") if path == leases else None
    assert run(api) == "ready"
