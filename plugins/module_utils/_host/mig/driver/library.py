# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""The driver's own library, NVML, for MIG: reads GPUs with their instances, sets the mode, creates and destroys.

It is bound here with ctypes, because a host has the library together with its driver, while pynvml is a package of its
own, which few distributions have. The names and structures are those of NVIDIA's nvml.h. Calls may hang: make them in
a forked.Child.
"""

from __future__ import annotations

import ctypes
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import (
    ComputeInstance,
    Gpu,
    Instance,
    Process,
    by_start,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import table
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import Profile
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.address import normal_address

SONAME = "libnvidia-ml.so.1"
_INVALID_ARGUMENT, _NOT_SUPPORTED, _INSUFFICIENT_SIZE, _GPU_IS_LOST = 2, 3, 7, 15
_AMPERE = 7
_VGPU_MODES = (2, 3, 4)
"""A guest with a vGPU, and the two kinds of hosts for such guests. 1 is a whole GPU that was passed to a guest."""
_NO_INSTANCE = 0xFFFFFFFF
_MOST_PROFILES = 64
_COMPUTE_PROFILES = 16
_MEBIBYTE = 1024 * 1024
_ATTRIBUTES = {
    **dict.fromkeys((7, 8), "+me"),
    **dict.fromkeys((10, 11, 12, 17), "+gfx"),
    **dict.fromkeys((13, 14), "-me"),
    **dict.fromkeys((15, 16), "+me.all"),
}
"""The suffixes of the profiles' names, by NVML_GPU_INSTANCE_PROFILE_*."""
_CREATE_AT_PLACE = "nvmlGpuInstanceCreateComputeInstanceWithPlacement"
_PROCESSES = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
)

_UINT = ctypes.c_uint
_Handle = ctypes.c_void_p


def _structure(name: str, **fields: t.Any) -> type[ctypes.Structure]:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


def _counts(*names: str) -> dict[str, t.Any]:
    return dict.fromkeys(names, _UINT)


_Pci = _structure(
    "_Pci",
    legacy=ctypes.c_char * 16,
    **_counts("domain", "bus", "device", "id", "subsystem"),
    address=ctypes.c_char * 32,
)
_Memory = _structure("_Memory", total=ctypes.c_ulonglong, free=ctypes.c_ulonglong, used=ctypes.c_ulonglong)
_Placement = _structure("_Placement", **_counts("start", "size"))
_GpuProfile = _structure(
    "_GpuProfile",
    **_counts("id", "p2p", "slices", "instances", "multiprocessors", "copy", "decoder", "encoder", "jpeg", "ofa"),
    memory_mib=ctypes.c_ulonglong,
)
_ComputeProfile = _structure(
    "_ComputeProfile",
    **_counts("id", "slices", "instances", "multiprocessors", "copy", "decoder", "encoder", "jpeg", "ofa"),
)
_GpuInstance = _structure("_GpuInstance", device=_Handle, **_counts("id", "profile"), placement=_Placement)
_Compute = _structure(
    "_Compute", device=_Handle, gpu_instance=_Handle, **_counts("id", "profile"), placement=_Placement
)
_Attributes = _structure(
    "_Attributes",
    **_counts("multiprocessors", "copy", "decoder", "encoder", "jpeg", "ofa", "gpu_slices", "compute_slices"),
    memory_mib=ctypes.c_ulonglong,
)
_Process = _structure("_Process", pid=_UINT, memory=ctypes.c_ulonglong, **_counts("gpu_instance", "compute_instance"))


class DriverError(Exception):
    """An error that the driver returned."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Driver:
    """The driver of this machine. Every method but the first raises a DriverError if the driver refuses."""

    def __init__(self, path: str = SONAME) -> None:
        """Load the library, and raise OSError if it is missing."""
        self._library = ctypes.CDLL(path)
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        self._call("nvmlInit_v2")

    def _call(self, function: str, *arguments: t.Any) -> None:
        found = getattr(self._library, function, None)
        if found is None:
            raise DriverError(_NOT_SUPPORTED, f"The installed driver is too old: it has no {function}")
        code = found(*arguments)
        if code:
            raise DriverError(code, self._error(code))

    def _error(self, code: int) -> str:
        text = self._library.nvmlErrorString(code) or b""
        return text.decode("utf-8", "replace") or f"error {code}"

    def _optional(self, function: str, *arguments: t.Any) -> bool:
        """Return whether a call succeeded. Raise if the GPU is lost."""
        try:
            self._call(function, *arguments)
        except DriverError as e:
            if e.code == _GPU_IS_LOST:
                raise
            return False
        return True

    def _number(self, function: str, handle: t.Any) -> int | None:
        value = _UINT()
        return value.value if self._optional(function, handle, ctypes.byref(value)) else None

    def _text(self, function: str, handle: t.Any) -> str:
        value = ctypes.create_string_buffer(96)
        self._call(function, handle, value, _UINT(96))
        return value.value.decode("utf-8", "replace")

    # ---- reading --------------------------------------------------------------------------------------------------

    def gpus(self) -> t.Iterator[Gpu]:
        """Yield every GPU."""
        count = _UINT()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        for index in range(count.value):
            handle = _Handle()
            self._call("nvmlDeviceGetHandleByIndex_v2", _UINT(index), ctypes.byref(handle))
            yield self._gpu(handle, index)

    def gpu(self, uuid: str) -> Gpu:
        """Return one GPU."""
        handle = self._handle(uuid)
        return self._gpu(handle, self._number("nvmlDeviceGetIndex", handle) or 0)

    def _gpu(self, handle: t.Any, index: int) -> Gpu:
        pci = _Pci()
        self._call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        gpu: dict[str, t.Any] = {
            "index": index,
            "uuid": self._text("nvmlDeviceGetUUID", handle),
            "address": normal_address(pci.address.decode("ascii", "replace")) or "",
            "product": self._text("nvmlDeviceGetName", handle),
            "ampere": self._number("nvmlDeviceGetArchitecture", handle) == _AMPERE,
            "vgpu": self._number("nvmlDeviceGetVirtualizationMode", handle) in _VGPU_MODES,
        }
        mode, pending = _UINT(), _UINT()
        if not self._optional("nvmlDeviceGetMigMode", handle, ctypes.byref(mode), ctypes.byref(pending)):
            return Gpu(**gpu)
        infos = self._profile_infos(handle)
        profiles = self._profiles(handle, infos, table.model_of(product=gpu["product"]))
        return Gpu(
            **gpu,
            mode=bool(mode.value),
            pending=bool(pending.value),
            profiles=tuple(profiles),
            slots=max((start + each.slots for each in profiles for start in each.starts), default=0),
            instances=self._instances(handle, infos, profiles) if mode.value else (),
            processes=tuple(self._processes(handle)),
        )

    def _profile_infos(self, handle: t.Any) -> dict[int, t.Any]:
        """Return what the GPU says of each profile, by NVML's number. It says so whether its mode is on or not."""
        found = {}
        for number in range(_MOST_PROFILES):
            info = _GpuProfile()
            try:
                self._call("nvmlDeviceGetGpuInstanceProfileInfo", handle, _UINT(number), ctypes.byref(info))
            except DriverError as e:
                if e.code == _INVALID_ARGUMENT:
                    break
                if e.code != _NOT_SUPPORTED:
                    raise
            else:
                found[number] = info
        return found

    def _profiles(self, handle: t.Any, infos: dict[int, t.Any], model: table.Model | None) -> list[Profile]:
        """Return the profiles with the GPU's own names and places. What engines they share, only the table knows."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        profiles = []
        for number, info in infos.items():
            placements, listed = self._placements(handle, info.id), model.by_gi(number) if model else None
            attribute = _ATTRIBUTES.get(number, "")
            gigabytes = memory_gb(info.memory_mib, memory.total)
            profiles.append(
                Profile(
                    name=f"{info.slices}g.{gigabytes}gb{attribute}",
                    gi=number,
                    compute=info.slices,
                    memory=gigabytes,
                    slots=placements[0].size if placements else 0,
                    starts=tuple(sorted(each.start for each in placements)),
                    most=info.instances,
                    attribute=attribute,
                    ofa=listed.ofa if listed else 0,
                    media=listed.media if listed else 0,
                )
            )
        return profiles

    def _placements(self, handle: t.Any, profile: int) -> list[t.Any]:
        function = "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
        count = _UINT()
        self._call(function, handle, _UINT(profile), None, ctypes.byref(count))
        found = (_Placement * count.value)()
        if count.value:
            self._call(function, handle, _UINT(profile), found, ctypes.byref(count))
        return list(found[: count.value])

    def _instances(self, handle: t.Any, infos: dict[int, t.Any], profiles: list[Profile]) -> tuple[Instance, ...]:
        devices = self._devices(handle)
        found = []
        for profile in profiles:
            info = infos[profile.gi]
            handles, count = (_Handle * info.instances)(), _UINT()
            self._call("nvmlDeviceGetGpuInstances", handle, _UINT(info.id), handles, ctypes.byref(count))
            for each in handles[: count.value]:
                found.append(self._instance(_Handle(each), profile, devices))
        return by_start(found)

    def _instance(self, handle: t.Any, profile: Profile, devices: dict[tuple[int, int], t.Any]) -> Instance:
        info = _GpuInstance()
        self._call("nvmlGpuInstanceGetInfo", handle, ctypes.byref(info))
        place = info.placement
        compute = sorted(self._compute_instances(handle, info.id, devices), key=lambda each: each.id)
        return Instance(info.id, profile.name, profile.compute, place.start, place.size, tuple(compute))

    def _compute_profiles(self, instance: t.Any) -> dict[int, t.Any]:
        """Return the first compute-instance profile of each size."""
        found: dict[int, t.Any] = {}
        for number in range(_COMPUTE_PROFILES):
            info = _ComputeProfile()
            function = "nvmlGpuInstanceGetComputeInstanceProfileInfo"
            if self._optional(function, instance, _UINT(number), _UINT(0), ctypes.byref(info)):
                found.setdefault(info.slices, info)
        return found

    def _compute_instances(
        self, instance: t.Any, gpu_instance: int, devices: dict[tuple[int, int], t.Any]
    ) -> t.Iterator[ComputeInstance]:
        seen = set()
        for profile in self._compute_profiles(instance).values():
            handles, count = (_Handle * max(1, profile.instances))(), _UINT()
            function = "nvmlGpuInstanceGetComputeInstances"
            self._call(function, instance, _UINT(profile.id), handles, ctypes.byref(count))
            for each in handles[: count.value]:
                info = _Compute()
                self._call("nvmlComputeInstanceGetInfo_v2", _Handle(each), ctypes.byref(info))
                if info.id not in seen:
                    seen.add(info.id)
                    device = devices.get((gpu_instance, info.id), {})
                    yield ComputeInstance(info.id, profile.slices, info.placement.start, **device)

    def _devices(self, handle: t.Any) -> dict[tuple[int, int], dict[str, t.Any]]:
        """Return index, UUID and memory of each MIG device, by the numbers of its GPU and its compute instance."""
        most = self._number("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
        found = {}
        for index in range(most):
            device = _Handle()
            if self._optional("nvmlDeviceGetMigDeviceHandleByIndex", handle, _UINT(index), ctypes.byref(device)):
                gpu_instance = self._number("nvmlDeviceGetGpuInstanceId", device)
                compute = self._number("nvmlDeviceGetComputeInstanceId", device)
                attributes = _Attributes()
                known = self._optional("nvmlDeviceGetAttributes_v2", device, ctypes.byref(attributes))
                if gpu_instance is not None and compute is not None:
                    found[gpu_instance, compute] = {
                        "index": index,
                        "uuid": self._text("nvmlDeviceGetUUID", device),
                        "memory_mib": attributes.memory_mib if known else None,
                    }
        return found

    def _processes(self, handle: t.Any) -> list[Process]:
        found = {}
        for function in _PROCESSES:
            room = 64
            while room:
                processes, count = (_Process * room)(), _UINT(room)
                try:
                    self._call(function, handle, ctypes.byref(count), processes)
                except DriverError as e:
                    if e.code == _GPU_IS_LOST:
                        raise
                    room = 2 * max(room, count.value) if e.code == _INSUFFICIENT_SIZE else 0
                else:
                    found.update({each.pid: each for each in processes[: count.value]})
                    room = 0
        return [Process(pid, _id(each.gpu_instance), _id(each.compute_instance)) for pid, each in sorted(found.items())]

    # ---- changing -------------------------------------------------------------------------------------------------

    def _handle(self, uuid: str) -> t.Any:
        handle = _Handle()
        self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle))
        return handle

    def _instance_handle(self, uuid: str, instance: int) -> t.Any:
        handle = _Handle()
        self._call("nvmlDeviceGetGpuInstanceById", self._handle(uuid), _UINT(instance), ctypes.byref(handle))
        return handle

    def set_mode(self, uuid: str, on: bool) -> str | None:
        """Set the mode. Return why it takes effect at a later reset only, or None if it has taken effect."""
        status = ctypes.c_int()
        self._call("nvmlDeviceSetMigMode", self._handle(uuid), _UINT(on), ctypes.byref(status))
        if not status.value:
            return None
        return (self._library.nvmlErrorString(status.value) or b"").decode(
            "utf-8", "replace"
        ) or f"error {status.value}"

    def create(self, uuid: str, number: int, start: int, size: int) -> int:
        """Create a GPU instance of the profile with NVML's number, and return the instance's own."""
        device, profile = self._handle(uuid), _GpuProfile()
        self._call("nvmlDeviceGetGpuInstanceProfileInfo", device, _UINT(number), ctypes.byref(profile))
        handle, place, info = _Handle(), _Placement(start, size), _GpuInstance()
        function = "nvmlDeviceCreateGpuInstanceWithPlacement"
        self._call(function, device, _UINT(profile.id), ctypes.byref(place), ctypes.byref(handle))
        self._call("nvmlGpuInstanceGetInfo", handle, ctypes.byref(info))
        return int(info.id)

    def create_compute(self, uuid: str, instance: int, slices: int, place: int) -> int:
        """Create a compute instance in a GPU instance, and return its number.

        A driver that knows no places takes the first that is free.
        """
        parent = self._instance_handle(uuid, instance)
        profile = self._compute_profiles(parent).get(slices)
        if profile is None:
            raise DriverError(_NOT_SUPPORTED, f"The GPU instance can hold no compute instance of {slices} slices")
        handle, info = _Handle(), _Compute()
        if hasattr(self._library, _CREATE_AT_PLACE):
            at = _Placement(place, slices)
            self._call(_CREATE_AT_PLACE, parent, _UINT(profile.id), ctypes.byref(at), ctypes.byref(handle))
        else:
            self._call("nvmlGpuInstanceCreateComputeInstance", parent, _UINT(profile.id), ctypes.byref(handle))
        self._call("nvmlComputeInstanceGetInfo_v2", handle, ctypes.byref(info))
        return int(info.id)

    def destroy(self, uuid: str, instance: int) -> None:
        """Destroy a GPU instance, which must have no compute instance."""
        self._call("nvmlGpuInstanceDestroy", self._instance_handle(uuid, instance))

    def destroy_compute(self, uuid: str, instance: int, compute: int) -> None:
        """Destroy a compute instance."""
        handle = _Handle()
        parent = self._instance_handle(uuid, instance)
        self._call("nvmlGpuInstanceGetComputeInstanceById", parent, _UINT(compute), ctypes.byref(handle))
        self._call("nvmlComputeInstanceDestroy", handle)


def _id(number: int) -> int | None:
    return None if number == _NO_INSTANCE else number


def memory_gb(memory_mib: int, total_bytes: int) -> int:
    """Return the memory in a profile's name: eighths of the GPU's memory, as NVIDIA's own tools count it."""
    eighths = -(-memory_mib * _MEBIBYTE * 8 // total_bytes)
    gigabytes = -(-total_bytes // 1024**3)
    return int(eighths * gigabytes / 8 + 0.5)
