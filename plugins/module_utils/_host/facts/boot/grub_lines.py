# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Every kernel that a grub.cfg can boot: all entries, and all branches in them.

What a change of the configuration must reach is each of these lines. Which one GRUB takes is a question for
`grub_menu`.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import grub_state
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_script import (
    Block,
    Command,
    Condition,
    Word,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_state import LINUX, MENU_ENTRIES


@dataclasses.dataclass(frozen=True)
class Line:
    """One kernel line, the title of its entry, and the script of grub-mkconfig that wrote it.

    Words that are only a variable are left out: their value is known when GRUB runs, and is no argument of an owner.
    """

    title: str
    arguments: tuple[str, ...]
    origin: str


def kernel_lines(block: Block, title: str = "") -> t.Iterator[Line]:
    """Yield the kernel lines of a script in their order."""
    for statement in block:
        if isinstance(statement, Command):
            yield from _of_command(statement, title)
        elif isinstance(statement, Condition):
            for tests, body in statement.branches:
                yield from kernel_lines((*tests, *body), title)
        else:
            yield from kernel_lines(statement.body, title)


def _of_command(command: Command, title: str) -> t.Iterator[Line]:
    words = [_text(word) for word in command.words if any(part.text and not part.is_variable for part in word)]
    name = words[0] if words else ""
    if name in MENU_ENTRIES:
        yield from kernel_lines(command.block or (), grub_state.entry(words, ()).title)
    elif name in LINUX:
        yield Line(title, grub_state.linux(words).arguments, command.origin)


def _text(word: Word) -> str:
    return "".join(f"${part.text}" if part.is_variable else part.text for part in word)
