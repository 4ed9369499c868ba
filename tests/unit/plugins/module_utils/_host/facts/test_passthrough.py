# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import scan
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.passthrough import (
    FOR_GUESTS,
    devices,
    passthrough,
)

from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.iommu_machines import PciFunction, link, plant_functions, published

DEVICES = "/sys/bus/pci/devices"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    host = FakeHost(tmp_path)
    host.put("/proc/sys/kernel/osrelease", "6.8.0-87-generic\n")
    return host


def rows(host: FakeHost, *fields: str) -> list[tuple[t.Any, ...]]:
    return [tuple(row[field] for field in fields) for row in devices(host, scan(host))]


def test_a_gpu_with_four_functions_and_the_bridge_in_its_group(host: FakeHost, tmp_path: Path) -> None:
    plant_functions(tmp_path, published("gtx-1660"))
    assert rows(host, "pci_address", "kind", "gpu", "iommu_group", "device_id") == [
        ("0000:00:01.0", "bridge", None, 2, "8086:1901"),
        ("0000:01:00.0", "gpu", "0000:01:00.0", 2, "10de:2184"),
        ("0000:01:00.1", "audio", "0000:01:00.0", 2, "10de:1aeb"),
        ("0000:01:00.2", "usb", "0000:01:00.0", 2, "10de:1aec"),
        ("0000:01:00.3", "serial", "0000:01:00.0", 2, "10de:1aed"),
    ]


def test_switches_that_share_a_group_and_belong_to_no_gpu(host: FakeHost, tmp_path: Path) -> None:
    plant_functions(tmp_path, published("hgx-h200"))
    found = rows(host, "kind", "iommu_group", "gpu", "bound_driver")
    assert found.count(("nvswitch", 114, None, "nvidia-nvswitch")) == 3
    assert len([row for row in found if row[0] == "gpu"]) == 8


def test_a_device_of_the_host_in_the_group_of_a_gpu(host: FakeHost, tmp_path: Path) -> None:
    functions = [PciFunction("0000:18:00.0", group=4), PciFunction("0000:19:00.0", "0200", "8086:1521", 4, "igb")]
    plant_functions(tmp_path, functions)
    assert ("0000:19:00.0", "other", None, "igb") in rows(host, "pci_address", "kind", "gpu", "bound_driver")


def test_virtual_functions_are_no_functions_of_the_gpu(host: FakeHost, tmp_path: Path) -> None:
    plant_functions(tmp_path, published("rtx-pro-6000"))
    assert [address for (address,) in rows(host, "pci_address")] == [
        "0000:42:00.0",
        "0000:8c:00.0",
        "0001:04:00.0",
        "0001:c8:00.0",
    ]


def test_a_driver_override(host: FakeHost, tmp_path: Path) -> None:
    plant_functions(tmp_path, [PciFunction("0000:18:00.0"), PciFunction("0000:2a:00.0")])
    host.put(f"{DEVICES}/0000:2a:00.0/driver_override", "vfio-pci\n")
    assert rows(host, "driver_override") == [(None,), ("vfio-pci",)]


ALIASES = """\
alias pci:v000010DEd*sv*sd*bc03sc02i00* nvidia
alias vfio_pci:v*d*sv*sd*bc*sc*i* vfio_pci
alias vfio_pci:v000010DEd00002342sv*sd*bc*sc*i* nvgrace_gpu_vfio_pci
"""


@pytest.mark.parametrize(
    ("device", "aliases", "driver"),
    [
        ("10de:2342", ALIASES, "nvgrace_gpu_vfio_pci"),
        ("10de:2330", ALIASES, "vfio_pci"),
        ("10de:2342", None, "vfio_pci"),
    ],
)
def test_the_vfio_module_with_the_fewest_wildcards_fits_best(
    host: FakeHost, tmp_path: Path, device: str, aliases: str | None, driver: str
) -> None:
    plant_functions(tmp_path, [PciFunction("0008:01:00.0", device=device)])
    if aliases:
        host.put("/lib/modules/6.8.0-87-generic/modules.alias", aliases)
    assert rows(host, "vfio_driver") == [(driver,)]


@pytest.mark.parametrize(
    ("cpuinfo", "guest"),
    [
        ("flags\t\t: fpu vmx hypervisor lahf_lm\n", True),
        ("flags\t\t: fpu vmx lahf_lm\n", False),
        ("Features\t: fp asimd evtstrm\n", None),
        (None, None),
    ],
)
def test_whether_the_host_is_a_guest_itself(host: FakeHost, cpuinfo: str | None, guest: bool | None) -> None:
    if cpuinfo:
        host.put("/proc/cpuinfo", cpuinfo)
    section = passthrough(host, scan(host))
    assert section.facts["guest"] is guest
    assert (section.sources["guest"]["source"] is None) is (guest is None)


def test_modules_and_kvm(host: FakeHost) -> None:
    section = passthrough(host, scan(host))
    assert section.facts["modules"] == dict.fromkeys(FOR_GUESTS)
    assert section.sources["modules"]["reason"] == "/lib/modules/6.8.0-87-generic/modules.dep cannot be read"
    assert section.facts["kvm"] is False
    host.put("/dev/kvm", "")
    host.put("/lib/modules/6.8.0-87-generic/modules.dep", "kernel/drivers/vfio/pci/vfio-pci.ko.zst: x.ko\n")
    section = passthrough(host, scan(host))
    assert section.facts["kvm"] is True
    assert section.facts["modules"] == {**dict.fromkeys(FOR_GUESTS, "missing"), "vfio_pci": "available"}
    assert section.sources["modules"]["source"] == "sysfs, /lib/modules"


GPU = "0000:41:00.0"


def vgpus(host: FakeHost) -> dict[str, t.Any]:
    (found,) = passthrough(host, scan(host)).facts["vgpus"]
    return t.cast("dict[str, t.Any]", found)


def functions(host: FakeHost, count: int) -> list[str]:
    """Give the GPU virtual functions, and return their folders."""
    root = Path(host.path("/"))
    plant_functions(root, [PciFunction(GPU)])
    host.put(f"{DEVICES}/{GPU}/sriov_totalvfs", "16\n")
    host.put(f"{DEVICES}/{GPU}/sriov_numvfs", f"{count}\n")
    addresses = [f"0000:41:00.{4 + number}" for number in range(count)]
    plant_functions(root, [PciFunction(address, driver="nvidia", physical=GPU) for address in addresses])
    for number, address in enumerate(addresses):
        link(root / f"sys/bus/pci/devices/{GPU}/virtfn{number}", f"../{address}")
    return [f"{DEVICES}/{address}" for address in addresses]


def test_a_gpu_without_virtual_functions(host: FakeHost, tmp_path: Path) -> None:
    plant_functions(tmp_path, [PciFunction(GPU)])
    nothing = {"sriov_totalvfs": None, "sriov_numvfs": None, "framework": None, "types": [], "vgpus": 0}
    assert vgpus(host) == {"gpu": GPU, **nothing}


# The names and the file are those of an H200 in the README of NVIDIA/kubevirt-gpu-device-plugin at 9a6360b1. A header
# stands above the list, and on a GPU without room it stands alone.
CREATABLE = "ID    : vGPU Name\n1428 : NVIDIA H200X-141C\n1414 : NVIDIA H200X-1-18C\n"


def test_vgpus_that_are_virtual_functions(host: FakeHost) -> None:
    first, second = functions(host, 2)
    for folder, current, creatable in ((first, "1414", "ID    : vGPU Name\n"), (second, "0", CREATABLE)):
        host.put(f"{folder}/nvidia/current_vgpu_type", f"{current}\n")
        host.put(f"{folder}/nvidia/creatable_vgpu_types", creatable)
    assert vgpus(host) == {
        "gpu": GPU,
        "sriov_totalvfs": 16,
        "sriov_numvfs": 2,
        "framework": "vendor",
        "types": ["NVIDIA H200X-1-18C", "NVIDIA H200X-141C"],
        "vgpus": 1,
    }


def test_virtual_functions_before_the_vgpu_manager_has_started(host: FakeHost) -> None:
    functions(host, 2)
    assert vgpus(host) == {
        "gpu": GPU,
        "sriov_totalvfs": 16,
        "sriov_numvfs": 2,
        "framework": None,
        "types": [],
        "vgpus": 0,
    }


# As in NVIDIA's README of kubevirt-gpu-device-plugin, "Preparing a GPU to be used in vGPU mode", and in go-nvlib's nvmdev.
@pytest.mark.parametrize("on_functions", [True, False])
def test_mediated_devices(host: FakeHost, tmp_path: Path, on_functions: bool) -> None:
    folders = functions(host, 2) if on_functions else [f"{DEVICES}/{GPU}"]
    if not on_functions:
        plant_functions(tmp_path, [PciFunction(GPU)])
    for folder in folders:
        for number, name in ((591, "NVIDIA A10-12Q"), (590, "NVIDIA A10-8Q")):
            host.put(f"{folder}/mdev_supported_types/nvidia-{number}/name", f"{name}\n")
            host.put(f"{folder}/mdev_supported_types/nvidia-{number}/available_instances", "1\n")
    host.put(f"{folders[-1]}/aa618089-8b16-4d01-a136-25a0f3c73123/mdev_type/name", "NVIDIA A10-12Q\n")
    found = vgpus(host)
    assert found["framework"] == "mdev"
    assert found["types"] == ["NVIDIA A10-12Q", "NVIDIA A10-8Q"]
    assert found["vgpus"] == 1
