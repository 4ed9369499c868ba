# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.merge import merge
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import Inventory, scan
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.readings import FIELDS, Reading, Readings

from lab.nvml import L4, plant
from lab.nvml.tree import write
from tests.unit.recorded_host import RecordedHost

FIRST, SECOND = "0000:18:00.0", "0000:2a:00.0"


def bus(root: Path, count: int = 2) -> Inventory:
    plant(root, L4, count)
    return scan(RecordedHost(root))


def test_the_driver_knows_better_than_sysfs(tmp_path: Path) -> None:
    said = {
        "product": "NVIDIA L4",
        "uuid": "GPU-1",
        "pcie": {"generation": 3, "generation_max": 4, "width": 16, "width_max": 16},
    }
    section = merge(
        bus(tmp_path, 1), Readings("nvml", gpus=[Reading(FIRST, values=said, reasons={"mig": "NVML: Not Supported"})])
    )
    (gpu,) = section.facts
    assert (gpu["product"], gpu["uuid"], gpu["name"], gpu["architecture"]) == (
        "NVIDIA L4",
        "GPU-1",
        "AD104GL [L4]",
        "Ada Lovelace",
    )
    assert gpu["pcie"]["generation"] == 3
    assert set(FIELDS) <= set(gpu)
    assert section.sources["pcie"] == {"source": "nvml", "reason": None}
    assert section.sources["architecture"] == {"source": "sysfs", "reason": None}
    assert section.sources["mig"] == {"source": None, "reason": "NVML: Not Supported"}
    assert section.sources["power_w"] == {"source": None, "reason": "nvml does not tell"}


def test_a_gpu_without_a_driver(tmp_path: Path) -> None:
    section = merge(bus(tmp_path), Readings("sysfs", reason="The module nvidia is not loaded"))
    assert [(gpu["pci_address"], gpu["uuid"], gpu["lost"], gpu["reason"]) for gpu in section.facts] == [
        (FIRST, None, False, "The module nvidia is not loaded"),
        (SECOND, None, False, "The module nvidia is not loaded"),
    ]
    assert section.sources["uuid"] == {"source": None, "reason": "The module nvidia is not loaded"}
    assert section.sources["pcie"] == {"source": "sysfs", "reason": None}


def test_a_host_without_gpus(tmp_path: Path) -> None:
    write(tmp_path / "sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n")
    section = merge(scan(RecordedHost(tmp_path)), Readings("sysfs", reason="The module nvidia is not loaded"))
    assert section.facts == []
    assert section.sources[""] == {"source": "sysfs", "reason": None}
    assert section.sources["uuid"] == {"source": None, "reason": "The host has no GPU"}


def test_a_lost_gpu_that_nvml_does_not_name(tmp_path: Path) -> None:
    reasons = dict.fromkeys(FIELDS, "NVML: GPU is lost")
    readings = Readings(
        "nvml", gpus=[Reading(FIRST, values={"uuid": "GPU-1"}), Reading(None, reasons=reasons, lost=True)]
    )
    first, second = merge(bus(tmp_path), readings).facts
    assert (first["lost"], first["reason"], first["uuid"]) == (False, None, "GPU-1")
    assert (second["pci_address"], second["lost"], second["reason"]) == (
        SECOND,
        True,
        "The GPU fell off the bus (NVML: GPU is lost)",
    )


def test_nobody_is_blamed_when_it_cannot_be_told_which_gpu_is_lost(tmp_path: Path) -> None:
    readings = Readings(
        "nvml",
        gpus=[Reading(None, reasons={"uuid": "NVML: GPU is lost"}, lost=True)],
        reason="NVML did not answer in time",
    )
    assert [(gpu["lost"], gpu["reason"]) for gpu in merge(bus(tmp_path), readings).facts] == [
        (False, "NVML did not answer in time")
    ] * 2


def test_a_gpu_that_the_bus_lost_and_the_driver_not_yet(tmp_path: Path) -> None:
    inventory = bus(tmp_path, 2)
    write(tmp_path / f"sys/bus/pci/devices/{FIRST}/config", b"\xff" * 64)
    inventory = scan(RecordedHost(tmp_path))
    first, second = merge(inventory, Readings("nvml", gpus=[Reading(FIRST, values={"uuid": "GPU-1"})])).facts
    assert (first["lost"], first["uuid"]) == (True, "GPU-1")
    assert first["reason"] == "The configuration space reads as ones: the GPU fell off the bus"
    assert (second["lost"], second["reason"]) == (False, "nvml does not know this GPU")
    (first, _second) = merge(inventory, Readings("nvml", gpus=[])).facts
    assert first["reason"] == "The GPU fell off the bus: its configuration space reads as ones"


def test_a_gpu_that_refuses_to_answer(tmp_path: Path) -> None:
    readings = Readings("nvml", gpus=[Reading(FIRST, reasons={"uuid": "NVML: Unknown Error"})])
    (gpu,) = merge(bus(tmp_path, 1), readings).facts
    assert (gpu["lost"], gpu["reason"]) == (False, "NVML: Unknown Error")


def test_a_bus_that_is_hidden(tmp_path: Path) -> None:
    section = merge(
        scan(RecordedHost(tmp_path)),
        Readings("nvml", gpus=[Reading(FIRST, values={"uuid": "GPU-1", "architecture": "Hopper"})]),
    )
    (gpu,) = section.facts
    assert (gpu["pci_address"], gpu["uuid"], gpu["architecture"], gpu["numa_node"], gpu["lost"]) == (
        FIRST,
        "GPU-1",
        "Hopper",
        None,
        False,
    )
    assert section.sources[""] == {"source": "nvml", "reason": None}
    nobody = merge(scan(RecordedHost(tmp_path)), Readings("sysfs", reason="The module nvidia is not loaded"))
    assert nobody.sources[""] == {"source": None, "reason": "/sys/bus/pci/devices is empty"}
