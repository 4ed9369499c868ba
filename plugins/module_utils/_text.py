# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Helpers for messages that name several things, and for numbers in text."""

from __future__ import annotations

import typing as t

EXAMPLES = 5
"""How many names a message contains before it only counts the rest."""


def first_few(names: t.Sequence[str], count: int = EXAMPLES, separator: str = ", ") -> str:
    """Return the first ``count`` names and the number of the others: ``a, b, and 7 more``."""
    others = len(names) - count
    more = f"{separator}and {others} more" if others > 0 else ""
    return separator.join(names[:count]) + more


def one_line(error: object) -> str:
    """Return a message on one line, without the period at its end, so that it fits into a sentence."""
    return " ".join(str(error).split()).rstrip(".")


def whole_number(text: str | None) -> int | None:
    """Return the text as a whole number, or None if it contains anything but digits."""
    return int(text) if text and text.isdecimal() else None
