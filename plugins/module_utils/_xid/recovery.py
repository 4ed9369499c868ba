# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the driver recommends to do about a GPU, in NVML's words."""

from __future__ import annotations

# NVML's names, in the order of its numbers.
RECOVERY_ACTIONS = (
    "NONE",
    "GPU_RESET",
    "NODE_REBOOT",
    "DRAIN_P2P",
    "DRAIN_AND_RESET",
    "RECOVER_IMEX_DOMAIN",
    "BUS_RESET",
    "SYSTEM_REBOOT",
)


def recovery_action(number: int) -> str | None:
    """Return NVML's name of what the driver recommends to do about a GPU."""
    return RECOVERY_ACTIONS[number] if number < len(RECOVERY_ACTIONS) else f"UNKNOWN_{number}"
