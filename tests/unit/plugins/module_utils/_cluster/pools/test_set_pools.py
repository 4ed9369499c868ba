# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.set_pools import ensure
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.gpu_pools import SPEC

from tests.unit.fakes.api import NODES, FakeApi
from tests.unit.fakes.pools import PoolOperator

MARK = "gpuops.nvidia/maintenance.pool"
VM = {"name": "vm", "node_selector": {}, "kind": "vm-passthrough"}

# Runs are tested in tests/unit/plugins/modules/test_gpu_pools.py, with the real module.


@pytest.fixture
def fleet(api: FakeApi) -> FakeApi:
    """Two container nodes, whose operator follows."""
    return PoolOperator(api).api


def called(api: FakeApi, **options: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    defaults = {name: option.get("default") for name, option in SPEC.options.items()}
    warnings: list[str] = []
    made = ensure(Cluster(api.connection, check_mode=True), {**defaults, "pools": [VM], **options}, warnings.append)
    return made, warnings


def test_the_plan_in_check_mode_has_the_waves(fleet: FakeApi) -> None:
    made, warnings = called(fleet, canary=1)
    assert [row["wave"] for row in made["nodes"]] == [1, 2] and made["finished"] is True and warnings == []


def test_a_node_that_another_run_holds_is_refused_unless_taken_over(fleet: FakeApi) -> None:
    fleet.lists[NODES][0]["metadata"]["annotations"] = {MARK: "2999-01-01T00:00:00Z elsewhere 12345678"}
    with pytest.raises(GpuOpsError, match="gpu-0000"):
        called(fleet)
    assert called(fleet, take_over=True)[0]["changed"] is True


def test_nodes_that_an_earlier_run_has_left_held_are_taken_up_again(fleet: FakeApi) -> None:
    assert called(fleet, pools=[])[0]["nodes"] == []
    fleet.lists[NODES][0]["metadata"]["annotations"] = {MARK: "2026-01-01T00:00:00Z elsewhere 1"}
    made, warnings = called(fleet, pools=[])
    assert [(row["node"], row["resumed"], row["changed"]) for row in made["nodes"]] == [("gpu-0000", True, True)]
    assert any("gpu-0000" in warning for warning in warnings)


def test_a_canary_must_be_a_node_of_the_call(fleet: FakeApi) -> None:
    with pytest.raises(GpuOpsError, match="gpu-0007"):
        called(fleet, canary=["gpu-0007"])
