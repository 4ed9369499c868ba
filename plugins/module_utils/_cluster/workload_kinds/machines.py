# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Pods and virtual machines that hold GPUs, and how each of them leaves a node.

A machine with a GPU of the host cannot move while it runs (KubeVirt's condition LiveMigratable). What an eviction of
its pod then means is what its ``evictionStrategy`` says. Source: kubevirt/kubevirt at d923fdb8, ``admitLauncherPod`` in
``pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go``, and ``VMIEvictionStrategy`` in
``pkg/util/migrations/migrations.go``.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import (
    MaintenanceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.vm_devices import (
    INSTANCES,
    KUBEVIRT_API,
    devices_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.permitted_devices import (
    configuration_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kinds
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kinds import Kind
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LIVE_MIGRATE, IF_POSSIBLE, EXTERNAL, NONE = "LiveMigrate", "LiveMigrateIfPossible", "External", "None"

Way = t.Literal["evict", "move", "stop"]
"""``evict``: its pod is evicted, with which the machine ends. ``move``: the eviction lets KubeVirt, or another
controller, take it to another node. ``stop``: KubeVirt refuses the eviction, so the machine must be stopped."""

_INSTANCE = "VirtualMachineInstance"


@dataclasses.dataclass(frozen=True)
class GpuMachine:
    """A virtual machine that runs, and holds GPUs of its node."""

    namespace: str
    name: str
    uid: str
    strategy: str
    can_move: bool
    is_ending: bool
    devices: tuple[str, ...]

    @property
    def way(self) -> Way:
        """How it leaves its node."""
        if self.strategy == EXTERNAL or (self.strategy in (LIVE_MIGRATE, IF_POSSIBLE) and self.can_move):
            return "move"
        return "stop" if self.strategy == LIVE_MIGRATE else "evict"

    @property
    def path(self) -> str:
        """Its path in the API."""
        return namespaced(KUBEVIRT_API, self.namespace, INSTANCES, self.name)

    def as_result(self) -> Json:
        """Return its entry in the module's result."""
        name = f"{self.namespace}/{self.name}"
        return {"name": name, "strategy": self.strategy, "way": self.way, "devices": list(self.devices)}


def machine_of(instance: Json, default: str) -> GpuMachine:
    """Return what counts of a VirtualMachineInstance. ``default`` is the strategy of those that name none."""
    metadata, spec, status = instance["metadata"], instance.get("spec") or {}, instance.get("status") or {}
    conditions = {each.get("type"): each.get("status") for each in status.get("conditions") or []}
    return GpuMachine(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        strategy=str(spec.get("evictionStrategy") or default),
        can_move=conditions.get("LiveMigratable") == "True",
        is_ending=bool(metadata.get("deletionTimestamp")),
        devices=tuple(devices_of(spec)),
    )


def instance_of(pod: Json) -> str:
    """Return the name of the VirtualMachineInstance that a pod runs, or an empty string."""
    if labels_of(pod).get("kubevirt.io") != "virt-launcher":
        return ""
    return annotations_of(pod).get("kubevirt.io/domain") or str(_owner(pod).get("name") or "")


def _owner(pod: Json) -> Json:
    """Return what a pod's reference to its VirtualMachineInstance says."""
    owners = pod["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("kind") == _INSTANCE), {})


def holds_device(pod: Json, aliases: t.Container[str] = ()) -> bool:
    """Return whether a pod asks for a GPU for virtual machines or Kata containers."""
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        resources = container.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        if any(kinds.is_for_machines(name, aliases) and str(number) != "0" for name, number in asked.items()):
            return True
    return False


class MachineFleet(Fleet):
    """Nodes that pods and virtual machines with GPUs leave, each in its own way."""

    def __init__(
        self,
        cluster: Cluster,
        request: MaintenanceRequest,
        interruption: waiting.Noted,
        stops_machines: bool,
        aliases: t.Collection[str] = (),
    ) -> None:
        super().__init__(cluster, request, interruption)
        self._cluster, self._stops_machines, self.aliases = cluster, stops_machines, aliases
        self._default: str | None = None
        self.stays: dict[str, Kind] = {}
        """The nodes that have their new kind already, whose pods of this kind are in nobody's way."""

    def must_leave(self, pod: Json) -> bool:
        """Return whether a drain evicts this pod: one with GPUs, unless its node is of the pod's kind already."""
        kind = self.stays.get(str(pod["spec"].get("nodeName")))
        by_container = (kind is None or kind.is_for_machines) and super().must_leave(pod)
        if by_container or (kind is not None and kind.is_for_machines):
            return by_container
        return eviction.is_movable(pod) and holds_device(pod, self.aliases)

    def machine(self, pod: Json) -> GpuMachine | None:
        """Return the machine that a pod runs as it is now, or None if it runs none, or one that is gone.

        A machine that was made again under the same name runs in another pod.
        """
        name = instance_of(pod)
        if not name:
            return None
        namespace = str(pod["metadata"]["namespace"])
        found = self._cluster.get(namespaced(KUBEVIRT_API, namespace, INSTANCES, name))
        if found is None or _owner(pod).get("uid") not in (None, found["metadata"]["uid"]):
            return None
        return machine_of(found, self._default_strategy())

    def _default_strategy(self) -> str:
        """Return the strategy of machines that name none. Without the right to read it, KubeVirt's webhook decides."""
        if self._default is None:
            listed = self._cluster.list_readable(namespaced(KUBEVIRT_API, None, "kubevirts")).items
            found = [configuration_of(each).get("evictionStrategy") for each in listed]
            self._default = str(next(filter(None, found), NONE))
        return self._default

    def obstacles(self, pods: list[Json]) -> list[str]:
        """Return why pods must not be evicted unless the user permits it.

        The emptyDir volumes of a machine's pod are KubeVirt's own, and have nothing that outlives the machine.
        """
        machines = [(pod, self.machine(pod)) for pod in pods if instance_of(pod) and not eviction.is_ending(pod)]
        plain = [pod for pod in pods if not instance_of(pod)]
        found = eviction.obstacles(plain, self.request.permits)
        for pod, machine in machines:
            if machine and not machine.is_ending:
                found += self._obstacles(machine, str(pod["spec"].get("nodeName")))
        return found

    def _obstacles(self, machine: GpuMachine, node: str) -> list[str]:
        where = f"virtual machine {machine.namespace}/{machine.name} on {node}"
        if machine.way == "stop" and not self._stops_machines:
            return [
                f"{where} cannot move with its GPU, although its evictionStrategy is {machine.strategy}, and would be "
                "stopped (stop_machines permits it)"
            ]
        if not self.request.permits.disruption:
            does = "be moved" if machine.way == "move" else "be stopped"
            return [f"{where} would {does} (allow_disruption permits it)"]
        return []

    def evict(self, pod: Json) -> str | None:
        """Request that a pod leaves, in the way of its machine as it is now."""
        machine = self.machine(pod)
        if machine is None or machine.way != "stop":
            return super().evict(pod)
        if machine.is_ending:
            return None
        if not self._stops_machines:
            return "its machine cannot move with its GPU, and stop_machines does not permit that it is stopped"
        try:
            gone = self._cluster.delete(machine.path, uid=machine.uid)
        except GpuOpsError as e:
            if e.reason != "Conflict":
                raise
            return None
        return "" if gone else None
