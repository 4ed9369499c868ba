# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The names of NVIDIA's data center GPUs and NVSwitches by PCI device id.

They come from the PCI ID Repository (https://pci-ids.ucw.cz). The names of newer GPUs come from the README of NVIDIA's
open kernel modules (https://github.com/NVIDIA/open-gpu-kernel-modules). The table exists because many hosts have no
pci.ids, or an old one.
"""

from __future__ import annotations

import re

NVIDIA = "10de"
MELLANOX = "15b3"

NVLINK_5 = ("2901", "3182")
"""GPUs on boards with switches of NVLink 5: B200 and B300."""
NVL72 = ("2941", "31c2")
"""GPUs of racks with switches of NVLink 5: GB200 and GB300."""

_NAMES = {
    "15f7": "GP100GL [Tesla P100 PCIe 12GB]",
    "15f8": "GP100GL [Tesla P100 PCIe 16GB]",
    "15f9": "GP100GL [Tesla P100 SXM2 16GB]",
    "1ac2": "GV100 [DGX-2 NVSwitch]",
    "1af1": "GA100 [A100 NVSwitch]",
    "1b38": "GP102GL [Tesla P40]",
    "1bb3": "GP104GL [Tesla P4]",
    "1db1": "GV100GL [Tesla V100 SXM2 16GB]",
    "1db4": "GV100GL [Tesla V100 PCIe 16GB]",
    "1db5": "GV100GL [Tesla V100 SXM2 32GB]",
    "1db6": "GV100GL [Tesla V100 PCIe 32GB]",
    "1eb8": "TU104GL [Tesla T4]",
    "20b0": "GA100 [A100 SXM4 40GB]",
    "20b2": "GA100 [A100 SXM4 80GB]",
    "20b3": "GA100 [A100-SXM-64GB]",
    "20b5": "GA100 [A100 PCIe 80GB]",
    "20b7": "GA100GL [A30 PCIe]",
    "20bd": "GA100 [A800 SXM4 40GB]",
    "20f1": "GA100 [A100 PCIe 40GB]",
    "20f3": "GA100 [A800-SXM4-80GB]",
    "20f5": "GA100 [A800 80GB PCIe]",
    "20f6": "GA100 [A800 40GB Active]",
    "20fd": "GA100 [AX800]",
    "2235": "GA102GL [A40]",
    "2236": "GA102GL [A10]",
    "2237": "GA102GL [A10G]",
    "22a3": "GH100 [H100 NVSwitch]",
    "230e": "GH100 [H20 NVL16]",
    "2321": "GH100 [H100 NVL]",
    "2322": "GH100 [H800 PCIe]",
    "2324": "GH100 [H800]",
    "2329": "GH100 [H20]",
    "232c": "GH100 [H20-3e]",
    "2330": "GH100 [H100 SXM5 80GB]",
    "2331": "GH100 [H100 PCIe]",
    "2335": "GH100 [H200 SXM 141GB]",
    "2336": "GH100 [H100]",
    "2339": "GH100 [H100]",
    "233a": "GH100 [H800 NVL]",
    "233b": "GH100 [H200 NVL]",
    "2342": "GH100 [GH200 480GB]",
    "2348": "GH100 [GH200 144G HBM3e]",
    "25b6": "GA107GL [A2 / A16]",
    "26b5": "AD102GL [L40]",
    "26b9": "AD102GL [L40S]",
    "26ba": "AD102GL [L20]",
    "27b6": "AD104GL [L2]",
    "27b8": "AD104GL [L4]",
    "2901": "GB100 [B200]",
    "2941": "GB100 [GB200]",
    "2bb1": "GB202GL [RTX PRO 6000 Blackwell Workstation Edition]",
    "2bb4": "GB202GL [RTX PRO 6000 Blackwell Max-Q Workstation Edition]",
    "2bb5": "GB202GL [RTX PRO 6000 Blackwell Server Edition]",
    "2e12": "GB20B [GB10]",
    "3182": "GB110 [B300]",
    "31c2": "GB110 [GB300]",
}

# First and last device id of each family of chips, and NVIDIA's name for it.
_GENERATIONS = (
    (0x0FC0, 0x12BF, "Kepler"),
    (0x1340, 0x15EF, "Maxwell"),
    (0x15F0, 0x15FF, "Pascal"),
    (0x1600, 0x17FF, "Maxwell"),
    (0x1B00, 0x1D7F, "Pascal"),
    (0x1D80, 0x1DFF, "Volta"),
    (0x1E00, 0x1FFF, "Turing"),
    (0x2080, 0x20FF, "Ampere"),
    (0x2180, 0x21FF, "Turing"),
    (0x2200, 0x22FF, "Ampere"),
    (0x2300, 0x23FF, "Hopper"),
    (0x2400, 0x25FF, "Ampere"),
    (0x2600, 0x28FF, "Ada Lovelace"),
    (0x2900, 0x2FFF, "Blackwell"),
    (0x3180, 0x31FF, "Blackwell"),
)


def name_of(device_id: str, pci_ids: str | None = None) -> str | None:
    """Return a device's name from the table above, or else from the text of the host's pci.ids, or None."""
    if device_id in _NAMES or pci_ids is None:
        return _NAMES.get(device_id)
    vendor = re.search(rf"^{NVIDIA}  .*\n((?:[\t#].*\n|\n)*)", pci_ids, re.MULTILINE)
    device = re.search(rf"^\t{device_id}  (.*)$", vendor[1], re.MULTILINE) if vendor else None
    return device[1] if device else None


def architecture_of(device_id: str) -> str | None:
    """Return NVIDIA's name of a GPU's generation, from its device id."""
    number = int(device_id, 16)
    return next((name for first, last, name in _GENERATIONS if first <= number <= last), None)
