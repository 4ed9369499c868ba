# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Objects of the API in JSON or YAML, from unchecked text. Pure.

YAML is read by events instead of ``yaml.safe_load``: its aliases can blow up and its nesting can end the process (the
composer of libyaml recurses in C), and dates would not be JSON.
"""

from __future__ import annotations

import contextlib
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

with contextlib.suppress(ImportError):  # The module refuses to run without it.
    import yaml

DEEPEST = 60
"""Deeper nesting is not that of an object of the API."""
YAML_BYTES = 24 << 20
"""Longer texts would take minutes."""

_BRACKETS = re.compile(r"[\[\]{}]")
_OPEN_BRACKETS = 500
"""libyaml takes time that grows with the square of the open brackets."""

_WORDS: dict[str, t.Any] = {"": None, "~": None, "null": None, "true": True, "false": False}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9]\d{0,18})")
_DECIMAL = re.compile(r"[-+]?\d{1,18}\.\d{1,18}(?:[eE][-+]?\d{1,3})?")


class UnreadableError(ValueError):
    """The text is no JSON or YAML, or more than an object of the API would need."""


def from_json(text: str, start: int = 0) -> tuple[t.Any, int]:
    """Return the value that begins at a place in a text, and the place where it ends."""
    try:
        return json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError) as e:
        raise UnreadableError("It is no JSON.") from e


def from_yaml(text: str) -> list[t.Any]:
    """Return the documents in a text."""
    if len(text) > YAML_BYTES:
        raise UnreadableError(f"It has more than {YAML_BYTES >> 20} MiB of YAML: convert it to JSON.")
    if _open_brackets(text) > _OPEN_BRACKETS:
        raise UnreadableError("It is nested too deeply.")
    documents: list[t.Any] = []
    try:
        _Builder(documents).feed(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError) as e:
        if not documents:
            raise UnreadableError("It is no YAML.") from e
    return documents


def _open_brackets(text: str) -> int:
    deepest = depth = 0
    for found in _BRACKETS.finditer(text):
        depth = depth + 1 if found[0] in "[{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


class _Builder:
    """Makes values of the events of a parser, without recursion."""

    def __init__(self, documents: list[t.Any]) -> None:
        self._documents = documents
        self._open: list[t.Any] = []
        self._keys: list[t.Any] = []

    def feed(self, events: t.Iterable[t.Any]) -> None:
        """Take all events."""
        for event in events:
            if isinstance(event, yaml.AliasEvent):
                raise UnreadableError("It has aliases, which the API's YAML never has.")
            if isinstance(event, yaml.ScalarEvent):
                self._add(_scalar(event))
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._begin({} if isinstance(event, yaml.MappingStartEvent) else [])
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                self._keys.pop()
                self._add(self._open.pop())

    def _begin(self, value: t.Any) -> None:
        if len(self._open) >= DEEPEST:
            raise UnreadableError("It is nested too deeply.")
        self._open.append(value)
        self._keys.append(_NO_KEY)

    def _add(self, value: t.Any) -> None:
        if not self._open:
            self._documents.append(value)
        elif isinstance(self._open[-1], list):
            self._open[-1].append(value)
        elif self._keys[-1] is _NO_KEY:
            self._keys[-1] = value if isinstance(value, str) else json.dumps(value)
        else:
            self._open[-1][self._keys[-1]] = value
            self._keys[-1] = _NO_KEY


_NO_KEY: t.Any = object()


def _scalar(event: t.Any) -> t.Any:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def flattened(value: t.Any) -> t.Iterator[tuple[Json, bool]]:
    """Yield the objects in a document, each with whether it comes from a list. Secrets are left out."""
    if isinstance(value, list):
        for item in value:
            yield from flattened(item)
        return
    if not isinstance(value, dict):
        return
    kind, items = value.get("kind"), value.get("items")
    if isinstance(items, list) and (kind is None or str(kind).endswith("List")):
        own = str(kind or "").removesuffix("List")
        for item in items:
            if isinstance(item, dict):
                yield from ((each, True) for each in _valid({"kind": own, **item} if own else item))
    else:
        yield from ((each, False) for each in _valid(value))


def _valid(item: Json) -> t.Iterator[Json]:
    """Yield an object of the API with the fields that every one has, in the form that code relies on."""
    metadata, kind = item.get("metadata"), item.get("kind")
    if not isinstance(kind, str) or kind == "Secret" or not isinstance(metadata, dict):
        return
    if not isinstance(metadata.get("name"), str):
        return
    texts = {
        key: {str(name): str(text) for name, text in metadata[key].items()}
        for key in ("labels", "annotations")
        if isinstance(metadata.get(key), dict)
    }
    metadata = {key: part for key, part in metadata.items() if key not in ("labels", "annotations", "managedFields")}
    parts = {key: item[key] for key in ("spec", "status") if isinstance(item.get(key), dict)}
    rest = {key: part for key, part in item.items() if key not in ("metadata", "spec", "status")}
    yield {**rest, "metadata": {**metadata, **texts}, **parts}
