# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The PCI devices in sysfs, their drivers and their IOMMU groups."""

from __future__ import annotations

import fnmatch
import os
import struct

from . import files
from .spec import MODELS, NVSWITCHES, Machine

DEVICES = "/sys/bus/pci/devices"
DRIVERS = "/sys/bus/pci/drivers"
GROUPS = "/sys/kernel/iommu_groups"
IOMMUS = "/sys/class/iommu"

NVIDIA = 0x10DE
INTEL = 0x8086
HOST_BRIDGE, ROOT_PORT, DISPLAY_3D, BRIDGE_OTHER = 0x060000, 0x060400, 0x030200, 0x068000


def build(machine: Machine, arguments: list[str]) -> None:
    """Write the devices to sysfs, without drivers, and the IOMMU groups that follow from the kernel command line."""
    for folder in (DEVICES, DRIVERS, GROUPS, IOMMUS):
        files.empty(folder)
    _device("0000:00:00.0", INTEL, 0x09A2, 0, HOST_BRIDGE, numa=0)
    model = MODELS[machine.model]
    for index in range(machine.gpus):
        numa = index * 2 // machine.gpus
        _device(f"0000:00:{index + 1:02x}.0", INTEL, 0x352A, 0, ROOT_PORT, numa)
        address = f"0000:{_bus(index):02x}:00.0"
        _device(address, NVIDIA, model.device, model.subsystem, DISPLAY_3D, numa, model.pcie_generation)
    for index in range(machine.nvswitches):
        address = f"0000:{0xC0 + index:02x}:00.0"
        _device(address, NVIDIA, NVSWITCHES[machine.model], 0x1796, BRIDGE_OTHER, numa=1, generation=4)
    kind = iommu(machine.cpu, arguments)
    if kind:
        _group_all(machine.cpu, kind)


def _bus(index: int) -> int:
    return 0x18 + 0x11 * index if index < 8 else 0xA8 + index


def _device(address: str, vendor: int, device: int, subsystem: int, kind: int, numa: int, generation: int = 0) -> None:
    folder = f"{DEVICES}/{address}"
    subsystem_vendor = vendor if subsystem else 0
    header = bytearray(4096 if kind == ROOT_PORT else 64)
    struct.pack_into("<HHHH", header, 0, vendor, device, 0x0006, 0x0010)
    header[8:12] = bytes([0xA1, kind & 0xFF, kind >> 8 & 0xFF, kind >> 16])
    header[14] = 1 if kind == ROOT_PORT else 0
    if kind == ROOT_PORT:
        # PCI Express, and the access control services as the kernel turns them on for an IOMMU.
        header[0x34], header[0x40] = 0x40, 0x10
        struct.pack_into("<IHH", header, 0x100, 0x0001000D, 0x001F, 0x001D)
    else:
        struct.pack_into("<HH", header, 0x2C, subsystem_vendor, subsystem)
    modalias = (
        f"pci:v{vendor:08X}d{device:08X}sv{subsystem_vendor:08X}sd{subsystem:08X}"
        f"bc{kind >> 16:02X}sc{kind >> 8 & 0xFF:02X}i{kind & 0xFF:02X}"
    )
    texts = {
        "vendor": f"0x{vendor:04x}",
        "device": f"0x{device:04x}",
        "subsystem_vendor": f"0x{subsystem_vendor:04x}",
        "subsystem_device": f"0x{subsystem:04x}",
        "class": f"0x{kind:06x}",
        "revision": "0xa1",
        "numa_node": str(numa),
        "irq": "0",
        "enable": "0",
        "driver_override": "(null)",
        "modalias": modalias,
        "resource": "\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13),
        "uevent": f"PCI_CLASS={kind:X}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SLOT_NAME={address}\nMODALIAS={modalias}",
    }
    if generation:
        speed = {3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}[generation] + " GT/s PCIe"
        texts.update(current_link_speed=speed, max_link_speed=speed, current_link_width="16", max_link_width="16")
    for name, text in texts.items():
        files.write(f"{folder}/{name}", text + "\n")
    files.write(f"{folder}/config", bytes(header))


def iommu(cpu: str, arguments: list[str]) -> str | None:
    """Return the type of the groups, or None without an IOMMU. Intel's is off by default, as on EL and Ubuntu."""
    last = dict(argument.partition("=")[::2] for argument in arguments)
    if cpu == "intel" and last.get("intel_iommu", "").split(",")[0] != "on":
        return None
    if cpu == "amd" and last.get("amd_iommu") == "off":
        return None
    return "identity" if last.get("iommu") == "pt" or last.get("iommu.passthrough") == "1" else "DMA-FQ"


def _group_all(cpu: str, kind: str) -> None:
    files.write(f"{IOMMUS}/{'dmar0/intel-iommu' if cpu == 'intel' else 'ivhd0/amd-iommu'}/version", "1\n")
    for number, address in enumerate(sorted(os.listdir(DEVICES))):
        files.write(f"{GROUPS}/{number}/type", kind + "\n")
        files.link(f"{GROUPS}/{number}/devices/{address}", f"{DEVICES}/{address}")
        files.link(f"{DEVICES}/{address}/iommu_group", f"{GROUPS}/{number}")


def gpus() -> list[str]:
    """Return the addresses of the GPUs."""
    return [
        address
        for address in sorted(os.listdir(DEVICES))
        if files.read(f"{DEVICES}/{address}/class").startswith("0x0302")
    ]


def modaliases() -> list[str]:
    """Return the aliases by which udev would load modules, each once."""
    return sorted({files.read(f"{DEVICES}/{address}/modalias").strip() for address in os.listdir(DEVICES)})


def driver(address: str) -> str | None:
    """Return the driver that a device is bound to."""
    path = f"{DEVICES}/{address}/driver"
    return os.path.basename(os.readlink(path)) if os.path.islink(path) else None


def bind(name: str, patterns: list[str]) -> list[str]:
    """Register a driver. Return the devices that it takes: those without a driver that match one of its aliases."""
    folder = f"{DRIVERS}/{name}"
    for file in ("bind", "unbind", "new_id", "remove_id"):
        files.write(f"{folder}/{file}", "")
    taken = []
    for address in sorted(os.listdir(DEVICES)):
        modalias = files.read(f"{DEVICES}/{address}/modalias").strip()
        if driver(address) is None and any(fnmatch.fnmatchcase(modalias, pattern) for pattern in patterns):
            files.link(f"{DEVICES}/{address}/driver", folder)
            files.link(f"{folder}/{address}", f"{DEVICES}/{address}")
            taken.append(address)
    return taken


def unbind(name: str) -> None:
    """Remove a driver. Its devices then have none."""
    folder = f"{DRIVERS}/{name}"
    if not os.path.isdir(folder):
        return
    for address in sorted(os.listdir(DEVICES)):
        if driver(address) == name:
            os.unlink(f"{DEVICES}/{address}/driver")
    files.empty(folder)
    os.rmdir(folder)
