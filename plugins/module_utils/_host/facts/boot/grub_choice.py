# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The entry of a menu that GRUB boots, by the variable ``default``."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_state import LoadedEntry
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_test import UNKNOWN_TEXT


class UnknownBootError(Exception):
    """What GRUB boots cannot be known. The message says why."""


def choose(menu: t.Sequence[LoadedEntry | None], wanted: str) -> tuple[LoadedEntry, str]:
    """Return the entry that the variable ``default`` chooses, and the rest of its value for a submenu."""
    if UNKNOWN_TEXT in wanted:
        raise UnknownBootError("it chooses the entry in a way that only GRUB knows")
    first, rest = _first_part(wanted)
    number = _number(first)
    named = _named(menu, first)
    # The variant of GRUB that reads entries of the Boot Loader Specification prefers a name that begins with a digit.
    if named and (number is None or named.source):
        return named, rest
    index = number if number is not None and number < len(menu) else 0
    before = menu if number is None and first else menu[: index + 1]
    return _known(before)[index], rest


def _known(menu: t.Sequence[LoadedEntry | None]) -> list[LoadedEntry]:
    """Return the entries, or raise if it is not known which they are."""
    if not menu:
        raise UnknownBootError("it has no entries")
    if None in menu:
        raise UnknownBootError("which entries it has depends on what only GRUB knows")
    return [entry for entry in menu if entry]


def _named(menu: t.Sequence[LoadedEntry | None], name: str) -> LoadedEntry | None:
    return next((entry for entry in menu if entry and name and name in (entry.id, entry.title)), None)


def _first_part(wanted: str) -> tuple[str, str]:
    """Split at the first ``>``. Two of them stand for one in a title."""
    first, rest = re.fullmatch(r"((?:[^>]|>>)*)(?:>(.*))?", wanted, re.DOTALL).groups()  # type: ignore[union-attr]
    return first.replace(">>", ">"), rest or ""


def _number(text: str) -> int | None:
    """Return the number that a text begins with, as GRUB reads it, or None."""
    match = re.match(r"\s*(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9]\d*))", text)
    if match is None:
        return None
    digits = match[1] or match[2] or match[3]
    return int(digits[:18], 16 if match[1] else 8 if match[2] else 10)
