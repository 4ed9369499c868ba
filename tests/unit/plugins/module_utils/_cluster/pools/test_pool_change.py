# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import PROVED, WAIT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_change import PoolChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_plan import member_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import NodePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_steps import StepRow
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.rehearsal import Course
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import NODES, FakeApi

Json = dict[str, t.Any]

FIRST, SECOND = "gpu-0000", "gpu-0001"


@dataclasses.dataclass
class Played:
    """A step with prepared answers, or one that raises."""

    name: str
    log: list[tuple[str, list[str]]]
    rows: dict[str, StepRow] = dataclasses.field(default_factory=dict)
    error: GpuOpsError | None = None
    says: str = ""

    def concerns(self, node: Json, pool: NodePool | None) -> bool:
        """Return whether the node is in a pool."""
        return pool is not None

    def take(self, cluster: Cluster, wishes: t.Any, fleet: t.Any, warn: t.Any) -> dict[str, StepRow]:
        """Note the nodes that the step sees."""
        assert not cluster.check_mode
        self.log.append((self.name, cluster.large_list(NODES, lambda node: node["metadata"]["name"])[0]))
        if self.error:
            raise self.error
        if self.says:
            warn(self.says)
        return {name: self.rows.get(name, StepRow("x", changed=True)) for name in wishes}


class Scene:
    """Two nodes of a pool, their steps, and what was said."""

    def __init__(self, api: FakeApi) -> None:
        self.log: list[tuple[str, list[str]]] = []
        self.said: list[str] = []
        self.kind, self.mig, self.sharing = (Played(name, self.log) for name in ("kind", "mig", "sharing"))
        self.members = [member_of(node, NodePool("one"), {}) for node in api.lists[NODES]]
        course = Course(self.kind, self.mig, self.sharing)
        self.work = PoolChange(Cluster(api.connection), course, self.members, {}, 60.0, self.said.append)
        self.work.look()

    def go(self, *names: str) -> dict[str, str]:
        for name in names:
            self.work.begin(name, 0.0)
        return self.work.prove_together()

    def outcome(self, name: str) -> t.Any:
        return self.work.advance(name, {}, 0.0)


@pytest.fixture
def scene(api: FakeApi) -> Scene:
    return Scene(api)


def test_nodes_that_are_ready_together_take_their_steps_together(scene: Scene) -> None:
    assert scene.work.prove_together() == {} and scene.log == []
    assert scene.go(FIRST, SECOND) == {}
    assert scene.log == [(name, [FIRST, SECOND]) for name in ("kind", "mig", "sharing")]
    assert (scene.outcome(FIRST), scene.outcome(SECOND)) == (PROVED, PROVED)
    assert scene.work.prove_together() == {} and len(scene.log) == 3
    assert [member.changed for member in scene.members] == [True, True]


def test_a_node_is_waited_for_until_it_has_taken_its_steps(scene: Scene) -> None:
    scene.work.begin(FIRST, 0.0)
    assert (scene.outcome(FIRST), scene.work.rows[FIRST].step) == (WAIT, "steps")


def test_a_node_that_fails_takes_no_further_step_and_the_others_go_on(scene: Scene) -> None:
    reason = "it is broken. It stays cordoned for the purpose mig."
    scene.mig.rows = {FIRST: StepRow("x", reason=reason, is_kept=True, evicted=("default/a",))}
    scene.mig.says = f"Node {FIRST}: {reason}"
    assert scene.go(FIRST, SECOND) == {FIRST: "it is broken."}
    assert scene.log[-1] == ("sharing", [SECOND]) and scene.said == []
    assert (scene.outcome(FIRST), scene.outcome(SECOND)) == (WAIT, PROVED)
    assert scene.work.touched == {FIRST, SECOND} and scene.members[0].evicted == {"default/a"}


def test_an_operand_that_is_missing_is_a_failure_of_the_run(scene: Scene) -> None:
    nothing = StepRow("")
    scene.kind.rows = scene.sharing.rows = {FIRST: nothing}
    scene.mig.rows = {FIRST: StepRow("x", waits_for="a pod")}
    scene.mig.says = "another warning"
    assert scene.go(FIRST) == {FIRST: "a pod."}
    assert scene.work.touched == set() and scene.said == ["another warning"]


def test_a_refusal_is_a_failure_of_its_nodes_and_has_changed_nothing(scene: Scene) -> None:
    scene.kind.error = GpuOpsError("kinds: it cannot be.", reason="Invalid")
    assert scene.go(FIRST, SECOND) == dict.fromkeys([FIRST, SECOND], "kinds: it cannot be")
    assert scene.work.touched == set() and len(scene.log) == 1


def test_an_error_in_the_middle_leaves_its_nodes_touched(scene: Scene) -> None:
    scene.mig.error = GpuOpsError("The API is away.", reason="Unreachable")
    with pytest.raises(GpuOpsError, match="API"):
        scene.go(FIRST)
    assert scene.work.touched == {FIRST}


def test_a_node_that_is_gone_is_left_to_the_rollout(scene: Scene, api: FakeApi) -> None:
    del api.lists[NODES][0]
    assert scene.go(FIRST, SECOND) == {} and scene.log[0] == ("kind", [SECOND])


def test_what_a_node_offers_and_lacks_afterwards(scene: Scene, api: FakeApi) -> None:
    node = api.lists[NODES][0]
    scene.work.describe(FIRST, node)
    assert scene.members[0].after == {"nvidia.com/gpu": 8} and scene.work.illness(FIRST, node) == ""
    node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert scene.work.illness(FIRST, node)
    scene.work.consult([FIRST])
    scene.work.begin(FIRST, 0.0)
    assert scene.work.progress(0.0, "").startswith("0/1 nodes")
