# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a rollout would do, from one look. The lab compares it with what rollouts do."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import foresight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import WantedDrivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import DriverRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations

from tests.unit.fakes import stack
from tests.unit.fakes.stack import NOW, Json
from tests.unit.fakes.upgrades.drivers import SKIP, DriverCluster, asked, driver_pod
from tests.unit.fakes.upgrades.sights import lack, node, sight

OLD_POD = driver_pod("gpu-0000", "580")


def noted(kind: t.Any, state: str = "upgrade-done", skips: bool = True) -> Json:
    made = node(state, **({SKIP: "true"} if skips else {}))
    made["metadata"]["annotations"] = {driver_annotations.NOTE: str(driver_annotations.Note(kind, NOW))}
    return made


def foreseen(seen: DriverNode, **given: t.Any) -> tuple[dict[str, t.Any], tuple[str, ...]]:
    made = foresight.foresee({"gpu-0000": seen}, NOW, **{"replaced": (), **given})
    rows = made.result.as_result()["nodes"]
    return (rows[0] if rows else {}), made.resumed


def test_a_node_with_its_driver_is_done_and_a_note_of_ours_goes() -> None:
    row, resumed = foreseen(sight())
    assert (row["step"], row["action"], row["changed"], resumed) == ("done", "nothing", False, ())
    row, resumed = foreseen(sight(made=noted("held")))
    assert (row["step"], row["action"], row["changed"], resumed) == ("done", "nothing", True, ())


def test_a_node_whose_driver_changes_waits_for_its_turn_and_is_not_resumed() -> None:
    row, resumed = foreseen(sight(), replaced=["gpu-0000"])
    assert (row["step"], row["action"], row["changed"], row["waits_for"], resumed) == (
        "waiting",
        "upgrade",
        True,
        "",
        (),
    )
    assert foreseen(sight(), removed=["gpu-0000"]) == ({}, ())


@pytest.mark.parametrize(
    "left",
    [
        sight(OLD_POD, noted("held", "upgrade-required")),
        sight(OLD_POD, noted("paused", "upgrade-required")),
        sight(OLD_POD),
        sight(made=noted("failed", "upgrade-failed", skips=False)),
    ],
)
def test_what_an_earlier_call_has_left_is_resumed(left: DriverNode) -> None:
    row, resumed = foreseen(left)
    assert (row["step"], row["action"], row["changed"], resumed) == ("waiting", "upgrade", True, ("gpu-0000",))
    assert row["waits_for"] != "" and row["kept_back"] is driver_annotations.is_ours(left.node)


@pytest.mark.parametrize("state", ["upgrade-required", "pod-restart-required"])
def test_an_upgrade_that_has_begun_goes_on_and_interrupts_nobody_anew(state: str) -> None:
    row, resumed = foreseen(sight(OLD_POD, noted("turn", state, skips=False)))
    assert (row["step"], row["changed"], resumed) == ("upgrade", True, ())


def test_while_no_window_is_open_nodes_are_only_kept_back() -> None:
    held, free = sight(OLD_POD, noted("held", "upgrade-required")), sight(OLD_POD, node("upgrade-required"))
    assert (
        foreseen(held, is_closed=True)[0]["changed"] is False and foreseen(free, is_closed=True)[0]["changed"] is True
    )
    assert foreseen(held)[0]["changed"] is True


def test_an_upgrade_that_the_operator_has_begun_by_itself_is_only_watched() -> None:
    row, resumed = foreseen(sight(OLD_POD, node("pod-restart-required")))
    assert (row["step"], row["action"], row["changed"], resumed) == ("upgrade", "upgrade", False, ())


def test_a_node_that_is_only_unwell_interrupts_nobody() -> None:
    row, resumed = foreseen(sight(validators=()))
    assert (row["step"], row["action"], row["changed"], resumed) == ("left out", "nothing", False, ())
    assert row["degraded"] == lack(validators=())


def test_a_node_that_a_user_keeps_is_left_out() -> None:
    row, resumed = foreseen(sight(OLD_POD, node("upgrade-required", **{SKIP: "true"})))
    assert (row["step"], row["action"], row["changed"], resumed) == ("left out", "nothing", False, ())


def left_by(*, begun: bool, held: bool) -> DriverCluster:
    """Return a fleet with one upgraded node, and two that an earlier call has left."""
    cluster = DriverCluster(3)
    cluster.replace("gpu-0000", {})
    cluster.report("gpu-0000")
    rollout = DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE))
    if held:
        rollout.hold(list(cluster.items))
    cluster.step()
    if begun:
        rollout.roll(["gpu-0001"])
    return cluster


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize(("held", "begun"), [(False, True), (True, False), (True, True)])
def test_the_rollout_does_what_was_foreseen(held: bool, begun: bool) -> None:
    cluster = left_by(begun=begun, held=held)
    cluster.operator_runs = False
    rollout = DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE))
    before = list(cluster.log)
    foreseen = rollout.foresee((), ()).result
    assert cluster.log == before, "nothing is written"
    cluster.operator_runs = True
    made = rollout.roll()
    assert {row.node: row.action for row in foreseen.rows} == {row.node: row.action for row in made.rows}
    assert foreseen.changed is made.changed
