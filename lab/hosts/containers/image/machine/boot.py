# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot of the simulated machine up to systemd: boot loader, kernel, initramfs and udev. PID 1 of the container."""

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
NOUVEAU = ("/nouveau.ko", "/nouveau.ko.zst", "/nouveau.ko.xz")


class PanicError(Exception):
    """The machine cannot boot."""


def main(arguments: list[str]) -> t.NoReturn:
    """Boot, then become systemd."""
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
    """Hang. The machine keeps its old boot ID, by which others see that it has not booted."""
    print(f"Kernel panic - not syncing: {error}", flush=True)
    while True:
        time.sleep(3600)


def _boot_loader() -> tuple[list[str], str]:
    """Return the kernel command line and the initramfs that the boot loader's configuration names now."""
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
    """Return the names of the files in an initramfs."""
    tool = "/usr/bin/lsinitramfs" if os.path.exists("/usr/bin/lsinitramfs") else "/usr/bin/lsinitrd"
    answer = subprocess.run([tool, path], capture_output=True, text=True, check=False)
    if answer.returncode or not answer.stdout.strip():
        raise PanicError(f"VFS: unable to mount root fs: {path} is not an initramfs")
    return answer.stdout.splitlines()


def _forget_last_boot(machine: spec.Machine) -> None:
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
            of_size = f"/sys/kernel/mm/hugepages/{HUGEPAGES[size]}/nr_hugepages"
            files.write("/proc/sys/vm/nr_hugepages" if size == "2M" else of_size, value + "\n")


def _load_from_initramfs(path: str, arguments: list[str]) -> None:
    """Load nouveau if the initramfs has it and does not forbid it. The root file system is mounted only later."""
    has_nouveau = any(name.endswith(NOUVEAU) for name in _initramfs_content(path))
    forbidden = modules.listed(arguments, "rd.driver.blacklist")
    if not has_nouveau or "nouveau" in forbidden or not pci.gpus():
        return
    with tempfile.TemporaryDirectory() as folder:
        root = _unpack(path, folder)
        configurations = [f"{root}/{name}" for name in ("etc/modprobe.d", "lib/modprobe.d", "usr/lib/modprobe.d")]
        _try("nouveau", [path for path in configurations if os.path.isdir(path)])


def _unpack(path: str, folder: str) -> str:
    """Unpack an initramfs into a folder and return the root of its file system."""
    if os.path.exists("/usr/bin/unmkinitramfs"):
        subprocess.run(["/usr/bin/unmkinitramfs", path, folder], check=True)
    else:
        subprocess.run(["/usr/bin/lsinitrd", "--unpack", path], cwd=folder, check=True, capture_output=True)
    return f"{folder}/main" if os.path.isdir(f"{folder}/main") else folder


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
