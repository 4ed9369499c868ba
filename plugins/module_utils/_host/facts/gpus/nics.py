# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The network adapters with RDMA, through which GPUs of several hosts work together, and their firmware.

The kernel's Documentation/ABI/stable/sysfs-class-infiniband describes the files. Ethernet adapters with RoCE have them,
too. An adapter without RDMA does not show its firmware in sysfs.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_ADAPTERS = "/sys/class/infiniband"


def nics(host: Host) -> Section:
    """Return every adapter. A virtual function has the firmware of its adapter, so it is left out."""
    names = [name for name in host.names(_ADAPTERS) if not host.exists(f"{_ADAPTERS}/{name}/device/physfn")]
    facts = [_nic(host, name) for name in names]
    return Section(facts, {"": known_from("sysfs") if facts else unknown(f"{_ADAPTERS} has no adapter")})


def _nic(host: Host, name: str) -> Json:
    folder = f"{_ADAPTERS}/{name}"
    return {
        "name": name,
        "pci_address": host.link_name(f"{folder}/device"),
        "type": host.read(f"{folder}/hca_type"),
        "board": host.read(f"{folder}/board_id"),
        "firmware": host.read(f"{folder}/fw_ver"),
    }
