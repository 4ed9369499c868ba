# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The kernel that runs and the one of the next boot, secure boot, and whether the host needs a reboot."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import boot_entries, next_boot
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.boot_entries import GRUB_DEFAULTS
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, known_if, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# The boot loader adds these itself.
_LOADER_ARGUMENTS = ("BOOT_IMAGE", "initrd", "vt.handoff")
_REBOOT_REQUIRED = ("/run/reboot-required", "/var/run/reboot-required")


def installed_kernels(host: Host) -> list[str]:
    """Return the kernels that can be booted, the oldest first.

    Their images are in /boot, or in the folder of their modules if the boot loader has its own folders.
    """
    in_boot = (path.partition("vmlinuz-")[2] for path in host.glob("/boot/vmlinuz-*"))
    with_modules = (path.split("/")[-2] for path in host.glob("/lib/modules/*/vmlinuz"))
    versions = {version for version in (*in_boot, *with_modules) if version[:1].isdigit()}
    return sorted((version for version in versions if "-rescue-" not in version), key=boot_entries.version_key)


def kernel(host: Host) -> Section:
    """Return the kernel's facts."""
    facts, sources = {}, {}
    for part in (_running_kernel(host), _next_kernel(host)):
        facts.update(part.facts)
        sources.update(part.sources)
    return Section(facts, sources)


def _running_kernel(host: Host) -> Section:
    running = host.read("/proc/sys/kernel/osrelease")
    cmdline = host.read("/proc/cmdline")
    installed = installed_kernels(host)
    newest = boot_entries.newest(installed)
    return Section(
        {
            "running": running,
            "installed": installed,
            "newest_installed": newest,
            "cmdline": boot_entries.split_arguments(cmdline or ""),
            "headers": host.exists(f"/lib/modules/{running}/build/Makefile"),
        },
        {
            "running": known_if(running, "procfs", "procfs cannot be read"),
            "installed": known_from("/boot"),
            "newest_installed": known_if(newest, "/boot", "There is no kernel in /boot or /lib/modules"),
            "cmdline": known_if(cmdline, "/proc/cmdline", "/proc/cmdline cannot be read"),
            "headers": known_from("/lib/modules"),
        },
    )


def _next_kernel(host: Host) -> Section:
    upcoming = next_boot.next_boot(host)
    values = boot_entries.grub_defaults(host)
    defaults = None if values is None else boot_entries.default_arguments(values)
    loader = boot_entries.bootloader(host)
    source = str(upcoming.source)
    no_fallback = upcoming.reason or "The boot loader has no second try"
    return Section(
        {
            "next_boot": upcoming.version,
            "cmdline_configured": upcoming.arguments,
            "cmdline_fallback": upcoming.fallback,
            "cmdline_source": upcoming.source,
            "cmdline_defaults": defaults,
            "bootloader": loader,
            "changed_since_boot": _changed_since_boot(host, upcoming.files),
        },
        {
            "next_boot": known_if(upcoming.version, source, upcoming.reason),
            "cmdline_configured": known_if(upcoming.arguments, source, upcoming.reason),
            "cmdline_fallback": known_if(upcoming.fallback, source, no_fallback),
            "cmdline_source": known_if(upcoming.source, "files", upcoming.reason),
            "cmdline_defaults": known_if(defaults, GRUB_DEFAULTS, f"There is no {GRUB_DEFAULTS}"),
            "bootloader": known_if(loader, "firmware, files", "No sign of GRUB or systemd-boot"),
            "changed_since_boot": known_from("files, /proc/stat"),
        },
    )


def _changed_since_boot(host: Host, files: t.Iterable[str]) -> bool:
    """Return whether one of the files may have changed since the host booted."""
    booted = re.search(r"^btime (\d+)$", host.read("/proc/stat") or "", re.MULTILINE)
    return booted is None or any(host.changed_at(path) >= int(booted[1]) for path in files)


def secure_boot(host: Host) -> Section:
    """Return whether secure boot is on, and the kernel's lockdown."""
    variable = host.read_bytes(_SECURE_BOOT)
    lockdown = re.search(r"\[(\w+)\]", host.read("/sys/kernel/security/lockdown") or "")
    if variable is not None:
        enabled, source = variable[-1:] == b"\x01", known_from("firmware")
    elif host.exists("/sys/firmware") and not host.exists("/sys/firmware/efi"):
        enabled, source = False, known_from("No UEFI firmware")
    else:
        enabled, source = None, unknown("The firmware's variables cannot be read")
    level = lockdown[1] if lockdown else None
    reason = "/sys/kernel/security/lockdown cannot be read"
    return Section(
        {"enabled": enabled, "lockdown": level},
        {"enabled": source, "lockdown": known_if(level, "securityfs", reason)},
    )


def changed_arguments(
    cmdline: t.Sequence[str], configured: t.Sequence[str] | None, fallback: t.Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return the arguments that the next boot adds and those that it drops.

    A host may have booted with the arguments of the first try or of the second one, so what differs between them is
    neither added nor dropped.
    """
    if configured is None:
        return [], []
    either = [configured, configured if fallback is None else fallback]
    added = [each for each in configured if each not in cmdline and all(each in arguments for arguments in either)]
    dropped = [each for each in cmdline if not any(each in arguments for arguments in either)]
    return _without_loader_arguments(added), _without_loader_arguments(dropped)


def _without_loader_arguments(arguments: t.Sequence[str]) -> list[str]:
    return [argument for argument in arguments if argument.partition("=")[0] not in _LOADER_ARGUMENTS]


def reboot(host: Host, kernel_facts: Json, nouveau_facts: Json, driver_facts: Json) -> Section:
    """Return whether the host needs a reboot: every difference between what runs and what the next boot would run.

    If the files of the boot loader have not changed since the boot, the host has already booted with them, and would
    boot in the same way again. Such a difference is a note.
    """
    differences = _kernel_reasons(kernel_facts)
    pending = differences if kernel_facts["changed_since_boot"] else []
    reasons = [*_system_reasons(host), *pending]
    for name, module in nouveau_facts["modules"].items():
        if module["loaded"] and module["blacklisted"]:
            reasons.append(f"{name} is loaded although it is blacklisted")
    reasons += _driver_reasons(driver_facts)
    return Section(
        {
            "required": bool(reasons),
            "reasons": reasons,
            "notes": [f"{each}. It was so when this boot began." for each in differences if each not in pending],
        },
        {"": known_from("kernel, nouveau, driver, /run/reboot-required")},
    )


def _system_reasons(host: Host) -> list[str]:
    for path in _REBOOT_REQUIRED:
        if host.exists(path):
            packages = sorted(set((host.read(f"{path}.pkgs") or "").split()))
            return [f"The system asks for a reboot ({path}{': ' + ', '.join(packages) if packages else ''})"]
    return []


def _kernel_reasons(facts: Json) -> list[str]:
    reasons = []
    running, upcoming = facts["running"], facts["next_boot"]
    if upcoming and running and upcoming != running:
        reasons.append(f"The kernel {running} is running, and the next boot uses {upcoming}")
    added, dropped = changed_arguments(facts["cmdline"], facts["cmdline_configured"], facts["cmdline_fallback"])
    if added:
        reasons.append(f"The kernel runs without the configured arguments {' '.join(added)}")
    if dropped:
        reasons.append(f"The kernel runs with the arguments {' '.join(dropped)}, which are no longer configured")
    return reasons


def _driver_reasons(facts: Json) -> list[str]:
    loaded, installed, libraries = facts["version"], facts["installed_version"], facts["userspace_version"]
    if facts["loaded"] and facts["module_installed"] is False:
        return ["The NVIDIA kernel module is loaded although it is no longer installed"]
    if facts["containerised"] or not loaded:
        return []
    if installed and installed != loaded:
        return [f"The driver {loaded} is loaded, and {installed} is installed"]
    if facts["matches"] is False:
        return [f"The loaded driver is {loaded}, its installed libraries are {libraries}"]
    return []
