# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.filter.change_plan import FilterModule, change_plan
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._runs import this_run
from inline_snapshot import snapshot as wording

KERNEL = "The kernel runs without the configured arguments iommu=pt"
ALLOW = wording("Set host_change_allowed to true to allow the interruption, or to false to skip the change.")
ROW = {"node": "gpu-0000", "failure": "", "purposes": []}
UPGRADE = {"interrupts": True, "interrupt_reasons": ["The driver 570.1 becomes 580.2."], "refused": None}


def found(*reasons: str, row: dict[str, t.Any] | None = None, **more: t.Any) -> dict[str, t.Any]:
    nodes = {"nodes": {"gpu1": ROW if row is None else row}}
    return {"host": "gpu1", "facts": {"reboot": {"reasons": list(reasons)}}, "nodes": nodes, **more}


def test_a_host_with_nothing_due_needs_no_permission_and_no_node() -> None:
    plan = change_plan(found(nodes={"msg": "Cannot tell whether gpu1 is a node: away."}))
    assert plan == {
        "state": "none",
        "reason": "",
        "reasons": [],
        "change": False,
        "kernel": False,
        "finish": False,
        "back": False,
        "stage": "",
        "node": None,
        "undrained": wording("it has no kubelet, and no node of a cluster fits it"),
        "run": this_run(),
    }


def test_a_permitted_reboot_is_due_with_its_node() -> None:
    plan = change_plan(found(KERNEL), allowed=True)
    assert (plan["state"], plan["reasons"], plan["node"], plan["undrained"]) == ("due", [KERNEL], "gpu-0000", "")
    assert plan["change"] is False and plan["finish"] is False


def test_without_a_word_a_reboot_is_refused() -> None:
    plan = change_plan(found(KERNEL))
    assert plan["state"] == "refused" and plan["reason"].startswith(f"gpu1 needs a reboot: {KERNEL}. ")
    assert plan["reason"].removeprefix(f"gpu1 needs a reboot: {KERNEL}. ") == ALLOW


def test_a_no_postpones_it() -> None:
    plan = change_plan(found(KERNEL), allowed=False)
    assert (plan["state"], plan["reason"]) == ("postponed", f"gpu1 needs a reboot: {KERNEL}.")


def test_a_driver_that_changes_needs_the_permission() -> None:
    plan = change_plan(found(driver=UPGRADE))
    assert plan["reason"] == (
        wording(
            "gpu1 needs a change that interrupts its work: The driver 570.1 becomes 580.2. Set host_change_allowed to true to allow the interruption, or to false to skip the change."
        )
    )
    assert change_plan(found(driver=UPGRADE), allowed=True)["change"] is True


NEW_KERNEL = {"changed": True, "reboot_required": True, "release": "6.8.0-60", "running": "6.8.0-51", "refused": ""}


def test_a_kernel_that_is_wanted_is_a_reason_for_a_reboot() -> None:
    plan = change_plan(found(kernel=NEW_KERNEL), allowed=True)
    assert (plan["state"], plan["kernel"], plan["change"]) == ("due", True, False)
    assert plan["reasons"] == ["The kernel 6.8.0-60 is wanted, and 6.8.0-51 runs"]
    chosen = {**NEW_KERNEL, "changed": False}
    assert change_plan(found(kernel=chosen), allowed=True)["kernel"] is True
    done = {**chosen, "reboot_required": False}
    assert change_plan(found(kernel=done), allowed=True)["state"] == "none"


def test_a_kernel_without_a_driver_is_refused_whatever_the_permission() -> None:
    refused = {**NEW_KERNEL, "changed": False, "reboot_required": False, "refused": "No headers."}
    for allowed in (True, None):
        plan = change_plan(found(kernel=refused), allowed=allowed)
        assert (plan["state"], plan["reason"]) == ("refused", "No headers.")


def test_a_run_on_its_way_back_does_not_choose_the_new_kernel_again() -> None:
    plan = change_plan(found(kernel=NEW_KERNEL, record={"stage": "back"}), allowed=True)
    assert (plan["kernel"], plan["back"], plan["finish"]) == (False, True, False)


def test_a_driver_that_interrupts_nothing_is_not_due() -> None:
    driver = {"interrupts": False, "interrupt_reasons": [], "refused": None, "action": "install"}
    assert change_plan(found(driver=driver))["state"] == "none"


@pytest.mark.parametrize(
    "left", [{"transaction": {"install": [{}]}}, {"transaction": {"remove": [{}]}}, {"action": "complete"}]
)
def test_a_driver_that_an_earlier_run_did_not_bring_about_is_due(left: dict[str, t.Any]) -> None:
    driver = {"interrupts": False, "refused": None, **left}
    plan = change_plan(found(driver=driver, record={"stage": "failed"}), allowed=True)
    assert plan["reasons"] == [wording("An earlier run did not finish the change of the driver")]
    assert (plan["change"], plan["finish"]) == (True, False)
    assert change_plan(found(driver=driver), allowed=True)["state"] == "none"


def test_an_interruption_without_a_word_about_it_still_counts() -> None:
    assert change_plan(found(driver={"interrupts": True}), allowed=True)["reasons"] == ["The driver changes"]


def test_restarts_of_runtimes_and_predictions_are_due_too() -> None:
    driver = {"interrupts": True, "interrupt_reasons": ["docker restarts"]}
    plan = change_plan(found(KERNEL, driver=driver, reboots=[KERNEL, "x"]), allowed=True)
    assert (plan["reasons"], plan["change"]) == (["docker restarts", KERNEL, "x"], True)


@pytest.mark.parametrize("allowed", [True, None])
def test_what_the_driver_refuses_is_refused(allowed: bool | None) -> None:
    plan = change_plan(found(driver={"refused": "No repository has it."}), allowed=allowed)
    assert (plan["state"], plan["reason"]) == ("refused", "No repository has it.")


def test_a_host_whose_node_is_not_known_is_refused() -> None:
    away = {"msg": "Cannot tell whether gpu1 is a node: away."}
    assert change_plan(found(KERNEL, nodes=away), allowed=True)["reason"] == away["msg"]
    row = {"node": None, "failure": "gpu1 runs a kubelet, and no node fits it."}
    assert change_plan(found(KERNEL, row=row), allowed=True)["reason"] == row["failure"]


def test_a_host_that_is_left_as_it_is_needs_no_node() -> None:
    assert change_plan(found(KERNEL, nodes={"msg": "away"}), allowed=False)["state"] == "postponed"
    assert change_plan(found(driver={"refused": "No."}), allowed=False)["state"] == "postponed"


def test_only_a_no_leaves_the_drain_out() -> None:
    away = {"msg": "away"}
    plan = change_plan(found(KERNEL, nodes=away), allowed=True, drain=False)
    assert (plan["state"], plan["node"], plan["undrained"]) == ("due", None, "host_change_drain is false")


def test_a_host_without_a_node_says_so() -> None:
    plan = change_plan(found(KERNEL, row={"node": None, "failure": ""}), allowed=True)
    assert (plan["state"], plan["undrained"]) == (
        "due",
        wording("it has no kubelet, and no node of a cluster fits it"),
    )


# ---- after a run that did not finish ------------------------------------------------------------------------------

DRAINED = {**ROW, "purposes": ["change"]}


def test_what_an_earlier_run_left_is_finished_without_a_permission() -> None:
    plan = change_plan(found(row=DRAINED, record={"stage": "reboot"}))
    assert (plan["state"], plan["finish"], plan["stage"]) == ("due", True, "reboot")


def test_a_node_whose_host_has_lost_the_record_is_finished_too() -> None:
    plan = change_plan(found(row=DRAINED))
    assert (plan["state"], plan["finish"], plan["stage"]) == ("due", True, "drain")


def test_an_interrupted_change_needs_the_permission_again_and_says_who_holds_the_node() -> None:
    plan = change_plan(found(KERNEL, row=DRAINED, record={"stage": "drain"}))
    assert plan["reason"] == (
        wording(
            "gpu1 needs a reboot: The kernel runs without the configured arguments iommu=pt. An earlier run has drained the node gpu-0000 for it, which stays out of service. Set host_change_allowed to true to allow the interruption, or to false to skip the change."
        )
    )


def test_a_drain_that_failed_has_put_the_node_back() -> None:
    reason = change_plan(found(KERNEL, record={"stage": "drain"}))["reason"]
    assert reason == wording(
        "gpu1 needs a reboot: The kernel runs without the configured arguments iommu=pt. An earlier run did not finish it. Set host_change_allowed to true to allow the interruption, or to false to skip the change."
    )


def test_a_no_puts_a_drained_node_back_if_the_host_proves_fit() -> None:
    plan = change_plan(found(KERNEL, row=DRAINED, record={"stage": "drain"}), allowed=False)
    assert (plan["state"], plan["finish"]) == ("due", True)


def test_a_way_back_that_was_interrupted_goes_on() -> None:
    plan = change_plan(found(record={"stage": "back"}), allowed=True)
    assert (plan["state"], plan["back"], plan["finish"]) == ("due", True, False)
    assert change_plan(found(record={"stage": "back"}))["reason"] == wording(
        "gpu1 needs a change that interrupts its work: An earlier run was on its way back to the former driver. An earlier run did not finish it. Set host_change_allowed to true to allow the interruption, or to false to skip the change."
    )


def test_the_filter_has_its_name() -> None:
    assert FilterModule().filters() == {"change_plan": change_plan}


@pytest.mark.parametrize("allowed", [None, False, True])
def test_a_host_that_another_run_changes_is_left_alone(allowed: bool | None) -> None:
    run = {"machine": "elsewhere", "process": 1, "seen": "2999-01-01T00:00:00Z"}
    record = {"stage": "proof", "run": run}
    plan = change_plan(found(record=record), allowed)
    assert plan["state"] == "refused" and plan["reason"].startswith("Another run changes gpu1: process 1 on elsewhere")
    assert change_plan(found(record=record), allowed, take_over=True)["state"] == "due"
    assert change_plan(found(record={**record, "run": this_run()}), allowed)["state"] == "due"
