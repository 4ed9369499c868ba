# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated NVML: a libnvidia-ml.so.1 that answers from a file, and the matching sysfs and procfs."""

from __future__ import annotations

from lab.nvml.library import build
from lab.nvml.models import A30, A100, A100_40, B200, H100, H200, L4, L40S, T4, Model, machine
from lab.nvml.statefile import Gpu, Instance, read, reboot, reset, state
from lab.nvml.tree import plant

__all__ = [
    "A30",
    "A100",
    "A100_40",
    "B200",
    "H100",
    "H200",
    "L4",
    "L40S",
    "T4",
    "Gpu",
    "Instance",
    "Model",
    "build",
    "machine",
    "plant",
    "read",
    "reboot",
    "reset",
    "state",
]
