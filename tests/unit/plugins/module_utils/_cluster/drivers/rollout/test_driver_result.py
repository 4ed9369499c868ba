# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import (
    DriverRow,
    RolloutResult,
    progress,
)
from inline_snapshot import snapshot as wording

NOW = 1_800_000_000.0


def row(name: str, step: str, waits_for: str = "", since: float = NOW) -> DriverRow:
    made = DriverRow(name, state="pod-restart-required" if step == "upgrade" else "")
    made.step, made.waits_for, made.since = step, waits_for, since  # type: ignore[assignment]
    return made


def test_the_progress_names_the_nodes_that_have_waited_longest() -> None:
    rows = [row("a", "done"), row("b", "upgrade", "its pod", NOW - 65), row("c", "upgrade", "a budget", NOW - 5)]
    assert progress(rows, NOW) == (
        "1/3 nodes have their driver, 2 in their upgrade; b (pod-restart-required) waits for its pod (for 01:05); "
        "c (pod-restart-required) waits for a budget (for 00:05)"
    )


def test_without_a_node_in_its_upgrade_the_progress_says_what_the_next_one_waits_for() -> None:
    rows = [row("a", "done"), row("b", "waiting", "stage 1 of 2 to be well for 60 s"), row("c", "waiting", "x")]
    assert progress(rows, NOW).endswith("; b waits for stage 1 of 2 to be well for 60 s (for 00:00)")
    rows[0].fail("broken")
    assert "0/3 nodes have their driver, 0 in their upgrade, 1 failed" in progress(rows, NOW)


def test_a_wait_begins_when_something_else_is_waited_for() -> None:
    made = row("a", "upgrade", "pod x, which builds its driver (for 00:10)", NOW)
    made.wait("pod x, which builds its driver (for 00:20)", NOW + 10)
    assert made.since == NOW
    made.wait("its validator", NOW + 20)
    assert made.since == NOW + 20


def test_the_closing_says_what_was_left() -> None:
    failed, held, busy = row("a", "failed"), row("b", "waiting"), row("c", "upgrade")
    failed.fail("broken")
    failed.unschedulable = held.kept_back = True
    result = RolloutResult([failed, held, busy])
    assert result.closing == (
        wording(
            "a stays cordoned. The upgrade of c continues without this call. 1 node does not get the driver until this runs again (b): the label nvidia.com/gpu-driver-upgrade.skip keeps them from it."
        )
    )
    held.kept_back, held.unschedulable = False, True
    assert RolloutResult([held]).closing == "", "a node that did not fail was cordoned by somebody else"
    assert not result.finished and RolloutResult([row("a", "done")]).closing == ""


def test_the_summary_counts_what_was_upgraded_and_what_was_current() -> None:
    rows = [row("a", "done"), row("b", "done"), row("c", "upgrade"), row("d", "waiting"), row("e", "done")]
    rows[1].action = "nothing"
    summary = RolloutResult(rows).as_result()["summary"]
    assert (summary["upgraded"], summary["current"], summary["waiting"]) == (2, 1, 1)


def test_a_failure_names_the_nodes_that_lack_their_driver_and_their_cause_once() -> None:
    failed = row("b", "upgrade", "pod p to be ready (image: not found)")
    failed.fail("Its new driver does not start. It waits for pod p to be ready (image: not found).")
    whole, told = (
        each(RolloutResult([row("a", "done"), failed])) for each in (RolloutResult.as_result, RolloutResult.as_failure)
    )
    assert [each["node"] for each in whole["nodes"]] == ["a", "b"] and whole["summary"] == told["summary"]
    [node] = told["nodes"]
    assert (node["node"], node["waits_for"], node["since"]) == ("b", "", "")
    failed.fail("The operator gave its upgrade up.")
    assert failed.as_result()["waits_for"] == "pod p to be ready (image: not found)"


def test_the_progress_is_silent_about_nodes_that_wait_for_nothing() -> None:
    assert progress([row("a", "done"), row("b", "waiting")], NOW) == "1/2 nodes have their driver, 0 in their upgrade"
    late = progress([row("b", "upgrade", "its pod", NOW + 10)], NOW)
    assert late.endswith("(for 00:00)"), "a clock that was set back"


def test_a_degraded_node_is_no_failure_and_is_told() -> None:
    row = DriverRow("gpu-0003")
    row.degrade("pod p, whose driver is being built")
    result = RolloutResult([row])
    assert (row.step, row.action, row.failed, result.finished, result.changed) == (
        "left out",
        "nothing",
        False,
        True,
        False,
    )
    [told] = result.degraded
    assert "gpu-0003" in told and row.degraded in told and row.as_result()["degraded"] == row.degraded
