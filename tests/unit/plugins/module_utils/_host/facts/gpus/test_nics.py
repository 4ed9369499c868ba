# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files are those of the kernel's Documentation/ABI/stable/sysfs-class-infiniband."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.nics import nics

from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost


def adapter(root: Path, name: str, address: str, **files: str) -> Path:
    device = root / "sys/bus/pci/devices" / address
    device.mkdir(parents=True)
    for file, text in files.items():
        write(root / "sys/class/infiniband" / name / file, f"{text}\n")
    folder = root / "sys/class/infiniband" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "device").symlink_to(device)
    return device


def test_each_adapter_has_its_board_and_its_firmware(tmp_path: Path) -> None:
    adapter(tmp_path, "mlx5_0", "0000:17:00.0", fw_ver="28.39.1002", hca_type="MT4129", board_id="MT_0000000838")
    # A driver of another vendor need not write the last two.
    adapter(tmp_path, "bnxt_re0", "0000:31:00.0", fw_ver="229.2.52.0")
    section = nics(FakeHost(tmp_path))
    assert section.facts == [
        {"name": "bnxt_re0", "pci_address": "0000:31:00.0", "type": None, "board": None, "firmware": "229.2.52.0"},
        {
            "name": "mlx5_0",
            "pci_address": "0000:17:00.0",
            "type": "MT4129",
            "board": "MT_0000000838",
            "firmware": "28.39.1002",
        },
    ]
    assert section.sources == {"": {"source": "sysfs", "reason": None}}


def test_a_virtual_function_is_not_an_adapter(tmp_path: Path) -> None:
    device = adapter(tmp_path, "mlx5_1", "0000:17:00.1", fw_ver="28.39.1002")
    (device / "physfn").symlink_to("../0000:17:00.0")
    section = nics(FakeHost(tmp_path))
    assert section.facts == []
    assert section.sources[""] == {"source": None, "reason": "/sys/class/infiniband has no adapter"}
