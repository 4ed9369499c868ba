# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from datetime import UTC, datetime

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node, workload
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import asked

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC).timestamp()


def test_which_pods_a_drain_evicts() -> None:
    assert eviction.is_movable(workload("a"))
    assert not eviction.is_movable(workload("a", controller="DaemonSet"))
    assert not eviction.is_movable(workload("a", annotations={"kubernetes.io/config.mirror": "hash"}))
    assert not eviction.is_movable(workload("a") | {"status": {"phase": "Succeeded"}})
    assert not eviction.is_movable(workload("a") | {"status": {"phase": "Failed"}})


def test_pods_that_are_evicted_only_with_permission() -> None:
    bare = workload("bare", controller="")
    owned = workload("owned", controller="")
    owned["metadata"]["ownerReferences"] = [{"kind": "ClusterPolicy", "name": "x"}]
    data = workload("data")
    data["spec"]["volumes"] = [{"name": "cache", "emptyDir": {}}, {"name": "config", "configMap": {}}]
    assert eviction.obstacles([bare, owned, data, workload("fine")], asked().permits) == [
        wording("default/bare on gpu-0000 has no controller that would start it again elsewhere (force permits it)"),
        wording("default/owned on gpu-0000 has no controller that would start it again elsewhere (force permits it)"),
        wording("default/data on gpu-0000 would lose its emptyDir data in cache (delete_emptydir_data permits it)"),
    ]
    assert eviction.obstacles([bare, data], asked(force=True, delete_emptydir_data=True).permits) == []
    going = workload("going", controller="", deletionTimestamp="2026-11-21T10:00:00Z")
    assert eviction.obstacles([going], asked().permits) == []


def refusal(reason: str, msg: str = "no.") -> GpuOpsError:
    return GpuOpsError(msg, reason=reason)


def test_refusals_that_the_next_poll_settles() -> None:
    assert eviction.explain_refusal(refusal("NotFound"), "default") is None
    assert eviction.explain_refusal(refusal("Conflict"), "default") is None
    assert (
        eviction.explain_refusal(
            GpuOpsError("no", reason="Forbidden", causes=[{"reason": "NamespaceTerminating"}]), "default"
        )
        is None
    )


def test_a_disruption_budget_is_named() -> None:
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
    }
    said = eviction.explain_refusal(GpuOpsError("no", reason="TooManyRequests", causes=[cause]), "default")
    assert (
        said == "the PodDisruptionBudget default/web forbids its eviction: it needs 2 healthy pods and has 2 currently"
    )
    assert (
        eviction.explain_refusal(refusal("TooManyRequests", "The API server is busy."), "default") == "The API "
        "server is busy"
    )


def test_two_disruption_budgets_are_named() -> None:
    said = (
        "The Kubernetes API failed on POST /x (500): This pod has more than one PodDisruptionBudget, which the "
        "eviction subresource does not support."
    )
    assert "more than one PodDisruptionBudget" in str(eviction.explain_refusal(refusal("ServerError", said), "default"))


@pytest.mark.parametrize("reason", ["Forbidden", "ServerError", "Unreachable"])
def test_other_refusals_are_errors(reason: str) -> None:
    with pytest.raises(GpuOpsError, match="no"):
        eviction.explain_refusal(refusal(reason), "default")


def ending(seconds_ago: float, **metadata: t.Any) -> dict:
    told = datetime.fromtimestamp(NOW - seconds_ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return workload("slow", deletionTimestamp=told, deletionGracePeriodSeconds=60, **metadata)


@pytest.mark.parametrize(
    ("pod", "refused", "why"),
    [
        pytest.param(workload("a"), "the budget forbids it", wording("the budget forbids it"), id="refused"),
        pytest.param(workload("a"), None, wording("it arrived late, and was not evicted in time"), id="late"),
        pytest.param(
            ending(-20),
            "old answer",
            wording(
                "it is terminating, and has 20 s left of its grace period of 60 s: raise timeout, or set grace_period"
            ),
            id="grace",
        ),
        pytest.param(
            ending(5, finalizers=["example.com/keep"]),
            None,
            wording("it did not terminate within its grace period of 60 s: the finalizers example.com/keep hold it"),
            id="finalizer",
        ),
        pytest.param(
            ending(5),
            None,
            wording("it did not terminate within its grace period of 60 s: check the kubelet of its node"),
            id="kubelet",
        ),
    ],
)
def test_why_a_pod_still_exists(pod: dict, refused: str | None, why: str) -> None:
    assert eviction.why_left(pod, node(), refused, NOW) == why


def test_a_pod_that_tolerates_the_cordon_comes_back() -> None:
    pod = workload("a")
    pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    assert "tolerates the cordon" in eviction.why_left(pod, node(), None, NOW)


def test_a_node_without_a_kubelet_does_not_end_its_pods() -> None:
    down = node()
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert "not Ready" in eviction.why_left(ending(5), down, None, NOW)
    assert "not Ready" in eviction.why_left(ending(5), None, None, NOW)


@pytest.mark.parametrize(
    ("left", "line"),
    [
        ({}, "12/50 nodes drained"),
        ({"gpu-0001": {}}, "12/50 nodes drained"),
        ({"gpu-0001": {"a/b": ""}}, "12/50 nodes drained; gpu-0001: 1 pod left"),
        (
            {
                "gpu-0001": {"a/b": ""},
                "gpu-0007": {
                    "default/db-0": "",
                    "default/web-0": "the PodDisruptionBudget default/web forbids its eviction",
                },
            },
            "12/50 nodes drained; gpu-0007: 2 pods left, default/web-0: the PodDisruptionBudget default/web "
            "forbids its eviction",
        ),
    ],
)
def test_progress_fits_in_one_line(left: dict, line: str) -> None:
    assert eviction.progress(50, 12, left) == line
