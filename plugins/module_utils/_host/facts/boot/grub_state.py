# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a run of GRUB's script leads to: its variables, its menu, and the kernel that was loaded."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_script import Block
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_test import UNKNOWN_TEXT

MENU_ENTRIES = ("menuentry", "submenu")
LINUX = ("linux", "linux16", "linuxefi")
_OPTIONS_WITH_VALUE = ("--class", "--users", "--hotkey", "--source", "--id", "-c", "-u", "-k", "-s")


@dataclasses.dataclass(frozen=True)
class Linux:
    """A kernel's path as GRUB sees it, and its arguments."""

    path: str
    arguments: tuple[str, ...]


OTHER = Linux(UNKNOWN_TEXT, (UNKNOWN_TEXT,))
"""Something else than one known kernel."""


@dataclasses.dataclass(frozen=True)
class LoadedEntry:
    """An entry of the menu. One of the Boot Loader Specification also has its file, and its field ``version``."""

    title: str
    id: str
    block: Block
    is_submenu: bool = False
    source: str = ""
    version: str = ""


@dataclasses.dataclass
class State:
    """The variables, those that submenus see, the menu so far, and what has been loaded.

    In the menu, None stands for a place with an unknown number of unknown entries.
    """

    variables: dict[str, str]
    exported: set[str]
    menu: list[LoadedEntry | None] = dataclasses.field(default_factory=list)
    loaded: Linux | None = None

    def copy(self) -> State:
        return State(dict(self.variables), set(self.exported), list(self.menu), self.loaded)

    def submenu(self) -> State:
        """Return the state in which a submenu runs."""
        return State({name: self.variables[name] for name in self.exported & set(self.variables)}, set(self.exported))

    def be_either(self, one: State, other: State) -> None:
        """Become what two states have in common."""
        names = {*one.variables, *other.variables}
        self.variables = {
            name: one.variables.get(name, "") if _same(one, other, name) else UNKNOWN_TEXT for name in sorted(names)
        }
        self.exported = one.exported | other.exported
        self.menu = _common_menu(one.menu, other.menu)
        self.loaded = _common_kernel(one.loaded, other.loaded)


def _same(one: State, other: State, name: str) -> bool:
    return one.variables.get(name, "") == other.variables.get(name, "")


def _common_menu(one: list[LoadedEntry | None], other: list[LoadedEntry | None]) -> list[LoadedEntry | None]:
    if one == other:
        return one
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return [*one[:shared], None]


def _common_kernel(one: Linux | None, other: Linux | None) -> Linux | None:
    if one == other:
        return one
    if one and other and one.path == other.path:
        return Linux(one.path, (UNKNOWN_TEXT,))
    return OTHER


def entry(words: t.Sequence[str], block: Block) -> LoadedEntry:
    """Return the entry that one of the commands `MENU_ENTRIES` adds to the menu."""
    title, identity, rest = None, None, iter(words[1:])
    for word in rest:
        if word in _OPTIONS_WITH_VALUE:
            value = next(rest, "")
            identity = value if word == "--id" else identity
        elif word.startswith("--id="):
            identity = word[len("--id=") :]
        elif not word.startswith("-") and title is None:
            title = word
    return LoadedEntry(title or "", title or "" if identity is None else identity, block, words[0] == "submenu")


def linux(words: t.Sequence[str]) -> Linux:
    """Return what one of the commands `LINUX` loads."""
    given = [_as_argument(word) for word in words[1:]]
    return Linux(given[0], tuple(given[1:])) if given else OTHER


def _as_argument(word: str) -> str:
    """Return a word as GRUB writes it into the kernel's command line."""
    escaped = re.sub(r"([\\'\"])", r"\\\1", word)
    return f'"{escaped}"' if re.search(r"\s", word) else escaped
