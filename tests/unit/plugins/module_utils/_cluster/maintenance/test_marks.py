# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import random
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold, maintenance_plan, marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.stack import node
from tests.unit.plugins.module_utils._cluster.maintenance.maintainers import MAINTAINERS, World
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import MINE, NOW, asked, claim

Json = dict[str, t.Any]

# ---- the table ----------------------------------------------------------------------------------------------------


def marked(kind: str, key: str, value: str = "x") -> Json:
    made = node()
    if kind == "taint":
        made["spec"]["taints"] = [{"key": key, "value": value, "effect": "NoSchedule"}]
    elif kind == "condition":
        made["status"] = {"conditions": [{"type": "Ready", "status": "True"}, {"type": key, "status": value}]}
    else:
        made["metadata"][f"{kind}s"] = made["metadata"].get(f"{kind}s", {}) | {key: value}
    return made


UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
HEALTH = "sagemaker.amazonaws.com/node-health-status"


@pytest.mark.parametrize(
    ("kind", "key", "value", "owner", "at_work", "needs_cordon"),
    [
        ("label", UPGRADE, "cordon-required", "gpu-operator", True, True),
        ("label", UPGRADE, "node-maintenance-required", "gpu-operator", True, True),
        ("label", UPGRADE, "upgrade-failed", "gpu-operator", False, True),
        ("label", "nvidia.com/gpu.deploy.dcgm", "paused-for-driver-upgrade", "k8s-driver-manager", True, True),
        ("label", "nvidia.com/gpu.deploy.dcgm", "mine_paused-for-driver-upgrade", "k8s-driver-manager", True, True),
        ("annotation", "quarantineHealthEventIsCordoned", "True", "nvsentinel", False, True),
        ("label", "dgxc.nvidia.com/nvsentinel-state", "remediating", "nvsentinel", True, True),
        ("annotation", "skyhook.nvidia.com/cordon_tuning", "true", "nodewright", True, True),
        ("annotation", "weave.works/kured-reboot-in-progress", "2026", "kured", False, False),
        ("taint", "medik8s.io/drain", "", "medik8s", True, True),
        ("taint", "amd-gpu-driver-upgrade", "true", "amd-gpu-operator", True, False),
        ("taint", "amd-gpu-unhealthy", "hot", "amd-gpu-operator", False, False),
        ("taint", "karpenter.sh/disrupted", "", "karpenter", True, False),
        ("taint", "ToBeDeletedByClusterAutoscaler", "1", "cluster-autoscaler", True, False),
        ("taint", "DeletionCandidateOfClusterAutoscaler", "1", "cluster-autoscaler", False, False),
        ("taint", "node.cluster.x-k8s.io/outdated-revision", "", "cluster-api", False, False),
        ("taint", "readiness.k8s.io/gpu-proven", "", "node-readiness-controller", False, False),
        ("condition", "AcceleratedHardwareReady", "False", "eks-node-monitoring", False, False),
        ("label", HEALTH, "Unschedulable", "hyperpod", True, False),
        ("label", HEALTH, "UnschedulablePendingReplacement", "hyperpod", True, False),
        ("label", HEALTH, "UnschedulablePendingReboot", "hyperpod", True, False),
    ],
)
def test_each_maintainer_is_known_by_its_marks(
    kind: str, key: str, value: str, owner: str, at_work: bool, needs_cordon: bool
) -> None:
    (holder,) = marks.holders(marked(kind, key, value), {})
    assert (holder.owner, holder.at_work, holder.needs_cordon) == (owner, at_work, needs_cordon)
    assert str(holder).startswith(f"{owner} ({kind} {key}") and (value in holder.mark)
    assert holder.as_result() == {"owner": owner, "mark": holder.mark, "at_work": at_work}


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("label", UPGRADE, "upgrade-required"),
        ("label", UPGRADE, "upgrade-done"),
        ("label", UPGRADE, ""),
        ("label", "nvidia.com/gpu.deploy.dcgm", "paused-for-mig-change"),
        ("annotation", "quarantineHealthEventIsCordoned", "False"),
        ("annotation", "quarantineHealthEvent", "[]"),
        ("label", "dgxc.nvidia.com/nvsentinel-state", "remediation-failed"),
        ("annotation", "skyhook.nvidia.com/status_tuning", "complete"),
        ("annotation", "weave.works/kured-most-recent-reboot-needed", "2026"),
        ("annotation", "skyhook.nvidia.com/cordon", "true"),
        ("taint", "nvidia.com/gpu", "present"),
        ("taint", "node.cluster.x-k8s.io/uninitialized", ""),
        ("condition", "AcceleratedHardwareReady", "True"),
        ("condition", "AcceleratedHardwareReady", "Unknown"),
        ("label", HEALTH, "Schedulable"),
    ],
)
def test_other_marks_do_not_count(kind: str, key: str, value: str) -> None:
    assert marks.holders(marked(kind, key, value), {}) == []


def test_the_driver_manager_leaves_cordons_to_the_operator_under_an_upgrade_policy() -> None:
    paused = marked("label", "nvidia.com/gpu.deploy.dcgm", "paused-for-driver-upgrade")
    paused["metadata"]["annotations"] = {"nvidia.com/gpu-driver-upgrade-enabled": "true"}
    assert marks.holders(paused, {}) == []


def test_long_values_are_not_shown() -> None:
    (holder,) = marks.holders(marked("annotation", "skyhook.nvidia.com/cordon_a", "x" * 40), {})
    assert holder.mark == "annotation skyhook.nvidia.com/cordon_a"
    (holder,) = marks.holders(marked("annotation", "skyhook.nvidia.com/cordon_a", "x" * 39), {})
    assert holder.mark == "annotation skyhook.nvidia.com/cordon_a=" + "x" * 39


# ---- other objects ------------------------------------------------------------------------------------------------


def kured(value: str) -> Json:
    return {"metadata": {"name": "kured", "annotations": {"weave.works/kured-node-lock": value}}}


def lock(name: str, cordoned: bool = False, ttl_s: int = 0, created: str = "2026-11-21T09:59:00.123456789Z") -> Json:
    return {"nodeID": name, "metadata": {"unschedulable": cordoned}, "created": created, "TTL": ttl_s * 10**9}


def test_kureds_lock_names_one_node_or_several() -> None:
    one = marks.elsewhere([kured(json.dumps(lock("a", True)))], [], NOW)
    assert one == {"a": (marks.Holder("kured", "lock on DaemonSet kured", lifts=False),)}
    both = marks.elsewhere([kured(json.dumps({"maxOwners": 2, "locks": [lock("a"), lock("b")]}))], [], NOW)
    assert sorted(both) == ["a", "b"] and both["b"][0].lifts
    assert marks.holders(node(), {"gpu-0000": one["a"], "other": both["b"]}) == list(one["a"])


def test_a_lock_of_kured_that_is_expired_or_unreadable_does_not_count() -> None:
    def count(value: str) -> int:
        return len(marks.elsewhere([kured(value)], [], NOW))

    assert count(json.dumps(lock("a", ttl_s=59))) == 0 and count(json.dumps(lock("a", ttl_s=61))) == 1
    assert count(json.dumps(lock("a", ttl_s=1, created="soon"))) == 1
    assert [count(text) for text in ("", "no JSON", "[]", "{}", '{"locks": null}', '{"locks": ["a"]}')] == [0] * 6


@pytest.mark.parametrize(
    ("reason", "found", "expected"),
    [
        ("Pending", None, None),
        ("Scheduled", None, (False, False)),
        ("Draining", "false", (True, True)),
        ("Ready", "true", (True, False)),
        ("RequestorFailed", "true", (True, False)),
    ],
)
def test_the_objects_of_the_maintenance_operator(
    reason: str, found: str | None, expected: tuple[bool, bool] | None
) -> None:
    key = "maintenance.nvidia.com/node-initial-state.unschedulable"
    item = {
        "metadata": {"name": "m", "annotations": {key: found} if found else {}},
        "spec": {"nodeName": "gpu-0000", "requestorID": "network.example.com"},
        "status": {"conditions": [{"type": "Ready", "reason": reason}, {"type": "RequestorFailed", "reason": "Ready"}]},
    }
    holders = marks.elsewhere([], [item], NOW).get("gpu-0000", ())
    assert [(holder.needs_cordon, holder.lifts) for holder in holders] == ([expected] if expected else [])
    assert [str(holder) for holder in holders] == (
        ["maintenance-operator (NodeMaintenance m of network.example.com)"] if expected else []
    )
    assert marks.elsewhere([], [{"metadata": {"name": "new"}, "spec": {"nodeName": "a"}}], NOW) == {}


# ---- random interleavings with every maintainer -------------------------------------------------------------------


class Ours:
    """Our maintenance of one node: every request is a step, between which the others act."""

    def __init__(self, world: World, chance: random.Random, **claimed: t.Any) -> None:
        self.world, self.chance = world, chance
        self.claim = claim(**claimed)
        self.request = asked(allow_shared=chance.random() < 0.5)
        self.elsewhere: marks.Elsewhere = {}
        self.is_settled = True
        """Whether no change of ours is under way whose second look has yet to come."""

    def look(self) -> None:
        self.elsewhere = marks.elsewhere(self.world.daemonsets, self.world.maintenances, NOW)

    def holders(self, item: Json) -> list[marks.Holder]:
        return marks.holders(item, self.elsewhere)

    def patch(self, make_patch: t.Callable[[Json], Json | None]) -> t.Iterator[None]:
        """Read, and write only if nobody has written since then."""
        while True:
            version, read = self.world.version, copy.deepcopy(self.world.node)
            yield
            body = make_patch(read)
            if body is None:
                return
            if self.world.version == version:
                self.world.node = hold.patched(read, body)
                self.world.node["spec"] = {k: v for k, v in self.world.node["spec"].items() if v is not None}
                self.world.version += 1
                return

    def take(self) -> t.Iterator[None]:
        """Take the node as soon as nobody is at work on it, or at once with permission."""
        while True:
            self.look()
            yield
            (change,) = maintenance_plan.plan([self.world.node], {}, self.request, self.claim, self.holders)
            try:
                yield from self.patch(change.make_patch)
            except GpuOpsError as e:
                assert e.reason == "NodesBusy"
                yield
                continue
            return

    def keep(self) -> t.Iterator[None]:
        for dummy in range(self.chance.randrange(8)):
            yield
            if self.chance.random() < 0.5:
                yield from self.patch(lambda item: hold.hold_patch(item, self.claim, self.holders(item)))

    def release(self) -> t.Iterator[None]:
        self.is_settled = False
        self.look()
        yield
        before = self.world.cordoned
        yield from self.patch(lambda item: hold.release_patch(item, self.claim.purpose, self.holders(item)))
        yield
        if before and not self.world.cordoned:
            self.look()
            yield
            yield from self.patch(lambda item: hold.leave_patch(item, self.holders(item)))
        self.is_settled = True

    def run(self) -> t.Iterator[None]:
        """Take, hold and release the node. A kill may end any of it, and a later call then restores the node."""
        for part in (self.take, self.keep):
            for dummy in part():
                yield
                if self.chance.random() < 0.02:  # killed
                    yield from self.release()
                    return
        yield from self.release()


def is_needed_and_lost(world: World, wanted: bool) -> bool:
    """Return whether somebody relies on the node being out of service, and it is not."""
    return wanted and not world.cordoned and not any(world.node["spec"].get("taints", []))


def interleave(name: str, seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    before = copy.deepcopy(world.node)
    ours = Ours(world, chance, pause_nvsentinel=chance.random() < 0.5)
    mine, theirs = ours.run(), MAINTAINERS[name](world)
    wanted, at_work = False, {"mine", "theirs"}
    pace = chance.choice((0.1, 0.3, 0.5, 0.7, 0.9))
    """How much faster one of them is than the other."""
    while at_work:
        if "mine" in at_work and (chance.random() < pace or "theirs" not in at_work):
            if next(mine, StopIteration) is StopIteration:
                at_work.discard("mine")
        elif "theirs" in at_work and (chance.random() > pace or "mine" not in at_work):
            answer = next(theirs, None)
            wanted = bool(answer)
            if answer is None:
                at_work.discard("theirs")
        assert not (ours.is_settled and "mine" not in at_work and is_needed_and_lost(world, wanted)), "a cordon is lost"
    for dummy in Ours(world, chance).release():  # a later call, which has nothing to do in most cases
        pass
    assert world.node == before, "something is left behind"


@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(200, 2000), marks=pytest.mark.wide)], ids=str)
@pytest.mark.parametrize("name", MAINTAINERS)
def test_no_interleaving_loses_a_cordon_or_leaves_one_behind(name: str, seeds: range) -> None:
    for seed in seeds:
        try:
            interleave(name, seed)
        except AssertionError as e:
            raise AssertionError(f"{name}, seed {seed}: {e}") from e


def test_the_simulation_finds_what_it_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at the others, quarantines end and cordons stay."""
    monkeypatch.setattr(marks, "holders", lambda item, others: [])
    failed = set()
    for name in MAINTAINERS:
        for seed in range(200):
            try:
                interleave(name, seed)
            except AssertionError:
                failed.add(name)
                break
    assert {"operator_upgrade", "nvsentinel", "nodewright", "kured", "maintenance_operator"} <= failed, failed


def test_what_a_hold_writes_is_literally_this() -> None:
    """Other versions of this collection read it."""
    taken = hold.patched(node(), hold.hold_patch(node(), claim(), []))
    assert taken["metadata"]["annotations"] == {
        "gpuops.nvidia/maintenance.reboot": str(MINE),
        "gpuops.nvidia/initial-state.unschedulable": "false",
    }
