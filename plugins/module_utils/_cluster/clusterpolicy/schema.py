# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a CRD's schema says about fields: which exist, which values they take, and their defaults. Pure.

In check mode the CRD of the next operator is not installed yet, so its schema replaces the API server's judgement.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def unknown_fields(value: t.Any, schema: Json, path: str) -> list[str]:
    """Return the fields of a value that the schema does not have."""
    if isinstance(value, list):
        items: Json = schema.get("items") or {}
        return [
            field for number, item in enumerate(value) for field in unknown_fields(item, items, f"{path}[{number}]")
        ]
    if not isinstance(value, dict) or _is_free(schema):
        return []
    found = []
    for key, item in value.items():
        known = _of_key(schema, key)
        found += [f"{path}.{key}"] if known is None else unknown_fields(item, known, f"{path}.{key}")
    return found


def _is_free(schema: Json) -> bool:
    """Return whether a schema allows any content."""
    return "properties" not in schema and "additionalProperties" not in schema


def _of_key(schema: Json, key: str) -> Json | None:
    """Return the schema of one key of an object, or None if the object has no such key."""
    known = (schema.get("properties") or {}).get(key)
    if known is None:
        known = schema.get("additionalProperties")
        if not known and not schema.get("x-kubernetes-preserve-unknown-fields"):
            return None
    return known if isinstance(known, dict) else {}


def accepts(field: str, item: Json, schema: Json) -> bool:
    """Return whether the schema has a field (``spec.driver.version``) and accepts the value that it has in ``item``."""
    value: t.Any = item
    for key in keys_of(field):
        known = _of_key(schema, key)
        if known is None or not isinstance(value, dict):
            return False
        schema, value = known, value.get(key)
    return not unknown_fields(value, schema, "") and _fits(value, schema)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def _fits(value: t.Any, schema: Json) -> bool:
    """Return whether a value has the schema's type and is one of its choices."""
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, (int, str))
    expected = _TYPES.get(str(schema.get("type")))
    is_right = expected is None or (isinstance(value, expected) and (expected is bool or not isinstance(value, bool)))
    return is_right and ("enum" not in schema or value in schema["enum"])


def refused_nulls(value: t.Any, schema: Json, path: str) -> list[str]:
    """Return the fields that are null and that the API server refuses: those without a default do not accept null."""
    return [
        field
        for field, known in nulls(value, schema, path)
        if known.get("type") and "default" not in known and not known.get("nullable")
    ]


def nulls(value: t.Any, schema: Json, path: str) -> t.Iterator[tuple[str, Json]]:
    """Yield the fields that are null, each with what the schema says about it."""
    if value is None:
        yield path, schema
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from nulls(item, schema.get("items") or {}, f"{path}[{number}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from nulls(item, _of_key(schema, key) or {}, f"{path}.{key}")


def keys_of(field: str) -> list[str]:
    """Return the keys on the way to a field. A field inside a list stands for the whole list."""
    return field.partition("[")[0].split(".")


def without(item: Json, fields: t.Iterable[str]) -> Json:
    """Return an object without these fields."""
    made = item
    for field in fields:
        made = _without(made, keys_of(field))
    return made


def _without(item: Json, keys: list[str]) -> Json:
    head, *rest = keys
    if head not in item:
        return item
    if not rest:
        return {key: value for key, value in item.items() if key != head}
    return {**item, head: _without(item[head], rest)} if isinstance(item[head], dict) else item


def with_fields(item: Json, fields: t.Iterable[str], source: Json) -> Json:
    """Return an object with the values that these fields have in another one."""
    made = item
    for field in fields:
        made = _with(made, keys_of(field), source)
    return made


def _with(item: Json, keys: list[str], source: Json) -> Json:
    head, *rest = keys
    old = item.get(head)
    return {**item, head: _with(old if isinstance(old, dict) else {}, rest, source[head]) if rest else source[head]}


def completed(item: Json, source: Json, ahead: t.Iterable[str], known: Json) -> tuple[Json, list[str]]:
    """Return an object as another CRD completes it, and the fields that this CRD drops.

    ``known`` is its schema of the spec. The fields in ``ahead`` have their values from ``source``.
    """
    gone = unknown_fields(item["spec"], known, "spec")
    made = with_fields(without(item, gone), ahead, source)
    return {**made, "spec": with_defaults(made["spec"], known)}, gone


def with_defaults(value: t.Any, schema: Json) -> t.Any:
    """Return a value with the schema's defaults, as the API server fills them in."""
    if isinstance(value, list):
        return [with_defaults(item, schema.get("items") or {}) for item in value]
    if not isinstance(value, dict):
        return value
    made = {**_defaults(schema), **{key: item for key, item in value.items() if item is not None}}
    return {key: with_defaults(item, _of_key(schema, key) or {}) for key, item in made.items()}


def _defaults(schema: Json) -> Json:
    known = (schema.get("properties") or {}).items()
    return {key: field["default"] for key, field in known if "default" in field}
