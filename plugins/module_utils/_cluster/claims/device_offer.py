# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The devices that NVIDIA's driver offers by claims, and which of them are free, from slices and claims."""

from __future__ import annotations

import collections
import dataclasses
import typing as t
from fractions import Fraction

from ansible_collections.gpuops.nvidia.plugins.module_utils import _quantities
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import DRA_DRIVER
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Place = tuple[str, str]
"""The pool and the name of a device."""
Counter = tuple[str, str, str]
"""The pool, the set and the name of a counter that partitions of a device share."""


@dataclasses.dataclass(frozen=True)
class OfferedDevice:
    """A device in the newest ResourceSlices. Attributes of the driver have names without its domain."""

    pool: str
    name: str
    attributes: t.Mapping[str, t.Any]
    capacity: t.Mapping[str, Fraction]
    written: t.Mapping[str, str]
    """The capacities as the slice has them."""
    is_free: bool
    """Whether a claim could get it: no other claim has it or its parts, and no taint keeps claims away."""

    def capacity_text(self, name: str) -> str:
        """Return a capacity as the slice has it."""
        return self.written.get(name, "unknown")


def devices(slices: t.Iterable[Json], claims: t.Iterable[Json]) -> tuple[list[OfferedDevice], list[str]]:
    """Return the devices of all complete pools, and the names of the pools of which slices are missing.

    Only slices of the newest generation of a pool count. The scheduler gives out no device of an incomplete pool.
    """
    pools: dict[str, list[Json]] = collections.defaultdict(list)
    for each in slices:
        if each["spec"]["driver"] == DRA_DRIVER:
            pools[each["spec"]["pool"]["name"]].append(each["spec"])
    newest = {name: _newest(specs) for name, specs in pools.items()}
    incomplete = [name for name, specs in newest.items() if len(specs) < specs[0]["pool"]["resourceSliceCount"]]
    whole = {name: specs for name, specs in newest.items() if name not in incomplete}
    held = _held(claims)
    rest = _rest(whole, held)
    found = [_device(name, item, held, rest) for name, specs in whole.items() for item in _items(specs)]
    return found, sorted(incomplete)


def _newest(specs: list[Json]) -> list[Json]:
    newest = max(spec["pool"]["generation"] for spec in specs)
    return [spec for spec in specs if spec["pool"]["generation"] == newest]


def _items(specs: list[Json]) -> t.Iterator[Json]:
    """Yield the devices of slices. In v1beta1, what a device is stands below ``basic``."""
    for spec in specs:
        for item in spec.get("devices") or []:
            yield {"name": item["name"], **(item.get("basic") or item)}


def _held(claims: t.Iterable[Json]) -> set[Place]:
    """Return the devices that claims have. Access for administrators takes no device away."""
    return {
        (result["pool"], result["device"])
        for claim in claims
        for result in allocated(claim)
        if result["driver"] == DRA_DRIVER and not result.get("adminAccess")
    }


def allocated(claim: Json) -> list[Json]:
    """Return the devices that a claim has been given."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def _rest(pools: t.Mapping[str, list[Json]], held: set[Place]) -> dict[Counter, Fraction]:
    """Return what is left of the counters that partitions share."""
    rest: dict[Counter, Fraction] = {}
    for pool, specs in pools.items():
        for spec in specs:
            for shared in spec.get("sharedCounters") or []:
                for name, counter in shared["counters"].items():
                    rest[pool, shared["name"], name] = _number(counter["value"])
        for item in _items(specs):
            if (pool, item["name"]) in held:
                for counter, amount in _consumed(pool, item).items():
                    rest[counter] = rest.get(counter, Fraction(0)) - amount
    return rest


def _consumed(pool: str, item: Json) -> dict[Counter, Fraction]:
    return {
        (pool, consumed["counterSet"], name): _number(counter["value"])
        for consumed in item.get("consumesCounters") or []
        for name, counter in consumed["counters"].items()
    }


def _device(pool: str, item: Json, held: set[Place], rest: t.Mapping[Counter, Fraction]) -> OfferedDevice:
    written = {_bare(name): str(each["value"]) for name, each in (item.get("capacity") or {}).items()}
    fits = all(rest.get(counter, Fraction(0)) >= amount for counter, amount in _consumed(pool, item).items())
    kept_away = any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in item.get("taints") or [])
    is_held = (pool, item["name"]) in held and not item.get("allowMultipleAllocations")
    return OfferedDevice(
        pool=pool,
        name=item["name"],
        attributes={_bare(name): _value(each) for name, each in (item.get("attributes") or {}).items()},
        capacity={name: _number(text) for name, text in written.items()},
        written=written,
        is_free=fits and not kept_away and not is_held,
    )


def _bare(name: str) -> str:
    return name.removeprefix(f"{DRA_DRIVER}/")


def _value(attribute: Json) -> t.Any:
    """Return the one value of an attribute, which stands below the name of its type."""
    return next(iter(attribute.values()), None)


def _number(value: object) -> Fraction:
    return _quantities.parsed(value) or Fraction(0)
