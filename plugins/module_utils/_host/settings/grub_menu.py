# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The entries of a grub.cfg by their origin: generated from the installed kernels, or written by hand."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import boot_entries

_BEGIN = re.compile(r"### BEGIN (\S+) ###")
_TITLE = re.compile(r"\s*menuentry\s+(?:'([^']*)'|\"([^\"]*)\"|(\S+))")
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+\S+\s*(.*)")
_GENERATED = re.compile(r"/etc/grub\.d/\d+_linux\w*")
_OTHER_SYSTEMS = re.compile(r"/etc/grub\.d/\d+_os-prober")
_RECOVERY = {"single", "recovery"}


@dataclasses.dataclass(frozen=True)
class MenuEntry:
    """One kernel line of the menu. ``generated``: grub-mkconfig wrote it with GRUB_CMDLINE_LINUX_DEFAULT."""

    title: str
    arguments: list[str]
    generated: bool


def read(text: str) -> list[MenuEntry]:
    """Return the entries of a grub.cfg, without those for recovery and for other systems.

    A file without the marks of grub-mkconfig, or without a generated entry, counts as generated.
    """
    found = [each for each in _entries(text) if not _RECOVERY & set(each[1].arguments)]
    if not any(entry.generated for dummy, entry in found):
        return [dataclasses.replace(entry, generated=True) for dummy, entry in found]
    return [entry for script, entry in found if not _OTHER_SYSTEMS.fullmatch(script)]


def _entries(text: str) -> t.Iterator[tuple[str, MenuEntry]]:
    """Yield each entry with the script of /etc/grub.d that wrote it."""
    script = title = ""
    for line in text.splitlines():
        begin, menu, linux = _BEGIN.match(line), _TITLE.match(line), _LINUX.match(line)
        if begin:
            script = begin[1]
        elif menu:
            title = menu[1] or menu[2] or menu[3] or ""
        elif linux:
            arguments = [each for each in boot_entries.split_arguments(linux[1]) if not each.startswith("$")]
            yield script, MenuEntry(title, arguments, bool(_GENERATED.fullmatch(script)))
