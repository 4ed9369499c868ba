# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPU models with the figures of NVIDIA's data sheets and the driver's names."""

from __future__ import annotations

import dataclasses
import typing as t

from lab.nvml.statefile import Gpu

_COMPLETED = 3
_BRAND_TESLA, _BRAND_NVIDIA = 2, 14
_HEALTHY = {"fabric_health": 0x1AA, "fabric_summary": 1}


@dataclasses.dataclass(frozen=True)
class Model:
    """A GPU model.

    ``architecture`` is NVML's number, ``links`` the number of NVLinks, and ``switch`` the PCI ID of the NVSwitches.
    ``mig_table`` names the table of MIG profiles in profiles.py. A model without it has no MIG.
    """

    product: str
    device_id: str
    architecture: int
    compute_capability: int
    memory_mib: int
    power_limit_w: int
    link_generation: int
    links: int = 0
    link_version: int = 0
    fabric: bool = False
    switch: str | None = None
    switches: int = 0
    mig_table: str | None = None


A30 = Model("NVIDIA A30", "20b7", 7, 80, 24576, 165, 4, mig_table="a30")
A100_40 = Model("NVIDIA A100-SXM4-40GB", "20b0", 7, 80, 40960, 400, 4, 12, 3, False, "1af1", 6, "a100-40gb")
A100 = Model("NVIDIA A100-SXM4-80GB", "20b2", 7, 80, 81920, 400, 4, 12, 3, False, "1af1", 6, "a100-80gb")
H100 = Model("NVIDIA H100 80GB HBM3", "2330", 9, 90, 81559, 700, 5, 18, 4, True, "22a3", 4, "h100")
H200 = Model("NVIDIA H200", "2335", 9, 90, 143771, 700, 5, 18, 4, True, "22a3", 4, "h200")
B200 = Model("NVIDIA B200", "2901", 10, 100, 183359, 1000, 5, 18, 5, True, mig_table="b200")
L4 = Model("NVIDIA L4", "27b8", 8, 89, 23034, 72, 4)
L40S = Model("NVIDIA L40S", "26b9", 8, 89, 46068, 350, 4)
T4 = Model("Tesla T4", "1eb8", 6, 75, 15360, 70, 3)
MODELS = {
    "a30": A30,
    "a100-40gb": A100_40,
    "a100": A100,
    "h100": H100,
    "h200": H200,
    "b200": B200,
    "l4": L4,
    "l40s": L40S,
    "t4": T4,
}

BUSES = (0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB)


def machine(model: Model, count: int = 8, **keys: t.Any) -> list[Gpu]:
    """Return the GPUs of a healthy machine. ``keys`` are added to each."""
    return [Gpu({**_keys(model, index), **keys}) for index in range(count)]


def _keys(model: Model, index: int) -> dict[str, t.Any]:
    keys: dict[str, t.Any] = {
        "pci": f"00000000:{BUSES[index]:02X}:00.0",
        "name": model.product,
        "uuid": f"GPU-{model.device_id}0000-0000-4000-8000-{index:012d}",
        "serial": 1650124000000 + index,
        "pci_id": int(model.device_id, 16) << 16 | 0x10DE,
        "architecture": model.architecture,
        "compute_capability": model.compute_capability,
        "brand": _BRAND_TESLA if model.product.startswith("Tesla") else _BRAND_NVIDIA,
        "compute_mode": 0,
        "memory_mib": model.memory_mib,
        "power_mw": model.power_limit_w * 100,
        "power_limit_mw": model.power_limit_w * 1000,
        "link_gen": model.link_generation,
        "link_gen_max": model.link_generation,
        "link_gen_gpu": model.link_generation,
        "link_width": 16,
        "link_width_max": 16,
        "clock_max": 1980,
        "memory_clock_max": 2619,
        "clock_set": 1980,
        "memory_clock_set": 2619,
        "persistence": 1,
        "vbios": "96.00.74.00.01",
        "inforom": "G520.0200.00.05",
        "gsp": "580.95.05",
        "recovery_action": 0,
        "ecc": 1,
        "ecc_pending": 1,
        **dict.fromkeys(("corrected", "uncorrected", "corrected_total", "uncorrected_total"), 0),
        **dict.fromkeys(("rows_correctable", "rows_uncorrectable", "rows_pending", "rows_failure"), 0),
    }
    if model.mig_table:
        keys |= {"mig": 0, "mig_pending": 0, "mig_table": model.mig_table}
    if model.links:
        keys |= {
            "links": model.links,
            "links_active": model.links,
            "link_version": model.link_version,
        }
    if model.fabric:
        keys |= {"module": index + 1}
        # The driver reports no health of a fabric before that of NVLink 5.
        keys |= {"fabric_state": _COMPLETED, "fabric_status": 0, **(_HEALTHY if model.link_version >= 5 else {})}
    return keys
