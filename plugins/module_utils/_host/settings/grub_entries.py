# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The entries of a grub.cfg by their origin: generated from the installed kernels, or written by hand.

Each kernel line counts that the menu can boot, in all entries and in all branches of them: a change of the
configuration must reach each of them. Which one GRUB takes is a question for `grub_menu`.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import grub_menu, grub_state
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.boot_entries import GRUB_MENU
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_choice import UnknownBootError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_script import (
    Block,
    Command,
    Condition,
    Word,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_state import LINUX, MENU_ENTRIES
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


def _lines(text: str) -> list[KernelLine]:
    try:
        return list(kernel_lines(grub_menu.parse(text)))
    except UnknownBootError as e:
        raise GpuOpsError(
            f"The boot menu {GRUB_MENU} cannot be read, so its kernel arguments are left as they are: {e}. "
            "Repair the file of /etc/grub.d that writes this, and run update-grub.",
            reason="BootLoader",
        ) from e


@dataclasses.dataclass(frozen=True)
class KernelLine:
    """One kernel line, the title of its entry, and the script of grub-mkconfig that wrote it.

    Words that are only a variable are left out: their value is known when GRUB runs, and is no argument of an owner.
    """

    title: str
    arguments: tuple[str, ...]
    origin: str


def kernel_lines(block: Block, title: str = "") -> t.Iterator[KernelLine]:
    """Yield the kernel lines of a script in their order."""
    for statement in block:
        if isinstance(statement, Command):
            yield from _of_command(statement, title)
        elif isinstance(statement, Condition):
            for tests, body in statement.branches:
                yield from kernel_lines((*tests, *body), title)
        else:
            yield from kernel_lines(statement.body, title)


def _of_command(command: Command, title: str) -> t.Iterator[KernelLine]:
    words = [_text(word) for word in command.words if any(part.text and not part.is_variable for part in word)]
    name = words[0] if words else ""
    if name in MENU_ENTRIES:
        yield from kernel_lines(command.block or (), grub_state.entry(words, ()).title)
    elif name in LINUX:
        yield KernelLine(title, grub_state.linux(words).arguments, command.origin)


def _text(word: Word) -> str:
    return "".join(f"${part.text}" if part.is_variable else part.text for part in word)
