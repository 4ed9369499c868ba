# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel modules, loaded and unloaded as far as anyone can see.

kmod itself decides what a name means (aliases, blacklists, options, dependencies, install lines); only the last step, the system call, is
played here: a folder in /sys/module, a line in /proc/modules, and a driver on the devices.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

from . import files, pci

SYSFS = "/sys/module"
REAL = "/usr/sbin/modprobe"
PCI_DRIVERS = {"nouveau": "nouveau", "nvidia": "nvidia", "vfio_pci": "vfio-pci"}


class RefusedError(Exception):
    """The kernel, or an install line, said no."""


def modprobe(arguments: list[str]) -> int:
    """``modprobe``: plain loading and removing is played, every question goes to kmod."""
    plain = {"-a": "all", "--all": "all", "-b": "blacklist", "--use-blacklist": "blacklist", "-r": "remove", "--remove": "remove",
             "-q": "quiet", "--quiet": "quiet", "-v": "verbose", "--verbose": "verbose", "--first-time": "first"}  # fmt: skip
    flags = {plain[argument] for argument in arguments if argument in plain}
    names = [argument for argument in arguments if argument not in plain]
    if any(name.startswith("-") for name in names) or not names:
        os.execv(REAL, [REAL, *arguments])
    try:
        if "remove" in flags:
            for name in names:
                unload(name)
        elif "all" in flags:
            for name in names:
                load(name, blacklist="blacklist" in flags)
        else:
            load(names[0], *names[1:], blacklist="blacklist" in flags)
    except RefusedError as error:
        if "quiet" not in flags:
            print(f"modprobe: {error}", file=sys.stderr)
        return 1
    return 0


def rmmod(arguments: list[str]) -> int:
    """``rmmod``."""
    try:
        for name in arguments:
            if not name.startswith("-"):
                unload(name)
    except RefusedError as error:
        print(f"rmmod: {error}", file=sys.stderr)
        return 1
    return 0


def lsmod(arguments: list[str]) -> int:
    """``lsmod``."""
    del arguments
    print("Module                  Size  Used by")
    for name in loaded():
        users = _holders(name)
        print(f"{name:<19} {16384:>8}  {len(users)} {','.join(users)}".rstrip())
    return 0


def loaded() -> list[str]:
    """What is loaded."""
    return sorted(os.listdir(SYSFS))


def load(name: str, *options: str, blacklist: bool = False, config: list[str] | None = None) -> None:
    """Load a module and what it depends on, as kmod resolves it."""
    argv = [
        REAL,
        "--show-depends",
        *(["--use-blacklist"] if blacklist else []),
        *(f"--config={path}" for path in config or []),
        name,
        *options,
    ]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RefusedError(answer.stderr.strip().removeprefix("modprobe: ") or f"FATAL: Module {name} not found.")
    for line in answer.stdout.splitlines():
        verb, *words = shlex.split(line)
        if verb == "install":
            _run_install_line(name, " ".join(words))
        elif verb == "insmod":
            _insert(words[0], words[1:])


def _run_install_line(name: str, command: str) -> None:
    if subprocess.run(["/bin/sh", "-c", command], check=False).returncode:
        raise RefusedError(
            f"ERROR: ../libkmod/libkmod-module.c: Error running install command '{command}' for module {name}"
        )


def _insert(path: str, options: list[str]) -> None:
    name = os.path.basename(path).partition(".")[0].replace("-", "_")
    folder = f"{SYSFS}/{name}"
    if os.path.isdir(folder):
        return
    if name in _forbidden():
        raise RefusedError(f"ERROR: could not insert '{name}': Operation not permitted")
    info = _modinfo(path)
    files.write(f"{folder}/initstate", "live\n")
    files.write(f"{folder}/refcnt", "0\n")
    for version in info.get("version", []):
        files.write(f"{folder}/version", version + "\n")
    for option in options:
        key, _equals, value = option.partition("=")
        files.write(f"{folder}/parameters/{key}", value + "\n")
    for dependency in ",".join(info.get("depends", [])).split(","):
        if dependency and os.path.isdir(f"{SYSFS}/{dependency.replace('-', '_')}"):
            files.link(f"{SYSFS}/{dependency.replace('-', '_')}/holders/{name}", folder)
    if name in PCI_DRIVERS:
        _probe(name, info, options)
    _list_in_proc()


def _forbidden() -> set[str]:
    """What module_blacklist= on the kernel command line forbids, by whatever way it is to be loaded."""
    return {
        name.replace("-", "_")
        for argument in files.read("/proc/cmdline").split()
        if argument.startswith("module_blacklist=")
        for name in argument.partition("=")[2].split(",")
    }


def _modinfo(path: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for line in subprocess.run(
        ["/usr/sbin/modinfo", path], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        key, _colon, value = line.partition(":")
        fields.setdefault(key.strip(), []).append(value.strip())
    return fields


def _probe(name: str, info: dict[str, list[str]], options: list[str]) -> None:
    patterns = list(info.get("alias", []))
    for option in options:
        if option.startswith("ids="):
            patterns += [
                f"pci:v0000{vendor.upper()}d0000{device.upper()}*"
                for vendor, device in (i.split(":")[:2] for i in option[4:].split(","))
            ]
    taken = pci.bind(PCI_DRIVERS[name], patterns)
    if name != "nvidia":
        return
    if not taken:
        pci.unbind("nvidia")
        _forget(name)
        raise RefusedError("ERROR: could not insert 'nvidia': No such device")
    flavour = "Open Kernel Module" if "MIT" in info["license"][0] else "x86_64 Kernel Module"
    version = info["version"][0]
    files.write(
        "/proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX {flavour}  {version}  Release Build  (stand-in)\nGCC version:  stand-in\n",
    )


def unload(name: str) -> None:
    """Unload a module, unless another one needs it."""
    name = name.replace("-", "_")
    if not os.path.isdir(f"{SYSFS}/{name}"):
        raise RefusedError(f"FATAL: Module {name} is not currently loaded.")
    holders = _holders(name)
    if holders:
        raise RefusedError(f"FATAL: Module {name} is in use by: {' '.join(holders)}")
    if name in PCI_DRIVERS:
        pci.unbind(PCI_DRIVERS[name])
    if name == "nvidia":
        files.empty("/proc/driver/nvidia")
    _forget(name)
    _list_in_proc()


def _forget(name: str) -> None:
    for other in loaded():
        link = f"{SYSFS}/{other}/holders/{name}"
        if os.path.islink(link):
            os.unlink(link)
    files.empty(f"{SYSFS}/{name}")
    os.rmdir(f"{SYSFS}/{name}")


def _holders(name: str) -> list[str]:
    folder = f"{SYSFS}/{name}/holders"
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def _list_in_proc() -> None:
    if os.path.exists("/proc/modules"):
        lines = [
            f"{name} 16384 {len(_holders(name))} {','.join(_holders(name)) or '-'}{',' if _holders(name) else ''} Live 0x0"
            for name in loaded()
        ]
        files.write("/proc/modules", "\n".join(lines) + "\n")
