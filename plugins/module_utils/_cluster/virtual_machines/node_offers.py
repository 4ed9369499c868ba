# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What nodes offer to virtual machines: the resources of NVIDIA's device plugin for KubeVirt. Pure."""

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    VM_PASSTHROUGH,
    VM_VGPU,
    WORKLOAD_CONFIG,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_gpu_resource
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    labels_of,
    name_of,
    quantity,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import plugin_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.device_wishes import (
    OF_KATA,
    entries_of_resource,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.permitted_devices import (
    PermittedDevice,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

FOR_MACHINES = (VM_PASSTHROUGH, VM_VGPU)
"""The values of the label by which the operator gives a node's GPUs to virtual machines."""


@dataclasses.dataclass(frozen=True)
class OfferingNode:
    """What is kept of a node: what it has for pods, of resources that are not for containers."""

    name: str
    is_for_machines: bool
    resources: dict[str, int]


def kept(node: Json) -> OfferingNode:
    """Return what matters of a node. Resources of which it has none left are left out: old ones stay with 0."""
    listed = (node.get("status") or {}).get("allocatable") or {}
    resources = {
        name: quantity(number)
        for name, number in listed.items()
        if "/" in name and not is_gpu_resource(name) and name not in OF_KATA and _whole(number)
    }
    return OfferingNode(name_of(node), labels_of(node).get(WORKLOAD_CONFIG) in FOR_MACHINES, resources)


def _whole(number: str) -> int | None:
    """Return a whole quantity, or None for one with a unit, which counts no devices."""
    return quantity(number) if str(number).removesuffix("k").isdecimal() else None


@dataclasses.dataclass(frozen=True)
class NodeOffers:
    """What all nodes offer, or why that is unknown."""

    nodes: list[OfferingNode]
    refusal: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the nodes could be read."""
        return not self.refusal

    @property
    def resources(self) -> set[str]:
        """The names of all resources that any node offers."""
        return {name for node in self.nodes for name in node.resources}

    def of(self, resource: str) -> list[int]:
        """Return how much of a resource each node has that offers it."""
        return [node.resources[resource] for node in self.nodes if resource in node.resources]

    def for_machines(self) -> tuple[list[PermittedDevice], list[str]]:
        """Return the devices that nodes for virtual machines offer, and the names of those of NVIDIA that are unknown.

        The plugin also offers audio functions and switches that vfio-pci has; they are among the unknown.
        """
        names = sorted(
            {
                name
                for node in self.nodes
                if node.is_for_machines
                for name in node.resources
                if name.startswith(plugin_names.VENDOR_DOMAIN)
            }
        )
        found = {name: entries_of_resource(name) for name in names}
        return [entry for listed in found.values() for entry in listed], [name for name in names if not found[name]]
