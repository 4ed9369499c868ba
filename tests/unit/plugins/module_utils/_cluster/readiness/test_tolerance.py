# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes a user wants judged, and how many of them may be unready."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import Tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.stack import Json, cpu_node, node

LABELS = {"pool": "a", "zone": "x", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ("", True),
        ("  ", True),
        ("pool", True),
        ("spot", False),
        ("!spot", True),
        ("! spot", True),
        ("!pool", False),
        ("pool=a", True),
        ("pool==a", True),
        ("pool = a", True),
        ("pool=b", False),
        ("pool=", False),
        ("empty=", True),
        ("spot=", False),
        ("pool!=a", False),
        ("pool!=b", True),
        ("spot!=a", True),
        ("zone in (x,y)", True),
        ("zone in (x, y)", True),
        ("zone in (y)", False),
        ("spot in (y)", False),
        ("zone notin (x,y)", False),
        ("zone notin (y)", True),
        ("spot notin (y)", True),
        ("pool=a,zone in (x,y),!spot", True),
        ("pool=a,zone in (x,y),!zone", False),
        ("pool=a, zone=y", False),
        ("nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3", True),
        ("in=a", False),
    ],
)
def test_a_selector_selects_as_in_kubernetes(selector: str, selects: bool) -> None:
    assert all(test(LABELS) for test in tolerance.parse_selector(selector)) is selects


@pytest.mark.parametrize(
    "selector", ["pool=a,", ",pool=a", "pool=a b", "=a", "zone in x", "zone in (x", "a>1", "!", "-"]
)
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(GpuOpsError, match="label selector of Kubernetes") as raised:
        tolerance.parse_selector(selector)
    assert raised.value.reason == "Invalid"


@pytest.mark.parametrize(
    ("limit", "total", "allowed"),
    [
        ("0", 9, 0),
        ("3", 9, 3),
        (" 3 ", 1, 3),
        ("0%", 9, 0),
        ("5%", 19, 0),
        ("5%", 20, 1),
        ("5 %", 1000, 50),
        ("100%", 7, 7),
    ],
)
def test_a_limit_is_a_number_or_a_percentage_rounded_down(limit: str, total: int, allowed: int) -> None:
    assert Tolerance(max_unready=limit).allowed(total) == allowed


@pytest.mark.parametrize("limit", ["", "-1", "101%", "five", "1.5", "%"])
def test_what_is_no_limit_is_refused(limit: str) -> None:
    with pytest.raises(GpuOpsError, match="Give a number of") as raised:
        tolerance.parse_limit(limit)
    assert raised.value.reason == "Invalid"


def options(**changes: t.Any) -> dict[str, t.Any]:
    return {"node_selector": "", "exclude_nodes": [], "max_unready": "0", "min_nodes": 1, **changes}


def test_the_options_of_a_module() -> None:
    assert tolerance.of_options(options()) == Tolerance("", (), "0", 1)
    given = options(node_selector="pool=a", exclude_nodes=["gpu-0001"], max_unready="5%", min_nodes=0)
    assert tolerance.of_options(given) == Tolerance("pool=a", ("gpu-0001",), "5%", 0)


@pytest.mark.parametrize("wrong", [{"node_selector": "a,"}, {"max_unready": "x"}, {"min_nodes": -1}])
def test_options_without_a_meaning_are_refused(wrong: dict[str, t.Any]) -> None:
    with pytest.raises(GpuOpsError) as raised:
        tolerance.of_options(options(**wrong))
    assert raised.value.reason == "Invalid"


def fleet(*labels: dict[str, str]) -> list[Json]:
    made = [node(number) for number in range(len(labels))]
    for item, more in zip(made, labels):
        item["metadata"]["labels"].update(more)
    return made


def names(found: list[Json]) -> list[str]:
    return [item["metadata"]["name"] for item in found]


def test_each_node_is_judged_or_left_out_for_one_reason() -> None:
    nodes = fleet(
        {"pool": "a"},
        {"pool": "b"},
        {"pool": "a"},
        {"pool": "a", "nvidia.com/gpu.deploy.operands": "false"},
        {"pool": "a", "nvidia.com/gpu.workload.config": "vm-passthrough"},
    )
    spec = {"sandboxWorkloads": {"enabled": True}}
    scope = tolerance.scope_of([*nodes, cpu_node()], spec, Tolerance("pool=a", ("gpu-0002",)))
    assert names(scope.judged) == ["gpu-0000"]
    assert {code: names(found) for code, found in scope.left_out.items()} == {
        "NodesNotSelected": ["gpu-0001"],
        "NodesExcluded": ["gpu-0002"],
        "OperandsSwitchedOff": ["gpu-0003"],
        "VirtualMachineNodes": ["gpu-0004"],
    }
    assert names(scope.outside) == ["gpu-0001", "gpu-0002", "gpu-0003", "gpu-0004"]


def test_unready_nodes_that_are_tolerated_are_left_out() -> None:
    scope = tolerance.scope_of(fleet({}, {}, {}), {}, tolerance.NOTHING).without({"gpu-0001"})
    assert names(scope.judged) == ["gpu-0000", "gpu-0002"] and names(scope.left_out["NodesTolerated"]) == ["gpu-0001"]


def test_a_node_without_gpus_does_not_end_the_search_for_others() -> None:
    scope = tolerance.scope_of([node(0), cpu_node(), node(1)], {}, tolerance.NOTHING)
    assert names(scope.judged) == ["gpu-0000", "gpu-0001"]
