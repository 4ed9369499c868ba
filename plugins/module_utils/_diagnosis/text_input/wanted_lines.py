# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which lines of a log a rule could match, and how many of them are kept. Pure."""

from __future__ import annotations

import collections
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Pattern, Words

KEPT_LINES = 1000
"""How many lines with the same words are kept of each source."""
KEPT_ERRORS = 40
"""How many are kept of lines that only have words that any error has."""
_NUMBERS = re.compile(r"[0-9][0-9a-f]*(?![a-z])")
"""Numbers, and the rest of an identifier from its first digit on. A word that follows a digit at once stays whole."""
_KNOWN_FORMS = 50_000
"""Of how many lines, apart from their numbers, the words are remembered. They take 10 MB."""
MANY_LINES = 10_000
"""From so many kept lines of one source on, words that were kept `KEPT_OFTEN` times are no longer looked for."""
KEPT_OFTEN = 100
_AGAIN = 2000
"""After how many more kept lines the words are narrowed again."""
ALL_ERRORS = 2000
"""How many of these are looked at of all sources together. A log of a gigabyte has no more to say here."""


def _without_numbers(texts: t.Sequence[str]) -> list[str]:
    """Return lines without their numbers, all at once: that takes half the time."""
    forms = _NUMBERS.sub("", "\n".join(texts)).split("\n")
    return forms if len(forms) == len(texts) else [_NUMBERS.sub("", each) for each in texts]


class WantedLines:
    """Knows the words of the patterns. Most lines have those of ``errors``, so these are compared as a whole."""

    def __init__(self, literals: t.Iterable[str], errors: t.Iterable[Pattern] = ()) -> None:
        self._errors = {each.literal: each.regex for each in errors}
        self._limits = dict.fromkeys(self._errors, KEPT_ERRORS) | dict.fromkeys(literals, KEPT_LINES)
        self._known: dict[str, tuple[str, ...]] = {}
        self._look_for(self._limits)
        self._looked_at: collections.Counter[str] = collections.Counter()
        self._kept: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self._lines: collections.Counter[tuple[str, str]] = collections.Counter()
        self._narrow_at = MANY_LINES

    def _look_for(self, words: t.Iterable[str]) -> None:
        self._looked_for = frozenset(words)
        self._numbered = [word for word in self._looked_for if any(map(str.isdigit, word))]
        self._words = Words(self._looked_for.difference(self._numbered))
        self._known.clear()

    def _narrow(self) -> None:
        """Stop looking for words that a large text has shown often. With a second source, all words count again."""
        if len(self._lines) != 1:
            if len(self._looked_for) != len(self._limits):
                self._look_for(self._limits)
            return
        [(source, lines)] = self._lines.items()
        if lines >= self._narrow_at:
            self._narrow_at = lines + _AGAIN
            self._look_for(word for word in self._limits if self._kept[(*source, word)] < KEPT_OFTEN)

    def of_lines(self, texts: t.Sequence[str]) -> list[list[str]]:
        """Return for each of a few hundred lines the words that make it one that a rule could match."""
        self._narrow()
        lowered = [text.lower() for text in texts]
        forms = _without_numbers(lowered)
        self._learn(dict.fromkeys(forms))
        whole = "\n".join(lowered) if self._numbered else ""
        numbered = [word for word in self._numbered if word in whole]
        return [
            [word for word in (*self._known[form], *numbered) if word in low and self._counts(word, text)]
            for text, low, form in zip(texts, lowered, forms)
        ]

    def _learn(self, forms: t.Iterable[str]) -> None:
        """Note the words of lines without their numbers. Logs repeat themselves, and mostly numbers differ."""
        if len(self._known) > _KNOWN_FORMS:
            self._known.clear()
        new = [form for form in forms if form not in self._known]
        present = self._words.found("\n".join(new))
        self._known |= {form: tuple(word for word in present if word in form) for form in new}

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
        self._lines[node, source] += kept
        return kept
