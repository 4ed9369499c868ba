# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The access control services (ACS) of PCIe bridges, as their registers in the configuration space have them."""

from __future__ import annotations

import struct
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import DEVICES
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_if

_BRIDGE = "0x0604"
_FIRST_EXTENDED, _END, _CONTROL = 0x100, 0x1000, 6
_ACS = 0x000D
_MOST_CAPABILITIES = (_END - _FIRST_EXTENDED) // 8


def control(host: Host, address: str) -> int | None:
    """Return a device's ACS control register, or None if it has none or if it cannot be read."""
    try:
        with host.stream(f"{DEVICES}/{address}/config") as file:
            place = _capability(file)
            return None if place is None else _number(file, place + _CONTROL, "<H")
    except (OSError, struct.error):
        # Only root sees more than the first 64 bytes.
        return None


def _capability(file: t.BinaryIO) -> int | None:
    """Return the place of the ACS capability in the list of extended capabilities."""
    place = _FIRST_EXTENDED
    for dummy in range(_MOST_CAPABILITIES):
        header = _number(file, place, "<I")
        if header & 0xFFFF == _ACS:
            return place
        place = header >> 20 & 0xFFC
        if place < _FIRST_EXTENDED:
            return None
    return None


def _number(file: t.BinaryIO, place: int, form: str) -> int:
    file.seek(place)
    return int(struct.unpack(form, file.read(struct.calcsize(form)))[0])


def bridges(host: Host) -> dict[str, int]:
    """Return the ACS control register of each PCIe bridge that has one, by the bridge's address."""
    addresses = (
        name for name in host.names(DEVICES) if (host.read(f"{DEVICES}/{name}/class") or "").startswith(_BRIDGE)
    )
    registers = {address: control(host, address) for address in addresses}
    return {address: value for address, value in registers.items() if value is not None}


def acs(host: Host) -> Section:
    """Return whether ACS is on for any PCIe bridge, and the control register of each bridge that has it."""
    found = bridges(host)
    enabled = any(found.values()) if found else None
    shown = [{"address": address, "control": f"{value:04x}"} for address, value in found.items()]
    source = known_if(enabled, "PCI configuration space", "No PCIe bridge shows this capability")
    return Section({"enabled": enabled, "bridges": shown}, {"enabled": source, "bridges": source})
