# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which lines of a log a rule could match, and how many of them are kept. Pure."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Pattern, Words

KEPT_LINES = 1000
"""How many lines with the same words are kept of each source."""
KEPT_ERRORS = 40
"""How many are kept of lines that only have words that any error has."""
ALL_ERRORS = 2000
"""How many of these are looked at of all sources together. A log of a gigabyte has no more to say here."""


class WantedLines:
    """Knows the words of the patterns. Most lines have those of ``errors``, so these are compared as a whole."""

    def __init__(self, literals: t.Iterable[str], errors: t.Iterable[Pattern] = ()) -> None:
        self._errors = {each.literal: each.regex for each in errors}
        self._limits = dict.fromkeys(self._errors, KEPT_ERRORS) | dict.fromkeys(literals, KEPT_LINES)
        self._words = Words(self._limits)
        self._looked_at: collections.Counter[str] = collections.Counter()
        self._kept: collections.Counter[tuple[str, str, str]] = collections.Counter()

    def present(self, text: str) -> list[str]:
        """Return the words that a text has."""
        return self._words.found(text.lower())

    def of_line(self, text: str, present: t.Sequence[str]) -> list[str]:
        """Return which of these words make a line one that a rule could match."""
        lowered = text.lower()
        return [word for word in present if word in lowered and self._counts(word, text)]

    def _counts(self, word: str, text: str) -> bool:
        if self._limits[word] == KEPT_LINES:
            return True
        if self._looked_at[word] >= ALL_ERRORS or not self._errors[word].search(text):
            return False
        self._looked_at[word] += 1
        return True

    def is_kept(self, node: str, source: str, words: t.Iterable[str]) -> bool:
        """Return whether a line is kept, and count it."""
        keys = [(node, source, word) for word in words]
        kept = any(self._kept[key] < self._limits[key[2]] for key in keys)
        self._kept.update(keys)
        return kept
