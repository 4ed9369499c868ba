# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_queue import DriverQueue
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import DriverRow

from tests.unit.fakes import stack
from tests.unit.fakes.stack import NOW
from tests.unit.fakes.upgrades.drivers import OLD, asked, driver_pod
from tests.unit.fakes.upgrades.sights import node, sight

FLEET = ("a", "b", "c", "d")


def old(name: str, state: str = "upgrade-required", **labels: str) -> DriverNode:
    """Return a node that has the former driver."""
    return sight(driver_pod(name, OLD), node(state, OLD, **labels))


def queue(
    sights: t.Mapping[str, DriverNode] | None = None, done: t.Sequence[str] = (), **options: t.Any
) -> DriverQueue:
    return DriverQueue(FLEET, done, {**{name: old(name) for name in FLEET}, **(sights or {})}, asked(**options))


def rows(**steps: t.Any) -> dict[str, DriverRow]:
    """Return the rows of the fleet, with the steps of some of its nodes."""
    return {name: DriverRow(name, steps.get(name, "waiting")) for name in FLEET}


def test_nodes_that_are_done_or_have_begun_come_first() -> None:
    begun = {"c": old("c", "pod-restart-required")}
    made = queue(begun, ["d"], waves=["1", "1", "2"])
    assert made.waves == {"d": 1, "c": 2, "a": 3, "b": 3}


def test_the_limit_and_the_groups_decide_who_begins() -> None:
    zones = {name: old(name, zone=zone) for name, zone in zip(FLEET, "xyxy")}
    made = queue(zones, group_by="zone", max_unavailable="4")
    assert list(made.admit(rows(), frozenset()).members) == ["a", "c"]
    assert list(made.admit(rows(a="done", c="upgrade"), frozenset()).members) == []
    assert list(made.admit(rows(a="done", c="left out"), frozenset()).members) == ["b", "d"]


def test_a_failed_node_stops_the_rollout_and_one_that_is_cordoned_takes_room() -> None:
    failed = rows()
    failed["a"].fail("broken")
    assert "broken" in queue(max_unavailable="2").admit(failed, frozenset()).stop
    assert list(queue(max_unavailable="2", max_failed="1").admit(failed, frozenset()).members) == ["b", "c"]
    failed["a"].unschedulable = True
    assert list(queue(max_unavailable="2", max_failed="1").admit(failed, frozenset()).members) == ["b"]


def test_the_next_wave_waits_until_the_one_before_has_been_well_for_the_soak_time() -> None:
    made = queue(waves=["1", "3"], soak=60)
    assert made.gate(rows(), NOW).closed == {"b", "c", "d"}
    made.ended("a", 10.0, NOW)
    assert made.gate(rows(a="done"), NOW + 59).closed == {"b", "c", "d"}
    assert not made.gate(rows(a="done"), NOW + 60).closed
    assert not made.gate(rows(a="failed"), NOW).closed and not made.gate(rows(a="left out"), NOW).closed


def test_a_window_is_open_for_those_that_end_in_it() -> None:
    made = queue(windows=["08:00-09:00"])
    begun, ends = old("a"), stack.NOW + 60 * 60
    assert made.closed_for(begun, ends - 10) == "" and "08:00-09:00" in made.closed_for(begun, ends)
    made.ended("b", 30.0, NOW)
    made.ended("c", 5.0, NOW)
    assert made.closed_for(begun, ends - 30) == ""
    assert made.closed_for(begun, ends - 29).startswith("the next maintenance window")
