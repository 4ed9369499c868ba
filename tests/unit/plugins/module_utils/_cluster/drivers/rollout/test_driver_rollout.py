# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import driver_rollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import WantedDrivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import (
    DriverRow,
    RolloutResult,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import DriverRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import NEW, SKIP, STATE, DriverCluster, asked, driver_pod, validator_pod
from tests.unit.fakes.upgrades.drivers import waiting as pod_waits
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
    assert error.reason == "Interrupted" and f"The upgrade of {ONE} continues" in error.msg
    assert "1 node does not" in error.msg
    assert roll(cluster).finished and nothing_is_left(cluster)


def test_nothing_is_written_if_a_node_cannot_be_kept_back() -> None:
    cluster = DriverCluster(2)

    def refuse(path: str, body: t.Any) -> t.Any:
        raise GpuOpsError("You may not patch nodes.", reason="Forbidden")

    cluster.merge = refuse  # type: ignore[method-assign]
    with pytest.raises(GpuOpsError) as error:
        DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE)).hold([ZERO, ONE])
    assert error.value.reason == "Forbidden"
    assert error.value.msg == wording(
        "2 nodes could not be kept back, so the cluster was not changed (gpu-0000: You may not patch nodes)."
    )


def test_nodes_are_kept_back_once() -> None:
    cluster = DriverCluster(2)
    rollout = DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE))
    assert rollout.hold([ZERO, ONE]) and not rollout.hold([ZERO, ONE])
    assert {cluster.label(name, SKIP) for name in cluster.items} == {"true"}


def test_a_closed_window_says_when_the_next_one_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_rollout.time, "time", lambda: stack.NOW)
    closed = DriverRollout(DriverCluster(1).typed, asked(windows=["10:00-11:00"])).closed()
    assert closed == wording("No maintenance window is open now (10:00-11:00 (UTC)). The next one opens in 2 hours.")
    assert DriverRollout(DriverCluster(1).typed, asked(windows=["08:00-11:00"])).closed() == ""


def test_nodes_that_wait_for_the_next_window_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_rollout.time, "time", lambda: stack.NOW)
    rows = [DriverRow(ZERO, step="done"), DriverRow(ONE, step="waiting")]
    rollout = DriverRollout(DriverCluster(1).typed, asked(windows=["08:00-08:10"]))
    assert rollout.why_left(RolloutResult(rows)).startswith(f"{ONE} waits for the next maintenance window")
    assert rollout.why_left(RolloutResult(rows[:1])) == ""


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
    assert DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE)).roll().finished
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
    assert DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE)).roll().finished
    assert nothing_is_left(cluster) and set(cluster.versions.values()) == {NEW} and cluster.most_cordoned == 1


# ---- a fault at each request, and a node that joins before each look

REQUESTS = ("large_list", "list", "list_readable", "table", "get", "merge", "delete")
MEMBERS = 2


class Faulty(DriverCluster):
    """A cluster whose request of this number has a fault: before it, or after it did its work."""

    def __init__(self, number: int, fault: BaseException | None, *, is_done: bool) -> None:
        super().__init__(MEMBERS)
        self.asked = 0
        for name in REQUESTS:
            setattr(self, name, self._counted(getattr(self, name), number, fault, is_done))

    def _counted(
        self, request: t.Callable[..., t.Any], number: int, fault: BaseException | None, is_done: bool
    ) -> t.Callable[..., t.Any]:
        def counted(*args: t.Any, **options: t.Any) -> t.Any:
            self.asked += 1
            is_at_fault = fault is not None and self.asked == number
            if is_at_fault and not is_done:
                raise t.cast("BaseException", fault)
            answer = request(*args, **options)
            if is_at_fault:
                raise t.cast("BaseException", fault)
            return answer

        return counted


def number_of_requests() -> int:
    cluster = Faulty(0, None, is_done=False)
    assert roll(cluster).finished
    return cluster.asked


AWAY = GpuOpsError("The API server is away.", reason="Unreachable")
BUSY = GpuOpsError("The API server is busy.", reason="TooManyRequests")
KILLED = SystemExit(137)
CTRL_C = KeyboardInterrupt()


@pytest.mark.parametrize(
    ("fault", "is_done", "ends"),
    [
        pytest.param(AWAY, False, {"finished", "Unreachable"}, id="away"),
        pytest.param(AWAY, True, {"finished", "Unreachable"}, id="answer-lost"),
        pytest.param(BUSY, False, {"finished", "TooManyRequests"}, id="busy"),
        pytest.param(KILLED, True, {"SystemExit"}, id="killed"),
        pytest.param(CTRL_C, False, {"Interrupted", "KeyboardInterrupt"}, id="ctrl-c"),
    ],
)
def test_a_fault_at_any_request_is_borne_or_made_good_by_the_next_run(
    fault: BaseException, is_done: bool, ends: set[str]
) -> None:
    found: set[str] = set()
    for number in range(1, number_of_requests() + 1):
        cluster = Faulty(number, fault, is_done=is_done)
        try:
            roll(cluster)
            found.add("finished")
        except (GpuOpsError, SystemExit, KeyboardInterrupt) as error:
            found.add(getattr(error, "reason", type(error).__name__))
        assert cluster.most_cordoned <= 1, number
        after = roll(cluster)
        assert after.finished and set(cluster.versions.values()) == {NEW}, number
        assert nothing_is_left(cluster) and cluster.most_cordoned == 1, number
    assert found == ends


def join(cluster: DriverCluster, **status: t.Any) -> str:
    """Let a node join. Its driver pod is made by the DaemonSet, so it has the new version."""
    made = stack.node(MEMBERS)
    name = str(made["metadata"]["name"])
    made["metadata"] |= {"annotations": {}, "resourceVersion": "1"}
    made["metadata"]["labels"] |= {"nvidia.com/cuda.driver-version.full": NEW}
    cluster.items[name] = made
    cluster.add(driver_pod(name, NEW, **status), validator_pod(name))
    cluster.daemonset["status"]["desiredNumberScheduled"] = MEMBERS + 1
    return name


@pytest.mark.parametrize("status", [{}, pod_waits("PodInitializing")], ids=["ready", "not ready yet"])
def test_a_node_that_joins_at_any_look_is_left_to_the_operator(status: dict[str, t.Any]) -> None:
    plain = DriverCluster(MEMBERS)
    assert roll(plain).finished
    for second in range(1, int(plain.clock - stack.NOW)):
        cluster, joined = DriverCluster(MEMBERS), list[str]()

        def meet(now: DriverCluster, second: int = second, joined: list[str] = joined) -> None:
            if now.clock >= stack.NOW + second and not joined:
                joined.append(join(now, **status))

        cluster.before_look = meet
        result = roll(cluster)
        [new] = joined
        assert result.finished and set(cluster.versions.values()) == {NEW}, second
        assert result.as_result()["summary"]["upgraded"] == MEMBERS, second
        assert nothing_is_left(cluster) and cluster.label(new, SKIP) is None, second
        assert cluster.label(new, STATE) in ("upgrade-done", None) and cluster.most_cordoned == 1, second
