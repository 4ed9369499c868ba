# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What nodes offer by Dynamic Resource Allocation: their pools of devices, from ResourceSlices. Pure."""

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

XID_TAINT, LOST_TAINT = f"{names.DRA_DRIVER}/xid", f"{names.DRA_DRIVER}/gpu-lost"
"""Taints of devices. Source: kubernetes-sigs/dra-driver-nvidia-gpu at 95932046, ``device_health.go``."""
SOURCE = "ResourceSlices"
"""Where devices stand, as the source of a quote."""

_PCI = "resource.kubernetes.io/pciBusID"


@dataclasses.dataclass(frozen=True)
class PooledDevice:
    """A GPU, or a MIG instance, that a node offers."""

    name: str
    kind: str
    """``gpu``, ``mig`` or ``vfio``."""
    uuid: str
    parent: str
    """The UUID of the GPU that a MIG instance is on."""
    profile: str
    address: str
    """The PCI address of the GPU, or an empty string."""
    taints: tuple[Json, ...]


@dataclasses.dataclass(frozen=True)
class ClaimedPool:
    """The newest generation of what a node offers."""

    node: str
    slices: int
    expected: int
    is_divided: bool
    """Whether its devices share counters, as with dynamic MIG: it offers more than can exist at a time."""
    devices: tuple[PooledDevice, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all slices of the generation are there."""
        return self.slices >= self.expected

    @property
    def gpus(self) -> int:
        """How many GPUs it knows, by their own devices or by their MIG instances. The same GPU may be both."""
        known = {each.parent if each.kind == "mig" else each.uuid for each in self.devices}
        return len(known - {""})


def pools(view: View) -> dict[str, ClaimedPool]:
    """Return the pools of NVIDIA's GPUs by node. Nodes without one, and ResourceSlices that are unknown, are absent."""
    newest: dict[str, list[Json]] = {}
    for item in view.listed("resourceslices") or []:
        spec = item.get("spec") or {}
        node = str(spec.get("nodeName") or "")
        if spec.get("driver") != names.DRA_DRIVER or not node:
            continue
        kept = newest.setdefault(node, [])
        if kept and _generation(spec) > _generation(kept[0]):
            kept.clear()
        if not kept or _generation(spec) == _generation(kept[0]):
            kept.append(spec)
    return {node: _pool(node, specs) for node, specs in sorted(newest.items())}


def _generation(spec: Json) -> int:
    return int((spec.get("pool") or {}).get("generation") or 0)


def _pool(node: str, specs: list[Json]) -> ClaimedPool:
    devices = [_device(each) for spec in specs for each in spec.get("devices") or []]
    return ClaimedPool(
        node,
        len(specs),
        int((specs[0].get("pool") or {}).get("resourceSliceCount") or 1),
        any(spec.get("sharedCounters") for spec in specs),
        tuple(devices),
    )


def _device(device: Json) -> PooledDevice:
    inner = device.get("basic") or device
    attributes = inner.get("attributes") or {}

    def text(name: str) -> str:
        return str((attributes.get(name) or {}).get("string") or "")

    return PooledDevice(
        str(device.get("name") or ""),
        text("type") or "gpu",
        text("uuid"),
        text("parentUUID"),
        text("profile"),
        text(_PCI),
        tuple(inner.get("taints") or []),
    )


@dataclasses.dataclass(frozen=True)
class HeldClaim:
    """A claim that has devices of a driver on a node."""

    name: str
    driver: str
    node: str
    is_deleted_at: str
    pods: int


def held(view: View) -> list[HeldClaim]:
    """Return the claims that have devices of NVIDIA's drivers, each once for each driver and node.

    Claims with admin access see devices, and hold none.
    """
    found: dict[HeldClaim, None] = {}
    for claim in view.listed("resourceclaims") or []:
        status = claim.get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
        for result in results:
            driver = str(result.get("driver") or "")
            if driver.endswith(".nvidia.com") and not result.get("adminAccess"):
                deleted = str((claim.get("metadata") or {}).get("deletionTimestamp") or "")
                users = len(status.get("reservedFor") or [])
                node = str(result.get("pool") or "")
                found[HeldClaim(objects.full_name(claim), driver, node, deleted, users)] = None
    return list(found)
