# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a node offers to claims, as rows for people: each device with the claims that have it, and totals of a kind.

Pure.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import Device, DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import (
    AllocatedClaim,
    DeviceName,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import Offer
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Holders = t.Mapping[DeviceName, t.Sequence[AllocatedClaim]]
"""The claims that have each device, those with admin access included."""


def holders(claims: t.Iterable[AllocatedClaim]) -> dict[DeviceName, list[AllocatedClaim]]:
    """Return the claims that have each device."""
    found: dict[DeviceName, list[AllocatedClaim]] = {}
    for claim in claims:
        for device in (*claim.devices, *claim.monitored):
            found.setdefault(device, []).append(claim)
    return found


def rows(pool: DevicePool | None, claims: Holders | None) -> list[Json]:
    """Return a row for each device of a pool. Without ``claims``, who has the devices is unknown."""
    return [_row(device, claims) for device in (pool.devices if pool else ())]


def _row(device: Device, claims: Holders | None) -> Json:
    return {
        "name": device.name[2],
        "type": device.kind,
        "uuid": device.uuid,
        "product": device.product,
        "profile": device.profile,
        "parent_uuid": device.parent_uuid,
        "memory_mib": device.memory_mib,
        "taints": [str(taint) for taint in device.taints],
        "claims": None if claims is None else [_holder(device, claim) for claim in claims.get(device.name, ())],
    }


def _holder(device: Device, claim: AllocatedClaim) -> Json:
    return {
        "namespace": claim.namespace,
        "name": claim.name,
        "pods": list(claim.pods),
        "admin_access": device.name in claim.monitored,
    }


def offers(pool: DevicePool | None, held: Holders | None) -> list[tuple[Offer, int | None]]:
    """Return what a pool has of each kind, and how many of these devices claims have."""
    found: dict[tuple[str, str | None], list[Device]] = {}
    for device in pool.devices if pool else ():
        if counts(device):
            found.setdefault((names.DEVICE_CLASSES[str(device.kind)], device.profile), []).append(device)
    usable = pool is not None and not pool.missing
    return [
        (
            Offer(
                resource=resource,
                profile=profile,
                devices=len(devices),
                replicas=1,
                expected=len(devices),
                allocatable=sum(usable and not device.is_kept_away for device in devices),
            ),
            None if held is None else sum(_is_held(device, held) for device in devices),
        )
        for (resource, profile), devices in sorted(found.items(), key=str)
    ]


def counts(device: Device) -> bool:
    """Return whether a device is one that a node has.

    A MIG device without a UUID is a place where one may be made (feature gate DynamicMIG), and does not count before.
    """
    return device.kind in names.DEVICE_CLASSES and (device.kind != "mig" or bool(device.uuid))


def _is_held(device: Device, claims: Holders) -> bool:
    return any(device.name in claim.devices for claim in claims.get(device.name, ()))
