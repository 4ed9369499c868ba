# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import (
    bar1_mib,
    gpu_facts,
    iommu,
    iommu_mode,
    nvswitches,
    scan,
)
from inline_snapshot import snapshot as wording

from lab.nvml import A100, B200, H100, L4, plant
from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost

DEVICES = "sys/bus/pci/devices"


def test_a_machine_with_nvswitches(tmp_path: Path) -> None:
    plant(tmp_path, H100)
    inventory = scan(FakeHost(tmp_path))
    assert len(inventory.gpus) == 8
    assert gpu_facts(inventory.gpus[7]) == {
        "pci_address": "0000:db:00.0",
        "device_id": "10de:2330",
        "name": "GH100 [H100 SXM5 80GB]",
        "architecture": "Hopper",
        "pcie": {"generation": 5, "generation_max": 5, "width": 16, "width_max": 16},
        "bar1_mib": None,
        "numa_node": 1,
        "iommu_group": 27,
        "bound_driver": "nvidia",
        "lost": False,
    }
    section = nvswitches(inventory)
    assert len(section.facts) == 4
    assert section.facts[0] == {
        "pci_address": "0000:07:00.0",
        "device_id": "10de:22a3",
        "name": "GH100 [H100 NVSwitch]",
    }
    assert section.sources[""] == {"source": "sysfs", "reason": None}


def test_a_host_without_a_pci_bus_says_so(tmp_path: Path) -> None:
    inventory = scan(FakeHost(tmp_path))
    assert inventory.gpus == []
    assert nvswitches(inventory).sources[""] == {"source": None, "reason": "/sys/bus/pci/devices is empty"}


def test_a_connectx_7_represents_the_switches_of_nvlink_5(tmp_path: Path) -> None:
    plant(tmp_path, B200)
    for address, vpd in (
        ("0000:05:00.0", b"\x82\x10\x00NVSwitch V3 SW_MNG\x00"),
        ("0000:06:00.0", b"\x82\x10\x00ConnectX-7 HHHL"),
    ):
        folder = tmp_path / DEVICES / address
        write(folder / "vendor", "0x15b3\n")
        write(folder / "device", "0x1021\n")
        write(folder / "class", "0x020700\n")
        write(folder / "infiniband/mlx5_0", "")
        write(folder / "vpd", vpd)
    assert nvswitches(scan(FakeHost(tmp_path))).facts == [
        {
            "pci_address": "0000:05:00.0",
            "device_id": "15b3:1021",
            "name": wording("ConnectX-7 [NVLink 5 switch management]"),
        }
    ]


def test_a_gpu_whose_configuration_space_reads_as_ones_is_lost_unless_it_sleeps(tmp_path: Path) -> None:
    plant(tmp_path, L4, 2)
    for address in ("0000:18:00.0", "0000:2a:00.0"):
        write(tmp_path / DEVICES / address / "config", b"\xff" * 256)
    write(tmp_path / DEVICES / "0000:2a:00.0/power_state", "D3cold\n")
    write(tmp_path / DEVICES / "0000:18:00.0/current_link_speed", "Unknown\n")
    write(tmp_path / DEVICES / "0000:18:00.0/current_link_width", "63\n")
    lost, asleep = map(gpu_facts, scan(FakeHost(tmp_path)).gpus)
    assert lost["lost"] and not asleep["lost"]
    assert lost["pcie"] == {"generation": None, "generation_max": 4, "width": None, "width_max": 16}


def test_virtual_functions_and_other_functions_do_not_count_as_gpus(tmp_path: Path) -> None:
    plant(tmp_path, A100, 1)
    for address, class_, virtual in (("0000:18:00.4", "0x030200", True), ("0000:18:00.1", "0x040300", False)):
        for name, content in (("vendor", "0x10de"), ("device", "0x20b2"), ("class", class_)):
            write(tmp_path / DEVICES / address / name, f"{content}\n")
        if virtual:
            write(tmp_path / DEVICES / address / "physfn/vendor", "0x10de\n")
    assert [device.address for device in scan(FakeHost(tmp_path)).gpus] == ["0000:18:00.0"]


def test_a_machine_with_one_numa_node_has_no_node_numbers(tmp_path: Path) -> None:
    plant(tmp_path, L4, 1)
    write(tmp_path / DEVICES / "0000:18:00.0/numa_node", "-1\n")
    assert gpu_facts(scan(FakeHost(tmp_path)).gpus[0])["numa_node"] is None


def test_names_come_from_the_hosts_table_if_ours_lacks_them(tmp_path: Path) -> None:
    plant(tmp_path, L4, 1)
    write(tmp_path / DEVICES / "0000:18:00.0/device", "0x2fff\n")
    assert gpu_facts(scan(FakeHost(tmp_path)).gpus[0])["name"] is None
    write(tmp_path / "usr/share/misc/pci.ids", "10de  NVIDIA Corporation\n\t2fff  GB999 [New]\n10df  Emulex\n")
    assert gpu_facts(scan(FakeHost(tmp_path)).gpus[0])["name"] == "GB999 [New]"


def test_devices_that_share_a_group_with_a_gpu(tmp_path: Path) -> None:
    plant(tmp_path, H100, 2, iommu="DMA-FQ")
    write(tmp_path / "sys/kernel/iommu_groups/20/devices/0000:17:01.0", "")
    host = FakeHost(tmp_path)
    section = iommu(host, scan(host), ["iommu=pt"])
    assert section.facts == {
        "enabled": True,
        "mode": "translated",
        "groups": 2,
        "gpu_groups": [
            {"gpu": "0000:18:00.0", "group": 20, "shared_with": ["0000:17:01.0"]},
            {"gpu": "0000:2a:00.0", "group": 21, "shared_with": []},
        ],
        "firmware_tables": None,
    }
    assert section.sources["mode"] == {"source": "sysfs", "reason": None}


def test_the_first_group_tells_the_mode_where_no_gpu_is_in_a_group(tmp_path: Path) -> None:
    plant(tmp_path, H100, 1, iommu=None)
    for number, kind in ((3, "identity"), (4, "DMA")):
        write(tmp_path / f"sys/kernel/iommu_groups/{number}/type", f"{kind}\n")
    host = FakeHost(tmp_path)
    assert iommu(host, scan(host), []).facts["mode"] == iommu_mode("identity", [])
    assert iommu_mode("identity", []) != iommu_mode("DMA", [])


def test_an_iommu_that_is_off(tmp_path: Path) -> None:
    plant(tmp_path, H100, 1, iommu=None)
    host = FakeHost(tmp_path)
    section = iommu(host, scan(host), [])
    assert section.facts == {
        "enabled": False,
        "mode": None,
        "groups": 0,
        "gpu_groups": [{"gpu": "0000:18:00.0", "group": None, "shared_with": []}],
        "firmware_tables": None,
    }
    assert section.sources["mode"] == {"source": None, "reason": "The IOMMU is off"}


class ArmHost(FakeHost):
    def machine(self) -> str:
        return "aarch64"


@pytest.mark.parametrize(
    ("kind", "tables", "found"),
    [
        (FakeHost, ["DMAR", "APIC"], ["DMAR"]),
        (FakeHost, ["IVRS"], ["IVRS"]),
        (FakeHost, ["APIC"], []),
        (FakeHost, [], None),
        # An Arm server describes its buses in IORT, with or without an IOMMU.
        (ArmHost, ["IORT"], None),
    ],
)
def test_whether_the_firmware_offers_an_iommu(
    tmp_path: Path, kind: type[FakeHost], tables: list[str], found: list[str] | None
) -> None:
    host = kind(tmp_path)
    for name in tables:
        write(tmp_path / "sys/firmware/acpi/tables" / name, "")
    section = iommu(host, scan(host), [])
    assert section.facts["firmware_tables"] == found
    assert (section.sources["firmware_tables"]["reason"] is None) is (found is not None)


@pytest.mark.parametrize(
    ("kind", "cmdline", "mode"),
    [
        ("identity", [], "passthrough"),
        ("DMA", ["iommu=pt"], "translated"),
        (None, ["iommu=pt"], "passthrough"),
        (None, ["iommu.passthrough=1"], "passthrough"),
        # The type of a group that vfio-pci uses says nothing about the host's mode.
        ("unmanaged", ["intel_iommu=on"], "translated"),
    ],
)
def test_the_mode_of_an_iommu(kind: str | None, cmdline: list[str], mode: str) -> None:
    assert iommu_mode(kind, cmdline) == mode


@pytest.mark.parametrize(
    ("written", "width"),
    [
        *((str(width), width) for width in (1, 2, 4, 8, 12, 16, 32)),
        ("0", None),
        ("3", None),
        ("63", None),
        ("255", None),
    ],
)
def test_a_width_that_no_link_has_is_not_believed(written: str, width: int | None, tmp_path: Path) -> None:
    plant(tmp_path, H100, 1)
    write(tmp_path / DEVICES / "0000:18:00.0" / "current_link_width", f"{written}\n")
    assert gpu_facts(scan(FakeHost(tmp_path)).gpus[0])["pcie"]["width"] == width


def test_the_group_of_a_gpu_tells_the_mode_and_not_that_of_another_device(tmp_path: Path) -> None:
    plant(tmp_path, H100, 2, iommu="DMA-FQ")
    write(tmp_path / "sys/kernel/iommu_groups/3/type", "identity\n")
    host = FakeHost(tmp_path)
    assert iommu(host, scan(host), []).facts["mode"] == "translated"


def resource(*windows: tuple[int, int, int]) -> str:
    """Return the lines of the file resource, as Linux's resource_show prints them."""
    return "".join(f"0x{start:016x} 0x{end:016x} 0x{flags:016x}\n" for start, end, flags in windows)


NONE, PREFETCHABLE, PLAIN, PORTS = (0, 0, 0), 0x14220C, 0x40200, 0x40101


@pytest.mark.parametrize(
    ("windows", "size"),
    [
        # Published: an H100 (github.com/fastfetch-cli/fastfetch/issues/1658), regions 0, 2 and 4.
        (
            [
                (0x88042000000, 0x88042FFFFFF, PREFETCHABLE),
                NONE,
                (0x84000000000, 0x85FFFFFFFFF, PREFETCHABLE),
                NONE,
                (0x88040000000, 0x88041FFFFFF, PREFETCHABLE),
                NONE,
            ],
            131072,
        ),
        # Published: an A100 40GB (github.com/kata-containers/kata-containers/pull/4358), regions 0, 1 and 3. The first
        # one has got no addresses there.
        (
            [
                (0, 0xFFFFFF, PLAIN | 0x20000000),
                (0x4000000000, 0x4FFFFFFFFF, PREFETCHABLE),
                NONE,
                (0x3280000000, 0x3281FFFFFF, PREFETCHABLE),
            ],
            65536,
        ),
        # Published: a Quadro RTX 8000 (github.com/geerlingguy/raspberry-pi-pcie-devices/issues/480), without resizable
        # BAR. The seventh line is the ROM.
        (
            [
                (0x618000000, 0x618FFFFFF, PLAIN),
                (0x600000000, 0x60FFFFFFF, PREFETCHABLE),
                NONE,
                (0x610000000, 0x611FFFFFF, PREFETCHABLE),
                NONE,
                (0, 0x7F, PORTS),
                (0, 0xFFFFFFFFFF, 0x46200),
            ],
            256,
        ),
        ([(0x0, 0x1FFFFFFFFF, PREFETCHABLE | 0x20000000), NONE], None),
        ([], None),
    ],
)
def test_the_largest_window_is_bar1(windows: list[tuple[int, int, int]], size: int | None) -> None:
    assert bar1_mib(resource(*windows)) == size


def test_a_file_of_another_form_tells_no_window() -> None:
    assert bar1_mib("0xffff\nnonsense 1 2\n") is None
