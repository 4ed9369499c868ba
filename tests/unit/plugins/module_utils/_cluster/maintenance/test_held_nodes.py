# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import (
    drain,
    held_nodes,
    hold,
    maintenance_plan,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.held_nodes import HeldNodesRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    PROVED,
    WAIT,
    HeldRow,
    NodeWork,
    Outcome,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import (
    Members,
    NodePacing,
    PaceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import maintenance_windows
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from inline_snapshot import snapshot as wording

from tests.support.clock import Clock
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import claim, held
from tests.unit.plugins.module_utils._cluster.maintenance.test_maintain import FakeFleet

ZERO, ONE = "gpu-0000", "gpu-0001"
PURPOSE = "reboot"
MARK, WHY, DONE = (f"gpuops.nvidia/{kind}.{PURPOSE}" for kind in ("maintenance", "failed", "rollout-done"))

# The whole way through real changes is tested in tests/unit/plugins/modules/test_mig_config.py and test_gpu_sharing.py.


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (waiting, drain, held_nodes):
        monkeypatch.setattr(module, "time", clock)
    return clock


class HeldFleet(FakeFleet):
    """The fleet of a rollout. Its API server's clock goes with the test's clock."""

    def __init__(self, clock: Clock, **changes: t.Any) -> None:
        super().__init__(**{"allow_disruption": True, "purpose": PURPOSE, **changes})
        self.clock, self.busy = clock, dict[str, list[str]]()
        self.lines = list[str]()

    @property
    def now(self) -> float:  # type: ignore[override]
        return self.clock.now_s

    @now.setter
    def now(self, value: float) -> None:
        """The clock is the only one that sets it."""

    def look_elsewhere_again(self) -> None:
        """There is no other object to look at."""

    def others_at_work(self, node: dict[str, t.Any]) -> list[str]:
        return self.busy.get(node["metadata"]["name"], [])


class Scripted(NodeWork[HeldRow]):
    """A change that writes, and then waits for the outcome that the test gives each node."""

    purpose, timeout_s = PURPOSE, 60.0

    def __init__(self, fleet: HeldFleet, outcomes: dict[str, Outcome]) -> None:
        super().__init__()
        self.fleet, self.outcomes = fleet, outcomes
        self.rows = {name: HeldRow(held=NodeResult(name)) for name in fleet.all_nodes}
        self.order: list[str] = []
        self.ill: dict[str, str] = {}
        self.refuses: GpuOpsError | None = None
        self.lines: list[str] = []

    def look(self) -> dict[str, t.Any]:
        self.fleet.look()
        return dict(self.fleet.all_nodes)

    def consult(self, busy: t.Collection[str]) -> None:
        """There is nothing else to look at."""

    def begin(self, name: str, now: float) -> None:
        self.rows[name].step = "set"
        self.order.append(name)

    def advance(self, name: str, node: t.Any, now: float) -> Outcome:
        if self.rows[name].step == "set":
            if self.refuses:
                raise self.refuses
            self.touched.add(name)
            self.rows[name].step = "watch"
            return WAIT
        return self.outcomes.get(name, PROVED)

    def illness(self, name: str, node: t.Any) -> str:
        return self.ill.get(name, "")

    def describe(self, name: str, node: t.Any) -> None:
        """The rows have nothing to describe."""

    def progress(self, now: float, closed: str) -> str:
        self.lines.append(closed)
        return ""


class Scene(t.NamedTuple):
    rollout: HeldNodesRollout
    work: Scripted
    fleet: HeldFleet


def scene(
    clock: Clock,
    outcomes: dict[str, Outcome] | None = None,
    *,
    before: tuple[str, ...] = (),
    windows: tuple[str, ...] = (),
    soak_s: float = 0.0,
    **wishes: t.Any,
) -> Scene:
    """Return a rollout of two nodes. Those in ``before`` are held by an earlier run."""
    fleet = HeldFleet(clock)
    for number, name in enumerate((ZERO, ONE)):
        if name in before:
            fleet.all_nodes[name] = held(number, **{PURPOSE: "2026-11-21T10:00:00Z bastion 00000000"})
    chosen = list(fleet.all_nodes.values())
    changes = maintenance_plan.plan(chosen, fleet.all_pods, fleet.request, claim(now=clock.now_s), lambda node: [])
    request = PaceRequest(RolloutRequest(**wishes), (), soak_s, maintenance_windows.parse(windows, "UTC"))
    members = Members((ZERO, ONE), halfway=frozenset(before), held=frozenset(before))
    work = Scripted(fleet, outcomes or {})
    holds = {change.name: change for change in changes}
    return Scene(HeldNodesRollout(t.cast("t.Any", fleet), work, holds, NodePacing(members, request)), work, fleet)


def notes(made: Scene, name: str) -> dict[str, str]:
    return made.fleet.all_nodes[name]["metadata"].get("annotations") or {}


def is_held(made: Scene, name: str) -> bool:
    cordoned = bool(made.fleet.all_nodes[name]["spec"].get("unschedulable"))
    assert cordoned == (MARK in notes(made, name)), "the cordon and the mark go together"
    return cordoned


UNKNOWN = Outcome("failed", "It broke.")
UNCHANGED = Outcome("failed", "It broke.", is_unchanged=True)


def test_nodes_are_held_changed_proved_and_put_back_one_after_the_other(clock: Clock) -> None:
    made = scene(clock)
    made.rollout.run()
    assert made.rollout.finished and made.rollout.stop == "" and made.work.order == [ZERO, ONE]
    assert not is_held(made, ZERO) and not is_held(made, ONE) and DONE not in notes(made, ZERO)
    row = made.work.rows[ZERO]
    assert (row.step, row.changed, row.held.evicted, row.wave) == ("done", True, ["default/a"], 1) and row.seconds > 0


def test_a_node_whose_change_failed_stays_held_and_says_why(clock: Clock) -> None:
    made = scene(clock, {ZERO: UNKNOWN})
    made.rollout.run()
    assert is_held(made, ZERO) and notes(made, ZERO)[WHY] == wording(
        "It broke. It stays cordoned for the purpose reboot"
    )
    assert (made.work.rows[ZERO].kept, made.work.rows[ZERO].failed) == (True, True)
    assert "1 of 2 members failed" in made.rollout.stop and made.work.order == [ZERO]
    assert made.work.rows[ONE].step == "waiting" and not made.rollout.finished


def test_a_node_on_which_nothing_changed_is_put_back_if_that_is_proved(clock: Clock) -> None:
    made = scene(clock, {ZERO: UNCHANGED})
    made.rollout.run()
    assert not is_held(made, ZERO) and WHY not in notes(made, ZERO)
    assert made.work.rows[ZERO].reason == "It broke." and not made.work.rows[ZERO].kept


def test_a_proof_of_this_call_says_nothing_about_the_call_that_left_the_node_held(clock: Clock) -> None:
    made = scene(clock, {ZERO: UNCHANGED}, before=(ZERO,))
    made.rollout.run()
    assert is_held(made, ZERO) and WHY in notes(made, ZERO)


@pytest.mark.parametrize(("before", "stays"), [((), False), ((ZERO,), True)])
def test_a_drain_that_fails_puts_a_node_back_that_was_in_service_before(
    clock: Clock, before: tuple[str, ...], stays: bool
) -> None:
    made = scene(clock, before=before)
    made.fleet.refusal = "the PodDisruptionBudget forbids it"
    made.rollout.run()
    assert is_held(made, ZERO) is stays and made.work.rows[ZERO].failed and made.work.order == []


def test_the_first_reason_to_stop_is_kept(clock: Clock) -> None:
    made = scene(clock, {ZERO: UNKNOWN, ONE: Outcome("failed", "Later.")}, sizes=2)
    advance = made.work.advance

    def late(name: str, node: t.Any, now: float) -> Outcome:
        return advance(name, node, now) if name == ZERO or now > 1030.0 else WAIT

    made.work.advance = late  # type: ignore[method-assign]
    made.rollout.run()
    assert made.rollout.stop == wording(
        "1 of 2 members failed, and max_out allows 0. gpu-0000: It broke. It stays cordoned for the purpose reboot."
    )


def test_a_signal_puts_back_what_was_not_changed_and_keeps_the_rest(clock: Clock) -> None:
    made = scene(clock, {ZERO: WAIT}, sizes=2)
    stuck = list(made.fleet.all_pods[ONE])

    def look() -> None:
        made.fleet.all_pods[ONE] = list(stuck)
        if clock.now_s > 1020.0:
            raise KeyboardInterrupt

    made.fleet.look = look
    with pytest.raises(KeyboardInterrupt):
        made.rollout.run()
    assert is_held(made, ZERO) and "(watch)" in notes(made, ZERO)[WHY]
    assert made.work.rows[ZERO].kept and not is_held(made, ONE)


def test_a_change_that_the_api_server_refused_leaves_the_node_as_it_was(clock: Clock) -> None:
    made = scene(clock)
    made.work.refuses = GpuOpsError("You may not.", reason="Forbidden")
    with pytest.raises(GpuOpsError, match="You may not"):
        made.rollout.run()
    assert not is_held(made, ZERO)
    assert made.work.rows[ZERO].reason == wording("The call ended before the node was changed.")


def test_the_next_wave_waits_for_the_soak_and_the_note_of_the_canary_goes_at_the_end(clock: Clock) -> None:
    made = scene(clock, canary=1, soak_s=100.0)
    noted: list[bool] = []
    made.fleet.look = lambda: noted.append(DONE in notes(made, ZERO))
    made.rollout.run()
    assert made.rollout.finished and True in noted and DONE not in notes(made, ZERO)
    assert [made.work.rows[name].wave for name in (ZERO, ONE)] == [1, 2] and clock.now_s >= 1100.0


def test_a_canary_that_is_unwell_again_ends_the_rollout(clock: Clock) -> None:
    made = scene(clock, canary=1, soak_s=100.0)
    made.work.ill[ZERO] = "its kubelet is not Ready"
    made.rollout.run()
    assert made.rollout.stop.startswith("The canary gpu-0000 failed.") and made.rollout.stop == wording(
        "The canary gpu-0000 failed. gpu-0000: Its change was proved, and it is not well any more: its kubelet is not Ready."
    )
    assert made.work.order == [ZERO]


def test_outside_the_windows_only_nodes_that_are_out_of_service_are_finished(clock: Clock) -> None:
    clock.now_s = 1_795_514_400.0  # a Tuesday, 10:00
    made = scene(clock, before=(ONE,), windows=("mon 00:00-01:00",))
    made.rollout.run()
    assert made.work.order == [ONE] and made.rollout.stop == "" and not made.rollout.finished
    assert not is_held(made, ONE) and made.work.rows[ZERO].waits_for.startswith("the next maintenance window")
    assert made.work.lines[-1].startswith("the next maintenance window")


def test_a_node_waits_for_others_and_fails_after_the_timeout(clock: Clock) -> None:
    made = scene(clock, max_out=1)
    made.fleet.busy[ZERO] = ["kured"]
    made.rollout.run()
    assert made.work.order == [ONE] and made.rollout.finished
    assert made.work.rows[ZERO].reason.startswith("kured was still working")
    assert not is_held(made, ZERO)


def test_a_node_that_stays_held_takes_room(clock: Clock) -> None:
    made = scene(clock, {ZERO: UNKNOWN}, max_out=1)
    made.rollout.run()
    assert "gpu-0000 failed and does not serve, so sizes (1) leaves no room" in made.rollout.stop
    assert hold.hold_of(made.fleet.all_nodes[ZERO]).purposes == (PURPOSE,)
