# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import argument_rules
from inline_snapshot import snapshot as wording


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        (
            "intel_iommu=yes",
            wording(
                "intel_iommu=yes has no effect: intel_iommu takes forcedac, igfx_off, off, on, sm_off, sm_on, sp_off, strict, tboot_noforce."
            ),
        ),
        (
            "amd_iommu=on",
            wording(
                "amd_iommu=on has no effect: amd_iommu takes force_enable, force_isolation, fullflush, irtcachedis, nohugepages, off, pgtbl_v1, pgtbl_v2, v2_pgsizes_only. The IOMMU of an AMD CPU is on by default. Use iommu=pt for passthrough."
            ),
        ),
        (
            "iommu=pt,bogus",
            wording(
                "iommu=pt,bogus has no effect: iommu takes allowed, biomerge, force, memaper, merge, noagp, noforce, nomerge, nopanic, nopt, off, panic, pt, soft."
            ),
        ),
        (
            "hugepages=many",
            wording("hugepages=many has no effect: hugepages takes a number, or node:number for each NUMA node."),
        ),
        (
            "hugepagesz=3M",
            wording("hugepagesz=3M has no effect: hugepagesz takes 16G, 16M, 1G, 2G, 2M, 32M, 512M, 64K."),
        ),
        (
            "root=/dev/sda1",
            wording(
                "root=/dev/sda1 belongs to the boot loader or the installer, and cannot be set here. A wrong value would keep the host from booting."
            ),
        ),
        (
            "a b",
            wording(
                "'a b' is not a kernel argument. Write name or name=value, one in each item, without blanks, quotes or shell characters."
            ),
        ),
        (
            "x=$(reboot)",
            wording(
                "'x=$(reboot)' is not a kernel argument. Write name or name=value, one in each item, without blanks, quotes or shell characters."
            ),
        ),
        (
            'dyndbg="file foo"',
            wording(
                "'dyndbg=\"file foo\"' is not a kernel argument. Write name or name=value, one in each item, without blanks, quotes or shell characters."
            ),
        ),
        (
            "",
            wording(
                "'' is not a kernel argument. Write name or name=value, one in each item, without blanks, quotes or shell characters."
            ),
        ),
        (
            "-x",
            wording(
                "'-x' is not a kernel argument. Write name or name=value, one in each item, without blanks, quotes or shell characters."
            ),
        ),
    ],
)
def test_an_argument_without_effect_or_with_a_risk_is_refused_in_one_sentence(argument: str, sentence: str) -> None:
    (problem,) = argument_rules.problems([argument])
    assert problem == sentence


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


@pytest.mark.parametrize(
    "argument",
    [
        "BOOT_IMAGE=/vmlinuz",
        "init=/bin/sh",
        "initrd=/initrd.img",
        "rd.luks.uuid=1",
        "rd.lvm.lv=rhel/root",
        "resume=/dev/sda2",
        "ro",
        "rw",
        "root=/dev/sda1",
        "single",
    ],
)
def test_what_the_host_needs_to_boot_belongs_to_nobody(argument: str) -> None:
    (problem,) = argument_rules.problems([argument])
    assert problem.startswith(f"{argument} belongs to")


# The values that the kernel's own list of parameters names (Documentation/admin-guide/kernel-parameters.txt).
DOCUMENTED = {
    "intel_iommu": "on off igfx_off forcedac strict sp_off sm_on sm_off tboot_noforce",
    "amd_iommu": "fullflush off force_isolation force_enable pgtbl_v1 pgtbl_v2 irtcachedis nohugepages v2_pgsizes_only",
    "iommu": "off force noforce biomerge panic nopanic merge nomerge soft pt nopt",
    "iommu.passthrough": "0 1",
    "iommu.strict": "0 1",
    "init_on_alloc": "0 1",
    "init_on_free": "0 1",
    "numa_balancing": "enable disable",
    "nouveau.modeset": "-1 0 1 2",
    "hugepagesz": "2M 1G 16M 16G 64K 512M 32M 2G",
    "default_hugepagesz": "2M 1G 16M 16G 64K 512M 32M 2G",
    "transparent_hugepage": "always madvise never",
}


@pytest.mark.parametrize(
    "argument", [f"{name}={value}" for name, values in DOCUMENTED.items() for value in values.split()]
)
def test_a_value_that_the_kernel_documents_is_accepted(argument: str) -> None:
    assert argument_rules.problems([argument]) == []


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_a_value_that_the_kernel_ignores_is_refused(name: str) -> None:
    (problem,) = argument_rules.problems([f"{name}=bogus"])
    assert f"{name}=bogus has no effect: {name} takes " in problem


@pytest.mark.parametrize(
    ("mode", "vendor", "wanted"),
    [
        ("enabled", "intel", ["intel_iommu=on"]),
        ("enabled", "amd", []),
        ("enabled", "arm", []),
        ("passthrough", "intel", ["intel_iommu=on", "iommu=pt"]),
        ("passthrough", "amd", ["iommu=pt"]),
        ("passthrough", "arm", ["iommu.passthrough=1"]),
    ],
)
def test_each_mode_of_the_iommu_has_its_arguments(mode: str, vendor: str, wanted: list[str]) -> None:
    assert argument_rules.IOMMU[mode][vendor] == wanted


def test_several_sizes_of_huge_pages_may_have_the_same_number() -> None:
    pages = ["hugepagesz=1G", "hugepages=4", "hugepagesz=2M", "hugepages=4"]
    assert argument_rules.problems(pages) == []
    assert argument_rules.problems(["hugepagesz=1G", "hugepagesz=1G"]) == ["hugepagesz=1G is given twice."]


def test_lists_are_merged_at_the_place_of_the_first() -> None:
    given = ["modprobe.blacklist=a,b", "quiet", "rd.driver.blacklist=a", "modprobe.blacklist=b,,c", "quiet"]
    assert argument_rules.merge_lists(given) == ["modprobe.blacklist=a,b,c", "quiet", "rd.driver.blacklist=a", "quiet"]
    assert argument_rules.list_items(given, "modprobe.blacklist") == ["a", "b", "c"]


def test_the_kernel_uses_every_console_and_only_the_last_of_most_arguments() -> None:
    assert argument_rules.all_count("console") and argument_rules.all_count("modprobe.blacklist")
    assert not argument_rules.all_count("iommu") and not argument_rules.all_count("module_blacklist")
