# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import tempfile
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.other_drivers import nouveau
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.driver import driver
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.kernel import (
    changed_arguments,
    kernel,
    reboot,
    secure_boot,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

from lab.nvml.tree import load, write
from tests.unit.fakes.host import FIXTURES, FakeHost, recorded

SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def reboot_facts(root: Path) -> dict[str, t.Any]:
    host = FakeHost(root)
    facts = kernel(host).facts
    section = reboot(host, facts, nouveau(host, facts["cmdline"]).facts, driver(host).facts)
    assert section.facts["required"] is bool(section.facts["reasons"])
    return section.facts


def reasons(root: Path) -> list[str]:
    return reboot_facts(root)["reasons"]


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
        "cmdline_fallback": None,
        "cmdline_source": "/boot/grub/grub.cfg",
        "changed_since_boot": True,
        "cmdline_defaults": ["iommu=pt", '"dyndbg=file drivers/pci/* +p"', "console=tty1", "console=ttyS0"],
        "headers": True,
        "bootloader": "grub",
    }
    assert section.sources["cmdline_configured"] == {"source": "/boot/grub/grub.cfg", "reason": None}
    assert reasons(FIXTURES / "ubuntu-22.04") == [
        wording("The system asks for a reboot (/run/reboot-required: linux-base, linux-image-5.15.0-119-generic)"),
        wording("The kernel 5.15.0-91-generic is running, and the next boot uses 5.15.0-119-generic"),
        wording('The kernel runs without the configured arguments iommu=pt "dyndbg=file drivers/pci/* +p"'),
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
        wording(
            "The kernel 5.14.0-362.8.1.el9_3.x86_64 is running, and the next boot uses 5.14.0-427.13.1.el9_4.x86_64"
        ),
        wording("The kernel runs without the configured arguments iommu=pt rd.driver.blacklist=nouveau"),
        wording("The kernel runs with the arguments mitigations=off, which are no longer configured"),
    ]


def test_a_host_without_any_files(tmp_path: Path) -> None:
    section = kernel(FakeHost(tmp_path))
    assert section.facts["running"] is None
    assert section.facts["cmdline"] == []
    assert section.facts["cmdline_configured"] is None
    assert section.facts["bootloader"] is None
    assert section.sources["newest_installed"]["reason"] == wording("There is no kernel in /boot or /lib/modules")
    assert reasons(tmp_path) == []


def test_without_a_menu_the_newest_kernel_and_the_defaults_of_grub_are_no_reason_to_reboot(tmp_path: Path) -> None:
    """As on a host that boots from the network, whose image has a kernel and GRUB's defaults, but no menu."""
    write(tmp_path / "proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
    write(tmp_path / "proc/cmdline", "BOOT_IMAGE=debian/vmlinuz initrd=debian/initrd root=/dev/nfs ip=dhcp\n")
    write(tmp_path / "boot/vmlinuz-6.1.0-18-amd64", "")
    write(tmp_path / "boot/vmlinuz-6.1.0-25-amd64", "")
    write(tmp_path / "etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT='quiet splash'\n")
    section = kernel(FakeHost(tmp_path))
    assert section.facts["cmdline_defaults"] == ["quiet", "splash"]
    assert section.facts["next_boot"] is section.facts["cmdline_configured"] is section.facts["cmdline_source"] is None
    assert section.sources["next_boot"]["reason"] == wording("Boot loader entries and grub.cfg cannot be read")
    assert reasons(tmp_path) == []


AWS = "BOOT_IMAGE=/boot/vmlinuz-6.5.13 root=PARTUUID=26f22d2b-892e-459e-ba29-0fdab351f296 ro console=tty1 console=ttyS0"
AWS += " cma=8G nvme_core.io_timeout=4294967295"


@pytest.mark.parametrize(
    ("cmdline", "expected"),
    [
        (f"{AWS} panic=-1", []),
        # The first try, without an initramfs, failed, and the second one succeeded.
        (AWS, []),
        (
            f"{AWS.replace('cma=8G', 'quiet')} panic=-1",
            [
                wording("The kernel runs without the configured arguments cma=8G"),
                wording("The kernel runs with the arguments quiet, which are no longer configured"),
            ],
        ),
    ],
)
def test_an_image_of_a_cloud_that_tries_twice_needs_no_reboot(
    tmp_path: Path, cmdline: str, expected: list[str]
) -> None:
    write(tmp_path / "boot/grub/grub.cfg", recorded("menus/ubuntu-aws.cfg"))
    write(tmp_path / "boot/grub/grubenv", "# GRUB Environment Block\n")
    write(tmp_path / "proc/sys/kernel/osrelease", "6.5.13\n")
    write(tmp_path / "proc/cmdline", f"{cmdline}\n")
    assert reasons(tmp_path) == expected


def test_what_was_so_when_the_boot_began_is_a_note_and_no_reason(tmp_path: Path) -> None:
    menu = tmp_path / "boot/grub/grub.cfg"
    write(menu, "menuentry A {\nlinux /vmlinuz-6.8 ro quiet\n}\n")
    write(tmp_path / "proc/sys/kernel/osrelease", "6.9\n")
    write(tmp_path / "proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.9 ro debug\n")
    write(tmp_path / "proc/stat", "cpu 1 2\nbtime 1700000000\nprocesses 9\n")
    expected = [
        "The kernel 6.9 is running, and the next boot uses 6.8",
        "The kernel runs without the configured arguments quiet",
        "The kernel runs with the arguments debug, which are no longer configured",
    ]
    os.utime(menu, (1700000001, 1700000001))
    assert reboot_facts(tmp_path) == {"required": True, "reasons": expected, "notes": []}
    os.utime(menu, (1699999999, 1699999999))
    notes = [f"{text}. It was so when this boot began." for text in expected]
    assert reboot_facts(tmp_path) == {"required": False, "reasons": [], "notes": notes}
    write(tmp_path / "run/reboot-required", "")
    assert reboot_facts(tmp_path)["reasons"] == [wording("The system asks for a reboot (/run/reboot-required)")]


WORDS = st.lists(st.sampled_from(["ro", "quiet", "a=b", '"c=d e"', "console=tty1", "splash"]), unique=True)


@settings(max_examples=40)
@given(
    WORDS,
    st.sampled_from(["", "if [ x = y ]; then set a=1; fi", "set default=7", "load_env", "if sleep 1; then b=1; fi"]),
)
def test_a_host_that_runs_what_its_menu_says_needs_no_reboot(words: list[str], before: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root / "boot/grub/grub.cfg", f"{before}\nmenuentry A {{\nlinux /vmlinuz-6.8 {' '.join(words)}\n}}\n")
        write(root / "proc/sys/kernel/osrelease", "6.8\n")
        write(root / "proc/cmdline", f"BOOT_IMAGE=/vmlinuz-6.8 {' '.join(words)}\n")
        assert reasons(root) == []


@settings(max_examples=40)
@given(st.text(alphabet=st.characters(codec="utf-8")), st.text(alphabet=st.characters(codec="utf-8")))
def test_a_file_that_is_no_menu_is_no_reason_to_reboot(menu: str, cmdline: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root / "boot/grub/grub.cfg", menu)
        write(root / "proc/sys/kernel/osrelease", "6.8\n")
        write(root / "proc/cmdline", cmdline)
        assert reasons(root) == []


def test_nouveau_and_the_driver_are_reasons_too(tmp_path: Path) -> None:
    write(tmp_path / "sys/module/nouveau/refcnt", "3\n")
    write(tmp_path / "sys/module/nova_core/refcnt", "3\n")
    write(tmp_path / "etc/modprobe.d/off.conf", "blacklist nouveau\nblacklist nova_core\n")
    load(tmp_path, "570.158.01", libraries="580.95.05")
    expected = [
        "nouveau is loaded although it is blacklisted",
        "nova_core is loaded although it is blacklisted",
        "The loaded driver is 570.158.01, its installed libraries are 580.95.05",
    ]
    assert reasons(tmp_path) == expected
    # The operator replaces the driver of a driver container itself.
    write(tmp_path / "run/nvidia/driver/usr/bin/nvidia-smi", "")
    write(tmp_path / "run/nvidia/driver/usr/lib64/x", "")
    (tmp_path / "run/nvidia/driver/usr/lib64/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.95.05")
    assert reasons(tmp_path) == expected[:2]


def test_what_the_next_boot_changes() -> None:
    now = ["BOOT_IMAGE=/x", "ro", "old=1", "vt.handoff=7"]
    assert changed_arguments(now, ["ro", "new=1"]) == (["new=1"], ["old=1"])
    assert changed_arguments(now, None) == ([], [])
    # The boot may have been the first try or the second.
    assert changed_arguments(now, ["ro", "new=1", "panic=-1"], ["ro", "new=1"]) == (["new=1"], ["old=1"])
    assert changed_arguments(now, ["ro"], ["ro", "old=1"]) == ([], [])


def test_a_driver_that_was_removed_while_its_module_was_loaded(tmp_path: Path) -> None:
    write(tmp_path / "proc/sys/kernel/osrelease", "6.8\n")
    write(tmp_path / "lib/modules/6.8/modules.dep", "")
    assert reasons(tmp_path) == [], "It is not loaded."
    load(tmp_path, "580.95.05")
    assert reasons(tmp_path) == [wording("The NVIDIA kernel module is loaded although it is no longer installed")]
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


def driver_facts(**facts: t.Any) -> dict[str, t.Any]:
    same = dict.fromkeys(("version", "installed_version", "userspace_version"), "580.95.05")
    return {"loaded": True, "module_installed": True, "matches": True, "containerised": False, **same, **facts}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"installed_version": "595.45.04"}, ["The driver 580.95.05 is loaded, and 595.45.04 is installed"]),
        (
            {"installed_version": "595.45.04", "userspace_version": "595.45.04", "matches": False},
            ["The driver 580.95.05 is loaded, and 595.45.04 is installed"],
        ),
        (
            {"userspace_version": "595.45.04", "matches": False},
            ["The loaded driver is 580.95.05, its installed libraries are 595.45.04"],
        ),
        (
            {"installed_version": None, "module_installed": False},
            [wording("The NVIDIA kernel module is loaded although it is no longer installed")],
        ),
        ({"installed_version": None, "module_installed": None}, []),
        ({"installed_version": "595.45.04", "containerised": True, "matches": False}, []),
        ({"loaded": False, "version": None, "matches": None}, []),
    ],
)
def test_a_driver_that_was_changed_on_the_disk(tmp_path: Path, facts: dict[str, t.Any], expected: list[str]) -> None:
    host = FakeHost(tmp_path)
    kernel_facts = kernel(host).facts
    section = reboot(host, kernel_facts, nouveau(host, []).facts, driver_facts(**facts))
    assert section.facts["reasons"] == expected
