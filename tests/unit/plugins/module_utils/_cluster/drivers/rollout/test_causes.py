# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.causes import Causes, obstacles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.read import Reader, Wanted
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.run import fleet_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import Deletion

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import COMPLETE, OPTIONS, STATE, DriverCluster

ZERO = "gpu-0000"


def causes(cluster: DriverCluster, state: str) -> tuple[Causes, t.Any]:
    cluster.operator_runs = False
    cluster.items[ZERO]["metadata"]["labels"][STATE] = state
    fleet = fleet_of(cluster.typed, OPTIONS, waiting.Noted())
    return Causes(cluster.typed, fleet), Reader(cluster.typed, Wanted(stack.NAMESPACE)).look(fleet)[ZERO]


def test_obstacles_are_named_in_the_words_of_the_policy() -> None:
    bare = stack.workload("train", 0, controller="")
    bare["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    found = " ".join(obstacles([bare], Deletion()))
    assert "(upgrade_policy.pod_deletion.force permits it)" in found
    assert "(upgrade_policy.pod_deletion.deleteEmptyDir permits it)" in found
    assert obstacles([bare], Deletion(force=True, delete_emptydir_data=True)) == []


def test_the_jobs_that_a_policy_waits_for_are_named() -> None:
    cluster = DriverCluster(1, upgrade={**COMPLETE, "waitForCompletion": {"podSelector": "app=train"}})
    cluster.add(stack.workload("train", 0))
    asked, sight = causes(cluster, "wait-for-jobs-required")
    assert "default/train" in asked.of_wait(sight)


def test_a_refusal_by_a_budget_comes_from_the_apis_own_dry_run() -> None:
    cluster = DriverCluster(1)
    cluster.add(stack.workload("train", 0))
    cluster.refused_evictions["train"] = "The disruption budget train needs 1 healthy pods and has 1 currently"
    asked, sight = causes(cluster, "pod-deletion-required")
    assert "PodDisruptionBudget default/train forbids its eviction" in asked.of_wait(sight)
    assert "PodDisruptionBudget default/train" in asked.standing(sight, stack.NOW) and cluster.log == []
    cluster.refused_evictions.clear()
    assert asked.of_wait(sight) == "default/train" and asked.standing(sight, stack.NOW) == ""
    assert "train" in cluster.pods, "nothing was evicted"


def test_what_the_operator_says_is_added() -> None:
    cluster = DriverCluster(1)
    cluster.events = [{"message": "Failed to drain the node", "lastTimestamp": stack.LONG_AGO}]
    asked, sight = causes(cluster, "upgrade-failed")
    assert asked.of_failure(sight, stack.NOW) == "The operator says: Failed to drain the node."


def test_a_state_without_pods_in_the_way_reads_nothing() -> None:
    asked, sight = causes(DriverCluster(1), "validation-required")
    assert asked.of_wait(sight) == ""
