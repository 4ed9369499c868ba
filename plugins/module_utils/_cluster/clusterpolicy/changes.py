# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What an apply changes in a ClusterPolicy, who owns each field, and which values are secret. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MASK = "VALUE_HIDDEN"
_SECRET_NAME = re.compile(r"(?i)(token|password|passwd|secret|credential|api_?key)")

SECRET_LENGTH = 6
"""Shorter secrets are not hidden throughout a result, because that would also hide ordinary words."""


@dataclasses.dataclass(frozen=True)
class Change:
    """What an apply would do. ``before`` and ``after`` are for a diff: our part of the object, secrets masked."""

    changed: bool
    before: Json
    after: Json

    @property
    def diff(self) -> Json:
        """The key ``diff`` of a module's result."""
        return {"before": self.before, "after": self.after}


def between(existing: Json | None, predicted: Json | None, manager: str) -> Change:
    """Compare the object with the API server's own prediction (a dry run). None means that there is no object."""
    before, after = _our_part(existing, manager), _our_part(predicted, manager)
    return Change(before != after, mask(before), mask(after))


def _our_part(item: Json | None, manager: str) -> Json:
    if item is None:
        return {}
    metadata = {key: item["metadata"][key] for key in ("name", "labels", "annotations") if item["metadata"].get(key)}
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": metadata,
        "spec": item.get("spec") or {},
        # Taking over a field with the same value is also a change: from then on, we maintain the value.
        f"fields owned by {manager}": sorted(path for path, owners in owners_of(item).items() if manager in owners),
    }


# Owners


def owners_of(item: Json) -> dict[str, list[str]]:
    """Return the managers of each leaf field, from managedFields, for example ``{"spec.driver.version": ["helm"]}``."""
    owners: dict[str, list[str]] = {}
    for entry in item["metadata"].get("managedFields") or []:
        if not entry.get("subresource"):
            for path in _leaves(entry.get("fieldsV1") or {}):
                owners.setdefault(path, []).append(str(entry.get("manager")))
    return owners


def _leaves(fields: Json, path: str = "") -> t.Iterator[str]:
    """Yield the paths of a ``fieldsV1`` tree. Its keys are ``f:<field>``, ``k:<key of an item>`` and ``.`` (itself)."""
    for key, children in fields.items():
        if key == ".":
            continue
        kind, dummy, name = key.partition(":")
        where = f"{path}[{name}]" if kind != "f" else f"{path}.{name}" if path else name
        if children.keys() - {"."}:
            yield from _leaves(children, where)
        else:
            yield where


def strip_managed(item: Json) -> Json:
    """Return the object with its secrets masked and without managedFields, which readers do not need."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    stripped: Json = mask({**item, "metadata": metadata})
    return stripped


# Secrets


def mask(value: t.Any) -> t.Any:
    """Hide the values of environment variables whose names say that they are secret."""
    if isinstance(value, list):
        return [mask(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _is_secret(value):
        return {**value, "value": MASK}
    return {key: mask(item) for key, item in value.items()}


def _is_secret(entry: Json) -> bool:
    name = entry.get("name")
    return isinstance(name, str) and bool(entry.get("value")) and bool(_SECRET_NAME.search(name))


def secrets_in(value: t.Any) -> t.Iterator[str]:
    """Yield the values that `mask` hides, except very short ones."""
    if isinstance(value, dict):
        if _is_secret(value) and len(str(value["value"])) >= SECRET_LENGTH:
            yield str(value["value"])
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from secrets_in(item)
