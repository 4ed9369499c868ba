# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How NVIDIA's device plugin for KubeVirt names what it offers. Pure.

A GPU is named after its entry in the pci.ids of the plugin's image, and a vGPU after its mediated device type. A name
can change with the plugin's release, since pci.ids does. Source: NVIDIA/kubevirt-gpu-device-plugin at d26f2374,
``getDeviceName`` and ``readVgpuIDFromFile`` in ``pkg/device_plugin/device_plugin.go``; the table has the data center
and professional GPUs of its ``utils/pci.ids`` of 2025-07-11.
"""

from __future__ import annotations

import re

VENDOR = "10DE"
"""NVIDIA's PCI vendor id."""
VENDOR_DOMAIN = "nvidia.com/"

_NAMES = {
    "15f0": "GP100GL [Quadro GP100]",
    "15f7": "GP100GL [Tesla P100 PCIe 12GB]",
    "15f8": "GP100GL [Tesla P100 PCIe 16GB]",
    "15f9": "GP100GL [Tesla P100 SXM2 16GB]",
    "15fa": "GP100GL [DGX Station / PH402 SKU 200]",
    "15fb": "GP100GL [GP100 SKU 200]",
    "15fc": "GP100GL [Tesla P100-DGXS-16GB]",
    "15ff": "GP100GL [GP100 SKU 15ff]",
    "1b30": "GP102GL [Quadro P6000]",
    "1b38": "GP102GL [Tesla P40]",
    "1b39": "GP102GL [Tesla P10]",
    "1bb0": "GP104GL [Quadro P5000]",
    "1bb1": "GP104GL [Quadro P4000]",
    "1bb3": "GP104GL [Tesla P4]",
    "1bb4": "GP104GL [Tesla P6]",
    "1db0": "GV100GL [Tesla GV100 SXM2-16GB SKU 890]",
    "1db1": "GV100GL [Tesla V100 SXM2 16GB]",
    "1db2": "GV100GL [Tesla V100 DGXS 16GB]",
    "1db3": "GV100GL [Tesla V100 FHHL 16GB]",
    "1db4": "GV100GL [Tesla V100 PCIe 16GB]",
    "1db5": "GV100GL [Tesla V100 SXM2 32GB]",
    "1db6": "GV100GL [Tesla V100 PCIe 32GB]",
    "1db7": "GV100GL [Tesla V100 DGXS 32GB]",
    "1db8": "GV100GL [Tesla V100 SXM3 32GB]",
    "1dba": "GV100GL [Quadro GV100]",
    "1dbd": "GV100GL [Tesla GV100 DGX1-V]",
    "1df0": "GV100GL [Tesla PG500-216]",
    "1df2": "GV100GL [Tesla PG503-216]",
    "1df5": "GV100GL [Tesla V100 SXM2 16GB]",
    "1df6": "GV100GL [Tesla V100S PCIe 32GB]",
    "1e30": "TU102GL [Quadro RTX 6000/8000]",
    "1e35": "TU102GL [Tesla T10]",
    "1e36": "TU102GL [Quadro RTX 6000]",
    "1e38": "TU102GL [Tesla T40 24GB]",
    "1e78": "TU102GL [Quadro RTX 6000/8000]",
    "1eb0": "TU104GL [Quadro RTX 5000]",
    "1eb1": "TU104GL [Quadro RTX 4000]",
    "1eb4": "TU104GL [T4G]",
    "1eb8": "TU104GL [Tesla T4]",
    "1eba": "TU104GL [PG189 SKU600]",
    "20b0": "GA100 [A100 SXM4 40GB]",
    "20b1": "GA100 [A100 PCIe 40GB]",
    "20b2": "GA100 [A100 SXM4 80GB]",
    "20b3": "GA100 [A100-SXM-64GB]",
    "20b5": "GA100 [A100 PCIe 80GB]",
    "20b6": "GA100GL [PG506-232]",
    "20b7": "GA100GL [A30 PCIe]",
    "20b8": "GA100 [A100X]",
    "20b9": "GA100 [A30X]",
    "20bd": "GA100 [A800 SXM4 40GB]",
    "20f0": "GA100 [A100-PG506-207]",
    "20f1": "GA100 [A100 PCIe 40GB]",
    "20f2": "GA100 [A100-PG506-217]",
    "20f3": "GA100 [A800-SXM4-80GB]",
    "20f5": "GA100 [A800 80GB PCIe]",
    "20f6": "GA100 [A800 40GB PCIe]",
    "20fd": "GA100 [AX800 Converged Accelerator]",
    "2230": "GA102GL [RTX A6000]",
    "2231": "GA102GL [RTX A5000]",
    "2232": "GA102GL [RTX A4500]",
    "2233": "GA102GL [RTX A5500]",
    "2235": "GA102GL [A40]",
    "2236": "GA102GL [A10]",
    "2237": "GA102GL [A10G]",
    "2238": "GA102GL [A10M]",
    "230e": "GH100 [H20 NVL16]",
    "2313": "GH100 [H100 CNX]",
    "2321": "GH100 [H100L 94GB]",
    "2322": "GH100 [H800 PCIe]",
    "2324": "GH100 [H800]",
    "2328": "GH100 [H20B]",
    "2329": "GH100 [H20]",
    "232c": "GH100 [H20 HBM3e]",
    "2330": "GH100 [H100 SXM5 80GB]",
    "2331": "GH100 [H100 PCIe]",
    "2335": "GH100 [H200 SXM 141GB]",
    "2336": "GH100 [H100]",
    "2337": "GH100 [H100 SXM5 64GB]",
    "2338": "GH100 [H100 SXM5 96GB]",
    "2339": "GH100 [H100 SXM5 94GB]",
    "233a": "GH100 [H800L 94GB]",
    "233b": "GH100 [H200 NVL]",
    "233d": "GH100 [H100 96GB]",
    "2342": "GH100 [GH200 120GB / 480GB]",
    "2345": "GH100 [GH100-88K-A1]",
    "2348": "GH100 [GH200 144G HBM3e]",
    "24b0": "GA104GL [RTX A4000]",
    "24b1": "GA104GL [RTX A4000H]",
    "25b0": "GA107GL [RTX A1000]",
    "25b2": "GA107GL [RTX A400]",
    "25b6": "GA107GL [A2 / A16]",
    "26b1": "AD102GL [RTX 6000 Ada Generation]",
    "26b2": "AD102GL [RTX 5000 Ada Generation]",
    "26b3": "AD102GL [RTX 5880 Ada Generation]",
    "26b5": "AD102GL [L40]",
    "26b7": "AD102GL [L20]",
    "26b8": "AD102GL [L40G]",
    "26b9": "AD102GL [L40S]",
    "26ba": "AD102GL [L20]",
    "26bb": "AD102GL [L30]",
    "26f5": "AD102GL [L40 CNX]",
    "27b0": "AD104GL [RTX 4000 SFF Ada Generation]",
    "27b1": "AD104GL [RTX 4500 Ada Generation]",
    "27b2": "AD104GL [RTX 4000 Ada Generation]",
    "27b6": "AD104GL [L2]",
    "27b7": "AD104GL [L16]",
    "27b8": "AD104GL [L4]",
    "28b0": "AD107GL [RTX 2000 / 2000E Ada Generation]",
    "2901": "GB100 [B200]",
    "2920": "GB100 [TS4 / B100]",
    "2941": "GB100 [HGX GB200]",
    "29bc": "GB102 [B100]",
    "2bb1": "GB202GL [RTX PRO 6000 Blackwell Workstation Edition]",
    "2bb3": "GB202GL [RTX PRO 5000 Blackwell]",
    "2bb4": "GB202GL [RTX PRO 6000 Blackwell Max-Q Workstation Edition]",
    "2bb5": "GB202GL [RTX PRO 6000 Blackwell Server Edition]",
    "2c31": "GB203GL [RTX PRO 4500 Blackwell]",
    "2c34": "GB203GL [RTX PRO 4000 Blackwell]",
}


def resource_of_name(name: str) -> str:
    """Return the resource for a device's name in pci.ids: ``GA102GL [A10]`` is ``nvidia.com/GA102GL_A10``."""
    text = re.sub(r"\s+", "_", re.sub(r"[/.]", "_", name.strip().upper()))
    return VENDOR_DOMAIN + re.sub(r"[^a-zA-Z0-9_]+", "", text)


def resource_of_gpu(pci_id: str) -> str | None:
    """Return the resource of a GPU with this ``VENDOR:DEVICE``, or None if the table above does not have it."""
    vendor, dummy, device = pci_id.partition(":")
    name = _NAMES.get(device.lower())
    return resource_of_name(name) if name and vendor.upper() == VENDOR else None


def gpus_of_resource(resource: str) -> list[str]:
    """Return the ``VENDOR:DEVICE`` of each GPU that the plugin offers under this name. Some names have several."""
    return [f"{VENDOR}:{device.upper()}" for device, name in _NAMES.items() if resource_of_name(name) == resource]


def resource_of_vgpu(mdev_type: str) -> str:
    """Return the resource of a mediated device type: ``NVIDIA A10-12Q`` is ``nvidia.com/NVIDIA_A10-12Q``."""
    return VENDOR_DOMAIN + re.sub(r"\s+", "_", mdev_type.strip())


_VGPU = re.compile(rf"{re.escape(VENDOR_DOMAIN)}((?:NVIDIA|GRID)_[\w-]*-\d+[ABCQ](?:[A-Z]+)?)")


def vgpu_of_resource(resource: str) -> str | None:
    """Return the mediated device type of a resource, or None if its name is not that of an NVIDIA vGPU."""
    found = _VGPU.fullmatch(resource)
    return found[1].replace("_", " ") if found else None


_WHOLE = re.compile(rf"{re.escape(VENDOR_DOMAIN)}(?:[A-Z0-9_]+|[0-9a-f]{{4}})")
"""Every name that `resource_of_name` can give, and the id that the plugin gives to what its pci.ids does not have."""
_BESIDE_GPUS = ("AUDIO", "NVSWITCH", "USB", "UCSI")
"""Words in the names of functions that are no GPUs. vfio-pci has some of them, too, and the plugin offers them.

Of the 1,931 names in that pci.ids, they take out 113, which are audio and USB functions and NVSwitches.
"""


def names_whole_gpu(resource: str) -> bool:
    """Return whether a resource has a name that the plugin gives to whole GPUs. Other plugins write in lower case."""
    return bool(_WHOLE.fullmatch(resource)) and not any(word in resource for word in _BESIDE_GPUS)
