# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables of kubectl get."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import tables


@pytest.mark.parametrize(
    ("line", "has_namespace", "row"),
    [
        (
            "gpu-feature-discovery-gj7v5    0/1     Init:0/1           0                3m31s",
            False,
            tables.TablePod("", "gpu-feature-discovery-gj7v5", "0/1", "Init:0/1", 0, ""),
        ),
        (
            "gpu-operator   nvidia-driver-x   0/1   CrashLoopBackOff   7 (3m ago)   13h   10.0.0.1   gpu1   <none>",
            True,
            tables.TablePod("gpu-operator", "nvidia-driver-x", "0/1", "CrashLoopBackOff", 7, "gpu1"),
        ),
        (
            "pod/nvidia-driver-x 0/1 Pending 0 5m <none> <none> <none> <none>",
            False,
            tables.TablePod("", "nvidia-driver-x", "0/1", "Pending", 0, ""),
        ),
    ],
)
def test_a_row_of_pods(line: str, has_namespace: bool, row: tables.TablePod) -> None:
    assert list(tables.pod_rows([line, "not a row"], has_namespace)) == [row]


def test_events() -> None:
    # https://github.com/NVIDIA/gpu-operator/pull/2168
    lines = [
        "4m10s       Normal    SuccessfulCreate         daemonset/nvidia-dcgm-exporter    Created pod: nvidia-dcgm-x",
        "gpu-operator  2m (x3 over 5m)  Warning  FailedCreate  replicaset/a-1  Error creating: pods is forbidden",
        "<unknown>   Warning   BackOff   pod/x   Back-off restarting failed container",
        "no event",
    ]
    found = list(tables.events(lines))
    assert [(each["reason"], each["involvedObject"]) for each in found] == [
        ("SuccessfulCreate", {"kind": "DaemonSet", "name": "nvidia-dcgm-exporter"}),
        ("FailedCreate", {"kind": "ReplicaSet", "name": "a-1", "namespace": "gpu-operator"}),
        ("BackOff", {"kind": "Pod", "name": "x"}),
    ]
    assert found[0]["message"] == "Created pod: nvidia-dcgm-x"


@pytest.mark.parametrize(
    ("header", "pattern"),
    [
        ("NAME   READY   STATUS   RESTARTS   AGE", tables.POD_TABLE),
        ("  NAMESPACE   NAME   READY   STATUS   RESTARTS   AGE   IP   NODE", tables.POD_TABLE),
        ("LAST SEEN   TYPE   REASON   OBJECT   MESSAGE", tables.EVENT_TABLE),
        ("NAMESPACE LAST SEEN TYPE REASON OBJECT SUBOBJECT SOURCE MESSAGE", tables.EVENT_TABLE),
    ],
)
def test_headers(header: str, pattern: object) -> None:
    assert pattern.match(header)  # type: ignore[attr-defined]


def test_a_row_says_that_its_pod_was_killed_for_memory() -> None:
    row = tables.TablePod("gpu-operator", "gpu-operator-84d9f557c8-lqp5z", "0/1", "OOMKilled", 5, "gpu1")
    (line,) = tables.lines_of(row)
    assert (line.text, line.node) == ("OOMKilled: pod gpu-operator/gpu-operator-84d9f557c8-lqp5z", "gpu1")
    assert list(tables.lines_of(tables.TablePod("", "a", "0/1", "CrashLoopBackOff", 5, ""))) == []


@pytest.mark.parametrize(
    ("line", "is_row"),
    [
        ("nvidia-operator-validator-7x9kd   0/1   Init:0/4   0   12m", True),
        ("  gpu-operator nvidia-driver-daemonset-x 0/2 Init:CrashLoopBackOff 5 (30s ago) 12m 10.0.0.1 gpu1", True),
        ("pod/nvidia-cuda-validator-x 0/1 UnexpectedAdmissionError 0 4s", True),
        ("nvidia-dcgm-exporter-x 0/1 ErrImagePull 0 2d3h", True),
        ("nvidia-dcgm-exporter-x 1/1 Running 0 2d3h", True),
        ("step 3/4 Running tests 0 of 12", False),
        ("epoch 1/3 Loss 0 12m", False),
        ("nvidia-dcgm-exporter-x 1/1 Running", False),
        ("NAME READY STATUS RESTARTS AGE", False),
    ],
)
def test_a_row_without_the_head_of_its_table(line: str, is_row: bool) -> None:
    assert bool(tables.POD_ROW.match(line)) is is_row
    assert not is_row or len(list(tables.pod_rows([line], has_namespace=True))) == 1
