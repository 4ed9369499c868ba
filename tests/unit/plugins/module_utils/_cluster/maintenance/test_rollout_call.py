# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import rollout_call
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import (
    MaintenanceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import NOTHING, HeldRow
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import NodeRolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import (
    Members,
    NodePacing,
    PaceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.maintenance_windows import parse

from tests.unit.fakes.api import NODES, FakeApi
from tests.unit.fakes.stack import node

Json = dict[str, t.Any]

HELD, DONE = "gpuops.nvidia/maintenance.paint", "gpuops.nvidia/rollout-done.paint"
PAINT = MaintenanceRequest(purpose="paint", is_rollout=True)
FIRST, SECOND, THIRD = "gpu-0000", "gpu-0001", "gpu-0002"


@dataclasses.dataclass
class Painted(HeldRow):
    """A row of a made-up change."""

    name: str
    is_held: bool = False
    is_wet: bool = True

    def as_result(self) -> Json:
        """Return the node's entry in the module's result."""
        return {"node": self.name, "changed": self.changed, "failed": self.failed, "evicted": self.held.evicted}


def noted(number: int, cordoned: bool = False, **annotations: str) -> Json:
    found = node(number)
    found["metadata"]["annotations"] = {HELD if key == "held" else DONE: text for key, text in annotations.items()}
    found["spec"] = {"unschedulable": True} if cordoned else {}
    return found


def test_nodes_are_claimed_unless_another_run_holds_one(api: FakeApi) -> None:
    fleet = Fleet(Cluster(api.connection), PAINT)
    assert rollout_call.claimed(fleet, api.lists[NODES]).purpose == "paint"
    api.lists[NODES][0]["metadata"]["annotations"] = {HELD: "2999-01-01T00:00:00Z elsewhere 12345678"}
    with pytest.raises(GpuOpsError) as refused:
        rollout_call.claimed(fleet, api.lists[NODES])
    assert refused.value.reason == "HeldElsewhere" and FIRST in refused.value.msg


def test_the_pace_knows_who_is_held_quiet_and_done() -> None:
    rows = [Painted(FIRST, is_held=True), Painted(SECOND, is_wet=False), Painted(THIRD, step=NOTHING)]
    fleet = {
        FIRST: noted(0, cordoned=True, held="2026-01-01T00:00:00Z here 1"),
        SECOND: noted(1),
        THIRD: noted(2, done="2026-01-01T00:00:00Z"),
    }
    pacing = rollout_call.pace(rows, rows[:2], fleet, NodeRolloutRequest(PAINT, PaceRequest()), lambda row: row.is_wet)
    members = pacing.members
    assert (members.names, members.quiet) == ((FIRST, SECOND), frozenset({SECOND}))
    assert (members.halfway, members.held, list(members.done)) == (frozenset({FIRST}), frozenset({FIRST}), [THIRD])
    assert [row.wave for row in rows] == [pacing.waves[FIRST], pacing.waves[SECOND], 0]


def test_nodes_in_service_are_deferred_while_no_window_is_open() -> None:
    members = Members((FIRST, SECOND), halfway=frozenset({FIRST}))
    closed = NodePacing(members, PaceRequest(windows=parse(["00:00-00:01"], "UTC")))
    assert closed.deferred(12 * 3600.0) == frozenset({SECOND})
    assert NodePacing(members).deferred(0.0) == frozenset()


class Ended:
    """A rollout that has ended."""

    def __init__(self, stop: str = "", left: t.Sequence[str] = ()) -> None:
        self.stop, self.left, self.finished = stop, list(left), not left


def concluded(rows: list[Painted], ended: Ended, **wishes: t.Any) -> tuple[bool, list[str]]:
    said: list[str] = []
    pacing = NodePacing(Members(tuple(row.name for row in rows)), PaceRequest(**wishes))
    rollout = t.cast("t.Any", ended)
    return rollout_call.conclude(rollout, rows, pacing, 0.0, said.append, lambda: ["one lacks something"]), said


def test_a_rollout_ends_with_its_notes_and_with_what_is_degraded() -> None:
    row = Painted(FIRST)
    row.held.notes.append("a note")
    assert concluded([row], Ended()) == (True, [f"Node {FIRST}: a note", "one lacks something"])


def test_too_many_failures_are_an_error_and_so_is_a_stop() -> None:
    row = Painted(FIRST)
    row.fail("it is bad.")
    for rows, ended in (([row], Ended()), ([Painted(SECOND)], Ended(stop="The canary failed."))):
        with pytest.raises(GpuOpsError) as failed:
            concluded(rows, ended)
        assert failed.value.reason == "NodesFailed"


def test_nodes_that_are_left_wait_for_the_next_window() -> None:
    windows = parse(["00:00-00:01"], "UTC")
    finished, said = concluded([Painted(FIRST)], Ended(left=[FIRST]), windows=windows)
    assert not finished and FIRST in said[-1]


def test_an_error_has_the_rows_and_so_has_an_interruption() -> None:
    row = Painted(FIRST)
    with pytest.raises(GpuOpsError) as failed, rollout_call.reported([row]):
        row.changed = True
        raise GpuOpsError("It is away.", reason="Unreachable")
    assert (failed.value.reason, failed.value.details["summary"]["changed"]) == ("Unreachable", 1)
    with pytest.raises(GpuOpsError) as ended, rollout_call.reported([row]):
        raise KeyboardInterrupt
    assert ended.value.reason == "Interrupted" and ended.value.details["nodes"][0]["node"] == FIRST
