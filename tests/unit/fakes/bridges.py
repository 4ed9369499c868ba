# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCIe bridges in a fake host's configuration space, and a setpci that changes it as the real one does."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from tests.unit.fakes.host import FakeHost

DEVICES = "/sys/bus/pci/devices"


def put_bridge(host: FakeHost, address: str, control: int | None, kind: str = "0x060400") -> None:
    """Add a bridge. Its first extended capability is AER, its second ACS unless ``control`` is None."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | (0x148 << 20 if control is not None else 0))
    if control is not None:
        struct.pack_into("<IHH", space, 0x148, 0x000D | 1 << 16, 0x001F, control)
    put_space(host, address, bytes(space), kind)


def put_space(host: FakeHost, address: str, space: bytes, kind: str = "0x060400") -> None:
    """Add a device with this configuration space."""
    host.put(f"{DEVICES}/{address}/class", f"{kind}\n")
    Path(host.path(f"{DEVICES}/{address}/config")).write_bytes(space)


def setpci(host: FakeHost) -> None:
    """Give the host a setpci."""

    def run(command: list[str]) -> str:
        address, value = command[2], re.fullmatch(r"ECAP_ACS\+0x6\.w=([0-9a-f]{4})", command[3])
        path = Path(host.path(f"{DEVICES}/{address}/config"))
        space = bytearray(path.read_bytes())
        assert value and command[1] == "-s"
        struct.pack_into("<H", space, 0x14E, int(value[1], 16))
        path.write_bytes(space)
        return ""

    host.commands["setpci"] = run
