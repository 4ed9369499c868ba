# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How messages name several things, and how numbers are read from text."""

from __future__ import annotations

import typing as t

EXAMPLES = 5
"""How many names a message gives before it says how many more there are."""


def first_few(names: t.Sequence[str], count: int = EXAMPLES, separator: str = ", ") -> str:
    """Return the first ``count`` names and the number of the others: ``a, b, and 7 more``."""
    others = len(names) - count
    more = f"{separator}and {others} more" if others > 0 else ""
    return separator.join(names[:count]) + more


def one_line(error: object) -> str:
    """Return a message on one line, without the period at its end, so that it fits into a sentence."""
    return " ".join(str(error).split()).rstrip(".")


def whole_number(text: str | None) -> int | None:
    """Return the number that the text consists of, or None if it is anything else."""
    return int(text) if text and text.isdecimal() else None
