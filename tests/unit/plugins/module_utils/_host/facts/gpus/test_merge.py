# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import merge
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import (
    FIELDS,
    DriverReport,
    GpuReport,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import Inventory, scan
from inline_snapshot import snapshot as wording

from lab.nvml import L4, plant
from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost

FIRST, SECOND = "0000:18:00.0", "0000:2a:00.0"


def bus(root: Path, count: int = 2) -> Inventory:
    plant(root, L4, count)
    return scan(FakeHost(root))


def test_the_driver_takes_precedence_over_sysfs(tmp_path: Path) -> None:
    values = {
        "product": "NVIDIA L4",
        "uuid": "GPU-1",
        "pcie": {"generation": 3, "generation_max": 4, "width": 16, "width_max": 16},
    }
    section = merge.gpus(
        bus(tmp_path, 1),
        DriverReport("nvml", gpus=[GpuReport(FIRST, values=values, reasons={"mig": "NVML: Not Supported"})]),
    )
    (gpu,) = section.facts
    assert (gpu["product"], gpu["uuid"], gpu["name"], gpu["architecture"]) == (
        "NVIDIA L4",
        "GPU-1",
        "AD104GL [L4]",
        "Ada Lovelace",
    )
    assert gpu["pcie"] == {
        "generation": 3,
        "generation_max": 4,
        "generation_host": None,
        "width": 16,
        "width_max": 16,
        "degraded": False,
    }
    assert set(FIELDS) <= set(gpu)
    assert section.sources["pcie"] == {"source": "nvml", "reason": None}
    assert section.sources["architecture"] == {"source": "sysfs", "reason": None}
    assert section.sources["mig"] == {"source": None, "reason": "NVML: Not Supported"}
    assert section.sources["power_w"] == {"source": None, "reason": "nvml does not report it"}


def test_a_field_that_another_source_has_told_names_it(tmp_path: Path) -> None:
    told, silent = {"mig": {"mode": True}, "uuid": "GPU-1"}, {"mig": None, "uuid": "GPU-2"}
    first = GpuReport(FIRST, values=told, sources={"mig": "nvml"})
    report = DriverReport("nvidia-smi", gpus=[first, GpuReport(SECOND, values=silent)])
    sources = merge.gpus(bus(tmp_path), report).sources
    assert (sources["mig"]["source"], sources["uuid"]["source"]) == ("nvml", "nvidia-smi")
    report = DriverReport("nvidia-smi", gpus=[first, GpuReport(SECOND, values=told)])
    assert merge.gpus(bus(tmp_path), report).sources["mig"]["source"] == "nvml, nvidia-smi"


def test_a_gpu_without_a_driver(tmp_path: Path) -> None:
    section = merge.gpus(bus(tmp_path), DriverReport("sysfs", reason="The module nvidia is not loaded"))
    assert [(gpu["pci_address"], gpu["uuid"], gpu["lost"], gpu["reason"]) for gpu in section.facts] == [
        (FIRST, None, False, wording("The module nvidia is not loaded")),
        (SECOND, None, False, wording("The module nvidia is not loaded")),
    ]
    assert section.sources["uuid"] == {"source": None, "reason": wording("The module nvidia is not loaded")}
    assert section.sources["pcie"] == {"source": "sysfs", "reason": None}


@pytest.mark.parametrize(
    ("width", "width_max", "degraded"), [(8, 16, True), (16, 16, False), (None, 16, None), (16, None, None)]
)
def test_a_link_that_has_lost_lanes(
    tmp_path: Path, width: int | None, width_max: int | None, degraded: bool | None
) -> None:
    # That an idle GPU has lowered its generation is no loss.
    pcie = {"generation": 1, "generation_max": 4, "generation_host": 4, "width": width, "width_max": width_max}
    section = merge.gpus(bus(tmp_path, 1), DriverReport("nvml", gpus=[GpuReport(FIRST, values={"pcie": pcie})]))
    assert section.facts[0]["pcie"] == {**pcie, "degraded": degraded}


def test_a_gpu_without_pcie_readings(tmp_path: Path) -> None:
    section = merge.gpus(
        scan(FakeHost(tmp_path)), DriverReport("nvml", gpus=[GpuReport(FIRST, values={"uuid": "GPU-1"})])
    )
    assert section.facts[0]["pcie"] is None


def test_a_host_without_gpus(tmp_path: Path) -> None:
    write(tmp_path / "sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n")
    section = merge.gpus(scan(FakeHost(tmp_path)), DriverReport("sysfs", reason="The module nvidia is not loaded"))
    assert section.facts == []
    assert section.sources[""] == {"source": "sysfs", "reason": None}
    assert section.sources["uuid"] == {"source": None, "reason": wording("The host has no GPU")}


def test_a_lost_gpu_that_nvml_does_not_name(tmp_path: Path) -> None:
    reasons = dict.fromkeys(FIELDS, "NVML: GPU is lost")
    report = DriverReport(
        "nvml", gpus=[GpuReport(FIRST, values={"uuid": "GPU-1"}), GpuReport(None, reasons=reasons, lost=True)]
    )
    first, second = merge.gpus(bus(tmp_path), report).facts
    assert (first["lost"], first["reason"], first["uuid"]) == (False, None, "GPU-1")
    assert (second["pci_address"], second["lost"], second["reason"]) == (
        SECOND,
        True,
        wording("The GPU fell off the bus (NVML: GPU is lost)"),
    )


def test_no_gpu_counts_as_lost_if_the_lost_one_is_unknown(tmp_path: Path) -> None:
    report = DriverReport(
        "nvml",
        gpus=[GpuReport(None, reasons={"uuid": "NVML: GPU is lost"}, lost=True)],
        reason="NVML did not answer in time",
    )
    assert [(gpu["lost"], gpu["reason"]) for gpu in merge.gpus(bus(tmp_path), report).facts] == [
        (False, wording("NVML did not answer in time"))
    ] * 2


def test_a_gpu_that_is_lost_on_the_bus_but_not_to_the_driver(tmp_path: Path) -> None:
    inventory = bus(tmp_path, 2)
    write(tmp_path / f"sys/bus/pci/devices/{FIRST}/config", b"\xff" * 64)
    inventory = scan(FakeHost(tmp_path))
    first, second = merge.gpus(inventory, DriverReport("nvml", gpus=[GpuReport(FIRST, values={"uuid": "GPU-1"})])).facts
    assert (first["lost"], first["uuid"]) == (True, "GPU-1")
    assert first["reason"] == wording("The configuration space reads as ones: the GPU fell off the bus")
    assert (second["lost"], second["reason"]) == (False, wording("nvml does not know this GPU"))
    (first, _second) = merge.gpus(inventory, DriverReport("nvml", gpus=[])).facts
    assert first["reason"] == wording("The GPU fell off the bus: its configuration space reads as ones")


def test_a_gpu_that_does_not_answer(tmp_path: Path) -> None:
    report = DriverReport("nvml", gpus=[GpuReport(FIRST, reasons={"uuid": "NVML: Unknown Error"})])
    (gpu,) = merge.gpus(bus(tmp_path, 1), report).facts
    assert (gpu["lost"], gpu["reason"]) == (False, "NVML: Unknown Error")


def test_a_bus_that_is_hidden(tmp_path: Path) -> None:
    section = merge.gpus(
        scan(FakeHost(tmp_path)),
        DriverReport("nvml", gpus=[GpuReport(FIRST, values={"uuid": "GPU-1", "architecture": "Hopper"})]),
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
    empty = merge.gpus(scan(FakeHost(tmp_path)), DriverReport("sysfs", reason="The module nvidia is not loaded"))
    assert empty.sources[""] == {"source": None, "reason": "/sys/bus/pci/devices is empty"}
