# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The kernel now and at the next boot: versions, arguments, boot loader, headers, secure boot, and whether a reboot is due."""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import (
    Section,
    either,
    known,
    missing,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

GRUB_DEFAULTS = "/etc/default/grub"
GRUB_DROP_INS = "/etc/default/grub.d"
BLS_ENTRIES = "/boot/loader/entries"

# The latter are systemd-boot's.
_ENTRY_FOLDERS = (BLS_ENTRIES, "/boot/efi/loader/entries", "/efi/loader/entries")
_GRUB_CONFIGURATIONS = ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
_GRUB_ENVIRONMENTS = ("/boot/grub2/grubenv", "/boot/grub/grubenv", "/boot/efi/EFI/redhat/grubenv")
_EFI_VARIABLES = "/sys/firmware/efi/efivars"
_LOADER_INFO = f"{_EFI_VARIABLES}/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_SECURE_BOOT = f"{_EFI_VARIABLES}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SYSTEMD_BOOT = ("/boot/efi/EFI/systemd", "/efi/EFI/systemd", "/boot/EFI/systemd")
# What the boot loader adds on its own.
_OF_THE_LOADER = ("BOOT_IMAGE", "initrd", "vt.handoff")
_REBOOT_REQUIRED = ("/run/reboot-required", "/var/run/reboot-required")


def split_arguments(text: str) -> list[str]:
    """Split a kernel command line: at white space outside double quotes, as the kernel does. Quotes stay."""
    return re.findall(r'(?:"[^"]*"|[^\s"])+', text)


def version_key(version: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts kernel versions as ``sort -V`` does, with a release candidate before its release."""
    parts = re.findall(r"\d+|[a-zA-Z]+|~", version)
    return [(1, int(part), "") if part.isdigit() else (-1 if part in ("~", "rc") else 0, 0, part) for part in parts] + [
        (0, 0, "")
    ]


def newest(versions: t.Iterable[str]) -> str | None:
    """Return the newest of the kernel versions."""
    return max(versions, key=version_key, default=None)


def installed_kernels(host: Host) -> list[str]:
    """Return the kernels that can be booted: an image in /boot, or beside the modules where the boot loader has folders of its own."""
    images = (path.partition("vmlinuz-")[2] for path in host.glob("/boot/vmlinuz-*"))
    beside = (path.split("/")[-2] for path in host.glob("/lib/modules/*/vmlinuz"))
    return sorted(
        {version for version in (*images, *beside) if version[:1].isdigit() and "-rescue-" not in version},
        key=version_key,
    )


def shell_assignments(text: str, before: t.Mapping[str, str] | None = None) -> dict[str, str]:
    """Read the assignments of a shell fragment such as /etc/default/grub, with variables and ``+=``; other commands are not run."""
    values = dict(before or {})
    joined = re.sub(r"\\\n", "", text)
    for match in re.finditer(
        r"^[ \t]*(?:export[ \t]+)?(\w+)(\+?)=((?:'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s'\";#])*)", joined, re.MULTILINE
    ):
        name, add, raw = match.groups()
        value = "".join(_unquoted(piece, values) for piece in re.findall(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|[^'\"]+", raw))
        values[name] = (values.get(name, "") if add else "") + value
    return values


def _unquoted(piece: str, values: t.Mapping[str, str]) -> str:
    if piece.startswith("'"):
        return piece[1:-1]
    inner = piece[1:-1] if piece.startswith('"') else piece
    expanded = re.sub(r"(?<!\\)\$(?:\{(\w+)\}|(\w+))", lambda match: values.get(match[1] or match[2], ""), inner)
    return re.sub(r'\\(["$`\\])', r"\1", expanded)


def grub_defaults(host: Host) -> dict[str, str] | None:
    """Return the variables of /etc/default/grub and its drop-ins, as grub-mkconfig reads them, or None without them."""
    paths = [path for path in (GRUB_DEFAULTS, *host.glob(f"{GRUB_DROP_INS}/*.cfg")) if host.exists(path)]
    values: dict[str, str] = {}
    for path in paths:
        values = shell_assignments(host.read(path) or "", values)
    return values if paths else None


def default_arguments(values: t.Mapping[str, str]) -> list[str]:
    """Return the arguments that grub-mkconfig gives to the normal entry of every kernel."""
    return split_arguments(f"{values.get('GRUB_CMDLINE_LINUX', '')} {values.get('GRUB_CMDLINE_LINUX_DEFAULT', '')}")


def environment_block(text: str) -> dict[str, str]:
    """Read a GRUB environment block (grubenv)."""
    pairs = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, sign, value in pairs if sign}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One boot entry: its kernel's version, its arguments, and where it stands."""

    version: str
    arguments: list[str]
    source: str


def bls_entry(text: str, source: str, environment: t.Mapping[str, str]) -> Entry:
    """Read an entry of the Boot Loader Specification, with GRUB's variables filled in."""
    lines = (line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#"))
    fields = {line[0]: line[1] for line in lines if len(line) == 2}
    options = re.sub(r"\$(\w+)", lambda match: environment.get(match[1], ""), fields.get("options", ""))
    return Entry(fields.get("version", ""), split_arguments(options), source)


def grub_menu_entries(text: str, source: str) -> list[Entry]:
    """Read the kernels and arguments of a generated grub.cfg, in its order; recovery entries and the memory tester are left out."""
    entries = []
    for match in re.finditer(r"^[ \t]*linux(?:16|efi)?[ \t]+(\S*vmlinuz-(\S+))[ \t]*(.*)$", text, re.MULTILINE):
        arguments = [argument for argument in split_arguments(match[3]) if not argument.startswith("$")]
        if not {"single", "recovery"} & set(arguments):
            entries.append(Entry(match[2], arguments, source))
    return entries


def next_entry(host: Host) -> tuple[Entry | None, str]:
    """Return the entry that the next boot takes, or None and the reason why that cannot be told."""
    environment: dict[str, str] = {}
    for path in _GRUB_ENVIRONMENTS:
        environment = {**environment_block(host.read(path) or ""), **environment}
    # The first one counts once: grub-reboot sets it.
    saved = environment.get("next_entry") or environment.get("saved_entry", "")
    bls = {
        os.path.basename(path)[: -len(".conf")]: path
        for folder in _ENTRY_FOLDERS
        for path in host.glob(f"{folder}/*.conf")
    }
    if bls:
        entries = {
            name: bls_entry(host.read(path) or "", path, environment)
            for name, path in bls.items()
            if "rescue" not in name
        }
        return _default_bls_entry(entries, saved)
    for path in _GRUB_CONFIGURATIONS:
        entries_of_grub = grub_menu_entries(host.read(path) or "", path)
        if entries_of_grub:
            return _default_grub_entry(entries_of_grub, (grub_defaults(host) or {}).get("GRUB_DEFAULT", "0"), saved)
    return None, "Neither boot loader entries nor a grub.cfg can be read"


def _default_bls_entry(entries: t.Mapping[str, Entry], saved: str) -> tuple[Entry | None, str]:
    if saved in entries:
        return entries[saved], ""
    by_age = sorted(entries.values(), key=lambda entry: version_key(entry.version))
    # GRUB shows the newest first; a saved number counts from there.
    index = int(saved) if saved.isdigit() else 0
    return (by_age[-1 - index], "") if index < len(by_age) else (None, f"The saved boot entry {saved} does not exist")


def _default_grub_entry(entries: list[Entry], default: str, saved: str) -> tuple[Entry | None, str]:
    wanted = saved if default == "saved" else default
    if wanted in ("", "0"):
        return entries[0], ""
    # A title or an id of an entry, with its submenu before a ">", ends in or holds the kernel's version.
    named = [
        entry
        for entry in entries
        if re.search(rf"(^|[ -]){re.escape(entry.version)}($|[ -])", wanted.rpartition(">")[2])
    ]
    return (named[0], "") if named else (None, f"GRUB boots the entry {wanted!r}, whose kernel cannot be told")


def bootloader(host: Host) -> str | None:
    """Return the boot loader: as it announced itself to the firmware's variables, or else by its files."""
    announced = (host.read_bytes(_LOADER_INFO) or b"")[4:].decode("utf-16-le", "replace").lower()
    for name in ("systemd-boot", "grub"):
        if announced.startswith(name):
            return name
    if any(map(host.exists, (*_GRUB_CONFIGURATIONS, GRUB_DEFAULTS))):
        return "grub"
    return "systemd-boot" if any(map(host.exists, _SYSTEMD_BOOT)) else None


def kernel(host: Host) -> Section:
    """Return the kernel's facts."""
    running = host.read("/proc/sys/kernel/osrelease")
    cmdline = host.read("/proc/cmdline")
    installed = installed_kernels(host)
    entry, reason = next_entry(host)
    defaults = grub_defaults(host)
    configured = entry.arguments if entry else default_arguments(defaults) if defaults is not None else None
    facts = {
        "running": running,
        "installed": installed,
        "newest_installed": newest(installed),
        "next_boot": entry.version if entry else None,
        "cmdline": split_arguments(cmdline or ""),
        "cmdline_configured": configured,
        "cmdline_source": entry.source if entry else None if configured is None else GRUB_DEFAULTS,
        "cmdline_defaults": None if defaults is None else default_arguments(defaults),
        "headers": host.exists(f"/lib/modules/{running}/build/Makefile"),
        "bootloader": bootloader(host),
    }
    return Section(
        facts,
        {
            "running": either(running, "procfs", "procfs cannot be read"),
            "installed": known("/boot"),
            "newest_installed": either(newest(installed), "/boot", "There is no kernel in /boot or /lib/modules"),
            "next_boot": either(facts["next_boot"], str(facts["cmdline_source"]), reason),
            "cmdline": either(cmdline, "/proc/cmdline", "/proc/cmdline cannot be read"),
            "cmdline_configured": either(configured, str(facts["cmdline_source"]), reason),
            "cmdline_source": either(facts["cmdline_source"], "files", reason),
            "cmdline_defaults": either(facts["cmdline_defaults"], GRUB_DEFAULTS, f"There is no {GRUB_DEFAULTS}"),
            "headers": known("/lib/modules"),
            "bootloader": either(facts["bootloader"], "firmware, files", "No sign of GRUB or systemd-boot"),
        },
    )


def secure_boot(host: Host) -> Section:
    """Return whether secure boot is on, and the kernel's lockdown."""
    variable = host.read_bytes(_SECURE_BOOT)
    lockdown = re.search(r"\[(\w+)\]", host.read("/sys/kernel/security/lockdown") or "")
    if variable is not None:
        enabled, source = variable[-1:] == b"\x01", known("firmware")
    elif host.exists("/sys/firmware") and not host.exists("/sys/firmware/efi"):
        enabled, source = False, known("No UEFI firmware")
    else:
        enabled, source = None, missing("The firmware's variables cannot be read")
    level = lockdown[1] if lockdown else None
    return Section(
        {"enabled": enabled, "lockdown": level},
        {"enabled": source, "lockdown": either(level, "securityfs", "/sys/kernel/security/lockdown cannot be read")},
    )


def arguments_to_come(
    cmdline: t.Sequence[str], configured: t.Sequence[str], source: str | None
) -> tuple[list[str], list[str]]:
    """Return the arguments that the next boot adds and those that it drops. GRUB's defaults name only some, so nothing is known of drops."""
    added = [argument for argument in configured if argument not in cmdline and not _of_the_loader(argument)]
    if source == GRUB_DEFAULTS:
        return added, []
    return added, [argument for argument in cmdline if argument not in configured and not _of_the_loader(argument)]


def _of_the_loader(argument: str) -> bool:
    return argument.partition("=")[0] in _OF_THE_LOADER


def reboot(host: Host, kernel_facts: Json, nouveau_facts: Json, driver_facts: Json) -> Section:
    """Return whether what runs is what the next boot would run, with every difference that needs a reboot."""
    reasons = [*_asked_for(host), *_kernel_reasons(kernel_facts)]
    if nouveau_facts["loaded"] and nouveau_facts["blacklisted"]:
        reasons.append("nouveau is loaded although it is blacklisted")
    if driver_facts["matches"] is False and not driver_facts["containerised"]:
        reasons.append(
            f"The loaded driver is {driver_facts['version']}, its installed libraries are {driver_facts['userspace_version']}"
        )
    if driver_facts["loaded"] and driver_facts["module_installed"] is False:
        reasons.append("The NVIDIA kernel module is loaded although it is not installed any more")
    return Section(
        {"required": bool(reasons), "reasons": reasons}, {"": known("kernel, nouveau, driver, /run/reboot-required")}
    )


def _asked_for(host: Host) -> list[str]:
    for path in _REBOOT_REQUIRED:
        if host.exists(path):
            packages = sorted(set((host.read(f"{path}.pkgs") or "").split()))
            return [f"The system asks for it ({path}{': ' + ', '.join(packages) if packages else ''})"]
    return []


def _kernel_reasons(facts: Json) -> list[str]:
    reasons = []
    # In a container another machine's kernel runs, and nothing says which one would boot: then the newest counts only beside the running one.
    next_kernel = facts["next_boot"] or (facts["newest_installed"] if facts["running"] in facts["installed"] else None)
    if next_kernel and facts["running"] and next_kernel != facts["running"]:
        reasons.append(f"The kernel {facts['running']} runs, the next boot takes {next_kernel}")
    added, dropped = arguments_to_come(facts["cmdline"], facts["cmdline_configured"] or [], facts["cmdline_source"])
    if facts["cmdline_configured"] is not None and added:
        reasons.append(f"The kernel runs without the configured arguments {' '.join(added)}")
    if facts["cmdline_configured"] is not None and dropped:
        reasons.append(f"The kernel runs with the arguments {' '.join(dropped)}, which are no longer configured")
    return reasons
