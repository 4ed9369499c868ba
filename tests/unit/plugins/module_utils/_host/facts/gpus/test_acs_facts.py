# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import acs_facts
from inline_snapshot import snapshot as wording

from tests.unit.fakes.bridges import put_bridge, put_space
from tests.unit.fakes.host import FakeHost


def test_the_registers_of_all_bridges_that_have_one(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    put_bridge(host, "0000:00:01.0", 0x001D)
    put_bridge(host, "0000:00:02.0", 0)
    put_bridge(host, "0000:00:03.0", None)
    put_bridge(host, "0000:18:00.0", 0x001D, kind="0x030200")
    found = acs_facts.acs(host)
    assert found.facts == {
        "enabled": True,
        "bridges": [{"address": "0000:00:01.0", "control": "001d"}, {"address": "0000:00:02.0", "control": "0000"}],
    }
    assert found.sources["enabled"] == {"source": "PCI configuration space", "reason": None}


def test_bridges_without_redirection_are_off(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    put_bridge(host, "0000:00:02.0", 0)
    assert acs_facts.acs(host).facts["enabled"] is False


@pytest.mark.parametrize(
    "space",
    [
        b"",
        bytes(64),  # what a user other than root sees
        bytes(4096),
        struct.pack("<I", 0xFFFFFFFF) * 1024,  # a device that has gone
        bytes(0x100) + struct.pack("<I", 1 | 0x100 << 20) + bytes(3836),  # a list that ends in itself
        bytes(0x100) + struct.pack("<I", 0x000D),
    ],
)
def test_a_register_that_cannot_be_read_is_unknown(tmp_path: Path, space: bytes) -> None:
    host = FakeHost(tmp_path)
    put_space(host, "0000:00:01.0", space)
    found = acs_facts.acs(host)
    assert found.facts == {"enabled": None, "bridges": []}
    assert found.sources["enabled"] == {"source": None, "reason": wording("No PCIe bridge shows this capability")}
