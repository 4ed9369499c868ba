# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a host of the inventory offers by claims, as what it offers by a device plugin: one number for each DeviceClass.

Pure.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_rows, free_devices
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import Device, DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_reader import Offered
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import (
    AllocatedClaim,
    DeviceName,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def pool_of(node: Json, pool: DevicePool | None) -> DevicePool | None:
    """Return the pool of a node whose GPUs are for claims alone, or None.

    What GPU Feature Discovery has left behind on such a node says nothing about it.
    """
    return None if nodes.has_allocatable_gpus(node) else pool


def offered_by(row: Json, offered: Offered, node: Json) -> Json:
    """Return the variables of a host with what its node offers by claims. ``row`` is what the node itself says.

    None stands for what nobody knows.
    """
    pool = offered.by_node.get(row["name"])
    if offered.refusal:
        return {**row, "claimable": None, "devices": None}
    made = {**row, "claimable": offered.can_claim(row["name"]), "devices": device_rows.rows(pool, None)}
    for offer, dummy in device_rows.offers(pool, None):
        for field, number in (("capacity", offer.devices), ("allocatable", offer.allocatable)):
            made[field] = {**made[field], offer.resource: made[field].get(offer.resource, 0) + number}
    alone = pool_of(node, pool)
    return {**made, **_seen(alone.devices)} if alone and alone.devices else made


def _seen(devices: t.Sequence[Device]) -> Json:
    """Return what GPU Feature Discovery, which a GPUCluster does not deploy, would say of a node with these GPUs."""
    gpus = {device.parent_uuid if device.kind == "mig" else device.uuid for device in devices} - {None, ""}
    return {
        "product": _common(device.product.replace(" ", "-") for device in devices if device.product),
        "gpus": len(gpus) or None,
        "memory_mib": _common(device.memory_mib for device in devices if device.kind == "gpu"),
    }


def _common(values: t.Iterable[t.Any]) -> t.Any:
    """Return the value that all have, or None."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


@dataclasses.dataclass(frozen=True)
class HeldDevices:
    """The claims that have each device, and the devices that a claim could get now."""

    holders: device_rows.Holders
    free: t.Collection[DeviceName]


def held_devices(offered: Offered, claims: t.Sequence[AllocatedClaim]) -> HeldDevices:
    """Return who has the devices of all nodes."""
    return HeldDevices(device_rows.holders(claims), free_devices.free(offered.pools, claims))


def counted(row: Json, pool: DevicePool | None, held: HeldDevices | None) -> Json:
    """Return the variables with the claims of each device, and with how many devices claims have and could get.

    Without ``held``, nobody knows who has the devices, and none counts as free.
    """
    if pool is None or held is None:
        return row
    allocated = {key: number for key, number in row["allocated"].items() if key != names.DRA_DRIVER}
    for offer, number in device_rows.offers(pool, held.holders):
        allocated[offer.resource] = allocated.get(offer.resource, 0) + (number or 0)
    free = _free(pool, held) if row["ready"] and not row["cordoned"] else {}
    devices = device_rows.rows(pool, held.holders)
    return {**row, "devices": devices, "allocated": allocated, "free": {**row["free"], **free}}


def _free(pool: DevicePool, held: HeldDevices) -> dict[str, int]:
    number: dict[str, int] = {}
    for device in filter(device_rows.counts, pool.devices):
        device_class = names.DEVICE_CLASSES[str(device.kind)]
        number[device_class] = number.get(device_class, 0) + (device.name in held.free)
    return number
