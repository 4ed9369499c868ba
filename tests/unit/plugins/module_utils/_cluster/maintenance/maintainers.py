# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How other maintainers take a node out of service and put it back, each as its source code does it.

Every step is one request to the API server, or several without a pause in which others could act. A maintainer's
generator yields after each step what it now relies on: whether it wants the node out of service.
"""

from __future__ import annotations

import json
import typing as t

Json = dict[str, t.Any]
Steps = t.Generator[bool, None, None]
LABEL, NOTE = "labels", "annotations"


class World:
    """One node, and the objects in which maintainers keep records about it."""

    def __init__(self) -> None:
        labels = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-done", "nvidia.com/gpu.deploy.driver": "true"}
        self.node: Json = {"metadata": {"name": "gpu-0000", "labels": labels, "annotations": {}}, "spec": {}}
        self.daemonsets: list[Json] = [{"metadata": {"name": "kured", "annotations": {}}}]
        self.maintenances: list[Json] = []
        self.version = 1

    @property
    def cordoned(self) -> bool:
        return bool(self.node["spec"].get("unschedulable"))

    def cordon(self, value: bool) -> None:
        self.node["spec"] = (
            {**self.node["spec"], "unschedulable": True}
            if value
            else {key: item for key, item in self.node["spec"].items() if key != "unschedulable"}
        )
        self.version += 1

    def put(self, kind: str, entries: t.Mapping[str, str | None]) -> None:
        merged = self.node["metadata"][kind] | entries
        self.node["metadata"][kind] = {key: value for key, value in merged.items() if value is not None}
        self.version += 1

    def has(self, kind: str, key: str) -> bool:
        return key in self.node["metadata"][kind]

    def taint(self, key: str, present: bool) -> None:
        others = [item for item in self.node["spec"].get("taints", []) if item["key"] != key]
        taints = [*others, {"key": key, "effect": "NoSchedule"}] if present else others
        spec = {name: item for name, item in self.node["spec"].items() if name != "taints"}
        self.node["spec"] = spec | ({"taints": taints} if taints else {})
        self.version += 1


STATE = "nvidia.com/gpu-driver-upgrade-state"
FOUND = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"


def end_of_upgrade(world: World) -> Steps:
    """Lift the cordon, unless the node is noted as cordoned before."""
    if world.has(NOTE, FOUND):
        world.put(LABEL, {STATE: "upgrade-done"})
        yield False
        world.put(NOTE, {FOUND: None})
        yield False
        return
    world.put(LABEL, {STATE: "uncordon-required"})
    yield True
    world.cordon(False)
    yield False
    world.put(LABEL, {STATE: "upgrade-done"})
    yield False


def operator_upgrade(world: World) -> Steps:
    """k8s-operator-libs: notes a cordon when the upgrade becomes due, and lifts the cordon unless it noted one."""
    if world.cordoned:
        world.put(NOTE, {FOUND: "true"})
    yield False
    world.put(LABEL, {STATE: "upgrade-required"})
    yield False
    while world.node["metadata"]["labels"].get("nvidia.com/gpu-driver-upgrade.skip") == "true":
        yield False
    world.put(LABEL, {STATE: "cordon-required"})
    yield False
    world.cordon(True)
    yield True
    for state in ("wait-for-jobs-required", "pod-deletion-required", "pod-restart-required", "validation-required"):
        world.put(LABEL, {STATE: state})
        yield True
    yield from end_of_upgrade(world)


def operator_upgrade_that_fails(world: World) -> Steps:
    """The same, with a driver pod that heals only after the upgrade was given up."""
    steps = operator_upgrade(world)
    for wanted in steps:
        yield wanted
        if world.node["metadata"]["labels"][STATE] == "pod-restart-required":
            break
    world.put(LABEL, {STATE: "upgrade-failed"})
    yield True
    yield True
    yield from end_of_upgrade(world)


def driver_manager(world: World) -> Steps:
    """k8s-driver-manager: pauses operands, cordons, evicts, and lifts the cordon whoever set it."""
    world.put(LABEL, {"nvidia.com/gpu.deploy.driver": "paused-for-driver-upgrade"})
    yield False
    world.cordon(True)
    yield True
    yield True
    world.cordon(False)
    yield False
    world.put(LABEL, {"nvidia.com/gpu.deploy.driver": "true"})
    yield False


QUARANTINE = ("quarantineHealthEvent", "quarantineHealthEventIsCordoned", "quarantineHealthEventCordonPreExisting")


def nvsentinel(world: World) -> Steps:
    """NVSentinel: one update quarantines a node. An uncordon by anybody else ends the quarantine as a person's wish."""
    marks = {QUARANTINE[0]: "[]", QUARANTINE[1]: "True"}
    world.put(NOTE, marks | ({QUARANTINE[2]: "True"} if world.cordoned else {}))
    world.put(LABEL, {"dgxc.nvidia.com/nvsentinel-state": "quarantined"})
    world.cordon(True)
    for state in ("draining", "drain-succeeded", "remediating", "remediation-succeeded"):
        yield True
        assert world.cordoned, "NVSentinel would take this for a person's decision and drop its quarantine."
        world.put(LABEL, {"dgxc.nvidia.com/nvsentinel-state": state})
    yield True
    if not world.has(NOTE, QUARANTINE[2]):
        world.cordon(False)
    world.put(NOTE, dict.fromkeys(QUARANTINE))
    world.put(LABEL, {"dgxc.nvidia.com/nvsentinel-state": None})
    yield False


def nodewright(world: World) -> Steps:
    """NodeWright: one update cordons a node with a mark, and one update lifts the cordon whoever set it."""
    world.put(NOTE, {"skyhook.nvidia.com/cordon_tuning": "true"})
    world.cordon(True)
    yield True
    yield True
    world.put(NOTE, {"skyhook.nvidia.com/cordon_tuning": None})
    world.cordon(False)
    yield False


def kured(world: World) -> Steps:
    """kured: its lock notes whether the node was cordoned. With a note, it does not cordon and does not uncordon."""
    lock = {"nodeID": "gpu-0000", "metadata": {"unschedulable": world.cordoned}, "created": "2026-11-21T10:00:00Z"}
    world.daemonsets[0]["metadata"]["annotations"]["weave.works/kured-node-lock"] = json.dumps(lock)
    yield lock["metadata"]["unschedulable"]
    if not lock["metadata"]["unschedulable"]:
        world.cordon(True)
    for dummy in range(3):
        yield True
    if not lock["metadata"]["unschedulable"]:
        world.cordon(False)
        yield False
    del world.daemonsets[0]["metadata"]["annotations"]["weave.works/kured-node-lock"]
    yield False


def medik8s(world: World) -> Steps:
    """medik8s: a taint and a cordon, which it removes whoever set it."""
    world.taint("medik8s.io/drain", True)
    yield False
    world.cordon(True)
    yield True
    yield True
    world.taint("medik8s.io/drain", False)
    yield False
    world.cordon(False)
    yield False


def maintenance_operator(world: World) -> Steps:
    """NVIDIA's maintenance operator: its object notes whether the node was cordoned."""
    key = "maintenance.nvidia.com/node-initial-state.unschedulable"
    item: Json = {
        "metadata": {"name": "m", "annotations": {}},
        "spec": {"nodeName": "gpu-0000", "requestorID": "network", "cordon": True},
        "status": {"conditions": [{"type": "Ready", "reason": "Pending"}]},
    }
    world.maintenances.append(item)
    yield False
    for reason in ("Scheduled", "Cordon"):
        item["status"]["conditions"][0]["reason"] = reason
        yield False
    found = world.cordoned
    item["metadata"]["annotations"][key] = "true" if found else "false"
    yield found
    if not found:
        world.cordon(True)
    for reason in ("Draining", "Ready"):
        item["status"]["conditions"][0]["reason"] = reason
        yield True
    if not found:
        world.cordon(False)
        yield False
    world.maintenances.remove(item)
    yield False


def tainter(key: str) -> t.Callable[[World], Steps]:
    """Karpenter, the cluster autoscaler, AMD's operator and others: a taint, and no cordon."""

    def steps(world: World) -> Steps:
        world.taint(key, True)
        yield True
        yield True
        world.taint(key, False)
        yield False

    return steps


def autoscaler_that_cordons(world: World) -> Steps:
    """The cluster autoscaler with --cordon-node-before-terminating, whose removal of the node then fails."""
    world.taint("ToBeDeletedByClusterAutoscaler", True)
    world.cordon(True)
    yield True
    yield True
    world.taint("ToBeDeletedByClusterAutoscaler", False)
    world.cordon(False)
    yield False


def person(world: World) -> Steps:
    """A person, or the Cluster API: a cordon without a mark. `kubectl cordon` does nothing if there is one."""
    if world.cordoned:
        return
    world.cordon(True)
    yield True
    yield True
    world.cordon(False)
    yield False


MAINTAINERS: dict[str, t.Callable[[World], Steps]] = {
    "operator_upgrade": operator_upgrade,
    "operator_upgrade_that_fails": operator_upgrade_that_fails,
    "driver_manager": driver_manager,
    "nvsentinel": nvsentinel,
    "nodewright": nodewright,
    "kured": kured,
    "medik8s": medik8s,
    "maintenance_operator": maintenance_operator,
    "karpenter": tainter("karpenter.sh/disrupted"),
    "amd": tainter("amd-gpu-driver-upgrade"),
    "autoscaler": tainter("ToBeDeletedByClusterAutoscaler"),
    "cluster_api": tainter("node.cluster.x-k8s.io/outdated-revision"),
    "node_readiness": tainter("readiness.k8s.io/gpu-proven"),
    "autoscaler_that_cordons": autoscaler_that_cordons,
    "person": person,
}
