# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import drain, eviction, maintain
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import (
    NodeChange,
    plan,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder, holders
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.support.clock import Clock
from tests.unit.fakes.stack import node, workload
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import NOW, asked, claim

Json = dict[str, t.Any]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    monkeypatch.setattr(drain, "time", clock)
    return clock


class FakeFleet:
    """Two nodes with one pod each, which ends when it is evicted. ``look`` runs at each read and may raise."""

    def __init__(self, look: t.Callable[[], None] = lambda: None, **changes: t.Any) -> None:
        self.request = asked(**changes)
        self.all_nodes = {item["metadata"]["name"]: item for item in (node(0), node(1))}
        self.all_pods = {"gpu-0000": [workload("a")], "gpu-0001": [workload("b", 1)]}
        self.look = look
        self.refusal: str | None = ""
        self.now = NOW
        self.interruption = waiting.Noted()
        self.can_appear_elsewhere = False
        self.elsewhere: dict[str, tuple[Holder, ...]] = {}
        self.looks_elsewhere = 0
        self.seen: dict[str, Json] = {}
        """What a look at all nodes has seen that was later than all else."""

    def each(self, ask: t.Callable[[t.Any], t.Any], items: t.Iterable[t.Any]) -> list[t.Any]:
        return [ask(item) for item in items]

    def node(self, name: str) -> Json:
        return self.all_nodes[name]

    def seen_after(self, node: Json) -> Json | None:
        return self.seen.get(node["metadata"]["name"])

    def pods_on(self, name: str, expects_none: bool = False) -> list[Json]:
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

    def obstacles(self, pods: list[Json]) -> list[str]:
        return eviction.obstacles(pods, self.request.permits)

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
    return plan(list(fleet.all_nodes.values()), fleet.all_pods, fleet.request, claim(), fleet.holders_of)


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
    results = maintain.apply(fleet, changes(fleet))
    assert [(result.node, result.evicted, result.failed) for result in results] == [
        ("gpu-0000", ["default/a"], False),
        ("gpu-0001", ["default/b"], False),
    ]
    assert fleet.cordoned == ["gpu-0000", "gpu-0001"] and not any(fleet.all_pods.values())


def test_without_nodes_no_pods_are_read() -> None:
    fleet = FakeFleet(look=lambda: pytest.fail("No pods should be read."))
    assert maintain.apply(fleet, []) == []


def test_a_drain_survives_an_outage_of_less_than_a_minute(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "progress"
    fleet = FakeFleet(Outage(after=1, looks=29), progress_path=str(path))
    assert [result.failed for result in maintain.apply(fleet, changes(fleet))] == [False, False]
    assert clock.now_s >= 1000 + 29 * waiting.POLL_S
    assert "Kubernetes API" in path.read_text().splitlines()[0]


def test_a_drain_gives_up_after_a_minute_and_puts_the_nodes_back() -> None:
    fleet = FakeFleet(Outage(after=1, looks=math.inf))
    with pytest.raises(GpuOpsError) as e:
        maintain.apply(fleet, changes(fleet))
    assert e.value.msg == (
        wording(
            "Cannot reach the Kubernetes API. Its last answer was 62 s ago. The nodes that this call cordoned are put back."
        )
    )
    assert e.value.reason == "Unreachable" and fleet.cordoned == []


def test_an_outage_does_not_last_longer_than_the_timeout() -> None:
    fleet = FakeFleet(Outage(after=1, looks=math.inf), timeout=10)
    with pytest.raises(GpuOpsError) as error:
        maintain.apply(fleet, changes(fleet))
    assert error.value.reason == "Unreachable"
    assert error.value.msg == wording(
        "Cannot reach the Kubernetes API. Its last answer was 10 s ago. The nodes that this call cordoned are put back."
    )


def test_a_pod_that_stays_fails_its_node_and_the_others_are_put_back() -> None:
    fleet = FakeFleet(timeout=30, parallel=1)
    fleet.refusal = "the budget forbids it"
    with pytest.raises(GpuOpsError) as e:
        maintain.apply(fleet, changes(fleet))
    assert e.value.msg == (
        wording(
            "gpu-0000: After 30 s these pods are still there: default/a (the budget forbids it). "
            "The nodes that this call cordoned are put back."
        )
    )
    rows = e.value.details["nodes"]
    assert rows[0]["failed"] and not rows[1]["failed"] and fleet.cordoned == []
    assert rows[1]["reason"] == wording("The call failed, and this node was put back as it was.")


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
        maintain.apply(fleet, changes(fleet))
    assert asked == ["gpu-0000", "gpu-0001"] and fleet.cordoned == []


def test_kept_nodes_stay_in_maintenance() -> None:
    fleet = FakeFleet(timeout=30, restore_on_failure=False)
    fleet.refusal = "no"
    with pytest.raises(GpuOpsError) as error:
        maintain.apply(fleet, changes(fleet))
    assert error.value.reason == "NodesFailed"
    assert error.value.msg == wording(
        "gpu-0000: After 30 s these pods are still there: default/a (no); gpu-0001: After 30 s these pods are still there: default/b (no). The nodes that this call cordoned stay in maintenance (restore_on_failure is false). Run it again, or run it with state=restored."
    )
    assert fleet.cordoned == ["gpu-0000", "gpu-0001"]


def test_a_prediction_names_evictions_and_what_forbids_them() -> None:
    fleet = FakeFleet()
    fleet.refusal = "the budget forbids it"
    first, second = maintain.predict(fleet, changes(fleet))
    assert first.evicted == ["default/a"] and first.left == {"default/a": "the budget forbids it"}
    assert first.changed and first.unschedulable and second.purposes == ["reboot"]


# ---- other maintainers --------------------------------------------------------------------------------------------


def refused_for(fleet: FakeFleet, looks: int) -> None:
    """Let a budget forbid evictions for this many looks."""
    left = [looks]

    def look() -> None:
        left[0] -= 1
        fleet.refusal = "no" if left[0] > 0 else ""

    fleet.look, fleet.refusal = look, "no"


def uncordon(fleet: FakeFleet, name: str = "gpu-0000") -> None:
    spec = {key: value for key, value in fleet.all_nodes[name]["spec"].items() if key != "unschedulable"}
    fleet.all_nodes[name] = {**fleet.all_nodes[name], "spec": spec}


def test_a_node_that_somebody_uncordons_during_its_drain_is_cordoned_again() -> None:
    fleet = FakeFleet()
    refused_for(fleet, 60)
    real, seen = fleet.look, []

    def look() -> None:
        real()
        seen.append(fleet.cordoned)
        if len(seen) == 10:
            uncordon(fleet)

    fleet.look = look
    first, second = maintain.apply(fleet, changes(fleet))
    assert first.notes == [wording("Somebody else uncordoned it while it was held. It is cordoned again.")]
    assert second.notes == [] and fleet.cordoned == ["gpu-0000", "gpu-0001"]
    # A drain looks at both nodes each second, and at the cordon every 5 seconds.
    assert [len(nodes) for nodes in seen[10:22]].count(1) <= 10


def test_a_node_is_looked_at_once_more_before_its_drain_ends() -> None:
    fleet = FakeFleet()
    uncordoned: list[bool] = []

    def look() -> None:
        if not fleet.all_pods["gpu-0000"] and not uncordoned:
            uncordoned.append(True)
            uncordon(fleet)

    fleet.look = look
    assert "cordoned again" in maintain.apply(fleet, changes(fleet))[0].notes[0]
    assert fleet.cordoned == ["gpu-0000", "gpu-0001"]


def test_a_node_whose_maintenance_another_call_has_ended_fails() -> None:
    fleet = FakeFleet()
    fleet.look = lambda: fleet.all_nodes["gpu-0000"]["metadata"].update(annotations={})
    with pytest.raises(GpuOpsError) as error:
        maintain.apply(fleet, changes(fleet))
    assert error.value.reason == "NodesFailed"
    assert error.value.msg == wording(
        "gpu-0000: Another call has ended its maintenance in the meantime. The nodes that this call cordoned are put back."
    )
    assert fleet.cordoned == ["gpu-0000"], "It is no more ours."


def test_a_long_drain_keeps_its_lease(clock: Clock) -> None:
    fleet = FakeFleet(timeout=7200)
    refused_for(fleet, 8000)
    real, sinces = fleet.look, set()

    def look() -> None:
        real()
        fleet.now = NOW + clock.now_s - 1000
        sinces.add(fleet.all_nodes["gpu-0000"]["metadata"]["annotations"]["gpuops.nvidia/maintenance.reboot"][11:16])

    fleet.look = look
    assert [result.notes for result in maintain.apply(fleet, changes(fleet))] == [[], []]
    assert sorted(sinces) == ["10:00", "10:30", "11:00"]


def test_a_failure_says_for_whom_a_node_stays_cordoned() -> None:
    fleet = FakeFleet(timeout=30)
    fleet.refusal = "no"
    fleet.look = lambda: fleet.elsewhere.update({"gpu-0001": (Holder("kured", "lock", lifts=False),)})
    with pytest.raises(GpuOpsError) as e:
        maintain.apply(fleet, changes(fleet))
    rows = e.value.details["nodes"]
    assert rows[1]["notes"] == [
        wording("It stays cordoned for kured (lock), which will not uncordon it: run this again when it has finished.")
    ]
    assert rows[1]["held_by"] == [{"owner": "kured", "mark": "lock", "at_work": True}]
    assert fleet.cordoned == ["gpu-0001"] and fleet.looks_elsewhere == 1


def test_after_an_uncordon_a_second_look_finds_who_came_meanwhile() -> None:
    fleet = FakeFleet(state="restored")
    for name in fleet.all_nodes:
        fleet.patch(name, changes(FakeFleet())[int(name[-1])].make_patch)
    fleet.can_appear_elsewhere = True

    def look_elsewhere() -> None:
        fleet.elsewhere = {"gpu-0001": (Holder("kured", "lock", lifts=False),)}

    fleet.look_elsewhere = look_elsewhere  # type: ignore[method-assign]
    first, second = maintain.apply(fleet, changes(fleet))
    assert first.changed and not first.unschedulable and first.notes == []
    assert second.changed and second.unschedulable and "stays cordoned for kured" in second.notes[0]
    assert fleet.all_nodes["gpu-0001"]["metadata"]["annotations"] == {"gpuops.nvidia/left-cordoned": "kured"}


def test_without_a_maintainer_that_records_elsewhere_there_is_no_second_look() -> None:
    fleet = FakeFleet(state="restored")
    fleet.patch("gpu-0000", changes(FakeFleet())[0].make_patch)
    maintain.apply(fleet, changes(fleet))
    assert fleet.cordoned == [] and fleet.looks_elsewhere == 0


def test_a_restore_says_that_somebody_uncordoned_the_node_before() -> None:
    for act in (maintain.predict, maintain.apply):
        fleet = FakeFleet(state="restored")
        fleet.patch("gpu-0000", changes(FakeFleet())[0].make_patch)
        uncordon(fleet)
        notes = [result.notes for result in act(fleet, changes(fleet))]
        assert notes == [[wording("Somebody else uncordoned it while it was held.")], []]


def test_a_node_that_stays_cordoned_for_one_that_lifts_it_needs_no_further_call() -> None:
    fleet = FakeFleet(state="restored")
    fleet.patch("gpu-0000", changes(FakeFleet())[0].make_patch)
    fleet.elsewhere = {"gpu-0000": (Holder("nodewright", "annotation x"),)}
    (result, dummy) = maintain.apply(fleet, changes(fleet))
    assert result.notes == ["It stays cordoned for nodewright (annotation x)."]


# ---- interruptions, and nodes without a kubelet -------------------------------------------------------------------


def test_after_a_signal_nothing_new_begins_and_the_clean_up_is_not_interrupted() -> None:
    fleet = FakeFleet()

    def look() -> None:
        fleet.interruption.note(15, None)
        fleet.interruption.check()

    fleet.look = look
    with pytest.raises(GpuOpsError) as e:
        maintain.apply(fleet, changes(fleet))
    assert e.value.reason == "Interrupted" and fleet.cordoned == []
    fleet.interruption.check()


def ending(since: str) -> Json:
    return workload("a", deletionTimestamp=since)


def dead(fleet: FakeFleet) -> None:
    fleet.all_nodes["gpu-0000"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    fleet.all_pods["gpu-0000"] = [ending("2026-11-21T09:58:00Z")]


def test_a_pod_on_a_dead_node_is_given_up_only_with_permission() -> None:
    fleet = FakeFleet(timeout=30)
    dead(fleet)
    with pytest.raises(GpuOpsError) as error:
        maintain.apply(fleet, changes(fleet))
    assert error.value.reason == "NodesFailed"
    assert error.value.msg == wording(
        "gpu-0000: After 30 s these pods are still there: default/a (it did not terminate within its grace period of 30 s: its node is not Ready, so no kubelet can end it). The nodes that this call cordoned are put back."
    )
    fleet = FakeFleet(timeout=30, skip_wait_for_delete_timeout=120)
    dead(fleet)
    first, second = maintain.apply(fleet, changes(fleet))
    assert not first.failed and not second.failed and fleet.cordoned == ["gpu-0000", "gpu-0001"]
    assert first.left == {
        "default/a": wording(
            "given up 120 s after its grace period, because its node is not Ready: it may still run there, "
            "and ends when the kubelet is back or the node is deleted"
        )
    }


@pytest.mark.parametrize("seconds", [121, 600])
def test_a_pod_is_not_given_up_before_its_time(seconds: int) -> None:
    fleet = FakeFleet(timeout=30, skip_wait_for_delete_timeout=seconds)
    dead(fleet)
    with pytest.raises(GpuOpsError) as error:
        maintain.apply(fleet, changes(fleet))
    assert error.value.reason == "NodesFailed"
    assert error.value.msg == wording(
        "gpu-0000: After 30 s these pods are still there: default/a (it did not terminate within its grace period of 30 s: its node is not Ready, so no kubelet can end it). The nodes that this call cordoned are put back."
    )


# ---- what the results count ---------------------------------------------------------------------------------------


def test_a_resumed_drain_that_evicts_has_changed_the_node() -> None:
    fleet = FakeFleet()
    for name in fleet.all_nodes:
        fleet.patch(name, hold_earlier)
    first, second = maintain.apply(fleet, changes(fleet))
    assert first.changed and second.changed
    assert not any(result.changed for result in maintain.apply(fleet, changes(fleet)))


def hold_earlier(item: Json) -> Json:
    annotations = {"gpuops.nvidia/maintenance.reboot": "2026-11-21T09:00:00Z bastion 00000000"}
    return {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True}}


def test_a_failed_node_says_how_long_its_drain_took() -> None:
    fleet = FakeFleet(timeout=30)
    fleet.refusal = "no"
    with pytest.raises(GpuOpsError) as e:
        maintain.apply(fleet, changes(fleet))
    assert [row["seconds"] for row in e.value.details["nodes"]] == [30, 30]


def test_a_node_that_was_deleted_need_not_be_put_back() -> None:
    fleet = FakeFleet(timeout=30)
    fleet.refusal = "no"
    real = fleet.patch_all

    def patch_all(patches: t.Mapping[str, t.Any]) -> tuple[dict, dict]:
        done, errors = real({name: patch for name, patch in patches.items() if name != "gpu-0001"})
        gone = GpuOpsError("Node gpu-0001 was deleted in the meantime.", reason="NodeDeleted")
        return done, errors | ({"gpu-0001": gone} if "gpu-0001" in patches else {})

    fleet.patch_all = patch_all  # type: ignore[method-assign]
    with pytest.raises(GpuOpsError) as error:
        maintain.apply(fleet, changes(fleet))
    assert error.value.reason == "NodesFailed"
    assert error.value.msg == wording(
        "gpu-0000: After 30 s these pods are still there: default/a (no); gpu-0001: After 30 s these pods are still there: default/b (no). The nodes that this call cordoned are put back."
    )
