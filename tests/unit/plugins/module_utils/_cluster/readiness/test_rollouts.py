# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The progress of the operands' DaemonSets."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import Tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import PodRow

from tests.unit.fakes.judged import observed, roll, verdict
from tests.unit.fakes.stack import Json, ready

EXPORTER = "nvidia-dcgm-exporter"


def test_a_generation_that_the_controller_has_not_seen() -> None:
    assert verdict(roll(ready(2), EXPORTER, 2, 2, 2, 2, generation=2)).state == "progressing"


def test_only_operands_with_a_lagging_rollout_are_suspects() -> None:
    assert rollouts.suspects(observed(ready(3)).daemonsets) == []
    stack = roll(ready(2), EXPORTER, 2, 2, 2, 1)
    stranger = roll(ready(2), EXPORTER, 2, 2, 2, 1).daemonsets[EXPORTER]
    stranger["metadata"]["name"] = "node-exporter"
    found = rollouts.suspects([*stack.daemonsets.values(), stranger])
    assert [item["metadata"]["name"] for item in found] == [EXPORTER]


def test_a_rollout_counts_nodes() -> None:
    rollout = next(
        rollout
        for rollout in rollouts.of_operands(observed(roll(ready(4), EXPORTER, 4, 4, 2, 3)), ready(4).nodes)
        if rollout.daemonset == EXPORTER
    )
    assert (rollout.state, rollout.expected, rollout.desired, rollout.updated, rollout.available) == (
        "progressing",
        4,
        4,
        2,
        3,
    )
    assert rollout.images == ("nvcr.io/nvidia/dcgm-exporter:1.0",)


BUSY = "unexpected status from HEAD request: 429 Too Many Requests"
GONE = 'Back-off pulling image "x": ErrImagePull: x: not found'


@pytest.mark.parametrize(
    ("status", "facts", "never"),
    [
        ("ImagePullBackOff", {"message": BUSY, "stuck_s": 180}, True),
        ("ImagePullBackOff", {"message": BUSY, "stuck_s": 179}, False),
        ("Init:ErrImagePull", {"message": BUSY, "stuck_s": 180}, True),
        ("ImagePullBackOff", {"message": GONE, "age_s": 30}, True),
        ("ImagePullBackOff", {"message": GONE, "age_s": 29}, False),
        ("ImagePullBackOff", {"message": GONE, "stuck_s": 30}, True),
        ("ImagePullBackOff", {"message": GONE, "age_s": 300, "current": False}, False),
        ("InvalidImageName", {"age_s": 30}, True),
        ("InvalidImageName", {"age_s": 29}, False),
        ("CreateContainerError", {"message": "file not found", "age_s": 900, "stuck_s": 179}, False),
        ("RunContainerError", {"age_s": 900, "stuck_s": 180}, True),
        ("CrashLoopBackOff", {"restarts": 2, "stuck_s": 900}, False),
        ("CrashLoopBackOff", {"restarts": 3}, True),
        ("ContainerCreating", {"stuck_s": 900}, False),
    ],
)
def test_which_pods_never_start(status: str, facts: Json, never: bool) -> None:
    pod = PodRow("x", "", status, **{"restarts": 0, "current": True, **facts})
    assert rollouts.never_starts(pod, (pod,), 1) is never


def pods(*statuses: str, **facts: t.Any) -> tuple[PodRow, ...]:
    more = {"restarts": 5, "current": True, "age_s": 900.0, "stuck_s": 900.0, **facts}
    return tuple(PodRow(f"x-{number}", "", status, **more) for number, status in enumerate(statuses))


@pytest.mark.parametrize(
    ("rows", "updated", "never"),
    [
        (pods("ImagePullBackOff", "ErrImagePull"), 2, True),
        (pods("ImagePullBackOff", "ErrImagePull"), 3, False),  # one works
        (pods("ImagePullBackOff", "ErrImagePull", "Terminating"), 3, True),
        (pods("ImagePullBackOff", "Pending", "Terminating"), 3, False),  # most have another trouble
        (pods("ImagePullBackOff", "Pending"), 2, False),
        (pods("CrashLoopBackOff", "Error"), 2, True),
        (pods("CrashLoopBackOff"), 2, True),  # for minutes
        (pods("CrashLoopBackOff", stuck_s=179), 2, False),
        (pods("CrashLoopBackOff", stuck_s=0), 0, True),
    ],
)
def test_some_pods_that_work_show_that_a_pull_can_succeed(rows: tuple[PodRow, ...], updated: int, never: bool) -> None:
    assert rollouts.never_starts(rows[0], rows, updated) is never


NEW = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}


@pytest.mark.parametrize(
    ("status", "replicas", "newest"),
    [
        (NEW, 1, True),
        (NEW | {"observedGeneration": 1}, 1, False),
        (NEW | {"replicas": 2}, 1, False),  # the old pod is still there
        (NEW | {"replicas": 2, "updatedReplicas": 2}, 2, True),  # one of two is available, and both are new
        (NEW | {"updatedReplicas": 0}, 1, False),
        (NEW | {"availableReplicas": 0}, 1, False),
        ({"observedGeneration": 2}, 0, False),
        (NEW, 2, False),
    ],
)
def test_which_deployment_runs_its_newest_version(status: Json, replicas: int, newest: bool) -> None:
    deployment = {"metadata": {"generation": 2}, "spec": {"replicas": replicas}, "status": status}
    assert rollouts.runs_newest(deployment) is newest


@pytest.mark.parametrize(
    ("labels", "is_discovery"),
    [
        ({"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}, True),
        ({"app.kubernetes.io/name": "node-feature-discovery", "role": "topology-updater"}, False),
        ({"app.kubernetes.io/name": "node-feature-discovery"}, False),
        ({"role": "worker"}, False),
        ({}, False),
    ],
)
def test_the_worker_of_node_feature_discovery(labels: Json, is_discovery: bool) -> None:
    assert rollouts.is_discovery({"metadata": {"labels": labels}}) is is_discovery


def test_pods_that_are_yet_to_be_created() -> None:
    stack = roll(ready(2), EXPORTER, 2, 1, 1, 1)
    assert rollouts.lacks_pods(stack.daemonsets[EXPORTER])
    assert not rollouts.lacks_pods(roll(stack, EXPORTER, 2, 2, 1, 1).daemonsets[EXPORTER])


@pytest.mark.parametrize("left_out", [(), (0,), (0, 1), (1, 2)])
def test_a_rollout_is_ready_when_every_pod_that_counts_is(left_out: tuple[int, ...]) -> None:
    """Every combination of pods on four nodes: available, in trouble, missing, or of an old revision."""
    name = "nvidia-dcgm"
    for pods in itertools.product(("fine", "trouble", "old"), repeat=4):
        stack = roll(ready(4), name, 4, 4, 4 - pods.count("old"), 4 - pods.count("trouble"))
        rows = [PodRow(f"{name}-{n}", f"gpu-000{n}", "Pending", 0) for n, pod in enumerate(pods) if pod == "trouble"]
        old = frozenset(f"gpu-000{n}" for n, pod in enumerate(pods) if pod == "old")
        excluded = tuple(f"gpu-000{number}" for number in left_out)
        found = verdict(
            stack, Tolerance(exclude_nodes=excluded), troubled={name: tuple(rows)} if rows else {}, outdated={name: old}
        )
        rollout = next(item for item in found.operands if item.operand == "dcgm")
        counted = [pod for number, pod in enumerate(pods) if number not in left_out]
        assert (rollout.state == "ready") == (set(counted) == {"fine"}), pods
        assert (rollout.expected, rollout.desired) == (len(counted), len(counted))
        assert rollout.available == len(counted) - counted.count("trouble")
        assert rollout.updated == len(counted) - counted.count("old")


def test_a_pod_that_does_not_exist_is_taken_to_be_missing_on_a_node_that_counts() -> None:
    stack = roll(ready(3), "nvidia-dcgm", 3, 2, 2, 2)
    assert verdict(stack, Tolerance(exclude_nodes=("gpu-0000",))).state == "progressing"


def test_a_daemonset_none_of_whose_pods_has_the_newest_revision_says_nothing_about_them() -> None:
    """The API leaves out a number that is zero."""
    status = {"observedGeneration": 1, "desiredNumberScheduled": 1, "numberAvailable": 1}
    daemonset = {"metadata": {"generation": 1}, "status": status}
    assert not rollouts.is_complete(daemonset) and rollouts.is_rolling(daemonset)
    empty = {"metadata": {"generation": 1}, "status": {"observedGeneration": 1}}
    assert rollouts.is_complete(empty) and not rollouts.is_rolling(empty)


def test_nothing_is_expected_of_an_operand_that_is_switched_off() -> None:
    stack = ready(2)
    del stack.daemonsets["nvidia-dcgm-exporter"]
    stack.policies[0]["spec"]["dcgmExporter"] = {"enabled": False}
    found = next(item for item in verdict(stack).operands if item.operand == "dcgm-exporter")
    assert (found.state, found.expected, found.desired) == ("disabled", 0, 0)
