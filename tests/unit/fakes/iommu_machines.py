# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of machines whose IOMMU groups were published, and of vGPUs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from lab.nvml.tree import write
from tests.unit.fakes.host import FIXTURES

PUBLISHED = FIXTURES / "iommu_groups"
_DEVICES = "sys/bus/pci/devices"


@dataclasses.dataclass(frozen=True)
class PciFunction:
    """A PCI function. ``physical`` is the function that a virtual one belongs to."""

    address: str
    kind: str = "0302"
    device: str = "10de:2330"
    group: int | None = None
    driver: str | None = None
    physical: str | None = None


def published(name: str) -> list[PciFunction]:
    """Return the functions of a published machine."""
    lines = [line.split() for line in (PUBLISHED / f"{name}.txt").read_text().splitlines() if not line.startswith("#")]
    return [
        PciFunction(
            address if address.count(":") == 2 else f"0000:{address}",
            kind,
            device,
            None if group == "-" else int(group),
            None if driver == "-" else driver,
            physical[0] if physical else None,
        )
        for group, address, kind, device, driver, *physical in lines
    ]


def plant_functions(root: Path, functions: list[PciFunction]) -> None:
    """Write the functions below ``root``."""
    for function in functions:
        folder = root / _DEVICES / function.address
        vendor, device = function.device.split(":")
        alias = f"pci:v0000{vendor.upper()}d0000{device.upper()}sv00000000sd00000000bc{function.kind[:2]}sc00i00"
        texts = {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": f"0x{function.kind}00", "modalias": alias}
        for name, text in {**texts, "driver_override": "(null)"}.items():
            write(folder / name, f"{text}\n")
        if function.driver:
            link(folder / "driver", f"../../../bus/pci/drivers/{function.driver}")
        if function.group is not None:
            link(folder / "iommu_group", f"../../../../kernel/iommu_groups/{function.group}")
            write(root / f"sys/kernel/iommu_groups/{function.group}/devices/{function.address}", "")
            write(root / f"sys/kernel/iommu_groups/{function.group}/type", "DMA-FQ\n")
        if function.physical:
            link(folder / "physfn", f"../{function.physical}")


def link(path: Path, target: str) -> None:
    """Make a link and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
