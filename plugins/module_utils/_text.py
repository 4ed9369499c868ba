# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Helpers for messages that name several things, for text from outside, and for numbers in text."""

from __future__ import annotations

import re
import typing as t

EXAMPLES = 5
"""How many names a message contains before it only counts the rest."""


def first_few(names: t.Sequence[str], count: int = EXAMPLES, separator: str = ", ") -> str:
    """Return the first ``count`` names and the number of the others: ``a, b, and 7 more``."""
    others = len(names) - count
    more = f"{separator}and {others} more" if others > 0 else ""
    return separator.join(names[:count]) + more


_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""What moves a cursor, changes colours or directions, is invisible or no text: all control and format characters but
tab and newline."""


def printable(text: str) -> str:
    """Return a text with its control characters spelled out, so that no cluster or host can forge lines of a log."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


MESSAGES = frozenset({"msg", "message", "remedy"})
"""The keys of results that hold sentences for people."""
LONGEST_MESSAGE = 8_000
"""How many characters a sentence for people has at most. A cluster or host may put 1 MiB into a part of it."""


def message(text: str) -> str:
    """Return a sentence for people as it is printed: without control characters, and not too long."""
    shown = printable(text)
    left_out = len(shown) - LONGEST_MESSAGE
    return f"{shown[:LONGEST_MESSAGE]} ... ({left_out} more characters)" if left_out > 0 else shown


def all_printable(value: t.Any, key: object = None) -> t.Any:
    """Return a value of JSON with all of its texts made printable, names of keys included, and short messages."""
    if isinstance(value, str):
        return message(value) if key in MESSAGES else printable(value)
    if isinstance(value, t.Mapping):
        return {all_printable(name): all_printable(item, name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [all_printable(item) for item in value]
    return value


def one_line(error: object) -> str:
    """Return a message on one line, without the period at its end, so that it fits into a sentence."""
    return printable(" ".join(str(error).split())).rstrip(".")


MOST_DIGITS = 20
"""The digits of the largest number of 64 bits. Python refuses to read thousands."""


def whole_number(text: str | None) -> int | None:
    """Return the text as a whole number, or None if it contains anything but digits, or too many of them."""
    return int(text) if text and text.isdecimal() and len(text) <= MOST_DIGITS else None
