# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import NodePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_steps import (
    KindStep,
    LayoutStep,
    SharingStep,
    StepRow,
)
from ansible_collections.gpuops.nvidia.plugins.modules.gpu_pools import SPEC

from tests.support.clock import LeapingClock
from tests.unit.fakes.api import NODES, FakeApi
from tests.unit.fakes.mig import CONFIG, MigFleet
from tests.unit.fakes.pools import FOUR, SHARING, PoolOperator

Json = dict[str, t.Any]

FIRST, SECOND = "gpu-0000", "gpu-0001"
OPTIONS = {name: option.get("default") for name, option in SPEC.options.items()}
SHARES = {
    **dict.fromkeys(("resources", "config", "fail_requests_greater_than_one")),
    "rename_by_default": False,
    **FOUR,
}


@pytest.fixture(autouse=True)
def quick(leaps: LeapingClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a clock leap over the waits."""
    monkeypatch.setattr(waiting, "POLL_S", 2.0)


def fleet_of(api: FakeApi) -> dict[str, Json]:
    return {node["metadata"]["name"]: node for node in api.lists[NODES]}


def taken(api: FakeApi, step: t.Any, wishes: dict[str, NodePool | None], check: bool = False) -> dict[str, StepRow]:
    said: list[str] = []
    found = step.take(Cluster(api.connection, check_mode=check), wishes, fleet_of(api), said.append)
    return t.cast("dict[str, StepRow]", found)


def concerned(step: t.Any, pool: NodePool | None, **annotations: str) -> bool:
    labels = {"nvidia.com/gpu.workload.config": "vm-vgpu", "nvidia.com/mig.config": "a", SHARING: "a"}
    return bool(step.concerns({"metadata": {"labels": labels, "annotations": annotations}, "spec": {}}, pool))


@pytest.mark.parametrize(
    ("step", "pool", "mark", "purpose"),
    [
        (
            KindStep(OPTIONS),
            NodePool("one", kind="container"),
            {"gpuops.nvidia/workload-kind": "vm-vgpu"},
            "workload-kind",
        ),
        (LayoutStep(OPTIONS), NodePool("one", layout="a"), {"gpuops.nvidia/mig": "a"}, "mig"),
        (SharingStep(OPTIONS), NodePool("one", sharing=FOUR), {"gpuops.nvidia/sharing": "a"}, "sharing"),
    ],
)
def test_whom_a_step_concerns(step: t.Any, pool: NodePool, mark: dict[str, str], purpose: str) -> None:
    held = {f"gpuops.nvidia/maintenance.{purpose}": "2026-01-01T00:00:00Z here 1"}
    assert concerned(step, pool) and concerned(step, None, **mark) and concerned(step, None, **held)
    assert not concerned(step, None) and not concerned(step, NodePool("other"))


def test_nodes_get_their_kinds_and_lose_them(api: FakeApi) -> None:
    PoolOperator(api)
    step = KindStep(OPTIONS)
    wishes: dict[str, NodePool | None] = {
        FIRST: NodePool("one", kind="vm-passthrough"),
        SECOND: NodePool("two", kind="container"),
    }
    rows = taken(api, step, wishes)
    assert rows[FIRST] == StepRow("container to vm-passthrough", changed=True, interrupts=True)
    assert (rows[SECOND].change, rows[SECOND].changed, rows[SECOND].interrupts) == ("", True, False)
    ended = taken(api, step, {FIRST: None, SECOND: NodePool("two", kind="container")})
    assert ended[FIRST].change == "vm-passthrough to container" and not ended[SECOND].changed


def test_nodes_share_their_gpus_and_end_that(api: FakeApi) -> None:
    operator = PoolOperator(api)
    step = SharingStep(OPTIONS)
    rows = taken(api, step, {FIRST: NodePool("web", sharing=SHARES)})
    assert (rows[FIRST].change, rows[FIRST].changed, rows[FIRST].interrupts) == ("web", True, False)
    assert taken(api, step, {FIRST: NodePool("web", sharing=SHARES)})[FIRST] == StepRow("")
    assert taken(api, step, {FIRST: None})[FIRST].change == "plain"
    assert SHARING not in fleet_of(api)[FIRST]["metadata"]["labels"] and len(operator.texts) == 1
    result = SharingStep(OPTIONS, keeps_keys=False).tell(Cluster(api.connection), {FIRST: None}, lambda said: None)
    assert len(result["pruned"]) == 1


def test_nodes_get_their_layouts_and_whole_gpus(api: FakeApi) -> None:
    fleet = MigFleet(api)
    step = LayoutStep(OPTIONS)
    wishes: dict[str, NodePool | None] = {FIRST: NodePool("one", layout="all-1g.10gb"), SECOND: NodePool("two")}
    ahead = taken(api, step, wishes, check=True)
    assert ahead[FIRST].offers == {"nvidia.com/mig-1g.10gb": 56} and not ahead[SECOND].changed
    rows = taken(api, step, wishes)
    assert (rows[FIRST].change, rows[FIRST].changed, rows[FIRST].interrupts) == ("all-1g.10gb", True, True)
    assert taken(api, step, {FIRST: None})[FIRST].change == "all-disabled"
    assert CONFIG not in fleet.labels(FIRST)


def test_a_layout_waits_for_a_node_without_a_mig_manager(api: FakeApi) -> None:
    MigFleet(api)
    api.table = [each for each in api.table if each[6] != FIRST]
    row = taken(api, LayoutStep(OPTIONS), {FIRST: NodePool("one", layout="all-1g.10gb")}, check=True)[FIRST]
    assert row.waits_for and not row.changed


def test_the_cause_of_a_failure_leaves_out_how_the_step_holds_the_node() -> None:
    row = StepRow("x", reason="It is broken. It stays cordoned for the purpose workload-kind.")
    assert (row.cause, StepRow("x", reason="It is broken.").cause) == ("It is broken.", "It is broken.")
