# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a node offers to pods once its GPUs have a layout, and how that differs from what it offers now."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import INVALID, Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    GPU_COUNT,
    GPU_PRODUCT,
    GPU_RESOURCE,
    GPU_SLICES,
    MIG_RESOURCE_PREFIX,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted, profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number

Wanted = t.Mapping[int, parted.WantedLayout]
"""The mode and the profiles of each GPU that the layout is about."""

SINGLE, MIXED = "single", "mixed"
MOST_GPUS = 16


def gpus_of(sight: Sight, count: int) -> list[parted.NodeGpu]:
    """Return a node's GPUs, which are all of the same model."""
    return [parted.NodeGpu(index, sight.model) for index in range(count)]


def count_gpus(sight: Sight, layouts: parted.Layouts) -> int | None:
    """Return how many GPUs a node has, or None if nothing says so.

    With the strategy single, a divided node counts its MIG devices: then it has as many GPUs as its layout divides into
    that many.
    """
    if sight.counted is not None or not sight.is_divided:
        return sight.counted
    entries, devices = layouts.get(sight.config), whole_number(sight.labels.get(GPU_COUNT))
    for count in range(1, MOST_GPUS + 1) if entries and devices else ():
        wanted = parted.resolve(entries or (), gpus_of(sight, count))
        if len(wanted) == count and _devices(wanted) == devices:
            return count
    return None


def _devices(wanted: Wanted) -> int:
    return sum(number for each in wanted.values() for number in each.counts.values())


def profiles(wanted: Wanted) -> dict[str, int]:
    """Return how many devices of each profile the GPUs have together."""
    totals: dict[str, int] = {}
    for each in wanted.values():
        for profile, number in each.counts.items():
            totals[profile] = totals.get(profile, 0) + number
    return {profile: number for profile, number in totals.items() if number}


def offer(wanted: Wanted, strategy: str, count: int) -> dict[str, int]:
    """Return the resources of a node with this many GPUs under this layout, before any sharing."""
    divided, whole = profiles(wanted), count - sum(each.enabled for each in wanted.values())
    if strategy == MIXED:
        found = {MIG_RESOURCE_PREFIX + profile_names.dotted(profile): number for profile, number in divided.items()}
        return {**({GPU_RESOURCE: whole} if whole else {}), **found}
    total = sum(divided.values()) + whole
    return {GPU_RESOURCE: total} if total else {}


def why_not_offered(wanted: Wanted, strategy: str, count: int) -> str:
    """Return why the device plugin would not offer the devices of this layout, or an empty string."""
    enabled = [each for each in wanted.values() if each.enabled]
    if not enabled or strategy == MIXED:
        return ""
    if strategy != SINGLE:
        return f"the ClusterPolicy has mig.strategy {strategy or 'none'}, so the device plugin offers no MIG devices"
    mixed = len(enabled) < count or len(profiles(wanted)) > 1
    if mixed or not all(any(each.counts.values()) for each in enabled):
        return (
            "the ClusterPolicy has mig.strategy single, which needs every GPU divided into the same profile: "
            "set mig.strategy to mixed"
        )
    return ""


# ---- what is there ------------------------------------------------------------------------------------------------


def unlike(sight: Sight, wanted: Wanted, strategy: str, count: int) -> str:
    """Return how GPU Feature Discovery's labels contradict a layout, or an empty string.

    They count devices, whether these are healthy or not. So a difference means that the layout is another one.
    """
    divided = profiles(wanted)
    if sight.product.endswith(INVALID):
        return f"its product is {sight.product}, so its GPUs are not divided alike"
    if strategy == MIXED:
        return _unlike_mixed(sight, divided)
    return _unlike_single(sight, divided) or _unlike_count(sight, sum(divided.values()) or count)


def _unlike_single(sight: Sight, divided: t.Mapping[str, int]) -> str:
    """Return how the product, or without it the slices and the memory, contradict a layout of one profile."""
    if not sight.product:
        return _unlike_slices(sight, divided)
    suffix = f"-MIG-{profile_names.dotted(next(iter(divided)))}" if divided else ""
    has_suffix = f"{suffix}-" in f"{sight.product}-" if suffix else not sight.is_divided
    if not has_suffix:
        return f"its product is {sight.product}, which should {'end with ' + suffix if suffix else 'not be divided'}"
    return ""


def _unlike_slices(sight: Sight, divided: t.Mapping[str, int]) -> str:
    if sight.divisions is None or not divided:
        return f"its GPUs are divided into {sight.divisions[0]} slices each" if sight.divisions else ""
    profile = profile_names.parse(next(iter(divided)))
    slices, memory = sight.divisions
    is_near = _NEAR[0] <= memory / (profile.memory * 1024) <= _NEAR[1]
    if slices == profile.slices and is_near:
        return ""
    return f"its devices have {slices} slices and {memory} MiB, which should be those of {profile.text}"


_NEAR = (0.75, 1.25)
"""How much of the memory in a profile's name, which is rounded up, a device has. Profiles differ by twice as much."""


def _unlike_count(sight: Sight, number: int) -> str:
    counted = whole_number(sight.labels.get(GPU_COUNT))
    return "" if counted in (None, number) else f"it counts {counted} devices, which should be {number}"


def unknown(sight: Sight, strategy: str) -> str:
    """Return what no label tells about a node's devices, so that nothing contradicts a layout, or an empty string."""
    if GPU_COUNT not in sight.labels:
        return f"it has no label {GPU_COUNT}"
    is_told = bool(sight.product) or strategy == MIXED or sight.divisions is not None
    return "" if is_told else f"it has neither a label {GPU_PRODUCT} nor {GPU_SLICES}"


def _unlike_mixed(sight: Sight, divided: t.Mapping[str, int]) -> str:
    should = {f"{MIG_RESOURCE_PREFIX}{profile_names.dotted(profile)}": number for profile, number in divided.items()}
    listed = {
        key.removesuffix(".count"): whole_number(value) or 0
        for key, value in sight.labels.items()
        if key.startswith(MIG_RESOURCE_PREFIX) and key.endswith(".count")
    }
    for key in sorted({**should, **listed}):
        if should.get(key, 0) != listed.get(key, 0):
            return f"it has {listed.get(key, 0)} of {key}, which should be {should.get(key, 0)}"
    return ""


def missing(sight: Sight, offered: t.Mapping[str, int]) -> str:
    """Return what a node does not offer to pods, or offers too much, or an empty string. Shares are taken into account.

    A resource that is renamed has the suffix ``.shared``.
    """
    left = dict(sight.offered)
    for resource, number in offered.items():
        shares = number * max(whole_number(sight.labels.get(f"{resource}.replicas")) or 1, 1)
        found = left.pop(resource, 0) + left.pop(f"{resource}.shared", 0)
        if found != shares:
            return f"{found} of {resource} are allocatable, which should be {shares}"
    return f"{next(iter(left.values()))} of {next(iter(left))} are allocatable, which should be 0" if left else ""
