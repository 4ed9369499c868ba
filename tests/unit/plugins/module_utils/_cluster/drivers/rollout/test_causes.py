# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.causes import (
    DETAIL_S,
    DETAILS,
    Causes,
    WaitDetails,
    obstacles,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import (
    DriverReader,
    WantedDrivers,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import fleet_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import Deletion
from inline_snapshot import snapshot as wording

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades import drivers
from tests.unit.fakes.upgrades.drivers import COMPLETE, STATE, DriverCluster, asked

ZERO = "gpu-0000"


def causes(cluster: DriverCluster, state: str) -> tuple[Causes, t.Any]:
    cluster.operator_runs = False
    cluster.items[ZERO]["metadata"]["labels"][STATE] = state
    fleet = fleet_of(cluster.typed, asked(), waiting.Noted())
    return Causes(cluster.typed, fleet), DriverReader(cluster.typed, WantedDrivers(stack.NAMESPACE)).look(fleet)[ZERO]


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


def test_what_is_told_already_is_not_told_again() -> None:
    cluster = DriverCluster(1)
    cluster.replace(ZERO, drivers.waiting("ImagePullBackOff", "not found"))
    asked, sight = causes(cluster, "pod-restart-required")
    told = asked.of_failure(sight, stack.NOW)
    assert "not found" in told and asked.of_failure(sight, stack.NOW, f"It does not start. {told}") == ""


TOLERANT = {"operator": "Exists"}


def test_pods_that_come_back_to_the_cordoned_node_are_named_as_a_cause() -> None:
    cluster = DriverCluster(1)
    pod = stack.workload("train", 0)
    cluster.add(pod)
    cluster.items[ZERO]["spec"]["unschedulable"] = True
    asked, sight = causes(cluster, "upgrade-failed")
    assert asked.returning(sight) == "" and asked.of_failure(sight, stack.NOW) == ""
    pod["spec"]["tolerations"] = [TOLERANT]
    asked, sight = causes(cluster, "upgrade-failed")
    assert asked.of_failure(sight, stack.NOW) == wording(
        "Pods that tolerate node.kubernetes.io/unschedulable come back to the cordoned node: default/train."
    )
    cluster.items[ZERO]["spec"].pop("unschedulable")
    asked, sight = causes(cluster, "upgrade-failed")
    assert asked.returning(sight) == ""


def test_a_crash_of_the_new_driver_is_no_cause_that_stays_unless_pods_are_in_the_way() -> None:
    cluster = DriverCluster(1)
    cluster.replace(ZERO, drivers.waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container"))
    bare = stack.workload("train", 0, controller="")
    cluster.add(bare)
    asked, sight = causes(cluster, "upgrade-failed")
    assert "default/train on gpu-0000 has no controller" in asked.standing(sight, stack.NOW)
    del cluster.pods["train"]
    asked, sight = causes(cluster, "upgrade-failed")
    assert asked.standing(sight, stack.NOW) == ""


def test_a_state_without_pods_in_the_way_reads_nothing() -> None:
    asked, sight = causes(DriverCluster(1), "validation-required")
    assert asked.of_wait(sight) == ""


def test_details_are_read_of_a_few_nodes_that_have_waited_and_now_and_then() -> None:
    cluster = DriverCluster(DETAILS + 2)
    for number, name in enumerate(sorted(cluster.items)):
        cluster.items[name]["metadata"]["labels"][STATE] = "pod-deletion-required"
        cluster.add(stack.workload(f"train-{number}", number))
    asked, dummy = causes(cluster, "pod-deletion-required")
    fleet = fleet_of(cluster.typed, drivers.asked(), waiting.Noted())
    sights = DriverReader(cluster.typed, WantedDrivers(stack.NAMESPACE)).look(fleet)
    details, begun = WaitDetails(asked, fleet), dict.fromkeys(["gone", *sights], stack.NOW)
    begun[ZERO] = stack.NOW + 1
    details.look(sights, begun, stack.NOW + DETAIL_S)
    names = sorted(sights)
    told = [details.of(name) for name in names]
    assert told == ["", *(f"default/train-{number}" for number in range(1, DETAILS + 1)), ""]
    details.look(sights, dict.fromkeys(sights, 0.0), stack.NOW + 2 * DETAIL_S - 1)
    assert details.of(ZERO) == ""
    details.look(sights, dict.fromkeys(sights, 0.0), stack.NOW + 2 * DETAIL_S)
    assert details.of(ZERO) == "default/train-0"
