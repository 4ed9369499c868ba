# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""PCI addresses, as the driver, its tools and the kernel write them."""

from __future__ import annotations

import re


def normal_address(address: str) -> str:
    """Return a PCI address as sysfs writes it.

    NVML and nvidia-smi write a domain of eight digits, and the kernel log often omits the function.
    """
    match = re.fullmatch(r"(?:([0-9a-f]+):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", address.strip().lower())
    if match is None:
        return address
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function or 0}"
