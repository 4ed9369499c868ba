# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.initramfs import Image, Initramfs, images
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.images import image

FILE = "/etc/modprobe.d/zz-gpuops.conf"
TEXT = "blacklist nouveau\n"
KERNEL = "6.8.0-60-generic"
PATH = f"/boot/initrd.img-{KERNEL}"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A host with one image, which contains the file."""
    host = FakeHost(tmp_path, update_initramfs="", gzip="")
    host.put(f"/lib/modules/{KERNEL}/modules.dep", "")
    host.put(PATH, "")
    Path(host.path(PATH)).write_bytes(image({FILE[1:]: TEXT}))
    return host


def test_only_images_of_installed_kernels_count(host: FakeHost) -> None:
    for name in ("initrd.img-6.5.0-removed", "initramfs-0-rescue-4f.img", f"initramfs-{KERNEL}kdump.img"):
        host.put(f"/boot/{name}", "")
    assert images(host) == [Image(PATH, KERNEL)]


def test_the_tool_is_the_one_whose_command_exists(host: FakeHost, tmp_path: Path) -> None:
    assert Initramfs(host).tool == "initramfs-tools"
    assert Initramfs(FakeHost(tmp_path / "other", dracut="")).tool == "dracut"
    assert Initramfs(FakeHost(tmp_path / "other")).tool is None


# `dpkg --search` on Debian sid with dracut 112-7 and on bookworm with initramfs-tools-core 0.142.
BY_DRACUT = "dracut: /usr/sbin/update-initramfs\n"
BY_INITRAMFS_TOOLS = "initramfs-tools: /usr/sbin/update-initramfs\n"
DIVERTED = "diversion by local-admin from: /usr/sbin/update-initramfs\n"


@pytest.mark.parametrize(
    ("owners", "tool"),
    [
        (BY_DRACUT, "dracut"),
        (DIVERTED + BY_DRACUT, "dracut"),
        (BY_INITRAMFS_TOOLS, "initramfs-tools"),
        (DIVERTED + BY_INITRAMFS_TOOLS, "initramfs-tools"),
    ],
)
def test_the_owner_of_update_initramfs_decides_if_dracut_is_there_too(tmp_path: Path, owners: str, tool: str) -> None:
    host = FakeHost(tmp_path, update_initramfs="", dracut="", dpkg=owners)
    assert Initramfs(host).tool == tool
    assert host.ran == [["dpkg", "--search", "*/sbin/update-initramfs"]]


def test_without_an_owner_mkinitramfs_tells_the_tools_apart(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, update_initramfs="", dracut="")
    assert Initramfs(host).tool == "dracut"
    host.commands["mkinitramfs"] = ""
    assert Initramfs(host).tool == "initramfs-tools"


def test_the_images_of_suse_have_no_suffix(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, dracut="")
    kernel = "6.4.0-150600.23.47-default"
    host.put(f"/lib/modules/{kernel}/modules.dep", "")
    for name in (kernel, f"{kernel}-kdump"):
        host.put(f"/boot/initrd-{name}", "")
    assert images(host) == [Image(f"/boot/initrd-{kernel}", kernel)]


@pytest.mark.parametrize(
    "path", ["/boot/efi/4f2a/6.12.0-1/initrd", "/efi/EFI/Linux/4f2a-6.12.0-1.efi", "/boot/4f2a/6/initrd"]
)
def test_images_outside_of_boot_cannot_be_rebuilt(host: FakeHost, tmp_path: Path, path: str) -> None:
    host.put(path, "")
    Initramfs(host).assert_possible()
    other = FakeHost(tmp_path / "other", dracut="")
    Initramfs(other).assert_possible()
    other.put(path, "")
    with pytest.raises(GpuOpsError, match=f"boots with {path}, which") as error:
        Initramfs(other).assert_possible()
    assert error.value.reason == "Unsupported"


def test_a_rebuilt_image_must_agree_with_the_file_on_the_host(host: FakeHost) -> None:
    Initramfs(host).rebuild(FILE, TEXT)
    with pytest.raises(GpuOpsError) as error:
        Initramfs(host).rebuild(FILE, None)
    assert error.value.reason == "Initramfs"
    assert error.value.msg == wording(
        "The new initramfs for 6.8.0-60-generic still contains /etc/modprobe.d/zz-gpuops.conf."
    )
    with pytest.raises(GpuOpsError) as error:
        Initramfs(host).rebuild(FILE, "blacklist other\n")
    assert error.value.reason == "Initramfs"
    assert error.value.msg == wording(
        "The new initramfs for 6.8.0-60-generic contains a different version of /etc/modprobe.d/zz-gpuops.conf from the host's."
    )
    with pytest.raises(GpuOpsError, match=r"does not contain /etc/modprobe\.d/other\.conf"):
        Initramfs(host).rebuild("/etc/modprobe.d/other.conf", TEXT)


def test_an_image_may_be_older_than_a_file(host: FakeHost) -> None:
    assert not Initramfs(host).older_than("/etc/none")
    host.put(FILE, TEXT)
    newer = Path(host.path(PATH)).stat().st_mtime + 10
    os.utime(host.path(FILE), (newer, newer))
    assert Initramfs(host).older_than(FILE)


def test_an_image_as_old_as_the_file_is_not_older(host: FakeHost) -> None:
    host.put(FILE, TEXT)
    for path in (FILE, PATH):
        os.utime(host.path(path), (1_700_000_000, 1_700_000_000))
    assert not Initramfs(host).older_than(FILE)


def test_a_tenth_more_than_the_largest_image_is_room_enough(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "size", lambda path: 10 * 2**20)
    monkeypatch.setattr(host, "free_bytes", lambda folder: 11 * 2**20)
    Initramfs(host).assert_possible()
    monkeypatch.setattr(host, "free_bytes", lambda folder: 11 * 2**20 - 1)
    with pytest.raises(GpuOpsError) as error:
        Initramfs(host).assert_possible()
    assert error.value.reason == "NoSpace"
    assert error.value.msg == wording(
        "/boot has 11 MiB free, and rebuilding an initramfs needs 11 MiB. The host was not changed. Remove kernels that are no longer used."
    )
