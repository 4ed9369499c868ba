# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import maintenance_plan, marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold import release_patch
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node, workload
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import MINE, asked, claim, held


def nobody(node: dict) -> list:
    return []


def check(nodes: list[dict], chosen: list[dict], **changes: t.Any) -> None:
    maintenance_plan.check_nodes(nodes, chosen, claim(), asked(**changes), lambda node: marks.holders(node, {}))


def test_only_a_node_that_this_call_holds_is_released_after_a_failure() -> None:
    mine = maintenance_plan.plan([held(cordoned=False, initially=None)], {}, asked(), claim(), nobody)[0]
    assert mine.undo_patch(held(reboot=str(MINE))) == release_patch(held(reboot=str(MINE)), "reboot", ())
    assert (
        mine.undo_patch(held(reboot="2026-11-21T10:00:00Z bastion 00000002")) is None
        and mine.undo_patch(node()) is None
    )


def names(nodes: list[dict]) -> list[str]:
    return [item["metadata"]["name"] for item in nodes]


def test_named_nodes_are_selected_once_each_and_in_their_order() -> None:
    assert names(
        maintenance_plan.select([node(0), node(1), node(2)], asked(nodes=["gpu-0002", "gpu-0000", "gpu-0002"]))
    ) == [
        "gpu-0002",
        "gpu-0000",
    ]
    assert maintenance_plan.select([node(0)], asked(nodes=[])) == []


def test_a_node_that_does_not_exist_is_named_with_the_option() -> None:
    with pytest.raises(GpuOpsError) as error:
        maintenance_plan.select([node(0)], asked(nodes=["gone", "gpu-0000", "gpu-9"]))
    assert error.value.reason == "NotFound"
    assert error.value.msg == wording("The cluster has no node gone, gpu-9. Correct the option nodes.")


def test_nodes_that_are_gone_do_not_keep_others_from_coming_back() -> None:
    chosen = asked(state="restored", nodes=["gone", "gpu-0000", "gone"])
    assert names(maintenance_plan.select([node(0)], chosen)) == ["gpu-0000"]
    assert (
        maintenance_plan.absent([node(0)], chosen) == ["gone"]
        and maintenance_plan.absent([node(0)], asked(state="restored")) == []
    )


def test_nodes_are_selected_by_label() -> None:
    other = node(1)
    other["metadata"]["labels"]["rack"] = "7"
    assert names(maintenance_plan.select([node(0), other], asked(node_selector={"rack": 7}))) == ["gpu-0001"]
    with pytest.raises(GpuOpsError) as error:
        maintenance_plan.select([node(0), other], asked(node_selector={"rack": 8}))
    assert error.value.reason == "NotFound"
    assert error.value.msg == wording("No node has the labels {'rack': '8'}. Correct the option node_selector.")


def test_without_a_selection_the_nodes_held_for_the_purpose_are_used() -> None:
    left = node(3)
    left["metadata"]["annotations"] = {"gpuops.nvidia/left-cordoned": "kured"}
    nodes = [held(0, reboot="x"), held(1, repair="x"), node(2), left]
    assert names(maintenance_plan.select(nodes, asked(state="restored"))) == ["gpu-0000", "gpu-0003"]


@pytest.mark.parametrize("state", ["upgrade-required", "upgrade-failed", "upgrade-done"])
def test_a_node_whose_driver_is_not_being_upgraded_is_taken(state: str) -> None:
    idle = node(0)
    idle["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = state
    check([idle], [idle])


def test_a_node_on_which_others_are_at_work_is_taken_only_with_permission() -> None:
    upgraded, removed, fine = node(0), node(1), node(2)
    upgraded["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = "drain-required"
    removed["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    with pytest.raises(GpuOpsError) as e:
        check([upgraded, removed, fine], [fine, upgraded, removed])
    assert e.value.msg == (
        wording(
            "Other maintainers are changing gpu-0000 (gpu-operator (label nvidia.com/gpu-driver-upgrade-state=drain-required)), gpu-0001 (karpenter (taint karpenter.sh/disrupted)), and may uncordon a node during the maintenance. Wait until they have finished, or set allow_shared: true."
        )
    )
    assert e.value.reason == "NodesBusy"
    check([upgraded, removed], [upgraded, removed], allow_shared=True)
    check([upgraded], [upgraded], state="restored")


def test_a_node_that_is_held_already_is_resumed_although_others_are_at_work() -> None:
    busy = held(0, reboot="2026-11-21T09:59:00Z bastion 00000000")
    busy["spec"]["taints"] = [{"key": "medik8s.io/drain", "effect": "NoSchedule"}]
    check([busy], [busy])


def test_others_that_come_between_the_look_and_the_patch_are_noticed() -> None:
    busy = node(0)
    busy["spec"]["taints"] = [{"key": "medik8s.io/drain", "effect": "NoSchedule"}]
    (change,) = maintenance_plan.plan([node(0)], {}, asked(), claim(), lambda node: marks.holders(node, {}))
    with pytest.raises(GpuOpsError, match=r"medik8s \(taint medik8s.io/drain\)"):
        change.make_patch(busy)
    (change,) = maintenance_plan.plan(
        [busy], {}, asked(allow_shared=True), claim(), lambda node: marks.holders(node, {})
    )
    assert change.patch


def test_a_node_that_another_machine_holds_for_the_same_purpose_is_refused() -> None:
    other = held(0, reboot="2026-11-21T09:30:00Z awx-7 00000000")
    with pytest.raises(GpuOpsError) as e:
        check([other], [other])
    assert e.value.msg == (
        wording(
            "Another run holds gpu-0000 (by awx-7 since 2026-11-21T09:30:00Z) for the purpose reboot, and may still be active. Wait for it, or set take_over: true if it has ended."
        )
    )
    assert e.value.reason == "HeldElsewhere"
    check([other], [other], state="restored")


def test_no_more_nodes_in_maintenance_than_permitted() -> None:
    nodes = [held(0, repair="x"), node(1), node(2), node(3)]
    check(nodes, nodes[1:3], max_in_maintenance=3)
    check(nodes, nodes[:1], max_in_maintenance=1)
    check([held(0, reboot="x"), held(1, reboot="x")], [held(1, reboot="x")], max_in_maintenance=1)
    with pytest.raises(GpuOpsError) as error:
        check(nodes, nodes[1:], max_in_maintenance=3)
    assert error.value.reason == "TooManyNodes"
    assert error.value.msg == wording(
        "4 nodes would be in maintenance at once; 1 of them already are (gpu-0000), and max_in_maintenance is 3. Choose fewer nodes, or restore others first."
    )
    with pytest.raises(GpuOpsError) as error:
        check(nodes[1:], nodes[1:], max_in_maintenance=2)
    assert error.value.reason == "TooManyNodes"
    assert error.value.msg == wording(
        "3 nodes would be in maintenance at once, and max_in_maintenance is 2. Choose fewer nodes, or restore others first."
    )


def test_obstacles_stop_the_plan_and_a_few_are_named() -> None:
    pods = [workload(f"bare-{number}", controller="") for number in range(7)]
    with pytest.raises(
        GpuOpsError,
        match=r"default/bare-0 .*default/bare-4 on .*;",
    ) as caught:
        maintenance_plan.plan([node(0)], {"gpu-0000": pods}, asked(), claim(), nobody)
    assert caught.value.reason == "PodsInTheWay" and "bare-5" not in caught.value.msg


def test_a_plan_says_what_changes() -> None:
    going = workload("going", deletionTimestamp="2026-11-21T10:00:00Z")
    pods = {"gpu-0000": [workload("b"), going, workload("a")]}
    (change,) = maintenance_plan.plan([held(cordoned=False, initially=None)], pods, asked(), claim(), nobody)
    assert change.changed and [full_name(pod) for pod in change.evictions] == ["default/b", "default/a"]
    assert change.before == {"unschedulable": False, "purposes": [], "pods": ["default/a", "default/b"]}
    assert change.after == {"unschedulable": True, "purposes": ["reboot"], "pods": []}


def test_a_plan_is_empty_when_nothing_is_left_to_do() -> None:
    drained, restored = held(reboot="x"), held(cordoned=False, initially=None)
    assert not maintenance_plan.plan([drained], {}, asked(), claim(), nobody)[0].changed
    assert not maintenance_plan.plan([restored], {}, asked(state="restored"), claim(), nobody)[0].changed
    assert maintenance_plan.plan([drained], {}, asked(state="restored"), claim(), nobody)[0].changed


def test_the_difference_shows_the_labels_that_change_and_no_others() -> None:
    (change,) = maintenance_plan.plan([node(0)], {}, asked(pause_nvsentinel=True), claim(pause_nvsentinel=True), nobody)
    label = "k8saas.nvidia.com/ManagedByNVSentinel"
    assert (change.before["labels"], change.after["labels"]) == ({label: None}, {label: "false"})
    assert "labels" not in maintenance_plan.plan([node(0)], {}, asked(), claim(), nobody)[0].before
