# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The expressions of GRUB's commands ``[`` and ``test``. Their value is None if it depends on what only GRUB knows."""

from __future__ import annotations

import operator
import re
import typing as t

UNKNOWN_TEXT = "\0"
"""The text that stands for what only GRUB knows."""

_TEXTS: dict[str, t.Callable[[str, str], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
_NUMBERS: dict[str, t.Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
_OTHER_PAIRS = ("<", "<=", ">", ">=", "-pgt", "-plt", "-nt", "-ot")
_FILES = ("-e", "-f", "-s", "-d")


def evaluate(words: t.Sequence[str], size: t.Callable[[str], int | None]) -> bool | None:
    """Return the value of an expression. ``size`` returns a file's size, -1 without a file, and None if unknown."""
    return _Expression(words, size).alternatives()


class _Expression:
    def __init__(self, words: t.Sequence[str], size: t.Callable[[str], int | None]) -> None:
        self._words = list(words)
        self._size = size

    def alternatives(self) -> bool | None:
        answers = [self._all()]
        while self._words[:1] == ["-o"]:
            self._words.pop(0)
            answers.append(self._all())
        return True if True in answers else None if None in answers else False

    def _all(self) -> bool | None:
        answers = [self._one()]
        while self._words and self._words[0] not in ("-o", ")"):
            if self._words[0] == "-a":
                self._words.pop(0)
            answers.append(self._one())
        return False if False in answers else None if None in answers else True

    def _one(self) -> bool | None:
        if not self._words:
            return False
        if len(self._words) > 2 and self._words[1] in (*_TEXTS, *_NUMBERS, *_OTHER_PAIRS):
            left, sign, right = self._words[:3]
            del self._words[:3]
            return _compare(left, sign, right)
        first = self._words.pop(0)
        if first == "!":
            return _negated(self._one())
        if first == "(":
            answer = self.alternatives()
            del self._words[:1]
            return answer
        if first in ("-n", "-z", *_FILES) and self._words:
            return self._about(first, self._words.pop(0))
        return None if UNKNOWN_TEXT in first else first != ""

    def _about(self, sign: str, word: str) -> bool | None:
        if UNKNOWN_TEXT in word:
            return None
        if sign in ("-n", "-z"):
            return (word != "") == (sign == "-n")
        size = self._size(word)
        if size is None or (sign == "-d" and size < 0):
            return None
        return size > 0 if sign == "-s" else size >= 0 and sign != "-d"


def _negated(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _compare(left: str, sign: str, right: str) -> bool | None:
    if UNKNOWN_TEXT in left + right or sign in _OTHER_PAIRS:
        return None
    if sign in _TEXTS:
        return _TEXTS[sign](left, right)
    if not re.fullmatch(r"-?\d{1,18}", left) or not re.fullmatch(r"-?\d{1,18}", right):
        return None
    return _NUMBERS[sign](int(left), int(right))
