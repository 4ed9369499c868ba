# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.other_drivers import (
    in_initramfs,
    loaded,
    nouveau,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from inline_snapshot import snapshot as wording

from lab.nvml.tree import write
from tests.unit.fakes.host import FIXTURES, FakeHost


def test_nouveau_blacklisted_by_a_file() -> None:
    section = nouveau(FakeHost(FIXTURES / "ubuntu-22.04"), [])
    assert section.facts == {
        "loaded": False,
        "blacklisted": True,
        "in_initramfs": None,
        "files": ["/etc/modprobe.d/blacklist-nouveau.conf"],
        "modules": {
            "nouveau": {"loaded": False, "blacklisted": True},
            "nova_core": {"loaded": False, "blacklisted": False},
            "nova_drm": {"loaded": False, "blacklisted": False},
        },
    }
    assert "subset initramfs" in str(section.sources["in_initramfs"]["reason"])


def test_a_file_in_etc_overrides_the_file_of_a_package() -> None:
    assert nouveau(FakeHost(FIXTURES / "rhel-8"), []).facts["blacklisted"] is False


@pytest.mark.parametrize(
    "argument", ["modprobe.blacklist=nouveau", "module_blacklist=foo,nouveau", "rd.driver.blacklist=nouveau"]
)
def test_nouveau_blacklisted_by_an_argument(tmp_path: Path, argument: str) -> None:
    section = nouveau(FakeHost(tmp_path), ["quiet", argument])
    assert section.facts["blacklisted"] is True
    assert section.facts["files"] == []
    assert section.sources["blacklisted"] == {"source": "/proc/cmdline", "reason": None}
    assert nouveau(FakeHost(FIXTURES / "ubuntu-22.04"), []).sources["blacklisted"]["source"] == "modprobe.d"
    assert nouveau(FakeHost(tmp_path), []).sources["blacklisted"]["source"] == "modprobe.d"
    assert nouveau(FakeHost(tmp_path), ["modprobe.blacklist=nouveau2"]).facts["blacklisted"] is False


LSINITRAMFS = "usr/lib/modules/6.8.0-87-generic/kernel/drivers/gpu/drm/nouveau/nouveau.ko.zst\nusr/bin/kmod\n"
LSINITRD = (
    "-rw-r--r--   1 root     root      1218632 Jan  1  1970 "
    "usr/lib/modules/5.14.0-427.el9.x86_64/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz\n"
)


def test_nouveau_in_an_initramfs(tmp_path: Path) -> None:
    write(tmp_path / "boot/initrd.img-6.8", "")
    assert in_initramfs(FakeHost(tmp_path, lsinitramfs=LSINITRAMFS), "6.8") == (True, "lsinitramfs")
    assert in_initramfs(FakeHost(tmp_path, lsinitramfs="etc/modprobe.d/nouveau.conf\n"), "6.8") == (
        False,
        "lsinitramfs",
    )
    assert in_initramfs(FakeHost(tmp_path, lsinitramfs=Output(error="lsinitramfs ended with 1")), "6.8") == (
        None,
        "lsinitramfs ended with 1",
    )
    assert in_initramfs(FakeHost(tmp_path), "5.14") == (
        None,
        wording("There is no initramfs of the kernel 5.14 in /boot"),
    )
    write(tmp_path / "boot/initramfs-5.14.img", "")
    assert in_initramfs(FakeHost(tmp_path, lsinitrd=LSINITRD), "5.14") == (True, "lsinitrd")


def test_nova_is_a_driver_of_the_kernel_too(tmp_path: Path) -> None:
    write(tmp_path / "sys/module/nova_core/refcnt", "1\n")
    write(tmp_path / "etc/modprobe.d/nvidia.conf", "blacklist nouveau\nblacklist nova_core\n")
    facts = nouveau(FakeHost(tmp_path), ["modprobe.blacklist=nova_drm"]).facts
    assert (facts["loaded"], facts["blacklisted"], facts["files"]) == (True, True, ["/etc/modprobe.d/nvidia.conf"])
    assert facts["modules"] == {
        "nouveau": {"loaded": False, "blacklisted": True},
        "nova_core": {"loaded": True, "blacklisted": True},
        "nova_drm": {"loaded": False, "blacklisted": True},
    }
    assert loaded(facts) == ["nova_core"]


def test_nova_in_an_initramfs(tmp_path: Path) -> None:
    write(tmp_path / "boot/initrd.img-7.0", "")
    listed = "usr/lib/modules/7.0/kernel/drivers/gpu/nova-core/nova_core.ko.zst\n"
    assert in_initramfs(FakeHost(tmp_path, lsinitramfs=listed), "7.0") == (True, "lsinitramfs")


@pytest.mark.parametrize("image", ["initrd.img-7.2.13", "initrd-7.2.13"])
def test_the_images_of_dracut_on_debian_and_suse_are_read_with_its_own_tool(tmp_path: Path, image: str) -> None:
    write(tmp_path / "boot" / image, "")
    assert in_initramfs(FakeHost(tmp_path, lsinitrd=LSINITRD), "7.2.13") == (True, "lsinitrd")
