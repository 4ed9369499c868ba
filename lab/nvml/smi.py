#!/usr/bin/env python3
# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for the part of nvidia-smi that divides GPUs, on the simulated NVML of the machine.

It is a program of its own, to be copied to a machine. Commands that it does not know go to /usr/bin/nvidia-smi. The
tables have the form that drivers print since branch 510.
"""

from __future__ import annotations

import ctypes
import os
import sys

OTHER = "/usr/bin/nvidia-smi"
MOST = 8
SLICES = (1, 2, 3, 4, 7)
UINT, HANDLE = ctypes.c_uint, ctypes.c_void_p
BORDER = "+--------------------------------------------------------------------+"


class Profile(ctypes.Structure):
    """A profile of GPU instances, or of compute instances. Only the first numbers are read."""

    _fields_ = [("id", UINT), ("rest", UINT * 31), ("name", ctypes.c_char * 96)]


class Named(ctypes.Structure):
    """The second version of a GPU instance's profile, which has a name."""

    _fields_ = [
        ("version", UINT),
        ("id", UINT),
        ("p2p", UINT),
        ("slices", UINT),
        ("counts", UINT * 8),
        ("memory", ctypes.c_ulonglong),
        ("name", ctypes.c_char * 96),
    ]


class GpuInstance(ctypes.Structure):
    """What NVML says of a GPU instance."""

    _fields_ = [("device", HANDLE), ("id", UINT), ("profile", UINT), ("start", UINT), ("size", UINT)]


class ComputeInstance(ctypes.Structure):
    """What NVML says of a compute instance."""

    _fields_ = [("device", HANDLE), ("parent", HANDLE), *((name, UINT) for name in ("id", "profile", "start", "size"))]


class FailedError(Exception):
    """A call that failed, with NVML's own words."""


class Smi:
    """One GPU, and the options of one command."""

    def __init__(self, gpu: str) -> None:
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self._nvml.nvmlErrorString.restype = ctypes.c_char_p
        self.call("Init_v2")
        self.handle, number = HANDLE(), UINT()
        if gpu.isdigit():
            self.call("DeviceGetHandleByIndex_v2", UINT(int(gpu)), ctypes.byref(self.handle))
        else:
            self.call("DeviceGetHandleByUUID", gpu.encode(), ctypes.byref(self.handle))
        self.call("DeviceGetIndex", self.handle, ctypes.byref(number))
        self.number = number.value

    def call(self, name: str, *arguments: object) -> None:
        """Call NVML, and raise if it refuses."""
        result = getattr(self._nvml, f"nvml{name}")(*arguments)
        if result:
            raise FailedError(self._nvml.nvmlErrorString(result).decode())

    def asked(self, name: str, *arguments: object) -> bool:
        """Return whether a call succeeded."""
        return getattr(self._nvml, f"nvml{name}")(*arguments) == 0

    def mode(self) -> str:
        """Return the mode as nvidia-smi names it."""
        now, pending = UINT(), UINT()
        if not self.asked("DeviceGetMigMode", self.handle, ctypes.byref(now), ctypes.byref(pending)):
            return "[N/A]"
        return "Enabled" if now.value else "Disabled"

    def set_mode(self, on: bool) -> str:
        """Set the mode, and return what nvidia-smi prints."""
        status = ctypes.c_int()
        self.call("DeviceSetMigMode", self.handle, UINT(on), ctypes.byref(status))
        word = "enable" if on else "disable"
        if status.value:
            reason = self._nvml.nvmlErrorString(status.value).decode()
            return f"Warning: MIG mode is in pending {word} state for GPU {self.number}:{reason}\nAll done."
        return f"{word.title()}d MIG Mode for GPU {self.number}\nAll done."

    def profiles(self) -> dict[str, Named]:
        """Return the profiles of GPU instances by their names."""
        found = {}
        for number in range(32):
            info = Named(version=ctypes.sizeof(Named) | 2 << 24)
            if self.asked("DeviceGetGpuInstanceProfileInfoV", self.handle, UINT(number), ctypes.byref(info)):
                found[info.name.decode().removeprefix("MIG ")] = info
        return found

    def instances(self) -> list[tuple[str, object, GpuInstance]]:
        """Return profile, handle and facts of each GPU instance."""
        found = []
        for name, profile in self.profiles().items():
            handles, count = (HANDLE * MOST)(), UINT()
            self.call("DeviceGetGpuInstances", self.handle, UINT(profile.id), handles, ctypes.byref(count))
            for each in handles[: count.value]:
                info = GpuInstance()
                self.call("GpuInstanceGetInfo", HANDLE(each), ctypes.byref(info))
                found.append((name, HANDLE(each), info))
        return found

    def compute_profiles(self, instance: object) -> dict[int, int]:
        """Return the IDs of the compute instance profiles in a GPU instance by their slices."""
        found = {}
        for number, slices in enumerate(SLICES):
            info = Profile()
            arguments = (instance, UINT(number), UINT(0), ctypes.byref(info))
            if self.asked("GpuInstanceGetComputeInstanceProfileInfo", *arguments):
                found[slices] = info.id
        return found

    def list_gpu_instances(self) -> str:
        """Return the table of GPU instances."""
        rows = [
            f"|   {self.number}  MIG {name:<15} {info.profile:>3} {info.id:>8} {info.start:>10}:{info.size}     |"
            for name, dummy, info in self.instances()
        ]
        if not rows:
            raise FailedError("No GPU instances found: Not Found")
        return "\n".join([BORDER, "| GPU instances:", "| GPU   Name   Profile  Instance   Placement", *rows, BORDER])

    def list_compute_instances(self) -> str:
        """Return the table of compute instances."""
        rows = []
        for name, handle, parent in self.instances():
            whole = int(name.partition("g.")[0])
            for slices, profile in self.compute_profiles(handle).items():
                handles, count = (HANDLE * MOST)(), UINT()
                self.call("GpuInstanceGetComputeInstances", handle, UINT(profile), handles, ctypes.byref(count))
                shown = name if slices == whole else f"{slices}c.{name}"
                for each in handles[: count.value]:
                    info = ComputeInstance()
                    self.call("ComputeInstanceGetInfo_v2", HANDLE(each), ctypes.byref(info))
                    place = f"{info.start}:{info.size}"
                    rows.append(
                        f"|   {self.number} {parent.id:>6}       MIG {shown:<15} {profile} {info.id:>9} {place:>12} |"
                    )
        if not rows:
            raise FailedError("No compute instances found: Not Found")
        return "\n".join([BORDER, "| Compute instances:", *rows, BORDER])

    def create_gpu_instances(self, wanted: str, with_compute: bool) -> str:
        """Create GPU instances, each ``profile:start``, and with ``-C`` a compute instance that has all of each."""
        said = []
        for each in wanted.split(","):
            name, dummy, start = each.partition(":")
            profile = self.profiles().get(name)
            if profile is None:
                raise FailedError(f"Unable to find the profile {name}")
            places, count = (UINT * 64)(), UINT(32)
            self.call(
                "DeviceGetGpuInstancePossiblePlacements_v2", self.handle, UINT(profile.id), places, ctypes.byref(count)
            )
            place, made, info = (UINT * 2)(int(start), places[1]), HANDLE(), GpuInstance()
            arguments = (self.handle, UINT(profile.id), ctypes.byref(place), ctypes.byref(made))
            self.call("DeviceCreateGpuInstanceWithPlacement", *arguments)
            self.call("GpuInstanceGetInfo", made, ctypes.byref(info))
            if with_compute:
                self.create_compute_instances(str(info.id), "")
            said.append(f"Successfully created GPU instance ID {info.id} on GPU {self.number} using profile MIG {name}")
        return "\n".join(said)

    def create_compute_instances(self, instance: str, wanted: str) -> str:
        """Create compute instances by name in a GPU instance, or one that has all of it."""
        name, handle, dummy = next(each for each in self.instances() if str(each[2].id) == instance)
        whole = int(name.partition("g.")[0])
        for each in wanted.split(",") if wanted else [name]:
            slices = whole if each == name else int(each.partition("c.")[0])
            made = HANDLE()
            profile = UINT(self.compute_profiles(handle)[slices])
            self.call("GpuInstanceCreateComputeInstance", handle, profile, ctypes.byref(made))
        return "Successfully created compute instance"


def value(arguments: list[str], option: str) -> str:
    """Return what follows an option, unless that is an option, too."""
    after = arguments[arguments.index(option) + 1 :][:1] if option in arguments else []
    return "" if not after or after[0].startswith("-") else after[0]


def run(arguments: list[str]) -> str:
    """Run a command and return what it prints."""
    smi = Smi(value(arguments, "-i"))
    if "--query-gpu=mig.mode.current" in arguments:
        return smi.mode()
    if "-mig" in arguments:
        return smi.set_mode(value(arguments, "-mig") == "1")
    if "-lgi" in arguments:
        return smi.list_gpu_instances()
    if "-lci" in arguments:
        return smi.list_compute_instances()
    if "-cgi" in arguments:
        return smi.create_gpu_instances(value(arguments, "-cgi"), "-C" in arguments)
    return smi.create_compute_instances(value(arguments, "-gi"), value(arguments, "-cci"))


def main(arguments: list[str]) -> int:
    """``nvidia-smi``."""
    if not {"mig", "-mig", "--query-gpu=mig.mode.current"} & set(arguments):
        os.execv(OTHER, [OTHER, *arguments])
    try:
        print(run(arguments))
    except FailedError as error:
        print(error)
        return 6
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
