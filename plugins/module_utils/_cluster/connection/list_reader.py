# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A list of the Kubernetes API, read while it arrives."""

from __future__ import annotations

import codecs
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_ITEMS = re.compile(r'"items"\s*:\s*(\[|null)')
_BETWEEN = re.compile(r"[\s,]*")


class ListReader:
    """Reads a list of the API while it arrives, so that only one piece and one object at a time are in memory.

    ``envelope`` is the list itself without its objects. It is complete after the last object.
    """

    def __init__(self) -> None:
        self.envelope: Json = {}
        self._text = ""
        self._head = ""

    def objects(self, pieces: t.Iterable[bytes]) -> t.Iterator[Json]:
        """Yield the objects of the list that these pieces make up. Raises ValueError if they are not a whole list."""
        decoder, is_inside = codecs.getincrementaldecoder("utf-8")(), False
        for piece in _large(pieces):
            self._text += decoder.decode(piece)
            is_inside = is_inside or self._begin()
            if is_inside:
                yield from self._complete()
        self.envelope = json.loads(f"{self._head}{self._text.lstrip()}")

    def _begin(self) -> bool:
        """Cut off what comes before the objects, and return whether they have begun."""
        found = _ITEMS.search(self._text)
        if found is None or found[1] == "null":
            return False
        self._head, self._text = self._text[: found.end()], self._text[found.end() :]
        return True

    def _complete(self) -> t.Iterator[Json]:
        """Yield the objects that have arrived completely."""
        position, scan = 0, json.JSONDecoder().raw_decode
        while True:
            found = _BETWEEN.match(self._text, position)
            position = found.end() if found else position
            if not self._text.startswith("{", position):
                break
            try:
                item, position = scan(self._text, position)
            except ValueError:  # the rest of the object has not arrived
                break
            yield item
        self._text = self._text[position:]


PIECE = 1 << 18
"""Bytes that are parsed at a time. The API server sends smaller pieces, most of which end within an object."""


def _large(pieces: t.Iterable[bytes]) -> t.Iterator[bytes]:
    """Yield the same bytes in pieces of `PIECE` or a little more."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
