# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Pure functions about any object of the Kubernetes API: its name, labels, age and quantities."""

from __future__ import annotations

import codecs
import json
import re
import typing as t
from datetime import datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def name_of(item: Json) -> str:
    """Return an object's name."""
    return str(item["metadata"]["name"])


def full_name(item: Json) -> str:
    """Return an object's name with its namespace, if it has one: ``gpu-operator/nvidia-dcgm``."""
    namespace = item["metadata"].get("namespace")
    return f"{namespace}/{name_of(item)}" if namespace else name_of(item)


def labels_of(item: Json) -> dict[str, str]:
    """Return an object's labels."""
    return item["metadata"].get("labels") or {}


def annotations_of(item: Json) -> dict[str, str]:
    """Return an object's annotations."""
    return item["metadata"].get("annotations") or {}


def version_of(item: Json) -> int:
    """Return an object's version as a number, or 0. The API server counts all changes upwards."""
    return whole_number(item["metadata"].get("resourceVersion")) or 0


def last_write(item: Json, part: str = "spec") -> float:
    """Return when a part of an object was last written, in seconds since the epoch, whoever wrote the rest later."""
    writes = [
        timestamp(entry.get("time"))
        for entry in item["metadata"].get("managedFields") or []
        if entry.get("subresource") != "status" and f"f:{part}" in entry.get("fieldsV1", (f"f:{part}",))
    ]
    return max([*writes, timestamp(item["metadata"].get("creationTimestamp"))])


def seniority(item: Json) -> tuple[str, str]:
    """Return a key that sorts objects by age, the oldest first, and objects of the same second by name."""
    return str(item["metadata"].get("creationTimestamp") or ""), name_of(item)


def timestamp(text: str | None) -> float:
    """Return a time of the API in seconds since the epoch, or 0 without one."""
    # Twenty times as fast as time.strptime: a rollout reads the times on all nodes at every look.
    return datetime.fromisoformat(f"{text[:19]}+00:00").timestamp() if text else 0.0


def quantity(text: str | int) -> int:
    """Return a whole Kubernetes quantity as a number. The API server writes 1000 shared GPUs as ``1k``."""
    number = str(text)
    return int(number[:-1]) * 1000 if number.endswith("k") else int(number)


_ITEMS = re.compile(r'"items"\s*:\s*(\[|null)')
_BETWEEN = re.compile(r"[\s,]*")


class ListReader:
    """Reads a list of the API while it arrives, so that never more than one piece and one object are in memory.

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


def container_statuses(pod: Json) -> list[Json]:
    """Return the statuses of a pod's containers in the order in which they start."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
