# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.driver import driver, nouveau
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.kernel import (
    changed_arguments,
    kernel,
    reboot,
    secure_boot,
)

from lab.nvml.tree import load, write
from tests.unit.fakes.host import FIXTURES, FakeHost

SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def reasons(root: Path) -> list[str]:
    host = FakeHost(root)
    facts = kernel(host).facts
    section = reboot(host, facts, nouveau(host, facts["cmdline"]).facts, driver(host).facts)
    assert section.facts["required"] is bool(section.facts["reasons"])
    return section.facts["reasons"]


def test_ubuntu_with_a_newer_kernel_and_new_arguments() -> None:
    section = kernel(FakeHost(FIXTURES / "ubuntu-22.04"))
    assert section.facts == {
        "running": "5.15.0-91-generic",
        "installed": ["5.15.0-91-generic", "5.15.0-119-generic"],
        "newest_installed": "5.15.0-119-generic",
        "next_boot": "5.15.0-119-generic",
        "cmdline": [
            "BOOT_IMAGE=/boot/vmlinuz-5.15.0-91-generic",
            "root=UUID=2f0c6c1e-58a8-4a6b-8c59-1b0f5b2a9d10",
            "ro",
            "console=tty1",
            "console=ttyS0",
            "vt.handoff=7",
        ],
        "cmdline_configured": [
            "root=UUID=2f0c6c1e-58a8-4a6b-8c59-1b0f5b2a9d10",
            "ro",
            "iommu=pt",
            '"dyndbg=file drivers/pci/* +p"',
            "console=tty1",
            "console=ttyS0",
        ],
        "cmdline_source": "/boot/grub/grub.cfg",
        "cmdline_defaults": ["iommu=pt", '"dyndbg=file drivers/pci/* +p"', "console=tty1", "console=ttyS0"],
        "headers": True,
        "bootloader": "grub",
    }
    assert section.sources["cmdline_configured"] == {"source": "/boot/grub/grub.cfg", "reason": None}
    assert reasons(FIXTURES / "ubuntu-22.04") == [
        "The system asks for a reboot (/run/reboot-required: linux-base, linux-image-5.15.0-119-generic)",
        "The kernel 5.15.0-91-generic is running, and the next boot uses 5.15.0-119-generic",
        'The kernel runs without the configured arguments iommu=pt "dyndbg=file drivers/pci/* +p"',
    ]


def test_debian_pinned_to_an_older_kernel_needs_no_reboot_for_the_newer_one() -> None:
    facts = kernel(FakeHost(FIXTURES / "debian-12")).facts
    assert facts["newest_installed"] == "6.1.0-25-amd64"
    assert facts["next_boot"] == facts["running"] == "6.1.0-18-amd64"
    assert facts["headers"] is False
    assert facts["cmdline_defaults"] == ["intel_iommu=on", "iommu=pt", "quiet"]
    assert reasons(FIXTURES / "debian-12") == []


def test_rhel_8_takes_its_arguments_from_the_environment_block() -> None:
    facts = kernel(FakeHost(FIXTURES / "rhel-8")).facts
    assert facts["next_boot"] == "4.18.0-513.5.1.el8_9.x86_64"
    assert facts["cmdline_source"].endswith("/6f9cc9cb7d7845d49698c9537337cedc-4.18.0-513.5.1.el8_9.x86_64.conf")
    assert facts["cmdline_configured"][:3] == ["root=/dev/mapper/rhel-root", "ro", "crashkernel=auto"]
    assert facts["cmdline_configured"][-2:] == ["isolcpus=2-7", "nohz=on"]
    assert facts["installed"] == ["4.18.0-477.10.1.el8_8.x86_64", "4.18.0-513.5.1.el8_9.x86_64"]
    assert reasons(FIXTURES / "rhel-8") == []


def test_rocky_9_boots_the_newest_entry_without_a_saved_one() -> None:
    facts = kernel(FakeHost(FIXTURES / "rocky-9")).facts
    assert facts["newest_installed"] == facts["next_boot"] == "5.14.0-427.13.1.el9_4.x86_64"
    assert reasons(FIXTURES / "rocky-9") == [
        "The kernel 5.14.0-362.8.1.el9_3.x86_64 is running, and the next boot uses 5.14.0-427.13.1.el9_4.x86_64",
        "The kernel runs without the configured arguments iommu=pt rd.driver.blacklist=nouveau",
        "The kernel runs with the arguments mitigations=off, which are no longer configured",
    ]


@pytest.mark.parametrize(
    ("saved", "version"),
    [
        ("0", "5.14.0-427.13.1.el9_4.x86_64"),
        ("1", "5.14.0-362.8.1.el9_3.x86_64"),
        ("7", None),
        ("c0d0974b0a644bc8a6b1c1589b5bb500-gone", "5.14.0-427.13.1.el9_4.x86_64"),
    ],
)
def test_a_saved_entry_of_rocky_9(tmp_path: Path, saved: str, version: str | None) -> None:
    for entry in (FIXTURES / "rocky-9/boot/loader/entries").iterdir():
        write(tmp_path / "boot/loader/entries" / entry.name, entry.read_bytes())
    write(tmp_path / "boot/grub2/grubenv", f"# GRUB Environment Block\nsaved_entry={saved}\n#####")
    section = kernel(FakeHost(tmp_path))
    assert section.facts["next_boot"] == version
    if version is None:
        assert section.sources["next_boot"] == {"source": None, "reason": "The saved boot entry 7 does not exist"}


def test_a_grub_entry_whose_kernel_cannot_be_determined(tmp_path: Path) -> None:
    write(tmp_path / "boot/grub/grub.cfg", (FIXTURES / "debian-12/boot/grub/grub.cfg").read_bytes())
    write(tmp_path / "etc/default/grub", 'GRUB_DEFAULT="Windows Boot Manager"\nGRUB_CMDLINE_LINUX=quiet\n')
    section = kernel(FakeHost(tmp_path))
    assert section.facts["next_boot"] is None
    assert section.facts["cmdline_configured"] == ["quiet"]
    assert section.facts["cmdline_source"] == "/etc/default/grub"
    assert (
        section.sources["next_boot"]["reason"]
        == "GRUB boots the entry 'Windows Boot Manager', whose kernel cannot be determined"
    )


def test_a_saved_entry_of_grub(tmp_path: Path) -> None:
    write(tmp_path / "boot/grub/grub.cfg", (FIXTURES / "debian-12/boot/grub/grub.cfg").read_bytes())
    write(tmp_path / "etc/default/grub", "GRUB_DEFAULT=saved\n")
    assert kernel(FakeHost(tmp_path)).facts["next_boot"] == "6.1.0-25-amd64"
    write(tmp_path / "boot/grub/grubenv", "saved_entry=gnulinux-advanced-9b1d>gnulinux-6.1.0-18-amd64-advanced-9b1d\n")
    assert kernel(FakeHost(tmp_path)).facts["next_boot"] == "6.1.0-18-amd64"
    # grub-reboot chooses for one boot.
    write(tmp_path / "boot/grub/grubenv", "saved_entry=gnulinux-6.1.0-18-amd64\nnext_entry=gnulinux-6.1.0-25-amd64\n")
    assert kernel(FakeHost(tmp_path)).facts["next_boot"] == "6.1.0-25-amd64"


def test_systemd_boot_has_entries_too(tmp_path: Path) -> None:
    write(tmp_path / "boot/efi/EFI/systemd/systemd-bootx64.efi", "")
    write(
        tmp_path / "boot/efi/loader/entries/ab12-6.8.0-87-generic.conf",
        "version    6.8.0-87-generic\noptions    root=/dev/sda2 ro\n",
    )
    facts = kernel(FakeHost(tmp_path)).facts
    assert (facts["bootloader"], facts["next_boot"], facts["cmdline_configured"]) == (
        "systemd-boot",
        "6.8.0-87-generic",
        ["root=/dev/sda2", "ro"],
    )


def test_a_host_without_any_files(tmp_path: Path) -> None:
    section = kernel(FakeHost(tmp_path))
    assert section.facts["running"] is None
    assert section.facts["cmdline"] == []
    assert section.facts["cmdline_configured"] is None
    assert section.facts["bootloader"] is None
    assert section.sources["newest_installed"]["reason"] == "There is no kernel in /boot or /lib/modules"
    assert reasons(tmp_path) == []


def test_a_container_does_not_ask_to_boot_its_own_kernel(tmp_path: Path) -> None:
    write(tmp_path / "proc/sys/kernel/osrelease", "6.18.0-host\n")
    write(tmp_path / "boot/vmlinuz-6.1.0-25-amd64", "")
    assert reasons(tmp_path) == []
    write(tmp_path / "boot/vmlinuz-6.1.0-18-amd64", "")
    write(tmp_path / "proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
    assert reasons(tmp_path) == ["The kernel 6.1.0-18-amd64 is running, and the next boot uses 6.1.0-25-amd64"]


def test_nouveau_and_the_driver_are_reasons_too(tmp_path: Path) -> None:
    write(tmp_path / "sys/module/nouveau/refcnt", "3\n")
    write(tmp_path / "etc/modprobe.d/off.conf", "blacklist nouveau\n")
    load(tmp_path, "570.158.01", libraries="580.95.05")
    expected = [
        "nouveau is loaded although it is blacklisted",
        "The loaded driver is 570.158.01, its installed libraries are 580.95.05",
    ]
    assert reasons(tmp_path) == expected
    # The operator replaces the driver of a driver container itself.
    write(tmp_path / "run/nvidia/driver/usr/bin/nvidia-smi", "")
    write(tmp_path / "run/nvidia/driver/usr/lib64/x", "")
    (tmp_path / "run/nvidia/driver/usr/lib64/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.95.05")
    assert reasons(tmp_path) == expected[:1]


def test_what_the_next_boot_changes() -> None:
    now = ["BOOT_IMAGE=/x", "ro", "old=1", "vt.handoff=7"]
    assert changed_arguments(now, ["ro", "new=1"], "/boot/grub/grub.cfg") == (["new=1"], ["old=1"])
    # GRUB's defaults name only some of the arguments.
    assert changed_arguments(now, ["new=1"], "/etc/default/grub") == (["new=1"], [])


def test_a_driver_that_was_removed_while_its_module_was_loaded(tmp_path: Path) -> None:
    write(tmp_path / "proc/sys/kernel/osrelease", "6.8\n")
    write(tmp_path / "lib/modules/6.8/modules.dep", "")
    assert reasons(tmp_path) == [], "It is not loaded."
    load(tmp_path, "580.95.05")
    assert reasons(tmp_path) == ["The NVIDIA kernel module is loaded although it is no longer installed"]
    write(tmp_path / "run/nvidia/nvidia-driver.pid", "")
    assert reasons(tmp_path) == []
    (tmp_path / "run/nvidia/nvidia-driver.pid").unlink()
    write(tmp_path / "lib/modules/6.8/modules.dep", "updates/dkms/nvidia.ko:\n")
    write(tmp_path / "lib/modules/6.8/updates/dkms/nvidia.ko", "")
    assert reasons(tmp_path) == []


@pytest.mark.parametrize(
    ("files", "facts", "source"),
    [
        (
            {
                SECURE_BOOT: b"\x06\x00\x00\x00\x01",
                "sys/kernel/security/lockdown": b"none [integrity] confidentiality\n",
            },
            (True, "integrity"),
            "firmware",
        ),
        (
            {
                SECURE_BOOT: b"\x06\x00\x00\x00\x00",
                "sys/kernel/security/lockdown": b"[none] integrity confidentiality\n",
            },
            (False, "none"),
            "firmware",
        ),
        ({"sys/firmware/acpi/tables": b""}, (False, None), "No UEFI firmware"),
        ({}, (None, None), None),
        ({"sys/firmware/efi/runtime": b""}, (None, None), None),
    ],
)
def test_secure_boot(tmp_path: Path, files: dict[str, bytes], facts: tuple[t.Any, t.Any], source: str | None) -> None:
    for path, content in files.items():
        write(tmp_path / path, content)
    section = secure_boot(FakeHost(tmp_path))
    assert (section.facts["enabled"], section.facts["lockdown"]) == facts
    assert section.sources["enabled"]["source"] == source
