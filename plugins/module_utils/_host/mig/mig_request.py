# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What the user wants of each GPU, read from the module's option ``layout`` and checked against the GPUs."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import Gpu
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import placement, profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import COMPUTE_SIZES, Profile
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.address import normal_address

ALL = "all"


@dataclasses.dataclass(frozen=True)
class InstanceRequest:
    """A GPU instance that is wanted, with the sizes of its compute instances, the largest first.

    ``start`` is None if any place is right.
    """

    profile: Profile
    shape: tuple[int, ...]
    start: int | None = None


@dataclasses.dataclass(frozen=True)
class GpuRequest:
    """The mode and the instances of one GPU. ``instances`` is None if they stay as they are."""

    mode: bool
    instances: tuple[InstanceRequest, ...] | None = None


def read(layout: t.Sequence[Json], gpus: t.Sequence[Gpu]) -> dict[int, GpuRequest]:
    """Return the wish for each GPU that the layout names, by the GPU's index."""
    entries = _entries(layout, gpus)
    by_index = {gpu.index: gpu for gpu in gpus}
    found = {index: _wish(layout[entry], by_index[index]) for index, entry in sorted(entries.items())}
    # A GPU that has no MIG is as one whose MIG is off.
    return {index: wish for index, wish in found.items() if wish.mode or by_index[index].mode is not None}


def _entries(layout: t.Sequence[Json], gpus: t.Sequence[Gpu]) -> dict[int, int]:
    """Return which entry is for which GPU. One for all GPUs is for those that no other entry names."""
    entries: dict[int, int] = {}
    everything = [number for number, entry in enumerate(layout) if ALL in entry["gpus"]]
    for number, entry in enumerate(layout):
        for name in [] if number in everything else entry["gpus"]:
            index = _find(name, gpus).index
            if entries.setdefault(index, number) != number:
                raise GpuOpsError(f"Two entries of layout name GPU {index}: leave one of them.", reason="Invalid")
    if len(everything) > 1:
        raise GpuOpsError("Two entries of layout are for all GPUs: leave one of them.", reason="Invalid")
    for number in everything:
        entries = {**dict.fromkeys((gpu.index for gpu in gpus), number), **entries}
    return entries


def _find(name: str, gpus: t.Sequence[Gpu]) -> Gpu:
    index, address = whole_number(name), normal_address(name)
    for gpu in gpus:
        if gpu.index == index or gpu.uuid.lower() == name.lower() or (address and gpu.address == address):
            return gpu
    known = ", ".join(f"{gpu.index} ({gpu.address}, {gpu.uuid})" for gpu in gpus)
    raise GpuOpsError(
        f"The driver has no GPU {name}. Name it by its index, UUID or PCI address; there are {known}.", reason="Invalid"
    )


def _wish(entry: Json, gpu: Gpu) -> GpuRequest:
    on, counts, placements = entry["mode"] == "enabled", entry["instances"], entry["placements"]
    if not on and (counts or placements):
        raise GpuOpsError(
            f"The layout of {gpu.name} turns MIG off and has instances: leave out one of the two.", reason="Invalid"
        )
    if on or gpu.mode:
        _assert_capable(gpu)
    if not on:
        return GpuRequest(False, ())
    if placements is not None:
        return GpuRequest(True, _placed(placements, gpu))
    return GpuRequest(True, None if counts is None else _counted(counts, gpu))


def _assert_capable(gpu: Gpu) -> None:
    """Raise if a GPU cannot be divided from here."""
    if gpu.vgpu:
        raise GpuOpsError(
            f"{gpu.name} serves virtual GPUs, whose instances NVIDIA's vGPU software manages. Leave it out of layout.",
            reason="Unsupported",
        )
    if gpu.mode is None or not gpu.profiles:
        raise GpuOpsError(f"{gpu.name} has no MIG. Leave it out of layout.", reason="Unsupported")


def profile_of(gpu: Gpu, text: str) -> tuple[Profile, int]:
    """Return the profile with a name such as ``1c.3g.40gb``, and how many compute slices that is of it."""
    name = profile_names.parse(text)
    profile = gpu.model.profile(name.instance)
    if profile is None:
        possible = ", ".join(each.name for each in gpu.profiles)
        raise GpuOpsError(f"{gpu.name} has no MIG profile {name.instance}. It has {possible}.", reason="Invalid")
    slices = profile.compute if name.compute is None else name.compute
    sizes = COMPUTE_SIZES.get(profile.compute, (profile.compute,))
    if slices not in sizes:
        possible = ", ".join(f"{size}c.{profile.name}" for size in sizes[:-1]) or "none"
        raise GpuOpsError(
            f"A GPU instance {profile.name} has no compute instance {text}. Beside {profile.name} itself it can hold "
            f"{possible}.",
            reason="Invalid",
        )
    return profile, slices


def _counted(counts: Json, gpu: Gpu) -> tuple[InstanceRequest, ...]:
    """Return the instances of a layout such as ``{1g.10gb: 3, 1c.3g.40gb: 3}``."""
    parts: dict[Profile, list[int]] = {}
    for text, value in counts.items():
        count = whole_number(str(value))
        if count is None:
            raise GpuOpsError(f"The count of {text} in layout must be a whole number, not {value}.", reason="Invalid")
        profile, slices = profile_of(gpu, text)
        parts.setdefault(profile, []).extend([slices] * count)
    return tuple(
        InstanceRequest(profile, shape) for profile, sizes in parts.items() for shape in _packed(profile, sizes)
    )


def _packed(profile: Profile, sizes: list[int]) -> list[tuple[int, ...]]:
    """Return into how few GPU instances the compute instances fit, the largest first."""
    instances: list[tuple[int, ...]] = []
    for size in sorted(sizes, reverse=True):
        number = next(
            (i for i, each in enumerate(instances) if placement.compute_places((*each, size), profile.compute)), None
        )
        if number is None:
            instances.append((size,))
        else:
            instances[number] += (size,)
    return instances


def _placed(placements: t.Sequence[Json], gpu: Gpu) -> tuple[InstanceRequest, ...]:
    """Return the instances of a layout with places, which must not overlap."""
    wanted: list[InstanceRequest] = []
    for entry in placements:
        profile, slices = profile_of(gpu, entry["profile"])
        if entry["start"] not in profile.starts:
            starts = ", ".join(map(str, profile.starts))
            raise GpuOpsError(
                f"On {gpu.name}, an instance {profile.name} cannot start at {entry['start']}. It can at {starts}.",
                reason="Invalid",
            )
        sizes = [profile_of(gpu, text) for text in entry["compute_instances"] or []]
        for text, (other, dummy) in zip(entry["compute_instances"] or [], sizes):
            if other != profile:
                raise GpuOpsError(f"The compute instance {text} is not a part of {profile.name}.", reason="Invalid")
        shapes = _packed(profile, [size for dummy, size in sizes] or [slices])
        if len(shapes) > 1:
            raise GpuOpsError(
                f"The compute instances at {entry['start']} are larger than {profile.name} together.", reason="Invalid"
            )
        wanted.append(InstanceRequest(profile, shapes[0], entry["start"]))
    _assert_apart(wanted, gpu)
    return tuple(wanted)


def _assert_apart(wanted: t.Sequence[InstanceRequest], gpu: Gpu) -> None:
    taken: dict[int, InstanceRequest] = {}
    for each in wanted:
        for slot in range(each.start or 0, (each.start or 0) + each.profile.slots):
            other = taken.setdefault(slot, each)
            if other is not each:
                raise GpuOpsError(
                    f"On {gpu.name}, {other.profile.name} at {other.start} and {each.profile.name} at {each.start} "
                    "overlap.",
                    reason="Invalid",
                )
