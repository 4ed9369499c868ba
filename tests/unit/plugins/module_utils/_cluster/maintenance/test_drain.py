# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import drain, eviction
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult

from tests.support.clock import Clock
from tests.unit.fakes.stack import node, workload
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import asked, claim
from tests.unit.plugins.module_utils._cluster.maintenance.test_maintain import FakeFleet


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(drain, "time", clock)
    return clock


def cordoned(fleet: FakeFleet, name: str) -> drain.Drain:
    (change,) = plan([fleet.node(name)], fleet.all_pods, fleet.request, claim(), lambda node: [])
    made = drain.cordon(fleet, change, NodeResult(name))  # type: ignore[arg-type]
    assert made is not None
    return made


def test_a_refused_pod_is_left_alone_for_a_while(clock: Clock) -> None:
    (change,) = plan([node()], {}, asked(), claim(), lambda node: [])
    one = drain.Drain(change, NodeResult("gpu-0000"), clock.now_s, clock.now_s)
    pod = workload("a")
    one.retry_at[eviction.uid_of(pod)] = clock.now_s + 5.0
    assert not one.is_due(pod)
    clock.now_s += 5.0
    assert one.is_due(pod) and not one.is_due(workload("a", deletionTimestamp="2026-11-21T10:00:00Z"))


def test_a_node_can_be_drained_while_another_one_still_is(clock: Clock) -> None:
    fleet = FakeFleet()
    drains = drain.Drains(fleet)  # type: ignore[arg-type]
    drains.begin(cordoned(fleet, "gpu-0000"))
    assert drains.look() == [] and list(drains.left) == ["gpu-0000"]
    drains.begin(cordoned(fleet, "gpu-0001"))
    assert drains.look() == [], "no pod is left, but one may still appear"
    clock.now_s += 1.0
    ended = drains.look()
    assert [one.name for one in ended] == ["gpu-0000", "gpu-0001"] and not drains.active
    assert [one.result.evicted for one in ended] == [["default/a"], ["default/b"]]


@pytest.mark.parametrize(
    ("seen", "looks"),
    [
        ({}, 1),
        ({"gpu-0000": "as it is"}, 0),
        ({"gpu-0000": "uncordoned"}, 1),
        ({"gpu-0000": "released"}, 1),
    ],
)
def test_before_a_drain_ends_the_node_is_read_unless_a_look_at_all_has_just_seen_it_held(
    clock: Clock, seen: dict[str, str], looks: int
) -> None:
    fleet = FakeFleet()
    fleet.all_pods["gpu-0000"] = []
    drains = drain.Drains(fleet)  # type: ignore[arg-type]
    drains.begin(cordoned(fleet, "gpu-0000"))
    for name, how in seen.items():
        fleet.seen[name] = now = copy.deepcopy(fleet.node(name))
        if how == "uncordoned":
            del now["spec"]["unschedulable"]
        if how == "released":
            del now["metadata"]["annotations"]
    reads: list[str] = []
    fleet.patch = lambda name, make_patch: (reads.append(name) or fleet.node(name), False)  # type: ignore[method-assign]
    clock.now_s += 1.0
    assert [one.name for one in drains.look()] == ["gpu-0000"] and len(reads) == looks


def test_a_node_is_read_now_and_then_whatever_a_look_at_all_has_seen(clock: Clock) -> None:
    fleet = FakeFleet()
    fleet.refusal = "not now"
    drains = drain.Drains(fleet)  # type: ignore[arg-type]
    drains.begin(cordoned(fleet, "gpu-0000"))
    fleet.seen["gpu-0000"] = fleet.node("gpu-0000")
    reads: list[str] = []
    fleet.patch = lambda name, make_patch: (reads.append(name) or fleet.node(name), False)  # type: ignore[method-assign]
    for dummy in range(3):
        assert drains.look() == []
        clock.now_s += drain.HOLD_CHECK_S
    assert len(reads) == 2
