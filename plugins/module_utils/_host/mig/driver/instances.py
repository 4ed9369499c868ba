# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A GPU's MIG mode and instances, as the driver reports them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import table
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import Model, Profile
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NEW = -1
"""The number of a GPU instance that is planned. The driver chooses the number when it makes the instance."""


@dataclasses.dataclass(frozen=True)
class ComputeInstance:
    """A part of a GPU instance's compute slices. A process uses it as a MIG device, by its UUID or its index."""

    id: int
    slices: int
    start: int
    index: int | None = None
    uuid: str | None = None
    memory_mib: int | None = None


@dataclasses.dataclass(frozen=True)
class Instance:
    """A GPU instance. ``start`` and ``size`` are its placement, in memory slices."""

    id: int
    profile: str
    slices: int
    start: int
    size: int
    compute: tuple[ComputeInstance, ...] = ()

    def shape(self) -> tuple[int, ...]:
        """Return the sizes of its compute instances, the largest first."""
        return tuple(sorted((each.slices for each in self.compute), reverse=True))


@dataclasses.dataclass(frozen=True)
class Process:
    """A process that uses a GPU, and the instances of which it does so, if MIG is on."""

    pid: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU. ``mode`` is None if it has no MIG. ``pending`` is the mode after the next reset.

    ``profiles`` and ``slots`` (how many memory slices it has) come from the GPU itself.
    """

    index: int
    uuid: str
    address: str
    product: str
    mode: bool | None = None
    pending: bool | None = None
    ampere: bool = False
    vgpu: bool = False
    slots: int = 0
    profiles: tuple[Profile, ...] = ()
    instances: tuple[Instance, ...] = ()
    processes: tuple[Process, ...] = ()

    @property
    def model(self) -> Model:
        """The GPU as a model of the placement rules, with what it says of itself."""
        known = table.model_of(product=self.product)
        return Model(self.product, self.slots, self.profiles, (), known.media if known else 0)

    @property
    def name(self) -> str:
        """The words by which messages call it."""
        return f"GPU {self.index} ({self.product}, {self.address})"


def of_json(data: Json) -> Gpu:
    """Return a GPU from what ``dataclasses.asdict`` made of it."""
    instances = [
        Instance(**{**each, "compute": tuple(ComputeInstance(**compute) for compute in each["compute"])})
        for each in data["instances"]
    ]
    profiles = [
        Profile(**{**each, "starts": tuple(each["starts"]), "aliases": tuple(each["aliases"])})
        for each in data["profiles"]
    ]
    processes = [Process(**each) for each in data["processes"]]
    lists = {"instances": tuple(instances), "profiles": tuple(profiles), "processes": tuple(processes)}
    return Gpu(**{**data, **lists})


def compute_name(profile: str, slices: int, of: int) -> str:
    """Return the name of a compute instance: that of its GPU instance if it has all of the slices."""
    return profile if slices == of else f"{slices}c.{profile}"


def facts(gpu: Gpu) -> Json | None:
    """Return the fact ``mig`` of a GPU, or None if it has no MIG."""
    if gpu.mode is None:
        return None
    devices = [_device(instance, each) for instance in gpu.instances for each in instance.compute]
    devices.sort(key=lambda device: (device["index"] is None, device["index"]))
    return {
        "mode": gpu.mode,
        "pending": gpu.pending,
        "instances": devices,
        "gpu_instances": [_gpu_instance(instance) for instance in gpu.instances],
    }


def _device(instance: Instance, compute: ComputeInstance) -> Json:
    return {
        "index": compute.index,
        "gpu_instance": None if instance.id == NEW else instance.id,
        "compute_instance": compute.id,
        "memory_mib": compute.memory_mib,
        "profile": compute_name(instance.profile, compute.slices, instance.slices),
        "uuid": compute.uuid,
    }


def _gpu_instance(instance: Instance) -> Json:
    compute = [
        {
            "id": each.id,
            "profile": compute_name(instance.profile, each.slices, instance.slices),
            "start": each.start,
            "size": each.slices,
        }
        for each in instance.compute
    ]
    return {
        "id": None if instance.id == NEW else instance.id,
        "profile": instance.profile,
        "start": instance.start,
        "size": instance.size,
        "compute_instances": compute,
    }


def by_start(instances: t.Iterable[Instance]) -> tuple[Instance, ...]:
    """Return instances in the order of their placement."""
    return tuple(sorted(instances, key=lambda each: each.start))
