# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.steps import decide
from inline_snapshot import snapshot as wording

from tests.unit.fakes.mig_nodes import DIVIDED, LAYOUT, mig_sight, seen

DEVICES = {"nvidia.com/mig-1g.10gb": "56"}
DONE: dict[str, t.Any] = {"config": LAYOUT, "state": "success", **DIVIDED}


def decided(step: str, allocatable: t.Any = None, still_s: float = 0.0, more: t.Any = None, **labels: str) -> tuple:
    action = decide(seen(mig_sight(allocatable, **labels), step, still_s, **(more or {})))
    return action.kind, action.step


@pytest.mark.parametrize(
    ("step", "labels", "expected"),
    [
        ("set", {"config": "all-disabled", "state": "success"}, ("patch", "watch")),
        ("set", {"config": LAYOUT, "state": "failed"}, ("patch", "reset")),
        ("set", {"config": LAYOUT, "state": "pending"}, ("go", "watch")),
        ("set", {"config": "other", "state": "pending"}, ("wait", "set")),
        ("watch", {"config": LAYOUT}, ("wait", "watch")),
        ("watch", {"config": LAYOUT, "state": "pending"}, ("wait", "watch")),
        ("watch", {"config": LAYOUT, "state": "rebooting"}, ("wait", "watch")),
        ("watch", {"config": LAYOUT, "state": "success"}, ("go", "prove")),
        ("watch", {"config": LAYOUT, "state": "failed"}, ("fail", "failed")),
        ("watch", {"config": "other", "state": "pending"}, ("fail", "failed")),
        ("prove", {"config": LAYOUT, "state": "success"}, ("wait", "prove")),
        ("prove", {"config": LAYOUT, "state": "pending"}, ("go", "watch")),
        ("prove", {"config": LAYOUT}, ("go", "watch")),
        ("prove", {"config": LAYOUT, "state": "failed"}, ("fail", "failed")),
        ("prove", {"config": "other", "state": "success"}, ("go", "watch")),
        ("restore", {}, ("restore", "done")),
    ],
)
def test_a_step_and_what_the_node_says_lead_to_one_action(step: str, labels: dict, expected: tuple) -> None:
    assert decided(step, **labels) == expected


def test_the_proof_needs_labels_devices_and_the_workload() -> None:
    assert decided("prove", DEVICES, **DONE) == ("go", "restore")
    assert decided("prove", {"nvidia.com/mig-1g.10gb": "55"}, **DONE) == ("wait", "prove")
    assert decided("prove", DEVICES, more={"settings": {"test": True}}, **DONE) == ("test", "prove")
    tested = {"settings": {"test": True}, "track": {"tested": True}}
    assert decided("prove", DEVICES, more=tested, **DONE) == ("go", "restore")
    assert decided("prove", {"nvidia.com/mig-1g.10gb": "55"}, 100.0, **DONE) == ("fail", "failed")


def test_an_answer_from_before_our_own_patch_says_nothing() -> None:
    old = {"track": {"version": 7}, "version": 6}
    assert decided("watch", more=old, config="other") == ("wait", "watch")
    assert decided("watch", more={**old, "version": 7}, config="other") == ("fail", "failed")


def test_the_label_stays_away_for_a_moment() -> None:
    assert decided("reset", still_s=1.9) == ("wait", "reset") and decided("reset", still_s=2.0) == ("patch", "watch")


def test_a_failure_of_the_manager_leaves_the_gpus_as_they_were() -> None:
    clean = decide(seen(mig_sight(config=LAYOUT, state="failed"), "watch"))
    changed = decide(seen(mig_sight(config="other"), "watch"))
    assert clean.may_be_unchanged and not changed.may_be_unchanged


def test_an_operator_that_would_set_its_own_layout_gets_no_chance_to() -> None:
    puts_back = {"settings": {"puts_back": True}}
    assert decided("set", more=puts_back, config=LAYOUT, state="failed") == ("restart", "watch")
    again = {**puts_back, "track": {"tried": ("again",)}}
    assert decided("set", more=again, config=LAYOUT, state="failed") == ("patch", "reset")


@pytest.mark.parametrize(
    ("labels", "manager", "said"),
    [
        ({"config": LAYOUT}, "Running", wording("the MIG manager (it has not reacted yet)")),
        ({"config": LAYOUT, "state": "pending"}, "Running", "the MIG manager (pending)"),
        ({"config": LAYOUT, "state": "rebooting"}, "Running", "its reboot"),
        ({"config": LAYOUT}, "CrashLoopBackOff", wording("the MIG manager's pod, which is CrashLoopBackOff")),
        ({"config": LAYOUT}, "", wording("the MIG manager's pod, which does not exist")),
    ],
)
def test_it_says_what_it_waits_for(labels: dict, manager: str, said: str) -> None:
    assert decide(seen(mig_sight(**labels), "watch", manager=manager)).waits_for == said


def test_a_node_without_a_kubelet_is_awaited_before_its_label_is_set() -> None:
    sight = mig_sight(config="all-disabled")
    sight.node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert decide(seen(sight, "set")).waits_for == wording("its kubelet, because it is not Ready")
    late = decide(seen(sight, "set", still_s=100.0))
    assert late.kind == "fail" and not late.may_be_unchanged


def test_a_label_that_somebody_else_changed_or_removed_is_named() -> None:
    changed, removed = (decide(seen(mig_sight(**labels), "watch")) for labels in ({"config": "other"}, {}))
    assert "it is other." in changed.reason and "it is removed." in removed.reason


def test_operands_that_stay_paused_are_a_failure_without_the_permission_to_repair() -> None:
    paused = {**DONE, "nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}
    action = decide(seen(mig_sight(DEVICES, **paused), "prove", settings={"repair": False}))
    assert action.kind == "fail" and action.reason.startswith("Operands are paused: ")
    assert action.reason.endswith("Set repair: true.")


def test_a_run_for_another_layout_that_stands_still_is_a_failure_without_the_permission_to_repair() -> None:
    other = mig_sight(config="other", state="pending")
    assert decide(seen(other, "set", 1000.0)).kind == "restart"
    action = decide(seen(other, "set", 1000.0, settings={"repair": False}))
    assert action.kind == "fail" and action.reason


def test_a_success_that_no_label_confirms_waits_and_then_goes_back_to_service() -> None:
    unlabelled = {**DONE, "count": None}
    assert decided("prove", DEVICES, **unlabelled) == ("wait", "prove")
    assert decided("prove", DEVICES, 100.0, **unlabelled) == ("go", "restore")
