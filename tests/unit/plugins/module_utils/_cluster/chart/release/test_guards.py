# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import guards
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release.record import Revision
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

OLD, NEW = "nvcr.io/nvidia/gpu-operator:v26.3.3", "nvcr.io/nvidia/gpu-operator:v26.7.0"


def operator(image: str = OLD, name: str = "gpu-operator", **labels: str) -> dict:
    containers = [{"name": "gpu-operator", "image": image}]
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": labels},
        "spec": {"template": {"metadata": {"labels": {"app": "gpu-operator"}}, "spec": {"containers": containers}}},
    }


class FakeCluster:
    """A cluster with Subscriptions of OLM, or without OLM."""

    def __init__(self, subscriptions: list[dict] | None = None, check_mode: bool = False) -> None:
        self.subscriptions = subscriptions
        self.check_mode = check_mode

    def list(self, path: str, **selectors: str) -> list[dict] | None:
        assert path == "/apis/apps/v1/deployments"
        assert selectors == {"fieldSelector": "metadata.name=gpu-operator"}
        other = operator()
        other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
        return [operator(), other]

    def list_readable(self, path: str) -> Listed:
        """Answer like an API server; without Subscriptions, OLM's kinds do not exist, or the user may not read them."""
        assert path == "/apis/operators.coreos.com/v1alpha1/subscriptions"
        return Listed(self.subscriptions or [], refusal="" if self.subscriptions else "may not")


def subscription(package: str) -> dict:
    return {"metadata": {"name": "sub", "namespace": "nvidia-gpu-operator"}, "spec": {"name": package}}


def test_operators_are_found_by_the_label_of_their_pods() -> None:
    assert guards.operators(FakeCluster()) == [operator()]


@pytest.mark.parametrize("subscriptions", [None, [], [subscription("prometheus")]])
def test_without_an_operator_of_olm_helm_may_run(subscriptions: list[dict] | None) -> None:
    guards.refuse_olm(FakeCluster(subscriptions), [operator()])


@pytest.mark.parametrize(
    ("cluster", "deployments", "words"),
    [
        (FakeCluster(), [operator(**{"olm.owner": "gpu-operator-certified.v26.3.3"})], "(Deployment ns/gpu-operator)"),
        (
            FakeCluster([subscription("gpu-operator-certified")]),
            [],
            "(Subscription nvidia-gpu-operator/sub)",
        ),
    ],
)
def test_an_operator_of_olm_is_left_to_it(cluster: FakeCluster, deployments: list[dict], words: str) -> None:
    with pytest.raises(GpuOpsError) as e:
        guards.refuse_olm(cluster, deployments)
    assert words in e.value.msg and e.value.reason == "OperatorOfOLM"


PENDING = [Revision("s2", 2, "pending-upgrade", 1000.0), Revision("s1", 1, "deployed", 0.0)]


@pytest.mark.parametrize("found", [[], [Revision("s1", 1, "deployed", 0.0)], list(reversed(PENDING))])
def test_only_the_newest_revision_locks(found: list[Revision]) -> None:
    assert guards.stale_lock(found, 9999.0, 300.0, may_break=True) is None


def test_a_lock_is_stale_half_a_minute_after_helms_timeout() -> None:
    assert guards.stale_lock(PENDING, 1330.0, 300.0, may_break=True) == PENDING[0]
    with pytest.raises(GpuOpsError) as e:
        guards.stale_lock(PENDING, 1329.0, 300.0, may_break=True)
    assert e.value.msg == (
        "Helm's operation pending-upgrade of revision 2 began 329 s ago and has not ended. "
        "Wait until it ends; its lock counts as left behind when it is older than 330 s."
    )
    assert e.value.reason == "ReleaseLocked"


def test_a_stale_lock_is_not_broken_without_permission() -> None:
    with pytest.raises(GpuOpsError, match=r"revision 2 began 400 s ago .* Set break_lock: true to remove its lock\.$"):
        guards.stale_lock(PENDING, 1400.0, 300.0, may_break=False)


AUTO = {"driver": {"version": "1", "upgradePolicy": {"autoUpgrade": True}}}


def policy(spec: dict) -> dict:
    return {"metadata": {"name": "cluster-policy"}, "spec": spec}


def test_nothing_is_disrupted_before_there_is_a_policy() -> None:
    assert guards.disrupting(None, policy(AUTO), [operator(OLD)], NEW) == []


def test_a_chart_that_changes_nothing_disrupts_nothing() -> None:
    assert guards.disrupting(policy({**AUTO, "mig": {"strategy": "mixed"}}), policy(AUTO), [operator(NEW)], NEW) == []


def test_fields_of_the_rendered_policy_disrupt() -> None:
    rendered = policy({"driver": {"version": "2"}})
    assert guards.disrupting(policy(AUTO), rendered, [operator(NEW)], NEW) == ["driver.version"]


def test_an_operator_of_another_line_disrupts() -> None:
    assert guards.disrupting(policy(AUTO), policy(AUTO), [operator(OLD)], NEW) == ["operator"]
    assert guards.disrupting(policy({"driver": {"version": "1"}}), None, [operator(OLD)], NEW) == []


@pytest.mark.parametrize("image", ["nvcr.io/nvidia/gpu-operator@sha256:beef", "registry/gpu-operator:main-latest"])
def test_an_operator_of_unknown_version_counts_as_another_line(image: str) -> None:
    assert guards.disrupting(policy(AUTO), None, [operator(OLD)], image) == [f"operator image {OLD} -> {image}"]
    assert guards.disrupting(policy(AUTO), None, [operator(image)], image) == []
    assert guards.disrupting(policy({"driver": {"enabled": False}}), None, [operator(OLD)], image) == []


def test_a_merge_keeps_what_is_only_below() -> None:
    assert guards.merged({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "d": {"e": 1}}) == {
        "a": {"b": 1, "c": [2]},
        "d": {"e": 1},
    }


@pytest.fixture
def gpu_pods(monkeypatch: pytest.MonkeyPatch) -> list[pods.GpuPod]:
    found = [pods.GpuPod("team", "job", "gpu-0001", {"nvidia.com/gpu": 1})]
    monkeypatch.setattr(pods, "gpu_pods", lambda cluster, namespace: found)
    return found


MESSAGE = (
    "This changes driver.version, for which the operator interrupts GPU workloads, and 1 pods use GPUs on gpu-0001 "
    "(team/job). Drain these nodes, or set allow_disruption: true."
)


@pytest.mark.usefixtures("gpu_pods")
def test_a_disruption_needs_permission_while_pods_use_gpus() -> None:
    with pytest.raises(GpuOpsError) as e:
        guards.refuse_disruption(FakeCluster(), ["driver.version"], "ns", allowed=False)
    assert (e.value.msg, e.value.reason, e.value.details["gpu_pods"]) == (MESSAGE, "Disruption", 1)
    assert guards.refuse_disruption(FakeCluster(), ["driver.version"], "ns", allowed=True) is None
    assert guards.refuse_disruption(FakeCluster(), [], "ns", allowed=False) is None


@pytest.mark.usefixtures("gpu_pods")
def test_check_mode_warns_of_a_disruption() -> None:
    assert guards.refuse_disruption(FakeCluster(check_mode=True), ["driver.version"], "ns", allowed=False) == MESSAGE


def test_without_gpu_pods_there_is_no_disruption(gpu_pods: list[t.Any]) -> None:
    gpu_pods.clear()
    assert guards.refuse_disruption(FakeCluster(), ["driver.version"], "ns", allowed=False) is None
