# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of sysfs and procfs that describe a machine with GPUs."""

from __future__ import annotations

import itertools
import typing as t
from pathlib import Path

from lab.nvml.models import BUSES, Model

_DEVICES = "sys/bus/pci/devices"
_NO_RESOURCE = " ".join(["0x0000000000000000"] * 3)
_SPEEDS = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}


def plant(
    root: Path,
    model: Model,
    count: int = 8,
    driver: str | None = "580.95.05",
    *,
    bound: str | None = "nvidia",
    iommu: str | None = "identity",
) -> None:
    """Write the files of a machine below ``root``: GPUs, NVSwitches, loaded open modules and matching libraries.

    ``bound`` is the driver that the GPUs are bound to, ``iommu`` the type of their IOMMU groups. None leaves it out.
    """
    for index in range(count):
        address = f"0000:{BUSES[index]:02x}:00.0"
        _device(root, address, model.device_id, "0x030200", model.link_generation, index // 4)
        if bound:
            _link(root / _DEVICES / address / "driver", f"../../../bus/pci/drivers/{bound}")
        if iommu:
            _group(root, address, 20 + index, iommu)
    for index in range(model.switches):
        _device(root, f"0000:{7 + index:02x}:00.0", str(model.switch), "0x068000", 2, 0)
    write(root / "proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.8.0-87-generic root=/dev/sda2 ro\n")
    write(root / "proc/sys/kernel/osrelease", "6.8.0-87-generic\n")
    if driver:
        load(root, driver)
        write(root / "proc/driver/nvidia-caps/mig-minors", "".join(_minors(count)))


def load(
    root: Path, version: str, libraries: str | None = None, flavour: str = "Open Kernel Module for x86_64"
) -> None:
    """Write the files of the loaded driver, with libraries of the same version or another one."""
    write(root / "sys/module/nvidia/version", f"{version}\n")
    write(
        root / "proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX {flavour}  {version}  Release Build  (dvs-builder@U22)\nGCC version: gcc\n",
    )
    folder, name = root / "usr/lib/x86_64-linux-gnu", f"libnvidia-ml.so.{libraries or version}"
    write(folder / name, "")
    _link(folder / "libnvidia-ml.so.1", name)


def write(path: Path, content: str | bytes) -> None:
    """Write a file and create its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _device(root: Path, address: str, device_id: str, class_: str, generation: int, node: int) -> None:
    files = {
        "vendor": "0x10de",
        "device": f"0x{device_id}",
        "class": class_,
        "current_link_speed": _SPEEDS.get(generation, "5.0 GT/s PCIe"),
        "max_link_speed": _SPEEDS.get(generation, "5.0 GT/s PCIe"),
        "current_link_width": "16",
        "max_link_width": "16",
        "numa_node": str(node),
        "power_state": "D0",
        "subsystem_vendor": "0x10de",
        "subsystem_device": f"0x{device_id}",
        "resource": "\n".join([_NO_RESOURCE] * 13),
    }
    for name, content in files.items():
        write(root / _DEVICES / address / name, f"{content}\n")
    write(root / _DEVICES / address / "config", bytes.fromhex("de10") + bytes.fromhex(device_id)[::-1] + bytes(252))


def _group(root: Path, address: str, number: int, kind: str) -> None:
    write(root / f"sys/kernel/iommu_groups/{number}/type", f"{kind}\n")
    write(root / f"sys/kernel/iommu_groups/{number}/devices/{address}", "")
    _link(root / _DEVICES / address / "iommu_group", f"../../../../kernel/iommu_groups/{number}")


def _minors(count: int) -> t.Iterator[str]:
    """Yield the lines that give every possible MIG instance its device: 15 GPU instances with 8 compute instances."""
    yield "config 1\nmonitor 2\n"
    minor = 3
    for gpu, instance in itertools.product(range(count), range(15)):
        for part in ("", *(f"/ci{number}" for number in range(8))):
            yield f"gpu{gpu}/gi{instance}{part}/access {minor}\n"
            minor += 1


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
