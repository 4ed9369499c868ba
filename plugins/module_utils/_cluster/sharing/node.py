# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What a node's sharing is, whether it is as wanted, and whom a change would interrupt. Pure.

What a change does to running pods, according to the source of the device plugin v0.20.0:

- A new configuration restarts the plugins in the device plugin's process, and running pods keep their devices
  (``cmd/nvidia-device-plugin/main.go``).
- The MPS control daemon sets the GPUs to EXCLUSIVE_PROCESS when it starts, and back when it stops, and MPS servers end
  with it (``cmd/mps-control-daemon/mps/daemon.go``). So a change to, from or within MPS breaks the pods on these GPUs.
- Pods may hold more than the node offers after the change. The kubelet counts their old devices no more, gives the same
  GPUs to others, and can refuse these pods when it starts again (kubernetes/kubernetes#118559).
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.assign import offered_devices
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.config import Configuration
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def strategy_of(node: Json, resource: str = names.GPU_RESOURCE) -> str:
    """Return how a node shares a resource, according to GPU Feature Discovery."""
    return labels_of(node).get(f"{resource}.sharing-strategy") or config.NONE


def replicas_of(node: Json, resource: str) -> int | None:
    """Return how many pods share a device according to GPU Feature Discovery: 0 for a GPU that MIG divides."""
    return whole_number(labels_of(node).get(f"{resource}.replicas"))


def devices_of(node: Json, resource: str) -> int:
    """Return how many devices of a resource a node has, whether they are shared or not."""
    capacity = nodes.gpu_quantities(node, "capacity")
    total = capacity.get(resource, 0) + capacity.get(resource + config.SHARED, 0)
    return total // max(1, replicas_of(node, resource) or 1)


# ---- interruption -------------------------------------------------------------------------------------------------


def interruption(node: Json, wanted: Configuration, held: t.Mapping[str, int]) -> str:
    """Return why a change interrupts the pods that hold these GPUs of the node, or an empty string."""
    if not any(held.values()):
        return ""
    strategies = {strategy_of(node, resource) for resource in offered_devices(node)}
    if config.MPS in strategies:
        return "the MPS control daemon, on which these pods depend, stops"
    if wanted.strategy == config.MPS:
        return "the MPS control daemon takes the GPUs that these pods use"
    for resource, number in sorted(held.items()):
        left = _left(node, wanted, resource)
        if left is not None and number > left:
            return f"these pods hold {number} of {resource}, and the node would offer {left}"
    return ""


def _left(node: Json, wanted: Configuration, resource: str) -> int | None:
    """Return how much of a resource the node would offer, or None for what the device plugin does not offer."""
    bare = resource.removesuffix(config.SHARED)
    if bare not in offered_devices(node):
        return None
    if wanted.offered_as(bare) != resource:
        return 0
    return devices_of(node, bare) * wanted.shares.get(bare, 1)


# ---- proof --------------------------------------------------------------------------------------------------------


MOST_DEVICES = 16 * 7
"""More devices than that are shares, which a label that lags behind does not tell."""


def devices(node: Json) -> dict[str, int]:
    """Return how many devices of each resource a node has.

    GPU Feature Discovery counts one model only, so on a node with several it counts too few (NVIDIA/k8s-device-plugin
    issues 731 and 736). The capacity counts all of them, and unhealthy ones too. It also keeps resources that are no
    longer offered, so it counts only with something allocatable.
    """
    capacity, allocatable = (nodes.gpu_quantities(node, part) for part in ("capacity", "allocatable"))
    totals: dict[str, int] = {}
    for name, number in capacity.items():
        if allocatable.get(name):
            resource = name.removesuffix(config.SHARED)
            totals[resource] = totals.get(resource, 0) + number
    found = {resource: total // max(1, replicas_of(node, resource) or 1) for resource, total in totals.items()}
    return {resource: number for resource, number in found.items() if number <= MOST_DEVICES}


def missing(node: Json, wanted: Configuration, known: t.Mapping[str, int] | None = None) -> str:
    """Return what is not as wanted on a node, or an empty string. A node with the label but without GPUs lacks them.

    ``known`` is how many devices the node had before a change.
    """
    offered = offered_devices(node)
    if not offered:
        return "the node offers no GPUs"
    gone = {resource for resource in offered - wanted.shares.keys() if _is_gone(node, resource)}
    left = sorted(offered - gone or offered)
    found = (_missing_of(node, wanted, resource, (known or {}).get(resource, 0)) for resource in left)
    return next(filter(None, found), "")


def _is_gone(node: Json, resource: str) -> bool:
    """Return whether a node has a resource in its capacity only.

    After a change of the MIG layout, the kubelet keeps the capacity of the former devices for five minutes
    (``endpointStopGracePeriod`` in ``pkg/kubelet/cm/devicemanager/types.go`` of Kubernetes).
    """
    allocatable = nodes.gpu_quantities(node, "allocatable")
    is_offered = allocatable.get(resource) or allocatable.get(resource + config.SHARED)
    return not is_offered and f"{resource}.count" not in labels_of(node)


def _missing_of(node: Json, wanted: Configuration, resource: str, known: int) -> str:
    replicas = wanted.shares.get(resource, 1)
    strategy = wanted.strategy if resource in wanted.shares else config.NONE
    shown = replicas_of(node, resource)
    if shown == 0:  # GPU Feature Discovery says so for GPUs that MIG divides
        return ""
    if shown not in (None, replicas):
        return f"GPU Feature Discovery shows {resource}.replicas={shown} instead of {replicas}"
    if strategy_of(node, resource) != strategy:
        return f"GPU Feature Discovery shows the strategy {strategy_of(node, resource)} instead of {strategy}"
    return _missing_label(node, wanted, resource) or _missing_devices(node, wanted, resource, known)


def _missing_label(node: Json, wanted: Configuration, resource: str) -> str:
    product = labels_of(node).get(f"{resource}.product", "")
    is_marked = resource in wanted.shares and not wanted.renames
    if product and product.endswith("-SHARED") != is_marked:
        return f"GPU Feature Discovery shows {resource}.product={product}"
    return ""


def _missing_devices(node: Json, wanted: Configuration, resource: str, known: int) -> str:
    replicas, name = wanted.shares.get(resource, 1), wanted.offered_as(resource)
    allocatable = nodes.gpu_quantities(node, "allocatable")
    other = resource if name != resource else resource + config.SHARED
    if allocatable.get(other):
        return f"the device plugin still offers {other}"
    number, count = allocatable.get(name, 0), _count(node, resource)
    if count is None:
        return "" if number and number % replicas == 0 else f"the device plugin offers {number} of {name}"
    expected = max(count, known) * replicas
    return "" if number == expected else f"the device plugin offers {number} of {name} instead of {expected}"


def _count(node: Json, resource: str) -> int | None:
    """Return how many devices GPU Feature Discovery counts, or None if it also counts GPUs that MIG divides."""
    if resource == names.GPU_RESOURCE and offered_devices(node) - {names.GPU_RESOURCE}:
        return None
    return whole_number(labels_of(node).get(f"{resource}.count"))
