# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fake hosts with several kernels, whose commands change packages and boot menu as the real ones do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.boot_entries import (
    grub_defaults,
    version_key,
)

from tests.unit.fakes.apt_host import AptHost
from tests.unit.fakes.host import FakeHost

OLD, NEW, NEWER = "6.8.0-51-generic", "6.8.0-60-generic", "6.8.0-63-generic"
EL_OLD, EL_NEW = "5.14.0-362.8.1.el9_3.x86_64", "5.14.0-427.13.1.el9_4.x86_64"


class Ubuntu(AptHost):
    """An Ubuntu host that runs `OLD`. ``offers`` has two newer kernels."""

    def __init__(self, root: Path) -> None:
        parts = ("image", "modules", "modules-extra", "headers")
        offers = {f"linux-{part}-{kernel}": ["1"] for kernel in (OLD, NEW, NEWER) for part in parts}
        del offers[f"linux-headers-{NEWER}"]
        others = ("linux-image-generic", "linux-image-6.8.0-60-lowlatency", f"linux-image-unsigned-{NEW}")
        super().__init__(root, {**offers, **{name: ["1"] for name in others}})
        self.packages |= {f"linux-{part}-{OLD}": "1" for part in parts}
        self.failure_of_grub = ""
        self.commands |= {"update-grub": self._update_grub}
        self.put("/proc/sys/kernel/osrelease", f"{OLD}\n")
        self.put("/proc/cmdline", f"BOOT_IMAGE=/vmlinuz-{OLD} root=/dev/sda1 ro quiet\n")
        self.put("/etc/default/grub", "GRUB_DEFAULT=0\n")
        self.put(f"/boot/vmlinuz-{OLD}", "kernel")
        self.put(f"/lib/modules/{OLD}/build/Makefile", "")
        self._update_grub([])

    def _apt_get(self, command: list[str]) -> str:
        printed = super()._apt_get(command)
        if "install" in command and "--simulate" not in command:
            for name in self.packages:
                if re.match(r"linux-image-\d", name):
                    self.put(f"/boot/vmlinuz-{name.removeprefix('linux-image-')}", "kernel")
            self._update_grub([])
        return printed

    def _update_grub(self, command: list[str]) -> str:
        if self.failure_of_grub:
            raise OSError(self.failure_of_grub)
        found = sorted((path.rpartition("vmlinuz-")[2] for path in self.glob("/boot/vmlinuz-*")), key=version_key)
        entries = "".join(_entry(f"Ubuntu, with Linux {each}", f"gnulinux-{each}", each) for each in found[::-1])
        default = (grub_defaults(self) or {}).get("GRUB_DEFAULT", "0")
        self.put(
            "/boot/grub/grub.cfg",
            f'set default="{default}"\n'
            'if [ x"${feature_menuentry_id}" = xy ]; then menuentry_id_option="--id"; fi\nexport menuentry_id_option\n'
            + _entry("Ubuntu", "gnulinux-simple", found[-1])
            + f"submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced' {{\n{entries}}}\n",
        )
        return ""


def _entry(title: str, identity: str, kernel: str) -> str:
    line = f"\tlinux /vmlinuz-{kernel} root=/dev/sda1 ro"
    recovery = f"menuentry '{title} (recovery mode)' $menuentry_id_option '{identity}-recovery' {{\n{line} single\n}}\n"
    return f"menuentry '{title}' $menuentry_id_option '{identity}' {{\n{line} quiet\n}}\n{recovery}"


class Rocky(FakeHost):
    """A Rocky host that runs `EL_OLD`, with grubby and dnf."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        parts = ("kernel-core", "kernel-modules", "kernel-devel")
        self.packages = [f"{part}-{EL_OLD}" for part in parts]
        self.offers = [*self.packages, *(f"{part}-{EL_NEW}" for part in parts)]
        self.default = EL_OLD
        self.commands = {"dnf": self._dnf, "rpm": self._rpm, "grubby": self._grubby}
        self.put("/etc/redhat-release", "Rocky Linux release 9.4\n")
        self.put("/proc/sys/kernel/osrelease", f"{EL_OLD}\n")
        self.put("/proc/cmdline", f"BOOT_IMAGE=(hd0,gpt2)/vmlinuz-{EL_OLD} ro\n")
        self._boot_files()

    def _boot_files(self) -> None:
        for name in self.packages:
            if name.startswith("kernel-core-"):
                kernel = name.removeprefix("kernel-core-")
                self.put(f"/boot/vmlinuz-{kernel}", "kernel")
                text = f"title Rocky\nversion {kernel}\nlinux /vmlinuz-{kernel}\noptions ro\n"
                self.put(f"/boot/loader/entries/4f-{kernel}.conf", text)
        self.put("/boot/grub2/grubenv", f"saved_entry=4f-{self.default}\n")

    def _dnf(self, command: list[str]) -> str:
        if "repoquery" in command:
            return "".join(f"{name}\n" for name in self.offers)
        if "install" in command and "--assumeyes" in command:
            self.packages += [name for name in command if name in self.offers and name not in self.packages]
            self._boot_files()
        return ""

    def _rpm(self, command: list[str]) -> str:
        if "--file" in command:
            raise OSError("not owned")
        if any("EPOCH" in word for word in command):
            return ""
        return "".join(f"{name}\n" for name in self.packages)

    def _grubby(self, command: list[str]) -> str:
        self.default = command[1].rpartition("vmlinuz-")[2]
        self._boot_files()
        return ""


@pytest.fixture
def ubuntu(tmp_path: Path) -> Ubuntu:
    return Ubuntu(tmp_path)


@pytest.fixture
def rocky(tmp_path: Path) -> Rocky:
    return Rocky(tmp_path)
