# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated loading and unloading of kernel modules.

The real kmod resolves names (aliases, blacklists, options, dependencies, install lines). This module replaces only the
system call: it changes the folder in /sys/module, the line in /proc/modules and the driver of the devices.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import typing as t

from . import files, pci

SYSFS = "/sys/module"
OPTIONS_SHOWN_AS = {"RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}
REAL = "/usr/sbin/modprobe"
FLAGS = {
    **dict.fromkeys(("-a", "--all"), "all"),
    **dict.fromkeys(("-b", "--use-blacklist"), "blacklist"),
    **dict.fromkeys(("-r", "--remove"), "remove"),
    **dict.fromkeys(("-q", "--quiet"), "quiet"),
    **dict.fromkeys(("-v", "--verbose", "--first-time"), "ignored"),
}
PCI_DRIVERS = {"nouveau": "nouveau", "nvidia": "nvidia", "vfio_pci": "vfio-pci"}


class RefusedError(Exception):
    """The kernel or an install line refused a module."""


def modprobe(arguments: list[str]) -> int:
    """``modprobe``: simulate loading and removing, and pass everything else to kmod."""
    flags = {FLAGS[argument] for argument in arguments if argument in FLAGS}
    names = [argument for argument in arguments if argument not in FLAGS]
    if any(name.startswith("-") for name in names) or not names:
        os.execv(REAL, [REAL, *arguments])
    try:
        _modprobe(flags, names)
    except RefusedError as error:
        if "quiet" not in flags:
            print(f"modprobe: {error}", file=sys.stderr)
        return 1
    return 0


def _modprobe(flags: set[str], names: list[str]) -> None:
    if "remove" in flags:
        for name in names:
            unload(name)
    elif "all" in flags:
        for name in names:
            load(name, blacklist="blacklist" in flags)
    else:
        load(names[0], *names[1:], blacklist="blacklist" in flags)


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
    """Return the names of the loaded modules."""
    return sorted(os.listdir(SYSFS))


def load(name: str, *options: str, blacklist: bool = False, config: list[str] | None = None) -> None:
    """Load a module and its dependencies, as kmod resolves them."""
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
    # The file may be gone since the last depmod.
    if not os.path.exists(path):
        raise RefusedError(f"ERROR: could not insert '{name}': No such file or directory")
    info = _modinfo(path)
    files.write(f"{folder}/initstate", "live\n")
    files.write(f"{folder}/refcnt", "0\n")
    for version in info.get("version", []):
        files.write(f"{folder}/version", version + "\n")
    if name != "nvidia":
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
    """Return the modules that the kernel refuses to load, no matter who asks."""
    return listed(files.read("/proc/cmdline").split(), "module_blacklist")


def listed(arguments: list[str], key: str) -> set[str]:
    """Return the module names in the values of a kernel argument."""
    values = [value for name, _equals, value in (argument.partition("=") for argument in arguments) if name == key]
    return {name.replace("-", "_") for value in values for name in value.split(",")}


def _modinfo(path: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for line in subprocess.run(
        ["/usr/sbin/modinfo", path], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        key, _colon, value = line.partition(":")
        fields.setdefault(key.strip(), []).append(value.strip())
    return fields


def _probe(name: str, info: dict[str, list[str]], options: list[str]) -> None:
    taken = pci.bind(PCI_DRIVERS[name], [*info.get("alias", []), *_id_patterns(options)])
    if name != "nvidia":
        return
    if not taken:
        pci.unbind("nvidia")
        _forget(name)
        raise RefusedError("ERROR: could not insert 'nvidia': No such device")
    flavour = "Open Kernel Module" if "MIT" in info["license"][0] else "x86_64 Kernel Module"
    version = info["version"][0]
    # The driver's options have the mode 0, so that sysfs has no parameters of it.
    pairs = (option.removeprefix("NVreg_").partition("=") for option in options)
    values = {"EnableGpuFirmware": "18", "RmProfilingAdminOnly": "1"}
    values |= {OPTIONS_SHOWN_AS.get(key, key): value for key, _equals, value in pairs}
    files.write("/proc/driver/nvidia/params", "".join(f"{key}: {value}\n" for key, value in sorted(values.items())))
    files.write(
        "/proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX {flavour}  {version}  Release Build  (stand-in)\nGCC version:  stand-in\n",
    )


def _id_patterns(options: list[str]) -> t.Iterator[str]:
    """Yield the patterns for the devices that the option ``ids=`` of vfio-pci names."""
    for option in options:
        key, _equals, value = option.partition("=")
        for identity in value.split(",") if key == "ids" else []:
            vendor, device = identity.upper().split(":")[:2]
            yield f"pci:v0000{vendor}d0000{device}*"


def unload(name: str) -> None:
    """Unload a module unless another module needs it."""
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
        files.write("/proc/modules", "".join(map(_line, loaded())))


def _line(name: str) -> str:
    holders = _holders(name)
    users = "".join(f"{holder}," for holder in holders) or "-"
    return f"{name} 16384 {len(holders)} {users} Live 0x0\n"
