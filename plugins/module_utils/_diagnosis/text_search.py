# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Find what rules look for in text: logs of pods, of the kernel and of services, events, or anything pasted. Pure."""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import whose_line

Kind = t.Literal["kernel", "unit", "pod", "event", "text"]
"""What wrote a line: the kernel, a service of a host, a container of a pod, the API server, or an unknown program."""

PREVIOUS = ", previous run"
"""How the source of a container's log ends that is not the present one."""

HITS = 20
"""How many matches of a pattern are kept of one source. Logs repeat themselves."""

LINE_LENGTH = 2000
"""Longer lines are cut, so that no line takes long to search."""


@dataclasses.dataclass(frozen=True)
class TextLine:
    """A line of text, and where it stands."""

    text: str
    kind: Kind = "text"
    source: str = ""
    """In words: ``kernel log``, ``journal of kubelet``, ``pod gpu-operator/x, container y``, ``bug.txt line 7``."""
    node: str = ""
    object: str = ""


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What a rule looks for in lines.

    ``literal`` is in lower case and part of each match, in any case of letters. Only lines that contain it are compared
    with the regular expression. ``kinds`` limits the pattern to lines that the kernel, a service, a pod or the API
    server wrote, because elsewhere the same words are harmless; a line of unknown origin (``text``) is always compared.
    ``of`` limits it to the lines of these components (`whose_line.COMPONENTS`), where others use the same words.
    """

    regex: re.Pattern[str]
    literal: str
    kinds: frozenset[Kind] = frozenset()
    of: frozenset[str] = frozenset()

    def applies_to(self, kind: Kind) -> bool:
        """Return whether lines of this kind are compared."""
        return not self.kinds or kind == "text" or kind in self.kinds


def pattern(regex: str, literal: str, *kinds: Kind, of: t.Iterable[str] = ()) -> Pattern:
    """Return a pattern. Its regular expression ignores the case of letters."""
    return Pattern(re.compile(regex, re.IGNORECASE), literal, frozenset(kinds), frozenset(of))


_STEMS = (
    "nvidia",
    "cuda",
    "driver",
    "container",
    "module",
    "kernel",
    "config",
    "image",
    "mount",
    "load",
    "to ",
    "not ",
)
"""What many words of patterns contain. They are looked for first."""


class Words:
    """Finds which of many words a text has. A word is only looked for in texts that have the words that it contains."""

    def __init__(self, words: t.Iterable[str]) -> None:
        self._words = frozenset(words)
        self._below: dict[str, list[str]] = {"": []}
        for word in sorted({*self._words, *_STEMS}, key=len):
            parent = next((other for other in reversed(self._below) if other in word), "")
            self._below[parent].append(word)
            self._below[word] = []

    def found(self, text: str) -> list[str]:
        """Return the words that a text in lower case has."""
        found: list[str] = []
        todo = list(self._below[""])
        while todo:
            word = todo.pop()
            if word in text:
                todo += self._below[word]
                if word in self._words:
                    found.append(word)
        return found


@dataclasses.dataclass(frozen=True)
class Hit:
    """A match of a pattern, with the named groups that matched."""

    line: TextLine
    values: t.Mapping[str, str]
    is_ownerless: bool = False
    """Whether the pattern belongs to components, and nothing shows that the line is of one of them."""


class Scanner:
    """Compares lines with patterns, and keeps the matches: the first few of each source."""

    def __init__(self, patterns: t.Iterable[Pattern]) -> None:
        self._by_literal: dict[str, list[Pattern]] = {}
        for each in dict.fromkeys(patterns):
            self._by_literal.setdefault(each.literal, []).append(each)
        self._words = Words(self._by_literal)
        self._hits: dict[Pattern, list[Hit]] = {}
        self._counts: collections.Counter[tuple[Pattern, str, str]] = collections.Counter()

    def scan(self, lines: t.Iterable[TextLine]) -> None:
        """Compare these lines with all patterns."""
        for line in lines:
            text = line.text[:LINE_LENGTH]
            for literal in self._words.found(text.lower()):
                self._compare(line, text, self._by_literal[literal])

    def _compare(self, line: TextLine, text: str, patterns: list[Pattern]) -> None:
        for each in patterns:
            found = each.regex.search(text) if each.applies_to(line.kind) else None
            known = whose_line.of_line(text, line.source) if found and each.of else ()
            if not found or (known and each.of.isdisjoint(known)):
                continue
            key = (each, line.node, line.source)
            self._counts[key] += 1
            if self._counts[key] <= HITS:
                values = {name: value for name, value in found.groupdict().items() if value is not None}
                is_ownerless = bool(each.of) and not known
                self._hits.setdefault(each, []).append(Hit(dataclasses.replace(line, text=text), values, is_ownerless))

    def hits(self, wanted: Pattern) -> list[Hit]:
        """Return the matches that were kept, in the order of the lines."""
        return self._hits.get(wanted, [])
