# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Driver upgrades: the rules of the state machine."""

from __future__ import annotations

import threading
import typing as t

import pytest

from lab.cluster.api import ApiError
from lab.cluster.operator.standin import lines, nodes, readiness, render
from lab.cluster.operator.standin.controllers import evictions, upgrades
from lab.cluster.operator.standin.controllers.upgrade import Timing, Upgrader
from lab.cluster.operator.standin.controllers.upgrades import Driver
from lab.cluster.operator.standin.images import ReconcileError
from tests.lab.cluster.operator.standin.builders import Json, node

STATE = nodes.STATE
CONTROLLED = [{"kind": "ReplicaSet", "controller": True}]


def fleet(*states: str) -> list[Json]:
    return [node({STATE: state}, name=f"gpu-{number}") for number, state in enumerate(states)]


@pytest.mark.parametrize(
    ("policy", "free"),
    [
        ({}, 1),
        ({"maxParallelUpgrades": 0, "maxUnavailable": "25%"}, 2),
        ({"maxParallelUpgrades": 4, "maxUnavailable": 3}, 3),
        ({"maxParallelUpgrades": 0}, 8),
        ({"maxParallelUpgrades": 0, "maxUnavailable": "30%"}, 3),
        ({"maxParallelUpgrades": 4, "maxUnavailable": 0}, 0),
    ],
)
def test_slots_of_an_idle_fleet(policy: Json, free: int) -> None:
    assert upgrades.slots(fleet(*["upgrade-required"] * 8), policy) == free


def test_a_failed_node_keeps_its_slot() -> None:
    failed = node({STATE: "upgrade-failed"}, unschedulable=True)
    waiting = node({STATE: "upgrade-required"}, name="b")
    assert upgrades.slots([failed, waiting], {"maxParallelUpgrades": 1, "maxUnavailable": "100%"}) == 0


def test_a_node_that_is_down_takes_a_place_of_max_unavailable() -> None:
    some = fleet(*["upgrade-required"] * 4)
    some[0]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert upgrades.slots(some, {"maxParallelUpgrades": 2, "maxUnavailable": "25%"}) == 0
    assert upgrades.slots(some, {"maxParallelUpgrades": 2, "maxUnavailable": 2}) == 1


def test_a_node_that_was_cordoned_counts_twice_before_its_own_cordon() -> None:
    some = fleet("cordon-required", "upgrade-required", "upgrade-required", "upgrade-required", "upgrade-required")
    some[0]["spec"]["unschedulable"] = True
    assert upgrades.slots(some, {"maxParallelUpgrades": 4, "maxUnavailable": 3}) == 1


def test_unavailable_nodes_take_no_slot_if_all_may_be_unavailable() -> None:
    some = fleet("pod-restart-required", "upgrade-required", "upgrade-required")
    some[0]["spec"]["unschedulable"] = True
    assert upgrades.slots(some, {"maxParallelUpgrades": 0, "maxUnavailable": "100%"}) == 2


def test_gpu_pods() -> None:
    pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}}]}}
    assert upgrades.uses_gpu(pod)
    assert not upgrades.uses_gpu({"spec": {"containers": [{}]}})


# ---- evictions ------------------------------------------------------------------------------------------------------


def gpu_pod(name: str = "work", owners: list[Json] | None = None, **spec: t.Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners or []},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}], **spec},
        "status": {"phase": "Running"},
    }


KEEPING = gpu_pod("keeping", CONTROLLED, volumes=[{"name": "a", "emptyDir": {}}])


def test_pods_that_may_not_be_evicted() -> None:
    rules = {"force": True, "deleteEmptyDir": True}
    assert evictions.obstacles([gpu_pod("bare"), gpu_pod("b2"), KEEPING], {}) == [
        "cannot delete Pods that declare no controller (use --force to override): default/bare, default/b2",
        "cannot delete Pods with local storage (use --delete-emptydir-data to override): default/keeping",
    ]
    assert evictions.obstacles([gpu_pod("bare"), KEEPING], rules) == []
    assert evictions.obstacles([{**gpu_pod("over"), "status": {"phase": "Succeeded"}}], {}) == []


class Cluster:
    """An API that has some pods, refuses some evictions, and records what is written."""

    def __init__(self, *pods: Json, refused: t.Container[str] = ()) -> None:
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.refused = refused
        self.written: list[tuple[str, Json]] = []
        self.events: list[str] = []

    def get(self, path: str, **query: t.Any) -> Json | None:
        return self.pods.get(path.rpartition("/")[2])

    def list(self, path: str, **query: t.Any) -> list[Json]:
        return list(self.pods.values()) if path == "/api/v1/pods" else []

    def create(self, path: str, body: Json) -> None:
        if path.endswith("/events"):
            self.events.append(body["message"])
        elif body["metadata"]["name"] in self.refused:
            raise ApiError(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        else:
            del self.pods[body["metadata"]["name"]]

    def delete(self, path: str) -> None:
        self.written.append((path, {}))

    def merge(self, path: str, body: Json) -> None:
        self.written.append((path, body))

    @property
    def states(self) -> list[str]:
        return [body["metadata"]["labels"][STATE] for _, body in self.written if "labels" in body.get("metadata", {})]


def evict(api: Cluster, timeout_s: float, stopped: threading.Event | None = None) -> None:
    evictions.evict(t.cast(t.Any, api), list(api.pods.values()), timeout_s, stopped or threading.Event())


def test_an_eviction_that_a_budget_refuses_until_the_time_is_over() -> None:
    with pytest.raises(evictions.EvictionError) as failed:
        evict(Cluster(gpu_pod("a"), gpu_pod("b"), refused={"b"}), 1)
    assert str(failed.value) == 'error when evicting pods/"b" -n "default": global timeout reached: 1s'


def test_an_evicted_pod_that_does_not_end() -> None:
    ending = gpu_pod("a")
    ending["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z"
    with pytest.raises(
        evictions.EvictionError, match='waiting for pod "a" in namespace "default" to terminate: global'
    ):
        evict(Cluster(ending), 0.1)


def test_an_eviction_ends_with_the_operator() -> None:
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(evictions.StoppedError):
        evict(Cluster(gpu_pod("a"), refused={"a"}), 0, stopped)


def test_pods_with_claims_hold_gpus() -> None:
    pod = gpu_pod()
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
    result = {"driver": "gpu.nvidia.com"}
    claim = {"metadata": {"name": "mine"}, "status": {"allocation": {"devices": {"results": [result]}}}}
    api = t.cast(t.Any, Cluster(claim))
    assert evictions.claims_gpu(api, pod)
    result["adminAccess"] = "true"
    assert not evictions.claims_gpu(api, pod)
    assert not evictions.claims_gpu(api, gpu_pod())


# ---- drivers --------------------------------------------------------------------------------------------------------


def driver_pod(revision: str = "new", digest: str = "1", **status: t.Any) -> Json:
    env = [{"name": render.DIGEST, "value": digest}]
    ready = {"phase": "Running", "containerStatuses": [{"ready": True}]}
    return {
        "metadata": {"name": "driver", "labels": {readiness.REVISION: revision}},
        "spec": {"containers": [{"env": env}], "nodeName": "gpu-0000"},
        "status": {**ready, **status},
    }


def daemonset(digest: str = "1") -> Json:
    template = {"spec": {"containers": [{"env": [{"name": render.DIGEST, "value": digest}]}]}}
    return {"metadata": {"name": "driver"}, "spec": {"template": template}}


def test_an_orphaned_pod_is_never_current() -> None:
    orphan = Driver(node(), driver_pod(), None, None)
    assert not orphan.current
    assert not orphan.ready
    assert not orphan.same_configuration


def test_a_driver_without_any_container_is_not_ready() -> None:
    assert Driver(node(), driver_pod(), daemonset(), "new").ready
    assert not Driver(node(), driver_pod(containerStatuses=[]), daemonset(), "new").ready


@pytest.mark.parametrize(("restarts", "failing"), [(10, False), (11, True)])
def test_a_driver_fails_after_more_than_ten_restarts(restarts: int, failing: bool) -> None:
    entry = {"ready": False, "restartCount": restarts}
    assert Driver(node(), driver_pod(containerStatuses=[entry]), daemonset(), "new").failing == failing
    assert Driver(node(), driver_pod(initContainerStatuses=[entry]), daemonset(), "new").failing == failing


# ---- one run --------------------------------------------------------------------------------------------------------


def run(
    *drivers: Driver,
    upgrade: Json | None = None,
    api: Cluster | None = None,
    line: lines.Line = lines.V26_7,
    validators: t.Sequence[Json] = (),
    timing: Timing | None = None,
) -> Cluster:
    """Let the controller handle some drivers once, in this thread, and return what it has written."""
    api = api or Cluster()
    upgrader = Upgrader(t.cast(t.Any, api), "gpu-operator", {}, timing or Timing(), line)
    upgrader._validators = {"gpu-0000": list(validators)}
    upgrader._in_background = lambda node, work: work() or True  # type: ignore[method-assign,assignment]
    upgrader._roll(list(drivers), {"podDeletion": {}, **(upgrade or {})})
    return api


def at(state: str, revision: str = "new", *, node_: Json | None = None, pod: Json | None = None) -> Driver:
    return Driver(node_ or node({STATE: state}), pod or driver_pod(revision), daemonset("2"), "new")


def annotated(state: str, key: str, value: str = "true", *, unschedulable: bool = False) -> Json:
    made = node({STATE: state}, unschedulable=unschedulable)
    made["metadata"]["annotations"] = {key: value}
    return made


def test_a_requested_upgrade_evicts_but_does_not_restart_a_current_driver() -> None:
    first = run(at("upgrade-done", node_=annotated("upgrade-done", upgrades.REQUESTED)))
    assert first.states == ["upgrade-required"]
    second = run(at("upgrade-required", node_=annotated("upgrade-required", upgrades.REQUESTED)))
    assert second.states == ["cordon-required"]
    assert second.written[0][1] == {"metadata": {"annotations": {upgrades.REQUESTED: None}}}
    assert run(at("pod-restart-required")).states == ["validation-required"]


def test_a_driver_that_waits_for_a_safe_load_is_let_go_instead_of_restarted() -> None:
    assert run(at("upgrade-done", node_=annotated("upgrade-done", upgrades.SAFE_LOAD))).states == ["upgrade-required"]
    found = run(at("pod-restart-required", node_=annotated("pod-restart-required", upgrades.SAFE_LOAD)))
    assert found.written[0][1] == {"metadata": {"annotations": {upgrades.SAFE_LOAD: None}}}
    assert found.states == ["validation-required"]


def test_a_driver_with_the_same_configuration_is_only_restarted_since_v26_7() -> None:
    same = Driver(node({STATE: "upgrade-required"}), driver_pod("old"), daemonset("1"), "new")
    assert run(same).states == ["pod-restart-required"]
    assert run(same, line=lines.V26_3).states == ["cordon-required"]


def test_a_skipped_node_waits_and_a_cordoned_one_does_not() -> None:
    skipped = node({STATE: "upgrade-required", nodes.SKIP: "true"})
    assert run(at("", node_=skipped)).states == []
    cordoned = node({STATE: "upgrade-required"}, unschedulable=True)
    assert run(at("", node_=cordoned), upgrade={"maxUnavailable": 0}).states == ["cordon-required"]


def test_a_node_that_was_cordoned_before_stays_so() -> None:
    found = run(at("", "old", node_=node({STATE: "upgrade-done"}, unschedulable=True)))
    assert found.written[0][1] == {"metadata": {"annotations": {upgrades.INITIALLY_CORDONED: "true"}}}
    validated = {"status": {"phase": "Running", "containerStatuses": [{"ready": True}]}}
    marked = annotated("validation-required", upgrades.INITIALLY_CORDONED, unschedulable=True)
    assert run(at("", node_=marked), validators=[validated]).states == ["upgrade-done"]


def test_without_gpu_pods_there_is_nothing_to_tell() -> None:
    found = run(at("pod-deletion-required"))
    assert found.states == ["pod-restart-required"]
    assert found.events == ["Successfully updated node state label to pod-restart-required"]


def test_evicted_pods_are_told() -> None:
    found = run(at("pod-deletion-required"), api=Cluster(gpu_pod("a", CONTROLLED)))
    assert found.pods == {}
    assert found.events[-1] == "Deleted workload pods on the node for the driver upgrade"


@pytest.mark.parametrize("pod", [gpu_pod("bare"), KEEPING, gpu_pod("ds", [{"kind": "DaemonSet", "controller": True}])])
def test_a_pod_that_may_not_be_evicted_fails_the_node_without_a_reason(pod: Json) -> None:
    found = run(at("pod-deletion-required"), api=Cluster(pod))
    assert found.states == ["upgrade-failed"]
    assert found.events == ["Successfully updated node state label to upgrade-failed"]
    drained = run(at("pod-deletion-required"), upgrade={"drain": {"enable": True}}, api=Cluster(pod))
    assert drained.states == ["drain-required"]
    assert drained.events[0] == "Pod deletion failed but drain is enabled in spec. Will attempt a node drain"


def test_a_budget_that_blocks_fails_the_node_with_a_reason() -> None:
    blocked = Cluster(gpu_pod("a", CONTROLLED), refused={"a"})
    found = run(at("pod-deletion-required"), upgrade={"podDeletion": {"timeoutSeconds": 0.1}}, api=blocked)
    assert found.states == ["upgrade-failed"]
    assert found.events[0].startswith("Failed to delete workload pods on the node for the driver upgrade, error when")


def test_a_drain_that_is_refused_and_one_that_is_not() -> None:
    refused = run(at("drain-required"), upgrade={"drain": {"enable": True}}, api=Cluster(gpu_pod("bare")))
    assert refused.states == ["upgrade-failed"]
    assert refused.events[-2].startswith("Failed to drain the node, cannot delete Pods") or refused.events[
        -1
    ].startswith("Failed to drain the node, cannot delete Pods")
    drained = run(at("drain-required"), upgrade={"drain": {"enable": True, "force": True}}, api=Cluster(gpu_pod("a")))
    assert drained.states == ["pod-restart-required"]
    assert "Successfully drained the node" in drained.events


def test_a_policy_without_pod_deletion_stops_all_later_states() -> None:
    api = Cluster()
    later = Driver(node({STATE: "uncordon-required"}, name="b"), driver_pod(), daemonset(), "new")
    upgrader = Upgrader(t.cast(t.Any, api), "gpu-operator", {}, Timing(), lines.V26_7)
    with pytest.raises(ReconcileError, match="pod deletion spec should not be empty"):
        upgrader._roll([at("pod-deletion-required"), later], {})
    assert api.states == []


class Items:
    """A cache with fixed content."""

    def __init__(self, *items: Json) -> None:
        self._items = items

    def items(self) -> list[Json]:
        return list(self._items)


@pytest.mark.parametrize("line", [lines.V25_10, lines.V26_3, lines.V26_7])
def test_before_v26_7_a_policy_without_drain_makes_the_controller_panic(line: lines.Line) -> None:
    spec = {"driver": {"upgradePolicy": {"autoUpgrade": True, "podDeletion": {}}}}
    policy = {"metadata": {"name": "a", "creationTimestamp": "2026-11-23T00:00:00Z"}, "spec": spec}
    caches = {name: Items() for name in ("validators", "nodes", "drivers", "daemonsets")} | {"policies": Items(policy)}
    upgrader = Upgrader(t.cast(t.Any, Cluster()), "gpu-operator", t.cast(t.Any, caches), Timing(7), line)
    if line is lines.V26_7:
        assert upgrader() == 7
    else:
        with pytest.raises(ReconcileError, match="nil pointer dereference"):
            upgrader()


NOT_VALIDATED = {"status": {"phase": "Pending"}}


def test_a_validator_that_does_not_come_up_fails_the_node_and_a_good_driver_makes_it_done_at_once() -> None:
    waiting = run(at("validation-required"), validators=[NOT_VALIDATED])
    assert list(waiting.written[0][1]["metadata"]["annotations"]) == [upgrades.VALIDATION_STARTED]
    late = annotated("validation-required", upgrades.VALIDATION_STARTED, "1")
    assert run(at("", node_=late), validators=[NOT_VALIDATED]).states == ["upgrade-failed"]
    assert run(at("upgrade-failed")).states == ["uncordon-required"]


def test_without_any_validator_the_node_waits_for_ever() -> None:
    late = annotated("validation-required", upgrades.VALIDATION_STARTED, "1")
    assert run(at("", node_=late)).states == []


@pytest.mark.parametrize(
    ("image", "line"),
    [
        ("nvcr.io/nvidia/gpu-operator:v25.10.1", lines.V25_10),
        ("nvcr.io/nvidia/gpu-operator:v24.9.2", lines.V25_10),
        ("127.0.0.1:5000/gpu-operator:v26.3.3", lines.V26_3),
        ("nvcr.io/nvidia/gpu-operator:v26.7.0", lines.V26_7),
        ("nvcr.io/nvidia/gpu-operator:v27.1.0", lines.V26_7),
        ("nvcr.io/nvidia/gpu-operator@sha256:ab", lines.V26_7),
    ],
)
def test_the_line_follows_from_the_operators_image(image: str, line: lines.Line) -> None:
    deployment = {"spec": {"template": {"spec": {"containers": [{"image": image}]}}}}
    assert lines.line_of(deployment) is line
