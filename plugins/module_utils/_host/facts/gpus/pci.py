# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What sysfs shows of NVIDIA's PCI devices, with or without a driver.

These are GPUs and NVSwitches with their links, NUMA nodes, IOMMU groups and bound drivers.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import pci_ids
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci_ids import MELLANOX, NVIDIA
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, known_if, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DEVICES = "/sys/bus/pci/devices"
IOMMU_GROUPS = "/sys/kernel/iommu_groups"
_ACPI_TABLES = "/sys/firmware/acpi/tables"
_IOMMU_TABLES = ("DMAR", "IVRS")
"""The tables in which the firmware describes the IOMMU of an Intel and of an AMD processor."""
PCI_IDS = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids")

_GPU_CLASSES = ("0x0300", "0x0302")
_SWITCH_CLASS = "0x0680"
_CONNECTX_7 = "1021"
# The switches of NVLink 5 are behind a ConnectX-7. NVIDIA's fabric manager finds it by this text in its product data.
_SWITCH_MANAGEMENT = b"SW_MNG"
_MANAGER_NAME = "ConnectX-7 [NVLink 5 switch management]"
_GENERATION_OF_SPEED = {
    "2.5": 1,
    "5.0": 2,
    "5": 2,
    "8.0": 3,
    "8": 3,
    "16.0": 4,
    "16": 4,
    "32.0": 5,
    "32": 5,
    "64.0": 6,
    "64": 6,
}
_NO_ANSWER = b"\xff\xff\xff\xff"

# Of the lines in a device's file resource, the first ones are its base address registers (BARs).
_RESOURCE = re.compile(r"^0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16})$", re.MULTILINE)
_BARS = 6
_IS_MEMORY, _IS_UNSET = 0x200, 0x20000000
"""Flags of a resource: IORESOURCE_MEM and IORESOURCE_UNSET in Linux's include/linux/ioport.h."""
_MEBIBYTE = 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Device:
    """One of NVIDIA's PCI devices.

    ``answers`` is false if the device fell off the bus, because then its configuration space reads as ones.
    """

    address: str
    device_id: str
    name: str | None
    architecture: str | None
    pcie: dict[str, int | None]
    bar1_mib: int | None
    numa_node: int | None
    iommu_group: int | None
    driver: str | None
    answers: bool


@dataclasses.dataclass(frozen=True)
class Inventory:
    """NVIDIA's devices on the host. ``readable`` is false if the host does not show its PCI bus."""

    gpus: list[Device]
    switches: list[Device]
    readable: bool


def generation(speed: str | None) -> int | None:
    """Return the PCIe generation of a link speed as sysfs writes it (``16.0 GT/s PCIe``)."""
    return _GENERATION_OF_SPEED.get((speed or "").split(" ")[0])


def scan(host: Host) -> Inventory:
    """Find NVIDIA's GPUs and NVSwitches. A virtual function of a GPU does not count as a GPU."""
    gpus, switches, adapters = [], [], []
    addresses = host.names(DEVICES)
    for address in addresses:
        folder = f"{DEVICES}/{address}"
        vendor, class_ = host.read(f"{folder}/vendor"), (host.read(f"{folder}/class") or "")[:6]
        if vendor == f"0x{NVIDIA}" and class_ in _GPU_CLASSES and not host.exists(f"{folder}/physfn"):
            gpus.append(_device(host, address))
        elif vendor == f"0x{NVIDIA}" and class_ == _SWITCH_CLASS:
            switches.append(_device(host, address))
        elif vendor == f"0x{MELLANOX}" and host.read(f"{folder}/device") == f"0x{_CONNECTX_7}":
            adapters.append(address)
    return Inventory(gpus, [*switches, *_switch_managers(host, gpus, adapters)], bool(addresses))


def _switch_managers(host: Host, gpus: t.Iterable[Device], adapters: t.Iterable[str]) -> list[Device]:
    """Return the adapters that manage switches of NVLink 5.

    To read an adapter's product data takes up to 0.1 s, so a host without such GPUs is spared it.
    """
    if not any(gpu.device_id == f"{NVIDIA}:{number}" for gpu in gpus for number in pci_ids.NVLINK_5):
        return []
    managers = [
        address for address in adapters if _SWITCH_MANAGEMENT in (host.read_bytes(f"{DEVICES}/{address}/vpd") or b"")
    ]
    return [dataclasses.replace(_device(host, address), name=_MANAGER_NAME) for address in managers]


def _device(host: Host, address: str) -> Device:
    folder = f"{DEVICES}/{address}"
    vendor_id = (host.read(f"{folder}/vendor") or "0x0000")[2:].lower()
    device_id = (host.read(f"{folder}/device") or "0x0000")[2:].lower()
    power_state = host.read(f"{folder}/power_state")
    configuration = host.read_bytes(f"{folder}/config")
    return Device(
        address=address,
        device_id=f"{vendor_id}:{device_id}",
        name=_name(host, device_id),
        architecture=pci_ids.architecture_of(device_id),
        pcie={
            "generation": generation(host.read(f"{folder}/current_link_speed")),
            "generation_max": generation(host.read(f"{folder}/max_link_speed")),
            "width": _width(host.read(f"{folder}/current_link_width")),
            "width_max": _width(host.read(f"{folder}/max_link_width")),
        },
        bar1_mib=bar1_mib(host.read(f"{folder}/resource") or ""),
        # On a machine with one node, the kernel writes -1.
        numa_node=whole_number(host.read(f"{folder}/numa_node")),
        iommu_group=whole_number(host.link_name(f"{folder}/iommu_group")),
        driver=host.link_name(f"{folder}/driver"),
        # The configuration space of a sleeping device reads as ones, too.
        answers=power_state == "D3cold" or configuration is None or configuration[:4] != _NO_ANSWER,
    )


def _name(host: Host, device_id: str) -> str | None:
    return pci_ids.name_of(device_id) or pci_ids.name_of(device_id, next(filter(None, map(host.read, PCI_IDS)), None))


def _width(text: str | None) -> int | None:
    # A register that reads as ones gives 63 or 255.
    number = whole_number(text)
    return number if number in (1, 2, 4, 8, 12, 16, 32) else None


def bar1_mib(resource: str) -> int | None:
    """Return the size of the window to a GPU's memory, which NVIDIA calls BAR1, from the device's file ``resource``.

    It is the largest window: the others have 16 and 32 MiB. Its number differs, since on newer GPUs the first one takes
    two registers. A window to which the firmware gave no addresses does not count.
    """
    sizes = [0]
    for line in _RESOURCE.findall(resource)[:_BARS]:
        start, end, flags = (int(number, 16) for number in line)
        if flags & _IS_MEMORY and not flags & _IS_UNSET:
            sizes.append(end - start + 1)
    return max(sizes) // _MEBIBYTE or None


def gpu_facts(device: Device) -> Json:
    """Return the facts of a GPU that are known without a driver."""
    return {
        "pci_address": device.address,
        "device_id": device.device_id,
        "name": device.name,
        "architecture": device.architecture,
        "pcie": dict(device.pcie),
        "bar1_mib": device.bar1_mib,
        "numa_node": device.numa_node,
        "iommu_group": device.iommu_group,
        "bound_driver": device.driver,
        "lost": not device.answers,
    }


def nvswitches(inventory: Inventory) -> Section:
    """Return the NVSwitches."""
    facts = [
        {"pci_address": device.address, "device_id": device.device_id, "name": device.name}
        for device in inventory.switches
    ]
    return Section(facts, {"": known_from("sysfs") if inventory.readable else unknown(f"{DEVICES} is empty")})


def iommu(host: Host, inventory: Inventory, cmdline: t.Sequence[str]) -> Section:
    """Return whether an IOMMU is on, its mode, and which devices share a group with a GPU."""
    groups = host.names(IOMMU_GROUPS)
    gpu_groups = [_gpu_group(host, device) for device in inventory.gpus]
    first = next((entry["group"] for entry in gpu_groups if entry["group"] is not None), groups[0] if groups else None)
    kind = host.read(f"{IOMMU_GROUPS}/{first}/type")
    facts = {
        "enabled": bool(groups),
        "mode": iommu_mode(kind, cmdline) if groups else None,
        "groups": len(groups),
        "gpu_groups": gpu_groups,
        "firmware_tables": _firmware_tables(host),
    }
    mode = unknown("The IOMMU is off") if not groups else known_from("sysfs" if kind else "/proc/cmdline")
    tables = known_if(facts["firmware_tables"], _ACPI_TABLES, "Only the ACPI tables of an x86 host tell")
    return Section(facts, {"": known_from("sysfs"), "mode": mode, "firmware_tables": tables})


def _firmware_tables(host: Host) -> list[str] | None:
    """Return the tables in which the firmware offers an IOMMU. Arm's table is there without an IOMMU, too."""
    tables = host.names(_ACPI_TABLES)
    if not tables or host.machine() != "x86_64":
        return None
    return [name for name in _IOMMU_TABLES if name in tables]


def _gpu_group(host: Host, device: Device) -> Json:
    members = [] if device.iommu_group is None else host.names(f"{IOMMU_GROUPS}/{device.iommu_group}/devices")
    return {
        "gpu": device.address,
        "group": device.iommu_group,
        "shared_with": [member for member in members if member != device.address],
    }


def iommu_mode(kind: str | None, cmdline: t.Sequence[str]) -> str:
    """Return the mode of the IOMMU.

    It follows from the group's type in sysfs (since Linux 5.11), or else from the kernel's arguments.
    """
    if kind in ("identity", "DMA", "DMA-FQ"):
        return "passthrough" if kind == "identity" else "translated"
    return "passthrough" if {"iommu=pt", "iommu.passthrough=1"} & set(cmdline) else "translated"
