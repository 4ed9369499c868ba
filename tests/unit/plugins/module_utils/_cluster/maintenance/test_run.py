# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import signals, waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction, run
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder, holders
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.plan import NodeChange, plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.support.clock import Clock
from tests.unit.fakes.stack import node, workload
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import NOW, claim, options

Json = dict[str, t.Any]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    monkeypatch.setattr(run, "time", clock)
    return clock


class FakeFleet:
    """Two nodes with one pod each, which ends when it is evicted. ``look`` runs at each read and may raise."""

    def __init__(self, look: t.Callable[[], None] = lambda: None, **changes: t.Any) -> None:
        self.options = options(**changes)
        self.all_nodes = {item["metadata"]["name"]: item for item in (node(0), node(1))}
        self.all_pods = {"gpu-0000": [workload("a")], "gpu-0001": [workload("b", 1)]}
        self.look = look
        self.refusal: str | None = ""
        self.now = NOW
        self.interruption = signals.Noted()
        self.can_appear_elsewhere = False
        self.elsewhere: dict[str, tuple[Holder, ...]] = {}
        self.looks_elsewhere = 0

    def each(self, ask: t.Callable[[t.Any], t.Any], items: t.Iterable[t.Any]) -> list[t.Any]:
        return [ask(item) for item in items]

    def node(self, name: str) -> Json:
        return self.all_nodes[name]

    def pods_on(self, name: str) -> list[Json]:
        self.look()
        return list(self.all_pods[name])

    def patch(self, name: str, make_patch: t.Callable[[Json], Json | None]) -> tuple[Json, bool]:
        body = make_patch(self.all_nodes[name])
        if body is None:
            return self.all_nodes[name], False
        notes = self.all_nodes[name]["metadata"].get("annotations", {}) | body["metadata"]["annotations"]
        notes = {key: value for key, value in notes.items() if value is not None}
        self.all_nodes[name] = {
            **self.all_nodes[name],
            "metadata": {**self.all_nodes[name]["metadata"], "annotations": notes},
            "spec": self.all_nodes[name]["spec"] | body.get("spec", {}),
        }
        return self.all_nodes[name], True

    def patch_all(self, patches: t.Mapping[str, t.Any]) -> tuple[dict, dict]:
        return {name: self.patch(name, make_patch) for name, make_patch in patches.items()}, {}

    def evict(self, pod: Json) -> str | None:
        if not self.refusal:
            self.all_pods[pod["spec"]["nodeName"]].remove(pod)
        return self.refusal

    def finish(self) -> None:
        pass

    def look_elsewhere(self) -> None:
        self.looks_elsewhere += 1

    def holders_of(self, item: Json) -> list[Holder]:
        return holders(item, self.elsewhere)

    @property
    def cordoned(self) -> list[str]:
        return [name for name, item in self.all_nodes.items() if item["spec"].get("unschedulable")]


def changes(fleet: FakeFleet) -> list[NodeChange]:
    return plan(list(fleet.all_nodes.values()), fleet.all_pods, fleet.options, claim(), fleet.holders_of)


class Outage:
    """The API server fails to answer several polls in a row."""

    def __init__(self, after: int, looks: float) -> None:
        self.after = after
        self.looks = looks

    def __call__(self) -> None:
        self.after -= 1
        if self.after < 0 < self.looks:
            self.looks -= 1
            raise GpuOpsError("Cannot reach the Kubernetes API.", reason="Unreachable")


def test_a_drain_evicts_the_pods_of_all_nodes() -> None:
    fleet = FakeFleet()
    results = run.apply(fleet, changes(fleet))
    assert [(result.node, result.evicted, result.failed) for result in results] == [
        ("gpu-0000", ["default/a"], False),
        ("gpu-0001", ["default/b"], False),
    ]
    assert fleet.cordoned == ["gpu-0000", "gpu-0001"] and not any(fleet.all_pods.values())


def test_without_nodes_no_pods_are_read() -> None:
    fleet = FakeFleet(look=lambda: pytest.fail("No pods should be read."))
    assert run.apply(fleet, []) == []


def test_a_drain_survives_an_outage_of_less_than_a_minute(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "progress"
    fleet = FakeFleet(Outage(after=1, looks=29), progress_path=str(path))
    assert [result.failed for result in run.apply(fleet, changes(fleet))] == [False, False]
    assert clock.now_s >= 1000 + 29 * waiting.POLL_S
    assert "Cannot reach the Kubernetes API." in path.read_text().splitlines()


def test_a_drain_gives_up_after_a_minute_and_puts_the_nodes_back() -> None:
    fleet = FakeFleet(Outage(after=1, looks=math.inf))
    with pytest.raises(GpuOpsError) as e:
        run.apply(fleet, changes(fleet))
    assert e.value.msg == (
        "Cannot reach the Kubernetes API. Its last answer was 62 s ago. The nodes that this call cordoned are put back."
    )
    assert e.value.reason == "Unreachable" and fleet.cordoned == []


def test_an_outage_does_not_last_longer_than_the_timeout() -> None:
    fleet = FakeFleet(Outage(after=1, looks=math.inf), timeout=10)
    with pytest.raises(GpuOpsError, match=r"Its last answer was 10 s ago\."):
        run.apply(fleet, changes(fleet))


def test_a_pod_that_stays_fails_its_node_and_the_others_are_put_back() -> None:
    fleet = FakeFleet(timeout=30, parallel=1)
    fleet.refusal = "the budget forbids it"
    with pytest.raises(GpuOpsError) as e:
        run.apply(fleet, changes(fleet))
    assert e.value.msg == (
        "gpu-0000: After 30 s these pods are still there: default/a (the budget forbids it). "
        "The nodes that this call cordoned are put back."
    )
    rows = e.value.details["nodes"]
    assert rows[0]["failed"] and not rows[1]["failed"] and fleet.cordoned == []
    assert rows[1]["reason"] == "The call failed, and this node was put back as it was."


def test_a_failure_ends_the_drain_even_if_the_api_server_is_then_unreachable() -> None:
    """The outcome of the second node cannot be read in the step in which the first node fails."""
    fleet = FakeFleet(timeout=30)
    fleet.refusal = "no"
    asked: list[str] = []

    def node_of(name: str) -> Json:
        asked.append(name)
        if name == "gpu-0001":
            raise GpuOpsError("Cannot reach the Kubernetes API.", reason="Unreachable")
        return fleet.all_nodes[name]

    fleet.node = node_of  # type: ignore[method-assign]
    with pytest.raises(GpuOpsError):
        run.apply(fleet, changes(fleet))
    assert asked == ["gpu-0000", "gpu-0001"] and fleet.cordoned == []


def test_kept_nodes_stay_in_maintenance() -> None:
    fleet = FakeFleet(timeout=30, restore_on_failure=False)
    fleet.refusal = "no"
    with pytest.raises(GpuOpsError, match=r"stay in maintenance \(restore_on_failure is false\)"):
        run.apply(fleet, changes(fleet))
    assert fleet.cordoned == ["gpu-0000", "gpu-0001"]


def test_a_prediction_names_evictions_and_what_forbids_them() -> None:
    fleet = FakeFleet()
    fleet.refusal = "the budget forbids it"
    first, second = run.predict(fleet, changes(fleet))
    assert first.evicted == ["default/a"] and first.left == {"default/a": "the budget forbids it"}
    assert first.changed and first.unschedulable and second.purposes == ["reboot"]


def test_a_refused_pod_is_left_alone_for_a_while(clock: Clock) -> None:
    drain = run._Drain(run.NodeResult("gpu-0000"), clock.now_s, clock.now_s)
    pod = workload("a")
    drain.retry_at[eviction.uid_of(pod)] = clock.now_s + run.EVICTION_RETRY_S
    assert not drain.is_due(pod)
    clock.now_s += run.EVICTION_RETRY_S
    assert drain.is_due(pod) and not drain.is_due(workload("a", deletionTimestamp="2026-11-21T10:00:00Z"))
