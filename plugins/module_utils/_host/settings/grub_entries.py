# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The entries of a grub.cfg by their origin: generated from the installed kernels, or written by hand."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import grub_lines, grub_menu
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_choice import UnknownBootError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_lines import Line
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot_entries import GRUB_MENU
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.argument_rules import Args

_GENERATED = re.compile(r"/etc/grub\.d/\d+_linux\w*")
_OTHER_SYSTEMS = re.compile(r"/etc/grub\.d/\d+_os-prober")
_RECOVERY = {"single", "recovery"}


@dataclasses.dataclass(frozen=True)
class MenuEntry:
    """One kernel line of the menu. ``generated``: grub-mkconfig wrote it with GRUB_CMDLINE_LINUX_DEFAULT."""

    title: str
    arguments: Args
    generated: bool


def read(text: str) -> list[MenuEntry]:
    """Return the entries of a grub.cfg, without those for recovery and for other systems.

    A file without the marks of grub-mkconfig, or without a generated entry, counts as generated.
    """
    lines = [line for line in _lines(text) if not _RECOVERY & set(line.arguments)]
    generated = [bool(_GENERATED.fullmatch(line.origin)) for line in lines]
    return [
        MenuEntry(line.title, list(line.arguments), is_generated or not any(generated))
        for line, is_generated in zip(lines, generated)
        if not any(generated) or not _OTHER_SYSTEMS.fullmatch(line.origin)
    ]


def _lines(text: str) -> list[Line]:
    try:
        return list(grub_lines.kernel_lines(grub_menu.parse(text)))
    except UnknownBootError as e:
        raise GpuOpsError(
            f"The boot menu {GRUB_MENU} cannot be read, so its kernel arguments are left as they are: {e}. "
            "Repair the file of /etc/grub.d that writes this, and run update-grub.",
            reason="BootLoader",
        ) from e
