# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which pod of the operator acts while its Deployment is rolled out, and which changes of nodes start a controller."""

from __future__ import annotations

import typing as t

import pytest

from lab.cluster.operator.standin import lines
from lab.cluster.operator.standin.nodes import SKIP, STATE
from lab.cluster.operator.standin.operator import _starts_upgrades, _taken_over


def deployment(image: str, generation: int = 2, own: str = "v26.3.3", **status: int) -> dict[str, t.Any]:
    env = [{"name": "DRIVER_IMAGE", "value": image}]
    container = {"name": "gpu-operator", "image": f"nvcr.io/nvidia/gpu-operator:{own}", "env": env}
    return {
        "metadata": {"generation": generation},
        "spec": {"template": {"spec": {"containers": [container]}}},
        "status": {"observedGeneration": 2, **status},
    }


STUCK = {"replicas": 2, "updatedReplicas": 1, "availableReplicas": 1}
DONE = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}


@pytest.mark.parametrize(
    ("found", "taken_over"),
    [
        (deployment("new", **DONE), True),
        (deployment("old", **DONE), False),
        (deployment("old", own="v26.7.0", **DONE), True),
        (deployment("new", **STUCK), False),
        (deployment("new", generation=3, **DONE), False),
    ],
)
def test_a_new_pod_takes_over_once_it_has_started(found: dict[str, t.Any], taken_over: bool) -> None:
    assert _taken_over(found, {"DRIVER_IMAGE": "old"}, "nvcr.io/nvidia/gpu-operator:v26.3.3") is taken_over


@pytest.mark.parametrize(
    ("line", "started_by"),
    [
        (lines.V25_10, [STATE, SKIP, "nvidia.com/gpu.count"]),
        (lines.V26_3, [STATE]),
        (lines.V26_7, [STATE, SKIP]),
    ],
)
def test_what_starts_the_controller_of_upgrades_depends_on_the_line(line: lines.Line, started_by: list[str]) -> None:
    keys = [STATE, SKIP, "nvidia.com/gpu.count"]
    assert [key for key in keys if _starts_upgrades(line, {}, {key: "x"})] == started_by
    assert [key for key in keys if _starts_upgrades(line, {key: "x"}, {})] == started_by
    assert not _starts_upgrades(line, {STATE: "x"}, {STATE: "x"})
