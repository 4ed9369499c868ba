# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file that the simulated library answers from, and that it changes."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import typing as t
from pathlib import Path

from lab.nvml import profiles

_HOPPER = 9
_COMPUTE = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
"""NVML's number of the compute instance profile with so many slices."""
_SLICES = {number: slices for slices, number in _COMPUTE.items()}

Keys = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Instance:
    """A GPU instance: the name of its profile, its first memory slice, and its compute instances ("1c", "2c").

    Without ``compute``, it has one compute instance, over all of it.
    """

    profile: str
    start: int
    compute: tuple[str, ...] | None = None


@dataclasses.dataclass
class Gpu:
    """A GPU of the state file: the keys that nvml.c describes, and its GPU instances."""

    keys: Keys
    instances: list[Instance] = dataclasses.field(default_factory=list)


def state(path: Path, gpus: t.Sequence[Gpu], **system: t.Any) -> Path:
    """Write the state file with the keys of the system and of each GPU with its instances."""
    known = {"driver_version": "580.95.05", "nvml_version": "13.580.95.05", "cuda_version": 13000}
    _write(path, {**known, **system}, gpus)
    return path


def read(path: Path) -> list[Gpu]:
    """Return the GPUs of a state file. Their keys are texts."""
    return _read(path)[1]


def reset(path: Path, index: int | None = None) -> bool:
    """Reset one GPU or all: a pending mode becomes the mode, and instances vanish. Return False if one is in use."""
    with _changing(path) as gpus:
        chosen = [gpu for number, gpu in enumerate(gpus) if index in (None, number)]
        if any(gpu.keys.get("processes") for gpu in chosen):
            return False
        for gpu in chosen:
            _apply_mode(gpu)
    return True


def reboot(path: Path) -> None:
    """Reboot the machine: processes and instances end, and from Hopper on the GPUs lose a MIG mode that is not pending.

    An Ampere GPU keeps the mode in its InfoROM. From Hopper on, the driver starts with MIG disabled.
    """
    with _changing(path) as gpus:
        for gpu in gpus:
            gpu.keys.pop("processes", None)
            if int(gpu.keys.get("architecture", 0)) >= _HOPPER and "mig" in gpu.keys:
                gpu.keys["mig_pending"] = 0
            _apply_mode(gpu)


def _apply_mode(gpu: Gpu) -> None:
    gpu.instances = []
    if "mig" in gpu.keys:
        gpu.keys["mig"] = gpu.keys["mig_pending"]


@contextlib.contextmanager
def _changing(path: Path) -> t.Iterator[list[Gpu]]:
    """Hold the lock that the library takes for changes, and write back what becomes of the GPUs."""
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        system, gpus = _read(path)
        yield gpus
        _write(path, system, gpus)


def _write(path: Path, system: Keys, gpus: t.Sequence[Gpu]) -> None:
    sections = [("system", system)]
    for gpu in gpus:
        sections += [("gpu", gpu.keys), *_parts(gpu)]
    lines = (f"[{kind}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items()) for kind, keys in sections)
    # A program that reads the file meanwhile sees the old one or the new one.
    fresh = path.with_name(f"{path.name}.fresh")
    fresh.write_text("".join(lines))
    os.replace(fresh, path)


def _read(path: Path) -> tuple[Keys, list[Gpu]]:
    system: Keys = {}
    gpus: list[Gpu] = []
    parts: list[list[tuple[str, Keys]]] = []
    keys = system
    for line in path.read_text().splitlines():
        if line.startswith("["):
            keys = system if line == "[system]" else {}
            if line == "[gpu]":
                gpus.append(Gpu(keys))
                parts.append([])
            elif line != "[system]":
                parts[-1].append((line[1:-1], keys))
        elif "=" in line:
            key, value = line.split("=", 1)
            keys[key] = value
    for gpu, found in zip(gpus, parts, strict=True):
        gpu.instances = _instances(gpu, found)
    return system, gpus


def _parts(gpu: Gpu) -> t.Iterator[tuple[str, Keys]]:
    """Yield the sections of a GPU's instances."""
    table = gpu.keys.get("mig_table", "")
    for instance in gpu.instances:
        profile = profiles.find(table, instance.profile)
        # The driver numbers the instances by their place in the halves, quarters and eighths of the memory.
        whole = max(other.size for other in profiles.TABLES[table])
        number = whole // profile.size - 1 + instance.start // profile.size
        yield "gi", {"id": number, "profile": profile.id, "start": instance.start}
        computes = (f"{profile.slices}c",) if instance.compute is None else instance.compute
        first = 0
        for order, compute in enumerate(computes):
            slices = int(compute[:-1])
            yield "ci", {"gi": number, "id": order, "profile": _COMPUTE[slices], "start": first}
            first += slices


def _instances(gpu: Gpu, parts: list[tuple[str, Keys]]) -> list[Instance]:
    """Return the GPU instances of the sections, in the order of their numbers."""
    found = []
    for keys in sorted((keys for kind, keys in parts if kind == "gi"), key=lambda keys: int(keys["id"])):
        table = profiles.TABLES[gpu.keys["mig_table"]]
        profile = next(profile for profile in table if profile.id == int(keys["profile"]))
        mine = [part for kind, part in parts if kind == "ci" and part["gi"] == keys["id"]]
        slices = [_SLICES[int(part["profile"])] for part in sorted(mine, key=lambda part: int(part["start"]))]
        whole = slices == [profile.slices]
        computes = None if whole else tuple(f"{count}c" for count in slices)
        found.append(Instance(profile.name, int(keys["start"]), computes))
    return found
