# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import scene
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.impact import Effect, State
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import ALL_PODS, FakeApi, refusal
from tests.unit.fakes.stack import node, workload

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
SPEC: dict[str, t.Any] = {"driver": {"repository": "a", "image": "b", "version": "1.2.3"}}
AFTER = State("cluster-policy", SPEC, [], False)
REPLACE = (Effect("gpu-0000", "replace", automatic=False), Effect("gpu-0001", "nothing"))


def read(api: FakeApi, effects: t.Sequence[Effect] = REPLACE) -> t.Any:
    nodes = [node(0), node(1)]
    seen = DriversView("gpu-operator", None, None, [], True, nodes, [], None, 0.0)
    return scene.read(Cluster(api.connection), seen, AFTER, effects)


def test_pods_and_budgets_are_those_of_the_nodes_that_change(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("a"), workload("b", gpus=0), workload("c", number=1)]
    api.lists[BUDGETS] = [{"metadata": {"name": "x", "namespace": "default"}}]
    api.table = [["nvidia-operator-validator-x", "1/1", "Running", 0, "1d", "", "gpu-0001"]]
    found = read(api)
    assert [item["metadata"]["name"] for item in found.nodes] == ["gpu-0000"]
    assert [item["metadata"]["name"] for item in found.pods] == ["a"] and len(found.budgets) == 1
    assert found.validated == {"gpu-0001"} and found.automatic == {"gpu-0000": False, "gpu-0001": True}
    assert str(found.source_of["gpu-0001"]) == "ClusterPolicy cluster-policy"


def test_nothing_is_read_where_nothing_changes(api: FakeApi) -> None:
    found = read(api, [Effect("gpu-0000"), Effect("gpu-0001")])
    assert found.nodes == [] and found.pods == [] and found.validated == set() and api.log == []


def test_a_node_that_only_restarts_its_driver_keeps_its_pods(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("a")]
    found = read(api, [Effect("gpu-0000", "restart"), Effect("gpu-0001", "remove")])
    assert found.pods == [] and [item["metadata"]["name"] for item in found.nodes] == ["gpu-0000"]


def test_what_may_not_be_read_is_unknown(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("a")]
    api.answer = lambda method, path: (
        refusal(403, "no", "Forbidden") if path != ALL_PODS and "nodes" not in path else None
    )
    found = read(api)
    assert found.pods is None and found.validated is None
    api.answer = lambda method, path: refusal(500, "no", "InternalError") if path == BUDGETS else None
    with pytest.raises(GpuOpsError):
        read(api)
