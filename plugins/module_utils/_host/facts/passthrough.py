# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What handing GPUs to virtual machines depends on, from sysfs and procfs.

These are the functions that go along with a GPU, the drivers that hold them, the kernel's vfio modules, and vGPUs.
"""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import module_files
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import (
    DEVICES,
    IOMMU_GROUPS,
    Device,
    Inventory,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, known_if
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

FOR_GUESTS = ("kvm", "vfio_pci", "vfio_iommu_type1", "nvgrace_gpu_vfio_pci", "mdev", "nvidia_vgpu_vfio")

_KINDS = {
    "0x0300": "display",
    "0x0302": "display",
    "0x0380": "display",
    "0x0403": "audio",
    "0x0c03": "usb",
    "0x0c80": "serial",
    "0x0600": "bridge",
    "0x0604": "bridge",
}
"""What the class of a PCI device says of it, from include/linux/pci_ids.h of Linux."""

# The lines of modules.alias by which libvirt and NVIDIA's vfio manager choose the driver for a device:
# https://github.com/NVIDIA/k8s-driver-manager/blob/bd62ca7d/internal/nvpassthrough/modalias.go
_ALIAS = re.compile(r"^alias vfio_pci:(\S+) (\S+)$", re.MULTILINE)
_ANY_DEVICE = "vfio_pci"

# A vGPU of the kernel's mediated devices is a folder below its parent that is called by its UUID.
_UUID = "????????-????-????-????-????????????"
_TYPE = re.compile(r"^\s*\d+\s*:\s*(\S.*?)\s*$", re.MULTILINE)


def passthrough(host: Host, inventory: Inventory) -> Section:
    """Return what handing the GPUs to virtual machines depends on."""
    states = module_files.states(host, FOR_GUESTS)
    guest = _is_guest(host)
    facts = {
        "guest": guest,
        "kvm": host.exists("/dev/kvm"),
        "modules": states,
        "devices": devices(host, inventory),
        "vgpus": [_vgpus(host, gpu) for gpu in inventory.gpus],
    }
    known = None if None in states.values() else states
    reason = f"{module_files.folder(host)}/modules.dep cannot be read"
    return Section(
        facts,
        {
            "guest": known_if(guest, "/proc/cpuinfo", "This processor does not show whether it is virtual"),
            "kvm": known_from("/dev/kvm"),
            "modules": known_if(known, "sysfs, /lib/modules", reason),
            "devices": known_from("sysfs"),
            "vgpus": known_from("sysfs"),
        },
    )


def _is_guest(host: Host) -> bool | None:
    """Return whether the host is a virtual machine itself. x86 has a flag for it, and Arm has none."""
    flags = re.search(r"^flags\s*:(.*)$", host.read("/proc/cpuinfo") or "", re.MULTILINE)
    return "hypervisor" in flags[1].split() if flags else None


def devices(host: Host, inventory: Inventory) -> list[Json]:
    """Return the GPUs and NVSwitches, their other functions, and everything that shares an IOMMU group with them."""
    aliases = _ALIAS.findall(host.read(f"{module_files.folder(host)}/modules.alias") or "")
    found: dict[str, Json] = {}
    for kind, each in (("gpu", inventory.gpus), ("nvswitch", inventory.switches)):
        for device in each:
            expected = _vfio_driver(host, device.address, aliases) if kind == "gpu" else _ANY_DEVICE
            found[device.address] = {**_device(host, device.address, kind), "vfio_driver": expected}
    for address in [*found]:
        for neighbour in [*_functions(host, address), *_group(host, found[address]["iommu_group"])]:
            if neighbour not in found:
                found[neighbour] = {**_device(host, neighbour), "vfio_driver": _ANY_DEVICE}
    for row in found.values():
        owner = f"{row['pci_address'].rpartition('.')[0]}.0"
        row["gpu"] = owner if owner in found and found[owner]["kind"] == "gpu" else None
    return [found[address] for address in sorted(found)]


def _device(host: Host, address: str, kind: str | None = None) -> Json:
    folder = f"{DEVICES}/{address}"
    vendor, device, class_ = (host.read(f"{folder}/{name}") or "" for name in ("vendor", "device", "class"))
    override = host.read(f"{folder}/driver_override")
    return {
        "pci_address": address,
        "device_id": f"{vendor[2:]}:{device[2:]}",
        "kind": kind or _KINDS.get(class_[:6], "other"),
        "iommu_group": whole_number(host.link_name(f"{folder}/iommu_group")),
        "bound_driver": host.link_name(f"{folder}/driver"),
        "driver_override": None if override in (None, "", "(null)") else override,
    }


def _functions(host: Host, address: str) -> list[str]:
    """Return the functions of a device. Its virtual functions may have numbers of the same slot, and do not count."""
    slot = f"{address.rpartition('.')[0]}."
    near = [name for name in host.names(DEVICES) if name.startswith(slot)]
    return [name for name in near if not host.exists(f"{DEVICES}/{name}/physfn")]


def _group(host: Host, number: int | None) -> list[str]:
    return [] if number is None else host.names(f"{IOMMU_GROUPS}/{number}/devices")


def _vfio_driver(host: Host, address: str, aliases: t.Sequence[tuple[str, str]]) -> str:
    """Return the vfio module that fits a device best: the one whose alias has the fewest wildcards."""
    modalias = (host.read(f"{DEVICES}/{address}/modalias") or "").partition(":")[2]
    fitting = [(alias.count("*"), module) for alias, module in aliases if fnmatch.fnmatchcase(modalias, alias)]
    return min(fitting)[1] if fitting else _ANY_DEVICE


def _vgpus(host: Host, gpu: Device) -> Json:
    """Return which vGPUs a GPU offers and has, as mediated devices or, since vGPU 17, by its virtual functions."""
    folder = f"{DEVICES}/{gpu.address}"
    functions = [f"{folder}/{name}" for name in host.names(folder) if name.startswith("virtfn")]
    parents = [folder, *functions]
    mediated = [each for each in parents if host.exists(f"{each}/mdev_supported_types")]
    own = [each for each in functions if host.exists(f"{each}/nvidia/current_vgpu_type")]
    types: list[str] = []
    if mediated:
        types = [host.read(path) or "" for path in host.glob(f"{mediated[0]}/mdev_supported_types/*/name")]
    elif own:
        lists = (host.read(f"{each}/nvidia/creatable_vgpu_types") or "" for each in own)
        types = [name for text in lists for name in _TYPE.findall(text)]
    created = [path for each in mediated for path in host.glob(f"{each}/{_UUID}")]
    created += [each for each in own if host.read(f"{each}/nvidia/current_vgpu_type") not in (None, "", "0")]
    return {
        "gpu": gpu.address,
        "sriov_totalvfs": whole_number(host.read(f"{folder}/sriov_totalvfs")),
        "sriov_numvfs": whole_number(host.read(f"{folder}/sriov_numvfs")),
        "framework": "mdev" if mediated else "vendor" if own else None,
        "types": sorted({name for name in types if name}),
        "vgpus": len(created),
    }
