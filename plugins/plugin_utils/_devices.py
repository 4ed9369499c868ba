# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How many devices pods hold and can get, by the resource under which pods request them, as tables and pages show it.

The resource is what a pod's manifest and a quota name, so shares under a name of their own have a total of their own.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    DEVICE_CLASSES,
    DRA_DRIVER,
    GPU_RESOURCE,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import base_resource
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices under one resource. ``held`` is None if nobody has counted what pods hold."""

    resource: str
    held: int | None
    offered: int

    @property
    def short(self) -> str:
        """The resource without the vendor's prefix."""
        return self.resource.removeprefix("nvidia.com/")

    def __add__(self, other: Devices) -> Devices:
        held = None if self.held is None or other.held is None else self.held + other.held
        return Devices(self.resource, held, self.offered + other.offered)


def of_node(row: Json) -> list[Devices]:
    """Return the devices of a node, whole GPUs first. ``row`` is of gpu_stack_info."""
    parts = row.get("slices") or []
    is_counted = all(part["allocated"] is not None for part in parts)
    offered, held = row.get("allocatable") or {}, row.get("allocated") or {}
    names = {name for quantities in (offered, held) for name, number in quantities.items() if number}
    claimed = {part["resource"] for part in parts if part["resource"] in DEVICE_CLASSES.values()}
    if claimed:  # pods hold them under the name of the driver, whatever their class is
        names.discard(DRA_DRIVER)
    found = [Devices(name, held.get(name, 0) if is_counted else None, offered.get(name, 0)) for name in names]
    # A device that pods cannot get now is in no quantity.
    bases = set(map(base_resource, names))
    lost = [part for part in parts if part["resource"] not in bases]
    found += [Devices(_name(part), part["allocated"], part["allocatable"]) for part in lost]
    return sorted(found, key=_whole_first)


def _name(part: Json) -> str:
    """Return the resource, and for MIG devices of a DeviceClass also their profile: all profiles have one class."""
    has_class = part["resource"] in DEVICE_CLASSES.values() and part["profile"]
    return f"{part['resource']} {part['profile']}" if has_class else str(part["resource"])


def totals(rows: t.Iterable[Json]) -> list[Devices]:
    """Return the devices of all nodes, whole GPUs first."""
    sums: dict[str, Devices] = {}
    for each in (each for row in rows for each in of_node(row)):
        sums[each.resource] = sums[each.resource] + each if each.resource in sums else each
    return sorted(sums.values(), key=_whole_first)


def _whole_first(devices: Devices) -> tuple[bool, str]:
    return devices.resource != GPU_RESOURCE, devices.resource
