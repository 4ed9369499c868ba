# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.read import Wanted
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.run import Rollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import NEW, OPTIONS, SKIP, STATE, DriverCluster
from tests.unit.fakes.upgrades.rollouts import ONE, ZERO, failure, nothing_is_left, roll

pytestmark = pytest.mark.usefixtures("no_pauses")


def test_an_interrupted_run_says_what_goes_on_and_a_rerun_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = DriverCluster(3)

    def kill(now: DriverCluster) -> None:
        if now.label(ONE, STATE) == "pod-restart-required":
            now.before_look = lambda later: None
            raise KeyboardInterrupt

    cluster.before_look = kill
    error = failure(cluster)
    assert error.reason == "Interrupted" and f"The upgrade of {ONE} goes on without this call" in error.msg
    assert "1 node does not get the driver until this runs again" in error.msg
    assert roll(cluster).finished and nothing_is_left(cluster)


def test_nothing_is_written_if_a_node_cannot_be_kept_back() -> None:
    cluster = DriverCluster(2)

    def refuse(path: str, body: t.Any) -> t.Any:
        raise GpuOpsError("You may not patch nodes.", reason="Forbidden")

    cluster.merge = refuse  # type: ignore[method-assign]
    with pytest.raises(GpuOpsError, match="2 nodes could not be kept back, so nothing was written"):
        Rollout(cluster.typed, OPTIONS, Wanted(stack.NAMESPACE)).hold([ZERO, ONE])


def test_nodes_are_kept_back_once() -> None:
    cluster = DriverCluster(2)
    rollout = Rollout(cluster.typed, OPTIONS, Wanted(stack.NAMESPACE))
    assert rollout.hold([ZERO, ONE]) and not rollout.hold([ZERO, ONE])
    assert {cluster.label(name, SKIP) for name in cluster.items} == {"true"}


def test_a_closed_window_says_when_the_next_one_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import run

    monkeypatch.setattr(run.time, "time", lambda: stack.NOW)
    closed = Rollout(DriverCluster(1).typed, {**OPTIONS, "windows": ["10:00-11:00"]}).closed()
    assert closed == "No maintenance window is open now (10:00-11:00 (UTC)). The next one opens in 120 minutes."
    assert Rollout(DriverCluster(1).typed, {**OPTIONS, "windows": ["08:00-11:00"]}).closed() == ""


MOMENTS = [
    ("held", "upgrade-done"), ("held", "upgrade-required"), ("turn", "upgrade-required"),
    ("turn", "pod-deletion-required"), ("turn", "pod-restart-required"), ("turn", "validation-required"),
    ("turn", "uncordon-required"),
]  # fmt: skip
"""What a node may look like when a run ends: our note, and the operator's state."""


class Killed(BaseException):
    """The process has ended on the spot."""


@pytest.mark.parametrize(("note", "state"), MOMENTS)
def test_a_run_that_is_killed_in_any_state_of_a_node_is_gone_on_with(note: str, state: str) -> None:
    cluster = DriverCluster(3)

    def kill(now: DriverCluster) -> None:
        if now.label(ONE, STATE) == state and now.note(ONE) == note:
            now.before_look = die
            raise Killed

    def die(now: DriverCluster) -> t.NoReturn:
        raise Killed

    cluster.before_look = kill
    with pytest.raises(Killed):
        roll(cluster)
    cluster.before_look = lambda now: None
    for dummy in range(30):  # the operator goes on with whatever has begun, and with nothing else
        cluster.step()
    assert cluster.most_cordoned == (note == "turn") and not cluster.cordoned
    assert Rollout(cluster.typed, OPTIONS, Wanted(stack.NAMESPACE)).roll().finished
    assert nothing_is_left(cluster) and set(cluster.versions.values()) == {NEW} and cluster.most_cordoned == 1


def test_a_run_that_is_killed_between_two_nodes_is_gone_on_with_after_the_operator_was_called() -> None:
    """The node by whose state the operator was called has none then, and the operator has not answered yet."""
    cluster = DriverCluster(2)
    cluster.tick = 120

    def kill(now: DriverCluster) -> None:
        if not all(now.label(name, STATE) for name in now.items):
            raise Killed

    cluster.before_look = kill
    with pytest.raises(Killed):
        roll(cluster)
    cluster.before_look = lambda now: None
    assert Rollout(cluster.typed, OPTIONS, Wanted(stack.NAMESPACE)).roll().finished
    assert nothing_is_left(cluster) and set(cluster.versions.values()) == {NEW} and cluster.most_cordoned == 1
