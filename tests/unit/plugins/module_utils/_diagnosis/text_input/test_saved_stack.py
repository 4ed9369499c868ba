# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stack in objects that somebody has saved."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import saved_stack
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.tables import TablePod

NODE = {
    "metadata": {"name": "gpu1", "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "H100"}},
    "spec": {},
    "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "8"}},
}


def row(name: str, status: str, node: str = "gpu1", ready: str = "0/1") -> TablePod:
    return TablePod("gpu-operator", name, ready, status, 0, node)


def test_nothing_is_known_of_nothing() -> None:
    assert saved_stack.stack_of({}, []) is None
    assert saved_stack.stack_of({}, [row("nvidia-driver-daemonset-abcde", "Running", ready="1/1")]) is None


def test_operands_in_trouble_stand_in_the_row_of_their_node() -> None:
    rows = [
        row("nvidia-driver-daemonset-abcde", "CrashLoopBackOff"),
        row("nvidia-device-plugin-daemonset-abcde", "Init:0/1"),
        row("nvidia-dcgm-exporter-abcde", "Running", ready="1/1"),
        row("nvidia-cuda-validator-abcde", "Completed"),
        row("some-app-abcde", "Pending"),
    ]
    result = saved_stack.stack_of({"nodes": [NODE]}, rows)
    assert result is not None
    (node,) = result["nodes"]
    assert node["waiting_for"] == {"driver": "CrashLoopBackOff", "device-plugin": "Init:0/1"}
    assert (node["product"], node["allocatable"]) == ("H100", {"nvidia.com/gpu": 8})


def test_nobody_judges_what_may_be_incomplete() -> None:
    policy = {"metadata": {"name": "cluster-policy"}, "spec": {}, "status": {"state": "ready", "namespace": "gpus"}}
    result = saved_stack.stack_of({"clusterpolicies": [policy], "nodes": [NODE]}, [])
    assert result is not None
    assert (result["policy"], result["namespace"]) == ("cluster-policy", "gpus")
    assert (result["verdict"]["state"], result["verdict"]["reasons"], result["operands"]) == ("unknown", [], [])


def test_a_node_that_only_a_row_names_has_no_values() -> None:
    result = saved_stack.stack_of({}, [row("nvidia-driver-daemonset-abcde", "Pending", node="gpu9")])
    assert result is not None
    (node,) = result["nodes"]
    assert (node["name"], node["product"], node["allocatable"], node["waiting_for"]) == (
        "gpu9",
        None,
        {},
        {"driver": "Pending"},
    )


def container(state: dict[str, t.Any], ready: bool = False) -> dict[str, t.Any]:
    return {"name": "c", "state": state, "ready": ready, "restartCount": 2}


DONE = container({"terminated": {"exitCode": 0}})
RUNNING = container({"running": {}}, ready=True)


@pytest.mark.parametrize(
    ("init", "main", "expected"),
    [
        ([], [RUNNING], "Running"),
        ([DONE, container({"waiting": {"reason": "PodInitializing"}})], [], "Init:1/2"),
        ([container({"waiting": {"reason": "ImagePullBackOff"}})], [], "Init:ImagePullBackOff"),
        ([container({"terminated": {"exitCode": 1, "reason": "Error"}})], [], "Init:Error"),
        ([container({"terminated": {"exitCode": 1}})], [], "Init:Error"),
        ([container({})], [], "Init:0/1"),
        ([DONE], [RUNNING, container({"waiting": {"reason": "CrashLoopBackOff"}})], "CrashLoopBackOff"),
    ],
)
def test_the_status_of_a_pod_as_kubectl_prints_it(init: list[t.Any], main: list[t.Any], expected: str) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"nodeName": "gpu1", "containers": [{"name": "c"}] * len(main)},
        "status": {"phase": "Running", "initContainerStatuses": init, "containerStatuses": main},
    }
    found = saved_stack.row_of(pod)
    assert found.status == expected
    assert (found.restarts, found.node) == (2 * len([*init, *main]), "gpu1")
    assert found.ready == f"{sum(each['ready'] for each in main)}/{len(main)}"


def test_a_pod_whose_containers_have_not_started_counts_those_of_its_spec() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{}, {}]}, "status": {}}
    assert saved_stack.row_of(pod).ready == "0/2"
    without = {"metadata": {"name": "a"}, "status": {"containerStatuses": [{"ready": True}]}}
    assert saved_stack.row_of(without).ready == "1/1"
