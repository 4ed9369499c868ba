# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools import rehearsal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import NodePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_steps import StepRow
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.rehearsal import Course, Rehearsal

from tests.unit.fakes.api import NODES, FakeApi

Json = dict[str, t.Any]

SANDBOX: Json = {"sandboxWorkloads": {"enabled": True, "defaultWorkload": "container"}}
KIND, KIND_MARK = "nvidia.com/gpu.workload.config", "gpuops.nvidia/workload-kind"
FIRST, SECOND = "gpu-0000", "gpu-0001"


@dataclasses.dataclass
class Played:
    """A step that changes every node that it is for, and notes what it saw."""

    name: str
    log: list[tuple[str, dict[str, Json]]]
    row: StepRow = dataclasses.field(default_factory=lambda: StepRow("x", changed=True))

    def concerns(self, node: Json, pool: NodePool | None) -> bool:
        """Return true for nodes in a pool, and for those that bear this step's name."""
        return bool(pool) or self.name in node["metadata"]["labels"]

    def take(self, cluster: Cluster, wishes: t.Any, fleet: t.Any, warn: t.Any) -> dict[str, StepRow]:
        """Note the nodes as the step sees them."""
        assert cluster.check_mode
        seen, dummy = cluster.large_list(NODES, lambda node: node)
        self.log.append((self.name, {node["metadata"]["name"]: node for node in seen}))
        return dict.fromkeys(wishes, self.row)


def fleet_of(api: FakeApi) -> dict[str, Json]:
    return {node["metadata"]["name"]: node for node in api.lists[NODES]}


def played(api: FakeApi, wishes: dict[str, NodePool | None], **rows: StepRow) -> tuple[Rehearsal, t.Any]:
    log: list[t.Any] = []
    steps = [Played(name, log, **({"row": rows[name]} if name in rows else {})) for name in ("kind", "mig", "sharing")]
    made = Rehearsal(Cluster(api.connection), fleet_of(api), SANDBOX, lambda said: None)
    made.play(Course(*steps), wishes)
    return made, log


def test_a_container_node_gets_its_kind_its_layout_and_its_sharing_in_this_order(api: FakeApi) -> None:
    offers = StepRow("all-1g.10gb", changed=True, interrupts=True, offers={"nvidia.com/mig-1g.10gb": 56})
    pool = NodePool("one", kind="container", layout="all-1g.10gb", sharing={"replicas": 2})
    made, log = played(api, {FIRST: pool}, mig=offers)
    assert [(name, list(seen)) for name, seen in log] == [(name, [FIRST]) for name in ("kind", "mig", "sharing")]
    as_shared = log[2][1][FIRST]
    assert as_shared["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-all-1g.10gb"
    assert as_shared["metadata"]["labels"]["nvidia.com/mig.config"] == "all-1g.10gb"
    assert as_shared["status"]["capacity"]["nvidia.com/mig-1g.10gb"] == "56"
    assert "nvidia.com/gpu" not in as_shared["status"]["capacity"]
    assert made.rows[FIRST]["mig"] is offers
    outcome, dummy = made.outcome.large_list(NODES, lambda node: node["metadata"]["name"])
    assert outcome == [FIRST, SECOND]


def test_a_node_that_leaves_the_containers_first_loses_its_sharing_and_its_layout(api: FakeApi) -> None:
    labels = fleet_of(api)[FIRST]["metadata"]["labels"]
    labels |= {"mig": "here", "sharing": "here", "nvidia.com/device-plugin.config": "web"}
    made, log = played(api, {FIRST: NodePool("one", kind="vm-passthrough")})
    assert [name for name, dummy in log] == ["sharing", "mig", "kind"]
    assert "nvidia.com/device-plugin.config" not in log[1][1][FIRST]["metadata"]["labels"]
    last, dummy = made.outcome.large_list(NODES, lambda node: node)
    assert last[0]["metadata"]["labels"][KIND] == "vm-passthrough"
    assert not any(key.startswith("nvidia.com/gpu") for key in last[0]["status"]["capacity"])


def test_the_layout_of_a_node_that_begins_to_serve_containers_is_announced(api: FakeApi) -> None:
    node = fleet_of(api)[FIRST]
    node["metadata"]["labels"][KIND] = "vm-passthrough"
    made, log = played(api, {FIRST: NodePool("one", kind="container", layout="all-1g.10gb")})
    assert [name for name, dummy in log] == ["kind", "sharing"]
    assert made.rows[FIRST]["mig"] == StepRow("all-1g.10gb", changed=True, interrupts=True)
    made, dummy = played(api, {FIRST: NodePool("one", kind="container")})
    assert made.rows[FIRST]["mig"].changed is False


def test_a_step_without_a_node_is_left_out_and_what_does_not_change_stays(api: FakeApi) -> None:
    same = StepRow("")
    made, log = played(api, {FIRST: None, SECOND: NodePool("two")}, kind=same, mig=same, sharing=same)
    assert [list(seen) for dummy, seen in log] == [[SECOND]] * 3
    assert made.outcome.large_list(NODES, lambda node: node)[0][0]["status"] == fleet_of(api)[FIRST]["status"]
    assert [row for rows in made.rows.values() for row in rows.values()] == [same] * 3


def test_a_step_that_is_taken_twice_is_reported_as_the_one_that_changes(api: FakeApi) -> None:
    fleet_of(api)[FIRST]["metadata"]["labels"]["sharing"] = "here"
    made, log = played(
        api, {FIRST: NodePool("one", kind="vm-passthrough"), SECOND: NodePool("two", sharing={"replicas": 2})}
    )
    assert [name for name, dummy in log] == ["sharing", "kind", "mig", "sharing"]
    assert made.rows[FIRST]["sharing"].changed and list(log[-1][1]) == [SECOND]


@pytest.mark.parametrize(
    ("label", "mark", "pool", "kinds"),
    [
        (None, None, None, (False, False)),
        ("vm-vgpu", None, None, (True, False)),
        ("vm-vgpu", "vm-vgpu", None, (False, True)),
        ("vm-vgpu", None, NodePool("one", kind="container"), (False, True)),
        (None, None, NodePool("one", kind="vm-vgpu"), (True, False)),
    ],
)
def test_who_leaves_the_containers_and_who_joins_them(
    api: FakeApi, label: str | None, mark: str | None, pool: NodePool | None, kinds: tuple[bool, bool]
) -> None:
    metadata = fleet_of(api)[FIRST]["metadata"]
    metadata["labels"] |= {KIND: label} if label else {}
    metadata["annotations"] = {KIND_MARK: mark} if mark else {}
    found = [test({FIRST: pool}, fleet_of(api), SANDBOX) for test in (rehearsal.leaving, rehearsal.joining)]
    assert tuple(FIRST in names for names in found) == kinds
