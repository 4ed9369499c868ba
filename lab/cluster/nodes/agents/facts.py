# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's annotations of a node, and what identifies its GPUs."""

from __future__ import annotations

import uuid

from lab.cluster.api import Json
from lab.cluster.nodes.fleet import NOTE


def note(item: Json, name: str, default: str = "") -> str:
    """Return one of the lab's annotations."""
    return str((item["metadata"].get("annotations") or {}).get(NOTE + name, default))


def gpu_uuid(node: str, index: int) -> str:
    """Return the UUID of a GPU, by the name of its node and its index."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}-{index}')}"


def mig_uuid(parent: str, device: str) -> str:
    """Return the UUID of a MIG instance, by the UUID of its GPU and the name of the device."""
    return f"MIG-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{parent}-{device}')}"


def pci_address(index: int) -> str:
    """Return the PCI address of a GPU, by its index."""
    return f"0000:{0x18 + index:02x}:00.0"
