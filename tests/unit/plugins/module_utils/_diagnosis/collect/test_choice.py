# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import choice
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.choice import PodChoice
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def cells(name: str, status: str = "Running", ready: str = "1/1", restarts: str = "0", node: str = "gpu-1") -> Json:
    return {"name": name, "status": status, "ready": ready, "restarts": restarts, "node": node}


def gpu_node(name: str = "gpu-1", **fields: t.Any) -> Json:
    """Return a row of gpu_stack_info about a node with which nothing is wrong."""
    row = {"mig": {"state": "success"}, "slices": [{"allocatable": 8, "expected": 8}], "waiting_for": {}}
    return {"name": name, "upgrade_state": "upgrade-done", **row, **fields}


# ---- pods -----------------------------------------------------------------------------------------------------------


def test_pods_in_trouble_are_those_that_do_not_run_or_restart() -> None:
    table = [
        cells("nvidia-dcgm-aaaaa"),
        cells("nvidia-dcgm-bbbbb", ready="0/1"),
        cells("nvidia-dcgm-ccccc", "CrashLoopBackOff", "0/1", "7 (3m ago)"),
        cells("nvidia-cuda-validator-ddddd", "Completed", "0/1"),
        cells("gpu-operator-68b8b4f5c9-eeeee", restarts="4 (1h ago)"),
        cells("nvidia-dcgm-fffff", "Pending", "0/1", node="<none>"),
    ]
    assert [(row.owner, row.node, row.status) for row in choice.rows_of(table)] == [
        ("nvidia-dcgm", "gpu-1", "Running"),
        ("nvidia-dcgm", "gpu-1", "CrashLoopBackOff"),
        ("gpu-operator", "gpu-1", "Running"),
        ("nvidia-dcgm", "", "Pending"),
    ]


@pytest.mark.parametrize(
    ("fields", "owners"),
    [
        ({}, []),
        ({"mig": {"state": "failed"}}, ["nvidia-mig-manager"]),
        ({"mig": {"state": "pending"}}, ["nvidia-mig-manager"]),
        ({"slices": []}, ["nvidia-device-plugin-daemonset"]),
        ({"slices": [{"allocatable": 7, "expected": 8}]}, ["nvidia-device-plugin-daemonset"]),
        ({"slices": [{"allocatable": 8, "expected": None}]}, []),
        ({"slices": [], "waiting_for": {"driver": "Error"}}, []),
        ({"upgrade_state": "upgrade-failed"}, ["nvidia-driver-daemonset"]),
    ],
)
def test_running_pods_whose_node_is_not_as_it_should_be(fields: Json, owners: list[str]) -> None:
    names = (
        "nvidia-mig-manager",
        "nvidia-device-plugin-daemonset",
        "nvidia-driver-daemonset",
        "gpu-operator-68b8b4f5c9",
    )
    table = [cells(f"{name}-aaaaa") for name in names] + [cells(f"{names[0]}-bbbbb", node="gpu-2")]
    found = choice.silent(table, [gpu_node(**fields), gpu_node("gpu-2")], is_ready=True)
    assert [row.owner for row in found] == owners
    assert all(row.is_whole for row in found)


def test_the_operators_log_is_read_unless_the_stack_is_ready() -> None:
    table = [cells("gpu-operator-68b8b4f5c9-aaaaa")]
    assert [row.owner for row in choice.silent(table, [], is_ready=False)] == ["gpu-operator"]


def rows(owner: str, status: str, count: int) -> list[PodChoice]:
    return [PodChoice(f"{owner}-{number:05}", f"gpu-{number}", status, owner) for number in range(count)]


def test_each_controller_and_status_gets_its_share() -> None:
    many = [*rows("plugin", "Init:0/1", 500), *rows("driver", "Error", 500), *rows("dcgm", "CrashLoopBackOff", 2)]
    found = choice.chosen(many, 10)
    counted = {owner: sum(row.owner == owner for row in found) for owner in ("plugin", "driver", "dcgm")}
    assert counted == {"plugin": 1, "driver": 7, "dcgm": 2}
    assert choice.left_out(many, found) == {("plugin", "Init:0/1"): 499, ("driver", "Error"): 493}


def test_all_pods_are_read_while_they_are_few() -> None:
    few = [*rows("plugin", "Init:0/1", 2), *rows("driver", "Error", 2)]
    assert sorted(row.name for row in choice.chosen(few, 10)) == sorted(row.name for row in few)
    assert choice.left_out(few, few) == {}
    assert choice.chosen([], 10) == []


# ---- logs -----------------------------------------------------------------------------------------------------------

RUNS: Json = {"running": {}}
ENDED: Json = {"terminated": {"exitCode": 1}}


def container(name: str, state: Json, ready: bool = False, restarts: int = 0, last: Json | None = None) -> Json:
    return {"name": name, "state": state, "ready": ready, "restartCount": restarts, "lastState": last or {}}


@pytest.mark.parametrize(
    ("given", "is_whole", "logs"),
    [
        (container("a", RUNS, ready=True), False, []),
        (container("a", RUNS, ready=True), True, [("a", False)]),
        (container("a", RUNS), False, [("a", False)]),
        (container("a", RUNS, ready=True, restarts=4, last=ENDED), False, [("a", True)]),
        (container("a", RUNS, restarts=4, last=ENDED), False, [("a", False), ("a", True)]),
        (container("a", {"waiting": {}}, restarts=4, last=ENDED), False, [("a", False)]),
        (container("a", {"waiting": {}}), True, []),
        (container("a", ENDED), False, [("a", False)]),
        (container("a", {"terminated": {"exitCode": 0}}), False, []),
    ],
)
def test_which_logs_of_a_container_are_read(given: Json, is_whole: bool, logs: list[tuple[str, bool]]) -> None:
    assert choice.logs_of({"status": {"containerStatuses": [given]}}, is_whole) == logs
    assert choice.logs_of({"status": {"initContainerStatuses": [given]}}, is_whole) == logs


def test_a_pod_without_a_status_has_no_logs() -> None:
    assert choice.logs_of({}, True) == []


# ---- objects --------------------------------------------------------------------------------------------------------


def test_pods_that_wait_for_a_gpu() -> None:
    gpu = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    claim = {"containers": [{}], "resourceClaims": [{"name": "gpu"}]}
    assert choice.waits_for_gpu({"spec": gpu})
    assert choice.waits_for_gpu({"spec": claim})
    assert not choice.waits_for_gpu({"spec": {**gpu, "nodeName": "gpu-1"}})
    assert not choice.waits_for_gpu({"spec": {"containers": [{}]}})


def test_what_is_long_and_says_nothing_is_left_out() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}
    item = {"metadata": {"name": "a", "managedFields": [{}], "annotations": annotations}, "spec": {"x": 1}}
    assert choice.slimmed(item) == {"metadata": {"name": "a", "annotations": {"a": "b"}}, "spec": {"x": 1}}
    assert choice.slimmed({"metadata": {"name": "a"}}) == {"metadata": {"name": "a"}}
