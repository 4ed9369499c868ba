# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fake hosts of the Debian and the Red Hat family, whose commands change the boot entries as the real commands do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.boot_entries import (
    default_arguments,
    grub_defaults,
)

from tests.unit.fakes.host import FakeHost

KERNEL = "6.8.0-60-generic"
COMMAND_LINE = "root=UUID=2f0c ro"


def debian(root: Path, running: str = COMMAND_LINE) -> FakeHost:
    """A host of the Debian family that has booted with the configured arguments."""
    host = FakeHost(root)

    def update_grub(_command: list[str]) -> str:
        arguments = " ".join(default_arguments(grub_defaults(host) or {}))
        plain = (grub_defaults(host) or {}).get("GRUB_CMDLINE_LINUX", "")
        host.put(
            "/boot/grub/grub.cfg",
            "### BEGIN /etc/grub.d/10_linux ###\n"
            f"menuentry 'Ubuntu' {{\n\tlinux\t/vmlinuz-{KERNEL} {COMMAND_LINE} {arguments}\n}}\n"
            f"menuentry 'Ubuntu (recovery mode)' {{\n\tlinux\t/vmlinuz-{KERNEL} {COMMAND_LINE} single {plain}\n}}\n"
            "### END /etc/grub.d/10_linux ###\n"
            "### BEGIN /etc/grub.d/40_custom ###\n"
            f"{host.read('/etc/grub.d/40_custom') or ''}\n"
            "### END /etc/grub.d/40_custom ###\n",
        )
        return ""

    host.commands["update-grub"] = update_grub
    host.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n')
    host.put("/proc/cmdline", f"BOOT_IMAGE=/vmlinuz-{KERNEL} {running} quiet\n")
    host.put("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\n")
    host.put("/proc/sys/kernel/osrelease", f"{KERNEL}\n")
    host.put(f"/boot/vmlinuz-{KERNEL}", "")
    update_grub([])
    return host


def redhat(root: Path, arguments: str = "ro crashkernel=1G iommu=off") -> FakeHost:
    """A host of the Red Hat family with two kernels. grubby edits the files of the Boot Loader Specification."""
    host = FakeHost(root)
    versions = ("5.14.0-427.el9.x86_64", "5.14.0-362.el9.x86_64")

    def entry(version: str) -> str:
        return f"/boot/loader/entries/4f-{version}.conf"

    def options(version: str) -> list[str]:
        return shlex.split(re.search(r"^options (.*)$", host.read(entry(version)) or "", re.MULTILINE)[1])

    def store(version: str, given: list[str]) -> None:
        host.put(
            entry(version), f"title Rocky\nversion {version}\nlinux /vmlinuz-{version}\noptions {' '.join(given)}\n"
        )

    def grubby(command: list[str]) -> str:
        given = dict(part.removeprefix("--").split("=", 1) for part in command[1:])
        if "info" in given:
            return "".join(
                f'index={index}\nkernel="/boot/vmlinuz-{v}"\nargs="{" ".join(options(v))}"\n'
                for index, v in enumerate(versions)
            )
        for version in versions:
            words = [
                word
                for word in options(version)
                if not {word, word.partition("=")[0]} & set(given.get("remove-args", "").split())
            ]
            for wanted in given.get("args", "").split():
                same = [place for place, word in enumerate(words) if word.partition("=")[0] == wanted.partition("=")[0]]
                # grubby keeps one value for each name.
                words[slice(same[0], same[0] + 1) if same else slice(len(words), None)] = [wanted]
            store(version, words)
        return ""

    host.commands["grubby"] = grubby
    for version in versions:
        store(version, arguments.split())
    host.put("/etc/default/grub", f'GRUB_CMDLINE_LINUX="{arguments}"\n')
    host.put("/proc/cmdline", f"BOOT_IMAGE=(hd0,gpt2)/vmlinuz-{versions[0]} {arguments}\n")
    host.put("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\n")
    host.put("/proc/sys/kernel/osrelease", f"{versions[0]}\n")
    return host
