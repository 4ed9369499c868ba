# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import priority
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
SYSTEM = [{"value": 2000000000}, {"value": 2000001000}]


class FakeCluster:
    """PriorityClasses, or what the API answers instead."""

    def __init__(self, listed: t.Any = (), created: str | None = None, found: t.Any = None) -> None:
        self.listed, self.refusal, self.found = listed, created, found
        self.created: list[dict] = []

    def create(self, path: str, body: dict) -> dict:
        assert path == PATH
        if self.refusal:
            raise GpuOpsError("No permission: cannot create.", reason=self.refusal)
        self.created.append(body)
        return body

    def list(self, path: str, **query: str) -> list[dict]:
        assert (path, query) == (PATH, {"resourceVersion": ""})
        if isinstance(self.listed, GpuOpsError):
            raise self.listed
        return list(self.listed)

    def get(self, path: str) -> dict | None:
        assert path == f"{PATH}/low"
        if isinstance(self.found, GpuOpsError):
            raise self.found
        return self.found


def test_the_class_of_a_run_never_preempts_and_is_below_every_workload() -> None:
    cluster = FakeCluster()
    assert priority.make(cluster, "x", {"labels": {"a": "b"}, "annotations": {"c": "d"}}) is True
    (made,) = cluster.created
    assert made.pop("description")
    assert made == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "value": -1000000,
        "preemptionPolicy": "Never",
    }


def test_a_class_that_exists_was_made_by_a_request_whose_answer_was_lost() -> None:
    assert priority.make(FakeCluster(created="AlreadyExists"), "x", {}) is True


@pytest.mark.parametrize(
    "classes",
    [
        SYSTEM,
        [],
        [*SYSTEM, {"value": 1000}],
        [{"value": -5, "globalDefault": True}],
        [{"value": -5}, {"value": 10, "globalDefault": True, "preemptionPolicy": "Never"}],
    ],
)
def test_without_permission_no_class_is_needed_where_no_pod_has_a_lower_priority(classes: list[dict]) -> None:
    assert priority.make(FakeCluster(classes, "Forbidden"), "x", {}) is False


@pytest.mark.parametrize(
    "classes",
    [
        [*SYSTEM, {"value": -1}],
        [{"value": 10, "globalDefault": True, "preemptionPolicy": "PreemptLowerPriority"}],
        GpuOpsError("No permission.", reason="Forbidden"),
    ],
)
def test_without_permission_pods_that_could_displace_others_are_refused(classes: t.Any) -> None:
    with pytest.raises(GpuOpsError) as e:
        priority.make(FakeCluster(classes, "Forbidden"), "x", {})
    assert e.value.reason == "Forbidden"
    assert e.value.msg == wording(
        "The test's pods could displace pods of lower priority, and this user may not create the PriorityClass that prevents it. Grant create and delete on priorityclasses.scheduling.k8s.io, or set priority_class_name to a class whose preemptionPolicy is Never. No permission: cannot create."
    )


def test_other_refusals_are_passed_on() -> None:
    with pytest.raises(GpuOpsError) as e:
        priority.make(FakeCluster(created="Unreachable"), "x", {})
    assert e.value.reason == "Unreachable"
    with pytest.raises(GpuOpsError) as e:
        priority.make(FakeCluster(GpuOpsError("Away.", reason="Unreachable"), "Forbidden"), "x", {})
    assert e.value.reason == "Unreachable"
    with pytest.raises(GpuOpsError) as e:
        priority.check_given(FakeCluster(found=GpuOpsError("Away.", reason="Unreachable")), "low")
    assert e.value.reason == "Unreachable"


def test_a_given_class_must_not_preempt() -> None:
    priority.check_given(FakeCluster(found={"value": 5, "preemptionPolicy": "Never"}), "low")
    priority.check_given(FakeCluster(found=GpuOpsError("No permission.", reason="Forbidden")), "low")
    for harmful in ({"value": -5, "preemptionPolicy": "PreemptLowerPriority"}, {"value": -5}):
        with pytest.raises(GpuOpsError) as e:
            priority.check_given(FakeCluster(found=harmful), "low")
        assert e.value.reason == "Disruption"
        assert e.value.msg == wording(
            "Pods of PriorityClass low may displace workloads. Set priority_class_name to a class whose preemptionPolicy is Never, or leave it out."
        )
    with pytest.raises(GpuOpsError) as error:
        priority.check_given(FakeCluster(), "low")
    assert error.value.reason == "NotFound"
    assert error.value.msg == wording("There is no PriorityClass low. Create it, or correct priority_class_name.")
