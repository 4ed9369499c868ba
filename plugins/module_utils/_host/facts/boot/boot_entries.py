# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is common to boot loaders: kernel command lines, kernel versions, GRUB's defaults and environment."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host

GRUB_DEFAULTS = "/etc/default/grub"
GRUB_DROP_INS = "/etc/default/grub.d"
GRUB_MENU = "/boot/grub/grub.cfg"
"""What update-grub writes."""
GRUB_MENUS = (GRUB_MENU, "/boot/grub2/grub.cfg")
BLS_ENTRIES = "/boot/loader/entries"

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


def bootloader(host: Host) -> str | None:
    """Return the boot loader that announced itself in the firmware's variables, or else the one whose files exist."""
    announced = (host.read_bytes(_LOADER_INFO) or b"")[4:].decode("utf-16-le", "replace").lower()
    for name in ("systemd-boot", "grub"):
        if announced.startswith(name):
            return name
    if any(map(host.exists, (*GRUB_MENUS, GRUB_DEFAULTS))):
        return "grub"
    return "systemd-boot" if any(map(host.exists, _SYSTEMD_BOOT)) else None
