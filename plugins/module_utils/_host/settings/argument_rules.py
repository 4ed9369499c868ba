# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which kernel arguments may be set, and which arguments the IOMMU needs."""

from __future__ import annotations

import re
import typing as t

Args = list[str]

# Neither a shell, nor GRUB, nor the kernel gives these characters a special meaning.
_ARGUMENT = re.compile(r"[A-Za-z0-9][\w.\-]*(=[\w.,:/+@%*\[\]=\-]*)?")
_HUGEPAGES = re.compile(r"\d+|\d+:\d+(,\d+:\d+)*")
# These belong to the boot loader or the installer.
_BOOT_ARGUMENTS = (
    "BOOT_IMAGE",
    "init",
    "initrd",
    "rd.luks.uuid",
    "rd.lvm.lv",
    "resume",
    "ro",
    "root",
    "rw",
    "single",
)

_SIZES = {"2M", "16M", "32M", "64K", "512M", "1G", "2G", "16G"}
_SWITCH = {"0", "1"}
_INTEL_IOMMU = "on off igfx_off forcedac strict sp_off sm_on sm_off tboot_noforce"
_AMD_IOMMU = "off fullflush force_enable force_isolation pgtbl_v1 pgtbl_v2 irtcachedis nohugepages v2_pgsizes_only"
_IOMMU = "off force noforce biomerge panic nopanic merge nomerge soft pt nopt memaper allowed noagp"
KNOWN_VALUES: dict[str, set[str]] = {
    "intel_iommu": set(_INTEL_IOMMU.split()),
    "amd_iommu": set(_AMD_IOMMU.split()),
    "iommu": set(_IOMMU.split()),
    "iommu.passthrough": _SWITCH,
    "iommu.strict": _SWITCH,
    "init_on_alloc": _SWITCH,
    "init_on_free": _SWITCH,
    "numa_balancing": {"enable", "disable"},
    "nouveau.modeset": {"0", "1", "2", "-1"},
    "default_hugepagesz": _SIZES,
    "hugepagesz": _SIZES,
    "transparent_hugepage": {"always", "madvise", "never"},
}
"""The values that the kernel accepts. The kernel ignores other values silently."""

_HINTS = {"amd_iommu=on": " The IOMMU of an AMD CPU is on by default. Use iommu=pt for passthrough."}

SHARED_LISTS = ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist")
"""Arguments whose value is a list, to which several owners may add."""

_CUMULATIVE = {"modprobe.blacklist", "rd.driver.blacklist"}
_REPEATABLE = {"console", "earlycon", "hugepages", "hugepagesz", "ip", "memmap", "nameserver", "netconsole"}

IOMMU: dict[str, dict[str, Args]] = {
    "enabled": {"intel": ["intel_iommu=on"], "amd": [], "arm": []},
    "passthrough": {"intel": ["intel_iommu=on", "iommu=pt"], "amd": ["iommu=pt"], "arm": ["iommu.passthrough=1"]},
}
"""The arguments for each mode and CPU. AMD's IOMMU and Arm's SMMU are on by default."""


def argument_name(argument: str) -> str:
    """Return an argument's name. To the kernel, dashes and underscores in a name are the same."""
    return argument.partition("=")[0].replace("-", "_")


def argument_names(arguments: t.Iterable[str]) -> set[str]:
    """Return the names of arguments."""
    return {argument_name(argument) for argument in arguments}


def all_count(name: str) -> bool:
    """Return whether the kernel uses every argument of this name, and not only the last one."""
    return name in _CUMULATIVE or name in _REPEATABLE


def list_items(arguments: t.Iterable[str], name: str) -> Args:
    """Return the items of all arguments of this name, each once."""
    values = (argument.partition("=")[2] for argument in arguments if argument_name(argument) == name)
    return list(dict.fromkeys(item for value in values for item in value.split(",") if item))


def merge_lists(arguments: t.Sequence[str]) -> Args:
    """Return the arguments with one argument for each list, at the place of its first."""
    merged = []
    for argument in arguments:
        name = argument_name(argument)
        merged.append(f"{name}={','.join(list_items(arguments, name))}" if name in SHARED_LISTS else argument)
    return [
        argument for place, argument in enumerate(merged) if argument not in merged[:place] or not _is_list(argument)
    ]


def _is_list(argument: str) -> bool:
    return argument_name(argument) in SHARED_LISTS


def problems(arguments: t.Sequence[str]) -> list[str]:
    """Return one sentence for each invalid argument."""
    found = [problem for problem in map(_problem, arguments) if problem]
    # hugepages may follow several sizes.
    repeated = {argument for argument in arguments if list(arguments).count(argument) > 1}
    repeated = {argument for argument in repeated if argument_name(argument) != "hugepages"}
    return found + [f"{argument} is given twice." for argument in sorted(repeated)]


def _problem(argument: str) -> str | None:
    name, _sign, value = argument.partition("=")
    if not _ARGUMENT.fullmatch(argument):
        return (
            f"{argument!r} is not a kernel argument. "
            "Write name or name=value, one in each item, without blanks, quotes or shell characters."
        )
    if name in _BOOT_ARGUMENTS:
        return (
            f"{argument} belongs to the boot loader or the installer, and cannot be set here. "
            "A wrong value would keep the host from booting."
        )
    if name in KNOWN_VALUES and set(value.split(",")) - KNOWN_VALUES[name]:
        values = ", ".join(sorted(KNOWN_VALUES[name]))
        return f"{argument} has no effect: {name} takes {values}.{_HINTS.get(argument, '')}"
    if name == "hugepages" and not _HUGEPAGES.fullmatch(value):
        return f"{argument} has no effect: hugepages takes a number, or node:number for each NUMA node."
    return None


def cpu_vendor(cpuinfo: str) -> str:
    """Return intel, amd or arm. Any other CPU counts as arm, whose arguments every IOMMU understands."""
    vendor = re.search(r"^vendor_id\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
    vendors = {"GenuineIntel": "intel", "AuthenticAMD": "amd", "HygonGenuine": "amd"}
    return vendors.get(vendor[1], "arm") if vendor else "arm"
