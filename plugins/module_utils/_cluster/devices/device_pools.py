# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The devices that ResourceSlices offer. A pool is complete only with all slices of its newest generation.

Pure. Source: k8s.io/api/resource/v1 of Kubernetes 1.36 (``ResourceSlice``, ``DeviceTaintRule``), and the names of
attributes from kubernetes-sigs/dra-driver-nvidia-gpu (95932046), ``cmd/gpu-kubelet-plugin/deviceinfo.go``.
"""

from __future__ import annotations

import dataclasses
import typing as t
from fractions import Fraction

from ansible_collections.gpuops.nvidia.plugins.module_utils import _quantities
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import DeviceName
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

KEEPS_AWAY = ("NoSchedule", "NoExecute")
"""Effects of a device's taint that keep the scheduler from allocating it. ``None`` only informs."""

XID_TAINT, LOST_TAINT = f"{names.DRA_DRIVER}/xid", f"{names.DRA_DRIVER}/gpu-lost"
"""Keys of the taints that NVIDIA's driver sets. Source: ``cmd/gpu-kubelet-plugin/device_health.go`` (95932046)."""

_MIB = 1024 * 1024

Counter = tuple[str, str]
"""The set and the name of a counter of a pool, which partitions of a GPU share."""


@dataclasses.dataclass(frozen=True)
class DeviceTaint:
    """A taint of a device, from its driver or from a DeviceTaintRule with the name ``rule``."""

    key: str
    value: str
    effect: str
    rule: str = ""

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


@dataclasses.dataclass(frozen=True)
class Device:
    """A device as its driver describes it. ``kind`` is ``gpu``, ``mig`` or ``vfio``. What is not described is None.

    Several claims can have a device that ``is_shared``. ``consumes`` is what it takes of the counters of its pool.
    """

    name: DeviceName
    kind: str | None = None
    uuid: str | None = None
    product: str | None = None
    profile: str | None = None
    parent_uuid: str | None = None
    pci_address: str | None = None
    architecture: str | None = None
    memory: Fraction | None = None
    """In bytes."""
    taints: tuple[DeviceTaint, ...] = ()
    is_shared: bool = False
    consumes: t.Mapping[Counter, Fraction] = dataclasses.field(default_factory=dict)

    @property
    def memory_mib(self) -> int | None:
        """The memory in whole MiB."""
        return None if self.memory is None else self.memory // _MIB

    @property
    def is_kept_away(self) -> bool:
        """Whether a taint keeps claims from this device, unless they tolerate it."""
        return any(taint.effect in KEEPS_AWAY for taint in self.taints)


@dataclasses.dataclass(frozen=True)
class SlicePart:
    """What is kept of one ResourceSlice."""

    driver: str
    pool: str
    node: str | None
    generation: int
    total: int
    """How many slices the pool has in this generation."""
    devices: tuple[Device, ...]
    counters: t.Mapping[Counter, Fraction] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class DevicePool:
    """The newest generation of a pool. The scheduler allocates nothing from a pool with ``missing`` slices."""

    driver: str
    name: str
    node: str | None
    generation: int
    total: int
    """How many slices it has."""
    missing: int
    devices: tuple[Device, ...]
    counters: t.Mapping[Counter, Fraction] = dataclasses.field(default_factory=dict)
    """How much its devices can consume together."""

    @property
    def is_divided(self) -> bool:
        """Whether its devices share counters, as with dynamic MIG: it offers more than can exist at a time."""
        return bool(self.counters)

    @property
    def gpus(self) -> int:
        """How many GPUs it knows, by their own devices or by their MIG instances. The same GPU may be both."""
        known = {each.parent_uuid if each.kind == "mig" else each.uuid for each in self.devices}
        return len(known - {None, ""})


def part_of(item: Json) -> SlicePart:
    """Return what is kept of a ResourceSlice, in the shape of any version since v1beta1."""
    spec = item["spec"]
    driver, pool = spec["driver"], spec["pool"]
    devices = tuple(_device((driver, pool["name"], device["name"]), device) for device in spec.get("devices") or [])
    return SlicePart(
        driver=driver,
        pool=pool["name"],
        node=spec.get("nodeName"),
        generation=int(pool.get("generation", 0)),
        total=int(pool.get("resourceSliceCount", 1)),
        devices=devices,
        counters=_counters(spec.get("sharedCounters"), "name"),
    )


def _counters(sets: list[Json] | None, key: str) -> dict[Counter, Fraction]:
    """Return the counters of sets, whose names stand under a key."""
    return {
        (each[key], name): _quantities.parsed(counter["value"]) or Fraction(0)
        for each in sets or []
        for name, counter in each["counters"].items()
    }


def _device(name: DeviceName, device: Json) -> Device:
    fields: Json = device.get("basic") or device  # v1beta1 has everything but the name in a block
    attributes, capacity = fields.get("attributes") or {}, fields.get("capacity") or {}
    memory = _field(capacity, "memory") or _field(capacity, "addressableMemory") or {}
    return Device(
        name=name,
        kind=_attribute(attributes, "type"),
        uuid=_attribute(attributes, "uuid"),
        product=_attribute(attributes, "productName"),
        profile=_attribute(attributes, "profile"),
        parent_uuid=_attribute(attributes, "parentUUID"),
        pci_address=_attribute(attributes, "resource.kubernetes.io/pciBusID"),
        architecture=_attribute(attributes, "architecture"),
        memory=_quantities.parsed(memory.get("value")),
        taints=tuple(taint_of(taint) for taint in fields.get("taints") or []),
        is_shared=bool(fields.get("allowMultipleAllocations")),
        consumes=_counters(fields.get("consumesCounters"), "counterSet"),
    )


def _field(fields: Json, name: str) -> Json | None:
    """Return an attribute or a capacity of the driver, whose domain may be left out of the name."""
    found: Json | None = fields.get(name)
    return fields.get(f"{names.DRA_DRIVER}/{name}") if found is None else found


def _attribute(attributes: Json, name: str) -> str | None:
    """Return the value of an attribute, which stands under the name of its type, or None if it is missing."""
    found = _field(attributes, name)
    return None if found is None else str(next(iter(found.values()), ""))


def taint_of(taint: Json, rule: str = "") -> DeviceTaint:
    """Return a taint of a slice or of a DeviceTaintRule."""
    return DeviceTaint(taint["key"], taint.get("value") or "", taint["effect"], rule)


def pools(parts: t.Iterable[SlicePart], rules: t.Sequence[Json] = ()) -> list[DevicePool]:
    """Return the newest generation of each pool, with the taints of DeviceTaintRules."""
    by_pool: dict[tuple[str, str, str | None], list[SlicePart]] = {}
    for part in parts:
        by_pool.setdefault((part.driver, part.pool, part.node), []).append(part)
    return [_newest(found, rules) for dummy, found in sorted(by_pool.items(), key=lambda item: str(item[0]))]


def _newest(parts: list[SlicePart], rules: t.Sequence[Json]) -> DevicePool:
    generation = max(part.generation for part in parts)
    newest = [part for part in parts if part.generation == generation]
    one, total = newest[0], max(part.total for part in newest)
    return DevicePool(
        driver=one.driver,
        name=one.pool,
        node=one.node,
        generation=generation,
        total=total,
        missing=max(total - len(newest), 0),
        devices=tuple(_tainted(device, rules) for part in newest for device in part.devices),
        counters={counter: amount for part in newest for counter, amount in part.counters.items()},
    )


def _tainted(device: Device, rules: t.Sequence[Json]) -> Device:
    added = [taint_of(rule["spec"]["taint"], rule["metadata"]["name"]) for rule in rules if _selects(rule, device.name)]
    return dataclasses.replace(device, taints=(*device.taints, *added)) if added else device


def _selects(rule: Json, name: DeviceName) -> bool:
    """Return whether a DeviceTaintRule is about a device. A rule without a selector is about none."""
    selector = rule["spec"].get("deviceSelector")
    if selector is None:
        return False
    return all(selector.get(field) in (None, value) for field, value in zip(("driver", "pool", "device"), name))
