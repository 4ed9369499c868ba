# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rollout of drivers with a fault at each of its requests, and with a node that joins before each of its looks."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import NEW, SKIP, STATE, DriverCluster, driver_pod, validator_pod
from tests.unit.fakes.upgrades.drivers import waiting as pod_waits
from tests.unit.fakes.upgrades.rollouts import nothing_is_left, roll

pytestmark = pytest.mark.usefixtures("no_pauses")

REQUESTS = ("large_list", "list", "list_readable", "table", "get", "merge", "delete")
NODES = 2


class Faulty(DriverCluster):
    """A cluster whose request of this number has a fault: before it, or after it did its work."""

    def __init__(self, number: int, fault: BaseException | None, *, is_done: bool) -> None:
        super().__init__(NODES)
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
    made = stack.node(NODES)
    name = str(made["metadata"]["name"])
    made["metadata"] |= {"annotations": {}, "resourceVersion": "1"}
    made["metadata"]["labels"] |= {"nvidia.com/cuda.driver-version.full": NEW}
    cluster.items[name] = made
    cluster.add(driver_pod(name, NEW, **status), validator_pod(name))
    cluster.daemonset["status"]["desiredNumberScheduled"] = NODES + 1
    return name


@pytest.mark.parametrize("status", [{}, pod_waits("PodInitializing")], ids=["ready", "not ready yet"])
def test_a_node_that_joins_at_any_look_is_left_to_the_operator(status: dict[str, t.Any]) -> None:
    plain = DriverCluster(NODES)
    assert roll(plain).finished
    for second in range(1, int(plain.clock - stack.NOW)):
        cluster, joined = DriverCluster(NODES), list[str]()

        def meet(now: DriverCluster, second: int = second, joined: list[str] = joined) -> None:
            if now.clock >= stack.NOW + second and not joined:
                joined.append(join(now, **status))

        cluster.before_look = meet
        result = roll(cluster)
        [new] = joined
        assert result.finished and set(cluster.versions.values()) == {NEW}, second
        assert result.as_result()["summary"]["upgraded"] == NODES, second
        assert nothing_is_left(cluster) and cluster.label(new, SKIP) is None, second
        assert cluster.label(new, STATE) in ("upgrade-done", None) and cluster.most_cordoned == 1, second
