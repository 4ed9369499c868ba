# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import argument_rules


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("intel_iommu=yes", "intel_iommu takes"),
        ("amd_iommu=on", "on by default. Use iommu=pt"),
        ("iommu=pt,bogus", "has no effect"),
        ("hugepages=many", "takes a number"),
        ("hugepagesz=3M", "hugepagesz takes"),
        ("root=/dev/sda1", "belongs to the boot loader"),
        ("a b", "not a kernel argument"),
        ("x=$(reboot)", "not a kernel argument"),
        ('dyndbg="file foo"', "not a kernel argument"),
        ("", "not a kernel argument"),
        ("-x", "not a kernel argument"),
    ],
)
def test_an_argument_without_effect_or_with_a_risk_is_refused_in_one_sentence(argument: str, sentence: str) -> None:
    (problem,) = argument_rules.problems([argument])
    assert sentence in problem


def test_useful_arguments_are_accepted() -> None:
    wanted = [
        "intel_iommu=on,sm_on",
        "iommu=pt",
        "hugepagesz=1G",
        "hugepages=0:4,1:4",
        "hugepagesz=2M",
        "hugepages=512",
        "pci=realloc=off,nocrs",
        "nokaslr",
    ]
    assert (
        argument_rules.problems([*wanted, "vfio-pci.ids=10de:2330", "modprobe.blacklist=nouveau", "isolcpus=1-7"]) == []
    )
    assert argument_rules.problems(["quiet", "quiet"]) == ["quiet is given twice."]


@pytest.mark.parametrize(
    ("mode", "vendor", "wanted"),
    [(mode, vendor, args) for mode, by in argument_rules.IOMMU.items() for vendor, args in by.items()],
)
def test_the_arguments_for_the_iommu_are_valid(mode: str, vendor: str, wanted: list[str]) -> None:
    assert argument_rules.problems(wanted) == []


def test_cpu_vendors() -> None:
    assert argument_rules.cpu_vendor("vendor_id\t: GenuineIntel\n") == "intel"
    assert argument_rules.cpu_vendor("vendor_id\t: HygonGenuine\n") == "amd"
    assert argument_rules.cpu_vendor("processor\t: 0\nCPU implementer\t: 0x41\n") == "arm"


def test_dashes_and_underscores_in_a_name_are_the_same() -> None:
    assert argument_rules.argument_names(["vfio-pci.ids=10de:2330", "vfio_pci.ids=1", "quiet"]) == {
        "vfio_pci.ids",
        "quiet",
    }
