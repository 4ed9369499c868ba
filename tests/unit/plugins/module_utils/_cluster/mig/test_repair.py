# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.repair import LOST_S, stuck, why_stuck
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.steps import decide
from inline_snapshot import snapshot as wording

from tests.unit.fakes.mig_nodes import LAYOUT, mig_sight, seen

PAUSED = {"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}


def test_paused_operands_are_set_back_after_a_failed_run_and_then_it_has_failed() -> None:
    action = decide(seen(mig_sight(config=LAYOUT, state="failed", **PAUSED), "watch"))
    assert (action.kind, action.step, action.repair) == ("patch", "watch", "paused")
    assert action.patch == {"metadata": {"labels": {"nvidia.com/gpu.deploy.dcgm": "true"}}}
    assert action.reason == wording("operands that were left paused (dcgm) were set back")


def test_paused_operands_are_left_alone_while_a_run_is_at_work() -> None:
    assert decide(seen(mig_sight(config=LAYOUT, state="pending", **PAUSED), "watch")).kind == "wait"


@pytest.mark.parametrize(
    ("tried", "puts_back", "expected"),
    [
        ((), False, ("patch", "reset", "lost")),
        ((), True, ("restart", "watch", "lost")),
        (("lost",), False, ("restart", "watch", "restart")),
        (("lost", "restart"), False, ("wait", "watch", "")),
    ],
)
def test_a_label_that_nobody_reacts_to_is_set_again_and_then_the_manager_starts_again(
    tried: tuple, puts_back: bool, expected: tuple
) -> None:
    settings, track = {"puts_back": puts_back}, {"tried": tried}
    action = decide(seen(mig_sight(config=LAYOUT), "watch", LOST_S, settings=settings, track=track))
    assert (action.kind, action.step, action.repair) == expected


def test_a_manager_may_be_silent_while_it_looks_at_eight_gpus_without_persistence_mode() -> None:
    """It opens all of them three times, and the driver initialises each in up to 3 s."""
    assert LOST_S > 3 * 8 * 3
    assert decide(seen(mig_sight(config=LAYOUT), "watch", LOST_S - 1)).kind == "wait"


def test_a_manager_whose_pod_does_not_run_gets_time_to_come_back() -> None:
    assert decide(seen(mig_sight(config=LAYOUT), "watch", LOST_S, manager="Pending")).kind == "wait"


@pytest.mark.parametrize("config", [LAYOUT, "other"])
def test_a_run_that_has_stopped_is_started_again_once(config: str) -> None:
    step = "watch" if config == LAYOUT else "set"
    stopped = mig_sight(config=config, state="pending", **PAUSED)
    action = decide(seen(stopped, step, 100.0))
    assert (action.kind, action.step, action.repair) == ("restart", "watch", "restart")
    assert action.patch is not None and action.patch["metadata"]["labels"] == {
        "nvidia.com/mig.config": LAYOUT, "nvidia.com/mig.config.state": None, "nvidia.com/gpu.deploy.dcgm": "true",
    }  # fmt: skip
    again = decide(seen(stopped, step, 100.0, track={"tried": ("restart",)}))
    assert again.kind == "fail" and not again.may_be_unchanged


@pytest.mark.parametrize(
    ("labels", "ready", "manager", "repairs", "said"),
    [
        (
            {"state": "pending"},
            True,
            "Running",
            True,
            wording(
                "For 120 s the MIG manager has made no progress (state pending). Look at the log of its pod on the node."
            ),
        ),
        (
            {},
            True,
            "Running",
            False,
            wording(
                "For 120 s the MIG manager has made no progress (no state). Look at the log of its pod on the node. Set repair: true to start the MIG manager again."
            ),
        ),
        (
            {"state": "rebooting"},
            True,
            "Running",
            True,
            wording("For 120 s it has been rebooting. Look at its console, and run this again when it is back."),
        ),
        (
            {},
            True,
            "",
            True,
            wording("For 120 s it has had no pod of the MIG manager. Check the DaemonSet nvidia-mig-manager."),
        ),
        (
            {"state": "pending"},
            False,
            "Running",
            True,
            wording(
                "For 120 s the node has not been Ready, in the middle of its change. Repair it, and run this again."
            ),
        ),
    ],
)
def test_a_failure_says_for_how_long_and_what_to_look_at(
    labels: dict, ready: bool, manager: str, repairs: bool, said: str
) -> None:
    sight = mig_sight(config=LAYOUT, **labels)
    sight.node["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    look = seen(sight, "watch", 120.0, manager=manager, settings={"repair": repairs})
    assert why_stuck(look).startswith("For 120 s ") and why_stuck(look) == said
    assert (stuck(look) is None) == (not (repairs and ready and manager) or labels.get("state") == "rebooting")


def test_without_the_permission_nothing_is_repaired() -> None:
    off = {"settings": {"repair": False}}
    assert decide(seen(mig_sight(config=LAYOUT), "watch", 45.0, **off)).kind == "wait"
    assert decide(seen(mig_sight(config=LAYOUT, state="pending"), "watch", 100.0, **off)).kind == "fail"
    assert decide(seen(mig_sight(config=LAYOUT, state="failed", **PAUSED), "watch", **off)).kind == "fail"


@pytest.mark.parametrize("step", ["watch", "prove"])
@pytest.mark.parametrize(
    "cause",
    [
        'level=error msg="Error: failed to wait for pods to be deleted: device-plugin pod did not shutdown"',
        'level=error msg="Error: failed to restart validator pod: failed to delete pod gpu-operator/validator"',
    ],
)
def test_a_run_that_failed_because_of_pods_in_its_way_gets_a_second_try(step: str, cause: str) -> None:
    failed = mig_sight(config=LAYOUT, state="failed")
    action = decide(seen(failed, step, cause=cause))
    assert (action.kind, action.step, action.repair) == ("restart", "watch", "restart")
    assert action.reason == wording("the MIG manager was started again, because pods of operands had been in its way")
    assert decide(seen(failed, step, cause=cause, track={"tried": ("restart",)})).kind == "fail"
    assert decide(seen(failed, step, cause=cause, settings={"repair": False})).kind == "fail"
    assert decide(seen(mig_sight(config=LAYOUT, state="failed", **PAUSED), step, cause=cause)).repair == "paused"
    assert decide(seen(failed, step, cause="Error: failed to apply MIG configuration: exit status 1")).kind == "fail"


UNREAD = "the MIG manager was started again, because its pod did not show the edited layouts yet"
INVALID = 'level=error msg="Error: failed to validate MIG configuration: exit status 1"'
FRESH = {"settings": {"fresh_until": 1000.0}}


@pytest.mark.parametrize("step", ["watch", "prove"])
@pytest.mark.parametrize("fields", [{"cause": INVALID}, {**FRESH, "track": {"asked": 999.0}}])
def test_a_manager_that_does_not_know_a_published_layout_gets_a_new_pod(step: str, fields: dict) -> None:
    failed = mig_sight(config=LAYOUT, state="failed")
    action = decide(seen(failed, step, **fields))
    assert (action.kind, action.step, action.repair, action.reason) == ("restart", "watch", "unread", UNREAD)
    tried = {**fields, "track": {**fields.get("track", {}), "tried": ("unread",)}}
    assert decide(seen(failed, step, **tried)).kind == "fail", "only once"
    off = {**fields, "settings": {**fields.get("settings", {}), "repair": False}}
    assert decide(seen(failed, step, **off)).kind == "fail"


def test_a_failure_long_after_the_last_edit_is_one() -> None:
    failed = mig_sight(config=LAYOUT, state="failed")
    assert decide(seen(failed, "watch", **FRESH, track={"asked": 1000.0})).kind == "fail"
    assert decide(seen(failed, "watch")).kind == "fail"


def test_a_success_with_the_former_content_of_a_layout_is_repeated_once_the_edit_can_be_seen() -> None:
    wrong = mig_sight(config=LAYOUT, state="success")
    early = {"settings": {"fresh_until": 1000.1}, "track": {"asked": 990.0}}
    assert decide(seen(wrong, "prove", **early)).kind == "wait"
    due = {**FRESH, "track": {"asked": 990.0}}
    assert decide(seen(wrong, "prove", **due)).repair == "unread"
    assert decide(seen(wrong, "prove", **FRESH, track={"asked": 1000.0})).kind == "wait", "it was asked after the edit"
    off = {"settings": {"fresh_until": 1000.0, "repair": False}, "track": {"asked": 990.0}}
    assert decide(seen(wrong, "prove", **off)).kind == "wait"
