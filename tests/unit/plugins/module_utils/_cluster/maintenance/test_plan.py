# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold import release_patch
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.stack import node, workload
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import held, options


def test_only_a_node_that_this_call_holds_is_released_after_a_failure() -> None:
    mine = plan.plan([held(cordoned=False, initially=None)], {}, options(), "me")[0]
    assert mine.undo_patch(held(reboot="me")) == release_patch(held(reboot="me"), "reboot")
    assert mine.undo_patch(held(reboot="somebody else")) is None and mine.undo_patch(node()) is None


def names(nodes: list[dict]) -> list[str]:
    return [item["metadata"]["name"] for item in nodes]


def test_named_nodes_are_selected_once_each_and_in_their_order() -> None:
    assert names(plan.select([node(0), node(1), node(2)], options(nodes=["gpu-0002", "gpu-0000", "gpu-0002"]))) == [
        "gpu-0002",
        "gpu-0000",
    ]
    assert plan.select([node(0)], options(nodes=[])) == []


def test_a_node_that_does_not_exist_is_named_with_the_option() -> None:
    with pytest.raises(GpuOpsError, match=r"^The cluster has no node gone, gpu-9. Correct the option nodes\.$"):
        plan.select([node(0)], options(nodes=["gone", "gpu-0000", "gpu-9"]))


def test_nodes_are_selected_by_label() -> None:
    other = node(1)
    other["metadata"]["labels"]["rack"] = "7"
    assert names(plan.select([node(0), other], options(node_selector={"rack": 7}))) == ["gpu-0001"]
    with pytest.raises(GpuOpsError, match=r"No node has the labels \{'rack': '8'\}. Correct the option node_selector"):
        plan.select([node(0), other], options(node_selector={"rack": 8}))


def test_without_a_selection_the_nodes_held_for_the_purpose_are_used() -> None:
    nodes = [held(0, reboot="x"), held(1, repair="x"), node(2)]
    assert names(plan.select(nodes, options(state="restored"))) == ["gpu-0000"]


@pytest.mark.parametrize(
    ("state", "fine"),
    [("upgrade-required", True), ("upgrade-failed", True), ("upgrade-done", True), ("drain-required", False)],
)
def test_a_node_whose_driver_is_being_upgraded_is_refused(state: str, fine: bool) -> None:
    busy = node(0)
    busy["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = state
    plan.check_nodes([busy], [busy], options(state="restored"))
    if fine:
        plan.check_nodes([busy], [busy], options())
    else:
        with pytest.raises(
            GpuOpsError, match=r"driver upgrade is in progress on gpu-0000 \(drain-required\).*Wait until"
        ):
            plan.check_nodes([busy], [busy], options())


def test_no_more_nodes_in_maintenance_than_permitted() -> None:
    nodes = [held(0, repair="x"), node(1), node(2), node(3)]
    plan.check_nodes(nodes, nodes[1:3], options(max_in_maintenance=3))
    plan.check_nodes(nodes, nodes[:1], options(max_in_maintenance=1))
    plan.check_nodes([held(0, reboot="x"), held(1, reboot="x")], [held(1, reboot="x")], options(max_in_maintenance=1))
    with pytest.raises(
        GpuOpsError,
        match=r"^4 nodes would be in maintenance at once; 1 of them already are \(gpu-0000\), and "
        r"max_in_maintenance is 3",
    ):
        plan.check_nodes(nodes, nodes[1:], options(max_in_maintenance=3))
    with pytest.raises(GpuOpsError, match=r"^3 nodes would be in maintenance at once, and max_in_maintenance is 2"):
        plan.check_nodes(nodes[1:], nodes[1:], options(max_in_maintenance=2))


@pytest.mark.parametrize("purpose", ["", "Reboot", "a/b", "-a", "a-", "a" * 41])
def test_a_purpose_must_fit_into_an_annotation(purpose: str) -> None:
    with pytest.raises(GpuOpsError, match=r"^purpose must be"):
        plan.check_options(options(purpose=purpose))


def test_a_negative_grace_period_is_refused() -> None:
    plan.check_options(options(purpose="a" * 40, grace_period=0))
    with pytest.raises(GpuOpsError, match="grace_period must be at least 0"):
        plan.check_options(options(grace_period=-1))


def test_obstacles_stop_the_plan_and_a_few_are_named() -> None:
    pods = [workload(f"bare-{number}", controller="") for number in range(7)]
    with pytest.raises(
        GpuOpsError,
        match=r"^Pods are in the way: default/bare-0 .*default/bare-4 on .*; and 2 more\. Set these options",
    ) as caught:
        plan.plan([node(0)], {"gpu-0000": pods}, options(), "me")
    assert caught.value.reason == "PodsInTheWay" and "bare-5" not in caught.value.msg


def test_a_plan_says_what_changes() -> None:
    going = workload("going", deletionTimestamp="2026-11-21T10:00:00Z")
    pods = {"gpu-0000": [workload("b"), going, workload("a")]}
    (change,) = plan.plan([held(cordoned=False, initially=None)], pods, options(), "me")
    assert change.changed and [full_name(pod) for pod in change.evictions] == ["default/b", "default/a"]
    assert change.before == {"unschedulable": False, "purposes": [], "pods": ["default/a", "default/b"]}
    assert change.after == {"unschedulable": True, "purposes": ["reboot"], "pods": []}


def test_a_plan_is_empty_when_nothing_is_left_to_do() -> None:
    drained, restored = held(reboot="x"), held(cordoned=False, initially=None)
    assert not plan.plan([drained], {}, options(), "me")[0].changed
    assert not plan.plan([restored], {}, options(state="restored"), "me")[0].changed
    assert plan.plan([drained], {}, options(state="restored"), "me")[0].changed
