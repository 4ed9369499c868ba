# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import proof
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import WorkloadVerdict


def test_a_workload_runs_on_the_cordoned_node_and_the_reason_of_a_failure_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[t.Any] = []

    class Run:
        def __init__(self, cluster: t.Any, options: t.Any) -> None:
            made.append(options)

        def test(self, resources: t.Mapping[str, str]) -> list[WorkloadVerdict]:
            made.append(resources)
            return [WorkloadVerdict("a", passed=True), WorkloadVerdict("b", reason="It broke.\n")]

    monkeypatch.setattr(proof.smoke_test, "SmokeTestRun", Run)
    workload = {"tolerations": [{"key": "x"}], "timeout": 5}
    assert proof.prove(t.cast("t.Any", None), workload, {"a": "r", "b": "r"}) == {"b": "It broke"}
    assert made[0]["tolerations"] == [
        {"key": "x"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert (made[0]["kind"], made[0]["count"], made[0]["timeout"]) == ("Pod", 1, 5)


def test_a_mig_device_is_asked_for_before_a_whole_gpu() -> None:
    assert proof.resource_of({"nvidia.com/gpu": 4, "nvidia.com/mig-3g.40gb": 2}) == "nvidia.com/mig-3g.40gb"
    assert proof.resource_of({"nvidia.com/gpu": 4}) == "nvidia.com/gpu" and proof.resource_of({}) == ""
