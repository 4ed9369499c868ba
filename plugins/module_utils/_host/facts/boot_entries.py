# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The boot loader and its entries: which kernel the next boot uses, and with which arguments.

The entries are in GRUB's own configuration, or in files of the Boot Loader Specification.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host

GRUB_DEFAULTS = "/etc/default/grub"
GRUB_DROP_INS = "/etc/default/grub.d"
BLS_ENTRIES = "/boot/loader/entries"

# The second and third are systemd-boot's.
_ENTRY_FOLDERS = (BLS_ENTRIES, "/boot/efi/loader/entries", "/efi/loader/entries")
_GRUB_CONFIGURATIONS = ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
_GRUB_ENVIRONMENTS = ("/boot/grub2/grubenv", "/boot/grub/grubenv", "/boot/efi/EFI/redhat/grubenv")
_LOADER_INFO = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_SYSTEMD_BOOT = ("/boot/efi/EFI/systemd", "/efi/EFI/systemd", "/boot/EFI/systemd")


def split_arguments(text: str) -> list[str]:
    """Split a kernel command line at white space outside double quotes, as the kernel does. The quotes stay."""
    return re.findall(r'(?:"[^"]*"|[^\s"])+', text)


def version_key(version: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts kernel versions as ``sort -V`` does, with a release candidate before its release."""
    return [*map(_part_key, re.findall(r"\d+|[a-zA-Z]+|~", version)), _END_OF_VERSION]


def _part_key(part: str) -> tuple[int, int, str]:
    if part.isdigit():
        return 1, int(part), ""
    return (-1 if part in ("~", "rc") else 0), 0, part


_END_OF_VERSION = (0, 0, "")


def newest(versions: t.Iterable[str]) -> str | None:
    """Return the newest of the kernel versions."""
    return max(versions, key=version_key, default=None)


_QUOTED = r"'[^']*'|\"(?:\\.|[^\"\\])*\""
_ASSIGNMENT = re.compile(rf"^[ \t]*(?:export[ \t]+)?(\w+)(\+?)=((?:{_QUOTED}|[^\s'\";#])*)", re.MULTILINE)
_PIECE = re.compile(rf"{_QUOTED}|[^'\"]+")


def shell_assignments(text: str, before: t.Mapping[str, str] | None = None) -> dict[str, str]:
    """Read the assignments of a shell fragment such as /etc/default/grub, with variables and ``+=``.

    Other commands are ignored.
    """
    values = dict(before or {})
    joined = re.sub(r"\\\n", "", text)
    for match in _ASSIGNMENT.finditer(joined):
        name, add, raw = match.groups()
        value = "".join(_unquoted(piece, values) for piece in _PIECE.findall(raw))
        values[name] = (values.get(name, "") if add else "") + value
    return values


def _unquoted(piece: str, values: t.Mapping[str, str]) -> str:
    if piece.startswith("'"):
        return piece[1:-1]
    inner = piece[1:-1] if piece.startswith('"') else piece
    expanded = re.sub(r"(?<!\\)\$(?:\{(\w+)\}|(\w+))", lambda match: values.get(match[1] or match[2], ""), inner)
    return re.sub(r'\\(["$`\\])', r"\1", expanded)


def grub_defaults(host: Host) -> dict[str, str] | None:
    """Return the variables of /etc/default/grub and its drop-ins, as grub-mkconfig reads them, or None."""
    paths = [path for path in (GRUB_DEFAULTS, *host.glob(f"{GRUB_DROP_INS}/*.cfg")) if host.exists(path)]
    values: dict[str, str] = {}
    for path in paths:
        values = shell_assignments(host.read(path) or "", values)
    return values if paths else None


def default_arguments(values: t.Mapping[str, str]) -> list[str]:
    """Return the arguments that grub-mkconfig writes into the normal entry of every kernel."""
    return split_arguments(f"{values.get('GRUB_CMDLINE_LINUX', '')} {values.get('GRUB_CMDLINE_LINUX_DEFAULT', '')}")


def environment_block(text: str) -> dict[str, str]:
    """Read a GRUB environment block (grubenv)."""
    pairs = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, sign, value in pairs if sign}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One boot entry: its kernel's version, its arguments, and the file that it is in."""

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
    """Read the entries of a generated grub.cfg in their order, without recovery entries and the memory tester."""
    entries = []
    for match in re.finditer(r"^[ \t]*linux(?:16|efi)?[ \t]+(\S*vmlinuz-(\S+))[ \t]*(.*)$", text, re.MULTILINE):
        arguments = [argument for argument in split_arguments(match[3]) if not argument.startswith("$")]
        if not {"single", "recovery"} & set(arguments):
            entries.append(Entry(match[2], arguments, source))
    return entries


def next_entry(host: Host) -> tuple[Entry | None, str]:
    """Return the entry that the next boot uses, or None and the reason why it is not known."""
    environment = _grub_environment(host)
    # grub-reboot sets next_entry, which counts for one boot.
    saved = environment.get("next_entry") or environment.get("saved_entry", "")
    paths = [path for folder in _ENTRY_FOLDERS for path in host.glob(f"{folder}/*.conf")]
    if paths:
        return _default_bls_entry(_bls_entries(host, paths, environment), saved)
    for path in _GRUB_CONFIGURATIONS:
        entries = grub_menu_entries(host.read(path) or "", path)
        if entries:
            return _default_grub_entry(entries, (grub_defaults(host) or {}).get("GRUB_DEFAULT", "0"), saved)
    return None, "Neither boot loader entries nor a grub.cfg can be read"


def _grub_environment(host: Host) -> dict[str, str]:
    environment: dict[str, str] = {}
    for path in _GRUB_ENVIRONMENTS:
        environment = {**environment_block(host.read(path) or ""), **environment}
    return environment


def _bls_entries(host: Host, paths: t.Sequence[str], environment: t.Mapping[str, str]) -> dict[str, Entry]:
    """Return the entries by the names of their files, without rescue entries."""
    by_name = {path.rpartition("/")[2][: -len(".conf")]: path for path in paths}
    return {
        name: bls_entry(host.read(path) or "", path, environment)
        for name, path in by_name.items()
        if "rescue" not in name
    }


def _default_bls_entry(entries: t.Mapping[str, Entry], saved: str) -> tuple[Entry | None, str]:
    if saved in entries:
        return entries[saved], ""
    newest_first = sorted(entries.values(), key=lambda entry: version_key(entry.version))[::-1]
    # A saved number is a position in GRUB's menu, which shows the newest entry first.
    index = int(saved) if saved.isdigit() else 0
    if index < len(newest_first):
        return newest_first[index], ""
    return None, f"The saved boot entry {saved} does not exist"


def _default_grub_entry(entries: t.Sequence[Entry], default: str, saved: str) -> tuple[Entry | None, str]:
    wanted = saved if default == "saved" else default
    if wanted in ("", "0"):
        return entries[0], ""
    # The value is an entry's title or id, after its submenu and a ">". It ends with or contains the kernel's version.
    title = wanted.rpartition(">")[2]
    for entry in entries:
        if re.search(rf"(^|[ -]){re.escape(entry.version)}($|[ -])", title):
            return entry, ""
    return None, f"GRUB boots the entry {wanted!r}, whose kernel cannot be determined"


def bootloader(host: Host) -> str | None:
    """Return the boot loader that announced itself in the firmware's variables, or else the one whose files exist."""
    announced = (host.read_bytes(_LOADER_INFO) or b"")[4:].decode("utf-16-le", "replace").lower()
    for name in ("systemd-boot", "grub"):
        if announced.startswith(name):
            return name
    if any(map(host.exists, (*_GRUB_CONFIGURATIONS, GRUB_DEFAULTS))):
        return "grub"
    return "systemd-boot" if any(map(host.exists, _SYSTEMD_BOOT)) else None
