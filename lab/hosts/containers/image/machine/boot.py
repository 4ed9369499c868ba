# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What happens between power-on and systemd: boot loader, kernel, initramfs, udev. Runs as PID 1 at every start of the container."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import tempfile
import time
import typing as t
import uuid

from . import files, modules, pci, spec

RECORDED_SYSCTLS = f"{spec.HOME}/recorded/sys"
SYSCTLS = "/proc/sys"
HUGEPAGES = {"2M": "hugepages-2048kB", "1G": "hugepages-1048576kB"}
INIT = "/lib/systemd/systemd"


class PanicError(Exception):
    """The machine does not come up."""


def main(arguments: list[str]) -> t.NoReturn:
    """Boot, and become systemd."""
    del arguments
    machine = spec.from_environment()
    machine.save()
    try:
        kernel_arguments, initramfs = _boot_loader()
        _initramfs_content(initramfs)
    except PanicError as error:
        _panic(error)
    files.write("/proc/cmdline", " ".join(kernel_arguments) + "\n")
    _forget_last_boot(machine)
    pci.build(machine, kernel_arguments)
    _hugepages(kernel_arguments)
    _load_from_initramfs(initramfs, kernel_arguments)
    _load_from_root()
    os.execv(INIT, [INIT])


def _panic(error: PanicError) -> t.NoReturn:
    """A machine that hangs: it does not answer as the one that was booted, since nothing renewed the boot id."""
    print(f"Kernel panic - not syncing: {error}", flush=True)
    while True:
        time.sleep(3600)


def _boot_loader() -> tuple[list[str], str]:
    """The kernel command line and the initramfs that the boot loader's own configuration names: not what is to go into it one day."""
    entries = sorted(glob.glob("/boot/loader/entries/*.conf"))
    if entries:
        fields = dict(line.partition(" ")[::2] for line in files.read(entries[-1]).splitlines())
        kernel, options, initramfs = fields["linux"], fields["options"], "/boot" + fields["initrd"].split()[0]
        return [f"BOOT_IMAGE=(hd0,gpt2){kernel}", *options.split()], initramfs
    menu = files.read("/boot/grub/grub.cfg")
    linux = re.search(r"^[ \t]*linux[ \t]+(\S+)[ \t]+(.*)$", menu, re.MULTILINE)
    initrd = re.search(r"^[ \t]*initrd[ \t]+(?:.*[ \t])?(\S+)$", menu, re.MULTILINE)
    if not linux or not initrd:
        raise PanicError("the boot loader has no kernel to start")
    return [f"BOOT_IMAGE={linux[1]}", *linux[2].split()], initrd[1]


def _initramfs_content(path: str) -> list[str]:
    """The names in an initramfs."""
    tool = "/usr/bin/lsinitramfs" if os.path.exists("/usr/bin/lsinitramfs") else "/usr/bin/lsinitrd"
    answer = subprocess.run([tool, path], capture_output=True, text=True, check=False)
    if answer.returncode or not answer.stdout.strip():
        raise PanicError(f"VFS: unable to mount root fs: {path} is no initramfs")
    return answer.stdout.splitlines()


def _forget_last_boot(machine: spec.Spec) -> None:
    for folder in (modules.SYSFS, "/proc/driver/nvidia"):
        files.empty(folder)
    for folder, dummy, names in os.walk(RECORDED_SYSCTLS):
        for name in names:
            recorded = os.path.join(folder, name)
            current = SYSCTLS + recorded.removeprefix(RECORDED_SYSCTLS)
            text = files.read(recorded)
            if files.read(current) != text:
                files.write(current, text)
    files.write("/proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
    vendor = {"intel": "GenuineIntel", "amd": "AuthenticAMD"}[machine.cpu]
    files.write("/proc/cpuinfo", re.sub(r"(vendor_id\s*: ).*", rf"\g<1>{vendor}", files.read("/proc/cpuinfo")))


def _hugepages(arguments: list[str]) -> None:
    size = "2M"
    for argument in arguments:
        key, _equals, value = argument.partition("=")
        if key == "hugepagesz":
            size = value
        elif key == "hugepages":
            target = (
                "/proc/sys/vm/nr_hugepages"
                if size == "2M"
                else f"/sys/kernel/mm/hugepages/{HUGEPAGES[size]}/nr_hugepages"
            )
            files.write(target, value + "\n")


def _load_from_initramfs(path: str, arguments: list[str]) -> None:
    """nouveau, when the initramfs has it and nothing in the initramfs forbids it: long before the root file system's opinion counts."""
    if not any(
        name.endswith(("/nouveau.ko", "/nouveau.ko.zst", "/nouveau.ko.xz")) for name in _initramfs_content(path)
    ):
        return
    forbidden = {
        name
        for argument in arguments
        if argument.startswith("rd.driver.blacklist=")
        for name in argument.partition("=")[2].split(",")
    }
    if "nouveau" in forbidden or not pci.gpus():
        return
    with tempfile.TemporaryDirectory() as folder:
        if os.path.exists("/usr/bin/unmkinitramfs"):
            subprocess.run(["/usr/bin/unmkinitramfs", path, folder], check=True)
        else:
            subprocess.run(["/usr/bin/lsinitrd", "--unpack", path], cwd=folder, check=True, capture_output=True)
        root = f"{folder}/main" if os.path.isdir(f"{folder}/main") else folder
        config = [
            f"{root}/{name}"
            for name in ("etc/modprobe.d", "lib/modprobe.d", "usr/lib/modprobe.d")
            if os.path.isdir(f"{root}/{name}")
        ]
        _try("nouveau", config)


def _load_from_root() -> None:
    for pattern in ("/usr/lib/modules-load.d/*.conf", "/etc/modules-load.d/*.conf", "/etc/modules"):
        for path in sorted(glob.glob(pattern)):
            for line in files.read(path).splitlines():
                if line.strip() and line.strip()[0] not in "#;":
                    _try(line.strip())
    for modalias in pci.modaliases():
        answer = subprocess.run(
            [modules.REAL, "--resolve-alias", modalias], capture_output=True, text=True, check=False
        )
        for name in answer.stdout.split():
            _try(name)


def _try(name: str, config: list[str] | None = None) -> None:
    try:
        modules.load(name, blacklist=True, config=config)
    except modules.RefusedError as error:
        print(f"{name}: {error}", flush=True)
