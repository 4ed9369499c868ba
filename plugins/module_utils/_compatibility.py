# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's statements on drivers: which GPUs they support, and for which kernels they come precompiled.

What a release line of the GPU Operator works with is in ``_operator/operator_lines.py``.
"""

from __future__ import annotations

MINIMUM_DRIVERS = {
    "NVIDIA-RTX-PRO-6000": "575.57.08",
    "NVIDIA-B200": "570.133.20",
}
"""Prefixes of GFD's product label, each with the oldest driver for that GPU, from the operator's newest page."""


# ---- kernel modules -------------------------------------------------------------------------------------------------

ONLY_PROPRIETARY_MODULES = ("Maxwell", "Pascal", "Volta")
ONLY_OPEN_MODULES = ("Blackwell",)
"""Generations of GPUs that only one type of the driver's kernel modules supports.

Source: NVIDIA's Driver Installation Guide, "Kernel Modules".
"""
PRODUCTS_WITH_ONLY_OPEN_MODULES = ("NVIDIA-GH200",)
"""Prefixes of GFD's product label of other GPUs that need the open modules: Grace Hopper."""

LAST_FOR_OLD_GPUS, FIRST_FOR_BLACKWELL = 580, 570
"""NVIDIA's release notes: 580 is the last branch for Maxwell, Pascal and Volta, and Blackwell came with 570."""

PRECOMPILED_KERNELS = {
    "ubuntu22.04": ("5.15", "6.8"),
    "ubuntu24.04": ("6.8",),
    "ubuntu26.04": ("7.0",),
}
PRECOMPILED_BRANCHES = ("580", "595")
"""Systems, kernels and branches with precompiled driver containers of NVIDIA, from the operator's newest page."""
