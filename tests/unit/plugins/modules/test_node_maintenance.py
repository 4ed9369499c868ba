# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import functools
import itertools
import os
import signal
import typing as t
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import tries
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import drain, fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import maintain as _run
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold import (
    INITIALLY_CORDONED,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold_stamp import PURPOSE_PREFIX
from inline_snapshot import snapshot as wording

from tests.support.measured import measured
from tests.unit.fakes.api import ALL_PODS, NODES, FakeApi, refusal
from tests.unit.fakes.stack import workload

BUDGET = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2 currently"}


@pytest.fixture
def maintain(run_module: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    """The module with quick waits, on two nodes."""
    monkeypatch.setattr(_run, "DRAIN_POLL_S", 0.01)
    for name, seconds in {"LATE_PODS_S": 0.02, "EVICTION_RETRY_S": 0.02}.items():
        monkeypatch.setattr(drain, name, seconds)
    for name, seconds in {"POLL_S": 0.01, "OUTAGE_S": 0.5}.items():
        monkeypatch.setattr(waiting, name, seconds)
    monkeypatch.setattr(tries, "THROTTLED_S", 0)
    return functools.partial(run_module, "node_maintenance", **api.connection)


def node(api: FakeApi, number: int = 0) -> dict:
    return next(item for item in api.lists[NODES] if item["metadata"]["name"] == f"gpu-{number:04}")


def notes(api: FakeApi, number: int = 0) -> dict[str, str]:
    return node(api, number)["metadata"].get("annotations") or {}


def cordoned(api: FakeApi, number: int = 0) -> bool:
    return bool(node(api, number)["spec"].get("unschedulable"))


def pods(api: FakeApi) -> list[str]:
    return [pod["metadata"]["name"] for pod in api.lists[ALL_PODS]]


def evictions(api: FakeApi) -> list[str]:
    return [path.split("/")[-2] for method, path, query in api.log if path.endswith("/eviction")]


def writes(api: FakeApi) -> list[str]:
    """Return the paths that were patched without a dry run. An eviction states in its body whether it is a dry run."""
    return [path for method, path, query in api.log if method == "PATCH" and "dryRun" not in query]


def row(run: t.Any, number: int = 0) -> dict:
    return next(item for item in run.result["nodes"] if item["node"] == f"gpu-{number:04}")


def forbid(api: FakeApi, times: int = 10**6) -> None:
    """Let a budget forbid the first ``times`` evictions."""
    left = [times]

    def answer(method: str, path: str) -> t.Any:
        if path.endswith("/eviction") and left[0] > 0:
            left[0] -= 1
            return refusal(
                429, "Cannot evict pod as it would violate the pod's disruption budget.", "TooManyRequests", [BUDGET]
            )
        return None

    api.answer = answer


# ---- holding and releasing nodes ------------------------------------------------------------------------------------


def test_a_drain_evicts_only_gpu_pods_and_marks_the_node(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [
        workload("train"),
        workload("web", gpus=0),
        workload("dcgm", controller="DaemonSet"),
        workload("elsewhere", 1),
    ]
    api.end = api.lists[ALL_PODS].remove
    run = maintain(state="drained", nodes=["gpu-0000"], purpose="reboot", _ansible_diff=True)
    assert run.rc == 0 and run.result["changed"] is True and run.warnings == []
    assert pods(api) == ["web", "dcgm", "elsewhere"] and evictions(api) == ["train"]
    assert cordoned(api) and not cordoned(api, 1)
    assert notes(api)[INITIALLY_CORDONED] == "false" and notes(api)[PURPOSE_PREFIX + "reboot"].count(" ") == 2
    assert run.result["summary"] == {"nodes": 1, "changed": 1, "failed": 0, "evicted": 1}
    assert (
        row(run)["evicted"] == ["default/train"]
        and row(run)["purposes"] == ["reboot"]
        and row(run)["unschedulable"] is True
    )
    assert run.result["diff"] == {
        "before": {"gpu-0000": {"unschedulable": False, "purposes": [], "pods": ["default/train"]}},
        "after": {"gpu-0000": {"unschedulable": True, "purposes": ["reboot"], "pods": []}},
    }


def test_a_node_that_failed_is_tainted_until_it_is_restored(maintain: t.Callable, api: FakeApi) -> None:
    theirs = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}
    node(api)["spec"]["taints"] = [theirs]
    held = {"nodes": ["gpu-0000"], "purpose": "change"}
    assert maintain(state="drained", **held).rc == 0
    run = maintain(state="cordoned", **held, taint_reason="No GPU answers: Xid 79.\n", _ansible_diff=True)
    assert (run.rc, run.result["changed"], row(run)["failures"]) == (0, True, {"change": "No GPU answers: Xid 79"})
    taint = {"key": "gpuops.nvidia/failed.change", "value": "No-GPU-answers-Xid-79", "effect": "NoSchedule"}
    assert node(api)["spec"]["taints"] == [theirs, taint]
    assert notes(api)["gpuops.nvidia/failed.change"] == "No GPU answers: Xid 79"
    sides = [run.result["diff"][side]["gpu-0000"]["failures"] for side in ("before", "after")]
    assert sides == [{}, {"change": "No GPU answers: Xid 79"}]
    assert maintain(state="drained", **held).result["changed"] is False
    restored = maintain(state="restored", **held)
    assert (restored.result["changed"], row(restored)["failures"]) == (True, {})
    assert node(api)["spec"]["taints"] == [theirs] and not cordoned(api) and notes(api) == {}


def test_a_reason_without_a_hold_is_refused(maintain: t.Callable) -> None:
    run = maintain(state="restored", nodes=["gpu-0000"], taint_reason="x")
    assert run.rc == 1 and "taint_reason needs state=cordoned or state=drained" in run.result["msg"]


def test_a_drain_reports_its_progress(maintain: t.Callable, api: FakeApi, tmp_path: Path) -> None:
    path = tmp_path / "progress"
    api.lists[ALL_PODS] = [workload("web"), workload("train", 1)]
    api.end = api.lists[ALL_PODS].remove
    forbid(api, times=3)
    assert maintain(state="drained", nodes=["gpu-0000", "gpu-0001"], parallel=1, progress_path=str(path)).rc == 0
    said = path.read_text().splitlines()
    # The nodes are cordoned in parallel, and either may be first.
    first, pod, last = ("gpu-0000", "web", "gpu-0001") if "gpu-0000" in said[0] else ("gpu-0001", "train", "gpu-0000")
    assert (
        said[0]
        == f"0/2 nodes drained; {first}: 1 pod left, default/{pod}: the PodDisruptionBudget default/web forbids "
        "its eviction: " + ("it needs 2 healthy pods and has 2 currently")
    )
    assert f"1/2 nodes drained; {last}: 1 pod left" in said and said[-1] == "2/2 nodes drained"
    assert all(line != following for line, following in itertools.pairwise(said))
    nowhere = maintain(
        state="drained", nodes=["gpu-0000"], purpose="other", progress_path=str(tmp_path / "no" / "folder")
    )
    assert nowhere.rc == 0, "A drain continues if its progress cannot be read."


def test_check_and_run_agree_and_the_second_run_has_nothing_to_do(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train"), workload("web", 1, gpus=0)]
    api.end = api.lists[ALL_PODS].remove
    for options in ({"state": "drained", "nodes": ["gpu-0000", "gpu-0001"], "evict": "all"}, {"state": "restored"}):
        before = copy.deepcopy(api.lists)
        predicted = maintain(**options, _ansible_check_mode=True)
        assert api.lists == before and writes(api) == []
        done = maintain(**options)
        again = [maintain(**options, _ansible_check_mode=True), maintain(**options)]
        assert [run.rc for run in (predicted, done, *again)] == [0, 0, 0, 0]
        assert [run.result["changed"] for run in (predicted, done, *again)] == [True, True, False, False]
        assert predicted.result["diff"] == done.result["diff"] and predicted.result["summary"] == done.result["summary"]
        assert [{**item, "seconds": 0} for item in done.result["nodes"]] == predicted.result["nodes"]
        api.log.clear()
    assert not cordoned(api) and notes(api) == {} and not cordoned(api, 1)


def test_cordon_alone_reads_no_pods(maintain: t.Callable, api: FakeApi) -> None:
    run = maintain(state="cordoned", node_selector={"nvidia.com/gpu.present": "true"}, parallel=1)
    assert run.result["summary"] == {"nodes": 2, "changed": 2, "failed": 0, "evicted": 0}
    assert cordoned(api) and cordoned(api, 1) and not any(path == ALL_PODS for _method, path, _query in api.log)


def test_a_node_that_was_cordoned_before_stays_so(maintain: t.Callable, api: FakeApi) -> None:
    node(api)["spec"]["unschedulable"] = True
    assert maintain(state="drained", nodes=["gpu-0000"]).result["changed"] is True
    assert notes(api)[INITIALLY_CORDONED] == "true"
    run = maintain(state="restored", nodes=["gpu-0000", "gpu-0001"])
    assert run.result["changed"] is True and cordoned(api) and notes(api) == {} and row(run, 1)["changed"] is False


def test_the_last_purpose_returns_the_node_to_service(maintain: t.Callable, api: FakeApi) -> None:
    for purpose in ("repair", "reboot"):
        maintain(state="cordoned", nodes=["gpu-0000"], purpose=purpose)
    run = maintain(state="restored", nodes=["gpu-0000"], purpose="reboot")
    assert cordoned(api) and row(run)["purposes"] == ["repair"] and row(run)["unschedulable"] is True
    maintain(state="restored", purpose="repair")
    assert not cordoned(api)


def test_many_nodes_are_read_in_one_list_of_pods(
    maintain: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "FEW_NODES", 1)
    api.lists[ALL_PODS] = [workload("a"), workload("b", 1), workload("c", 1, gpus=0), workload("d", 7)]
    run = maintain(state="drained", nodes=["gpu-0000", "gpu-0001"], _ansible_check_mode=True)
    assert [item["evicted"] for item in run.result["nodes"]] == [["default/a"], ["default/b"]]
    assert len([path for _method, path, _query in api.log if path == ALL_PODS]) == 1


def test_a_gpu_that_is_held_by_a_claim_counts(maintain: t.Callable, api: FakeApi) -> None:
    claims = "/apis/resource.k8s.io/v1/resourceclaims"

    def claim(name: str, **result: t.Any) -> dict:
        return {
            "metadata": {"namespace": "default", "name": name},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }

    api.lists[claims] = [
        claim("gpu", driver="gpu.nvidia.com"),
        claim("nic", driver="dra.net"),
        claim("admin", driver="gpu.nvidia.com", adminAccess=True),
    ]
    made = {name: workload(name, gpus=0) for name in ("gpu", "nic", "admin", "gone")}
    for name, pod in made.items():
        pod["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimTemplateName": "y"}]
        pod["status"]["resourceClaimStatuses"] = [{"name": "x", "resourceClaimName": name}]
    api.lists[ALL_PODS] = list(made.values())
    run = maintain(state="drained", nodes=["gpu-0000"], _ansible_check_mode=True)
    assert row(run)["evicted"] == ["default/gpu"]
    assert [path for _method, path, _query in api.log].count(claims) == 2, (
        "Claims are listed once, and once more for the missing claim."
    )


def test_an_empty_list_of_nodes_changes_nothing_even_when_restoring(maintain: t.Callable, api: FakeApi) -> None:
    maintain(state="cordoned", nodes=["gpu-0000"])
    for state in ("drained", "restored"):
        assert maintain(state=state, nodes=[]).result["summary"]["nodes"] == 0
    assert cordoned(api)


# ---- refusals before any change -------------------------------------------------------------------------------------


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_bare_pod_is_refused_before_any_node_changes(maintain: t.Callable, api: FakeApi, check_mode: bool) -> None:
    api.lists[ALL_PODS] = [workload("train"), workload("bare", 1, controller="")]
    run = maintain(state="drained", nodes=["gpu-0000", "gpu-0001"], _ansible_check_mode=check_mode)
    assert (
        run.rc == 1
        and run.result["reason"] == "PodsInTheWay"
        and "default/bare on gpu-0001 has no controller" in run.result["msg"]
    )
    assert writes(api) == [] and evictions(api) == []


def test_bare_pods_are_evicted_with_permission(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("bare", controller="")]
    api.end = api.lists[ALL_PODS].remove
    assert maintain(state="drained", nodes=["gpu-0000"], force=True).rc == 0 and pods(api) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"state": "drained", "nodes": ["gpu-0009"]}, "no node gpu-0009. Correct the option nodes"),
        ({"state": "drained", "node_selector": {"rack": 7}}, "node_selector"),
        ({"state": "drained"}, "nodes, node_selector"),
        ({"state": "drained", "nodes": ["gpu-0000"], "node_selector": {"a": "b"}}, "mutually exclusive"),
        ({"state": "drained", "nodes": ["gpu-0000"], "purpose": "No!"}, "purpose must be"),
        ({"state": "drained", "nodes": ["gpu-0000"], "timeout": 0}, "timeout is 0: give 1 or more"),
        ({"state": "cordoned", "nodes": ["gpu-0000", "gpu-0001"], "max_in_maintenance": 1}, "max_in_maintenance is 1"),
    ],
)
def test_bad_input_is_one_sentence(maintain: t.Callable, api: FakeApi, options: dict, words: str) -> None:
    run = maintain(**options)
    assert run.rc == 1 and words in run.result["msg"] and writes(api) == []


# ---- budgets and slow pods ------------------------------------------------------------------------------------------


def test_a_refused_eviction_is_requested_again(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    forbid(api, times=2)
    run = maintain(state="drained", nodes=["gpu-0000"])
    assert run.rc == 0 and evictions(api) == ["train"] * 3 and row(run)["left"] == {}


def test_at_the_deadline_the_budget_is_named_and_every_node_put_back(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    forbid(api)
    run = maintain(state="drained", nodes=["gpu-0000", "gpu-0001"], timeout=1)
    why = "the PodDisruptionBudget default/web forbids its eviction: it needs 2 healthy pods and has 2 currently"
    assert run.rc == 1 and run.result["reason"] == "NodesFailed"
    assert run.result["msg"] == wording(
        "gpu-0000: After 1 s these pods are still there: default/train (the PodDisruptionBudget default/web forbids its eviction: it needs 2 healthy pods and has 2 currently). The nodes that this call cordoned are put back."
    )
    assert row(run)["left"] == {"default/train": why} and row(run)["failed"] is True and row(run, 1)["failed"] is False
    assert (
        run.result["changed"] is False
        and not cordoned(api)
        and not cordoned(api, 1)
        and notes(api) == notes(api, 1) == {}
    )


def test_check_mode_reports_what_a_budget_forbids_now(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    forbid(api)
    run = maintain(state="drained", nodes=["gpu-0000"], _ansible_check_mode=True)
    assert (
        run.rc == 0
        and run.result["changed"] is True
        and "PodDisruptionBudget default/web" in row(run)["left"]["default/train"]
    )
    assert run.warnings == [
        wording(
            "Pod default/train on gpu-0000 cannot be evicted now: the PodDisruptionBudget default/web forbids its eviction: it needs 2 healthy pods and has 2 currently. A run would request it again until timeout."
        )
    ]


def test_a_failure_may_keep_the_nodes(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    forbid(api)
    run = maintain(state="drained", nodes=["gpu-0000", "gpu-0001"], timeout=1, restore_on_failure=False, parallel=1)
    assert run.rc == 1 and run.result["msg"] == wording(
        "gpu-0000: After 1 s these pods are still there: default/train (the PodDisruptionBudget default/web forbids its eviction: it needs 2 healthy pods and has 2 currently). The nodes that this call cordoned stay in maintenance (restore_on_failure is false). Run it again, or run it with state=restored."
    )
    assert cordoned(api) and cordoned(api, 1) and run.result["changed"] is True and row(run, 1)["failed"] is False


def test_all_nodes_are_cordoned_before_the_first_eviction(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("a"), workload("b", 1)]
    api.end = api.lists[ALL_PODS].remove
    assert maintain(state="drained", nodes=["gpu-0000", "gpu-0001"], parallel=1).rc == 0
    steps = [method for method, path, _query in api.log if method == "PATCH" or path.endswith("/eviction")]
    assert steps == ["PATCH", "PATCH", "POST", "POST"]


def test_a_slow_pod_is_evicted_once_and_waited_for(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("slow")]
    looks = [5]

    def end(pod: dict) -> None:
        pod["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"

    def answer(method: str, path: str) -> None:
        if path == ALL_PODS and "deletionTimestamp" in str(api.lists[ALL_PODS]):
            looks[0] -= 1
            if looks[0] == 0:
                api.lists[ALL_PODS].clear()

    api.end, api.answer = end, answer
    run = maintain(state="drained", nodes=["gpu-0000"])
    assert run.rc == 0 and evictions(api) == ["slow"] and row(run)["evicted"] == ["default/slow"]


def test_a_pod_that_does_not_end_is_named(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("stuck", finalizers=["example.com/keep"])]
    told = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    api.end = lambda pod: pod["metadata"].update(deletionTimestamp=told, deletionGracePeriodSeconds=0)
    run = maintain(state="drained", nodes=["gpu-0000"], timeout=1, grace_period=0)
    assert (
        run.rc == 1
        and "default/stuck (it did not terminate" in run.result["msg"]
        and "finalizers example.com/keep" in run.result["msg"]
    )
    assert not cordoned(api) and run.result["changed"] is True, "The pod has been evicted, although it has not ended."


def test_a_pod_that_appears_after_the_plan_is_refused_too(maintain: t.Callable, api: FakeApi) -> None:
    def answer(method: str, path: str) -> None:
        if method == "PATCH" and not api.lists[ALL_PODS]:
            api.lists[ALL_PODS].append(workload("late", controller=""))

    api.answer = answer
    run = maintain(state="drained", nodes=["gpu-0000"])
    assert run.rc == 1 and "default/late on gpu-0000 has no controller" in run.result["msg"]
    assert evictions(api) == [] and not cordoned(api)


def test_a_lagging_cache_is_not_trusted(maintain: t.Callable, api: FakeApi) -> None:
    """Only a read that bypasses the cache shows the pod."""
    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    api.answer = lambda method, path: (
        (200, {"items": []}) if path == ALL_PODS and api.log[-1][2].get("resourceVersion") == "0" else None
    )
    assert row(maintain(state="drained", nodes=["gpu-0000"]))["evicted"] == ["default/train"]


# ---- interruptions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_puts_everything_back(maintain: t.Callable, api: FakeApi, number: int) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    before = signal.getsignal(number)
    sent: list[int] = []

    def answer(method: str, path: str) -> t.Any:
        if path.endswith("/eviction"):
            assert cordoned(api)
            if not sent:
                sent.append(number)
                os.kill(os.getpid(), number)
            return refusal(429, "no", "TooManyRequests")
        return None

    api.answer = answer
    run = maintain(state="drained", nodes=["gpu-0000", "gpu-0001"], timeout=20)
    assert (
        run.rc == 1
        and run.result["reason"] == "Interrupted"
        and run.result["msg"] == wording("The call was interrupted. The nodes that this call cordoned are put back.")
    )
    assert sent and not cordoned(api) and not cordoned(api, 1) and notes(api) == {}
    assert signal.getsignal(number) == before


def test_ctrl_c_before_any_change_is_one_sentence(
    maintain: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: object) -> t.NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(fleet.Fleet, "nodes", interrupt)
    run = maintain(state="drained", nodes=["gpu-0000"])
    assert run.rc == 1 and run.result["reason"] == "Interrupted" and writes(api) == []


def test_a_resumed_run_that_fails_keeps_the_nodes_of_the_first_one(maintain: t.Callable, api: FakeApi) -> None:
    maintain(state="cordoned", nodes=["gpu-0000"])
    api.lists[ALL_PODS] = [workload("train")]
    forbid(api)
    run = maintain(state="drained", nodes=["gpu-0000", "gpu-0001"], timeout=1)
    assert run.rc == 1 and run.result["msg"] == wording(
        "gpu-0000: After 1 s these pods are still there: default/train (the PodDisruptionBudget default/web forbids its eviction: it needs 2 healthy pods and has 2 currently). The nodes that this call cordoned are put back. Nodes that an earlier call cordoned stay in maintenance: gpu-0000."
    )
    assert cordoned(api) and not cordoned(api, 1)


def test_a_drain_survives_an_outage(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    left = [3]

    def answer(method: str, path: str) -> t.Any:
        if method == "POST" and left[0]:
            left[0] -= 1
            return refusal(503, "etcdserver: leader changed")
        return None

    api.answer = answer
    assert maintain(state="drained", nodes=["gpu-0000"]).rc == 0 and pods(api) == []


def test_after_a_long_outage_a_later_run_removes_the_marks(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    api.answer = lambda method, path: refusal(503, "etcd is gone") if cordoned(api) else None
    run = maintain(state="drained", nodes=["gpu-0000"])
    assert (
        run.rc == 1
        and run.result["reason"] == "ServerError"
        and measured(run.result["msg"])
        == wording(
            "The Kubernetes API failed on GET /api/v1/pods (503): etcd is gone. Its last answer was N s ago. These nodes could not be put back and stay in maintenance: gpu-0000 (The Kubernetes API failed on GET /api/v1/nodes/gpu-0000 (503): etcd is gone. Its last answer was N s ago.). Run it with state=restored."
        )
    )
    assert "Run it with state=restored" in run.result["msg"] and row(run)["failed"] is True
    api.answer = lambda method, path: None
    assert maintain(state="restored").result["changed"] is True
    assert not cordoned(api) and notes(api) == {}


def test_a_lost_answer_to_the_cordon_is_recognised(maintain: t.Callable, api: FakeApi) -> None:
    """The node was cordoned, but the answer was lost: a failure must still put the node back."""
    api.lists[ALL_PODS] = [workload("train")]
    real, lost = api._merge_patch, []

    def lose_the_first(*args: t.Any) -> t.Any:
        made = real(*args)
        if not lost:
            lost.append(True)
            return refusal(500, "the answer is lost")
        return made

    api._merge_patch = lose_the_first  # type: ignore[method-assign]
    forbid(api)
    run = maintain(state="drained", nodes=["gpu-0000"], timeout=1)
    assert run.rc == 1 and "PodDisruptionBudget" in run.result["msg"] and not cordoned(api) and notes(api) == {}


def test_missing_permission_is_named_and_everything_put_back(maintain: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    said = 'pods "train" is forbidden: User "bob" cannot create resource "pods/eviction"'
    api.answer = lambda method, path: refusal(403, said, "Forbidden") if path.endswith("/eviction") else None
    run = maintain(state="drained", nodes=["gpu-0000"])
    assert (
        run.rc == 1
        and run.result["reason"] == "Forbidden"
        and "pods/eviction" in run.result["msg"]
        and not cordoned(api)
    )
    assert maintain(state="drained", nodes=["gpu-0000"], _ansible_check_mode=True).result["reason"] == "Forbidden"


@pytest.mark.parametrize("check_mode", [True, False])
def test_missing_permission_to_cordon_is_named(maintain: t.Callable, api: FakeApi, check_mode: bool) -> None:
    api.answer = lambda method, path: refusal(403, "nodes is forbidden", "Forbidden") if method == "PATCH" else None
    run = maintain(state="cordoned", nodes=["gpu-0000"], _ansible_check_mode=check_mode)
    assert (
        run.rc == 1 and run.result["reason"] == "Forbidden" and "No permission: nodes is forbidden" in run.result["msg"]
    )


def test_after_a_conflict_the_node_is_read_again(maintain: t.Callable, api: FakeApi) -> None:
    """Somebody else cordons the node between the read and the patch."""
    raced: list[bool] = []

    def answer(method: str, path: str) -> None:
        if method == "PATCH" and not raced:
            raced.append(True)
            node(api)["spec"]["unschedulable"] = True
            node(api)["metadata"]["resourceVersion"] = "9"

    node(api)["metadata"]["resourceVersion"] = "1"
    api.answer = answer
    maintain(state="cordoned", nodes=["gpu-0000"])
    assert notes(api)[INITIALLY_CORDONED] == "true"


def test_a_node_that_changes_constantly_is_an_error(maintain: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: (
        refusal(409, "the object has been modified", "Conflict") if method == "PATCH" else None
    )
    assert maintain(state="cordoned", nodes=["gpu-0000"]).result["msg"] == wording(
        "Node gpu-0000 changes faster than it can be patched. Run it again. The nodes that this call cordoned are put back."
    )


def test_a_node_that_is_deleted_in_the_meantime_is_named(maintain: t.Callable, api: FakeApi) -> None:
    maintain(state="cordoned", nodes=["gpu-0001"])
    api.answer = lambda method, path: refusal(404, "gone") if path.endswith("gpu-0000") else None
    run = maintain(state="cordoned", nodes=["gpu-0000", "gpu-0001"])
    assert run.rc == 1 and run.result["msg"] == wording(
        "gpu-0000: Node gpu-0000 was deleted in the meantime. The nodes that this call cordoned are put back. Nodes that an earlier call cordoned stay in maintenance: gpu-0001."
    )
    assert cordoned(api, 1), "An earlier call cordoned it."


@pytest.mark.parametrize("check_mode", [True, False])
def test_nodes_that_are_gone_are_listed_as_absent(maintain: t.Callable, api: FakeApi, check_mode: bool) -> None:
    maintain(state="cordoned", nodes=["gpu-0000", "gpu-0001"])
    # One is gone at the first look, and one when it is patched.
    api.answer = lambda method, path: refusal(404, "gone") if path.endswith("gpu-0000") and not check_mode else None
    run = maintain(state="restored", nodes=["gone", "gpu-0000", "gpu-0001"], _ansible_check_mode=check_mode)
    assert run.rc == 0 and run.result["changed"] is True and run.result["summary"]["failed"] == 0
    absent = [item["node"] for item in run.result["nodes"] if item["absent"]]
    assert absent == (["gone"] if check_mode else ["gpu-0000", "gone"])
    assert cordoned(api, 1) is check_mode


def test_a_node_that_is_gone_is_listed_beside_one_that_fails(maintain: t.Callable, api: FakeApi) -> None:
    maintain(state="cordoned", nodes=["gpu-0000"])
    api.answer = lambda method, path: refusal(403, "no", "Forbidden") if method == "PATCH" else None
    run = maintain(state="restored", nodes=["gone", "gpu-0000"])
    assert run.rc == 1 and "gpu-0000: No permission" in run.result["msg"]
    assert [(item["node"], item["absent"]) for item in run.result["nodes"]] == [("gpu-0000", False), ("gone", True)]


# ---- other maintainers -----------------------------------------------------------------------------------------------


def test_the_others_that_hold_a_node_are_named(maintain: t.Callable, api: FakeApi) -> None:
    node(api)["metadata"]["annotations"] = {"quarantineHealthEventIsCordoned": "True"}
    node(api)["spec"]["unschedulable"] = True
    node(api, 1)["spec"]["unschedulable"] = True
    run = maintain(state="cordoned", nodes=["gpu-0000", "gpu-0001"])
    quarantine = "annotation quarantineHealthEventIsCordoned=True"
    assert row(run)["held_by"] == [{"owner": "nvsentinel", "mark": quarantine, "at_work": False}]
    assert row(run, 1)["held_by"] == [{"owner": "unknown", "mark": "cordon", "at_work": False}]
    assert run.warnings == []


def test_a_node_that_others_need_stays_out_when_it_is_let_go(maintain: t.Callable, api: FakeApi) -> None:
    maintain(state="cordoned", nodes=["gpu-0000"])
    notes(api)["skyhook.nvidia.com/cordon_tuning"] = "true"
    predicted = maintain(state="restored", _ansible_check_mode=True)
    done = maintain(state="restored")
    warning = "Node gpu-0000: It stays cordoned for nodewright (annotation skyhook.nvidia.com/cordon_tuning=true)."
    assert predicted.warnings == done.warnings == [warning]
    assert predicted.result["diff"] == done.result["diff"] and cordoned(api) and row(done)["purposes"] == []


def test_what_the_user_may_not_list_is_a_warning(maintain: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: (
        refusal(403, "daemonsets is forbidden", "Forbidden") if path == "/apis/apps/v1/daemonsets" else None
    )
    run = maintain(state="cordoned", nodes=["gpu-0000"])
    assert run.rc == 0 and run.warnings == [
        wording("This user may not list DaemonSets, and so not kured's lock: they were not considered.")
    ]


def test_labels_that_change_are_in_the_diff(maintain: t.Callable, api: FakeApi) -> None:
    switch = "k8saas.nvidia.com/ManagedByNVSentinel"
    run = maintain(state="cordoned", nodes=["gpu-0000"], pause_nvsentinel=True, _ansible_diff=True)
    assert run.result["diff"]["before"]["gpu-0000"]["labels"] == {switch: None}
    assert run.result["diff"]["after"]["gpu-0000"]["labels"] == {switch: "false"}
    assert node(api)["metadata"]["labels"][switch] == "false"
    maintain(state="restored")
    assert switch not in node(api)["metadata"]["labels"]
