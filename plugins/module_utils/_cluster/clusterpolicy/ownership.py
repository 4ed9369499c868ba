# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which manager owns which field of an object, and how fields change hands. Pure.

The API server keeps the owners in ``metadata.managedFields``, as trees whose keys are ``f:<field>``, ``k:<key of a list
item>``, ``v:<list item>`` and ``.`` (the value itself). Server-side apply removes a field when its last owner no longer
applies it.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# Owners


def owners_of(item: Json) -> dict[str, list[str]]:
    """Return the managers of each leaf field, from managedFields, for example ``{"spec.driver.version": ["helm"]}``."""
    owners: dict[str, list[str]] = {}
    for entry in _entries(item):
        for path in leaves(entry.get("fieldsV1") or {}):
            owners.setdefault(path, []).append(str(entry.get("manager")))
    return owners


def owned_by(item: Json, manager: str) -> list[str]:
    """Return the leaf fields that a manager owns, sorted."""
    return sorted(path for path, owners in owners_of(item).items() if manager in owners)


def leaves(fields: Json, path: str = "") -> t.Iterator[str]:
    """Yield the paths of a ``fieldsV1`` tree."""
    for key, children in fields.items():
        if key == ".":
            continue
        kind, dummy, name = key.partition(":")
        where = f"{path}[{name}]" if kind != "f" else f"{path}.{name}" if path else name
        if children.keys() - {"."}:
            yield from leaves(children, where)
        else:
            yield where


def _entries(item: Json) -> list[Json]:
    return [entry for entry in item["metadata"].get("managedFields") or [] if not entry.get("subresource")]


# What a manager has applied


def applied_by(item: Json, manager: str) -> Json:
    """Return the part of an object that a manager has applied, with the values that its fields have now."""
    return _picked(item, _applied_fields(item, manager))


def _applied_fields(item: Json, manager: str) -> Json:
    return _fields_of(entry for entry in _entries(item) if is_applied_by(entry, manager))


def _picked(value: Json, fields: Json) -> Json:
    named = {key[2:]: children for key, children in fields.items() if key.startswith("f:")}
    return {name: _picked_value(value[name], children) for name, children in named.items() if name in value}


def _picked_value(value: t.Any, fields: Json) -> t.Any:
    if isinstance(value, dict):
        return _picked(value, fields)
    if isinstance(value, list) and fields.keys() - {"."}:
        return list(_picked_items(value, fields))
    return value


def _picked_items(items: list[t.Any], fields: Json) -> t.Iterator[t.Any]:
    """Yield the manager's items of a list that several managers share (a set, or a list with keys)."""
    for key, children in fields.items():
        kind, dummy, text = key.partition(":")
        if kind == "v":
            yield json.loads(text)
        elif kind == "k":
            identity = json.loads(text)
            found = [item for item in items if isinstance(item, dict) and identity.items() <= item.items()]
            yield from ({**identity, **_picked(item, children)} for item in found)


def merged(applied: Json, given: Json) -> Json:
    """Return what was applied earlier with what is given now. A null gives a field up; a list replaces a list."""
    made = dict(applied)
    for key, value in given.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict):
            made[key] = merged(_mapping(made.get(key)), value)
        else:
            made[key] = value
    return made


def left_with_others(before: Json | None, after: Json, manager: str) -> dict[str, list[str]]:
    """Return the fields that a manager has given up and that stay, each with the managers that still own it."""
    if before is None:
        return {}
    owners = owners_of(after)
    given_up = set(owned_by(before, manager)) - set(owned_by(after, manager))
    return {path: owners[path] for path in sorted(given_up) if path in owners}


# Fields that another manager of this collection has declared


def left_to(declarer: str, manifest: Json, before: Json | None, manager: str) -> tuple[Json, list[str]]:
    """Return a manifest that leaves a declarer's fields alone, and those of them that it gives another value.

    A field that ``manager`` owns too keeps its value in the manifest, since giving it up would be a change.
    """
    if before is None:
        return manifest, []
    theirs, ours = (_applied_fields(before, each).get("f:spec") or {} for each in (declarer, manager))
    differing: list[str] = []
    spec = _left_alone(manifest["spec"], before.get("spec") or {}, (theirs, ours), "spec", differing)
    return {**manifest, "spec": spec}, differing


def _left_alone(wanted: Json, live: Json, fields: tuple[Json, Json], path: str, differing: list[str]) -> Json:
    theirs, ours = fields
    made = {}
    for name, value in wanted.items():
        key, where = f"f:{name}", f"{path}.{name}"
        inside = theirs.get(key, {}).keys() - {"."}
        if inside and isinstance(value, dict):
            below = (theirs[key], ours.get(key) or {})
            made[name] = _left_alone(value, _mapping(live.get(name)), below, where, differing)
        elif key not in theirs or inside:  # or a list whose items have owners of their own
            made[name] = value
        else:
            differing += [where] if value != live.get(name) else []
            made.update({name: live[name]} if key in ours and name in live else {})
    return made


# How fields change hands


def moved(
    item: Json, moves: t.Callable[[Json], bool], to: str, left_out: t.Iterable[tuple[str, str]] = ()
) -> list[Json]:
    """Return managedFields in which one apply of ``to`` has the fields of all entries that move. Status never moves.

    ``left_out`` are labels and annotations to leave without an owner, each as its place in the metadata and its key.
    """
    entries = item["metadata"].get("managedFields") or []
    moving = [entry for entry in _entries(item) if moves(entry)]
    if not moving:
        return list(entries)
    fields = _fields_of(moving)
    for place, key in left_out:
        _leave_out(fields, ["f:metadata", f"f:{place}", f"f:{key}"])
    own = {**moving[-1], "manager": to, "operation": "Apply", "fieldsV1": fields}
    return [own, *(entry for entry in entries if entry not in moving)]


def _fields_of(entries: t.Iterable[Json]) -> Json:
    fields: Json = {}
    for entry in entries:
        fields = _united(fields, entry.get("fieldsV1") or {})
    return fields


def is_applied_by(entry: Json, manager: str) -> bool:
    """Return whether an entry of managedFields is what a manager has applied."""
    is_apply = entry.get("operation") == "Apply" and not entry.get("subresource")
    return is_apply and entry.get("manager") == manager


def _united(one: Json, other: Json) -> Json:
    made = dict(one)
    for key, children in other.items():
        made[key] = _united(made.get(key) or {}, children)
    return made


def _leave_out(fields: Json, path: list[str]) -> None:
    """Remove a path from a tree of fields, and whatever is empty then."""
    head, *rest = path
    if head not in fields:
        return
    if rest:
        _leave_out(fields[head], rest)
    if not rest or not fields[head].keys() - {"."}:
        del fields[head]


# Prediction


def without_given_up(item: Json, before: Json, manifest: Json, manager: str) -> Json:
    """Return an object without the fields that a manager owns alone in ``before`` and no longer applies.

    Empty blocks go with their last field, as they do in server-side apply.
    """
    others = _fields_of(entry for entry in _entries(before) if not is_applied_by(entry, manager))
    return _reduced(item, _applied_fields(before, manager), manifest, others)


def _as_applied(item: Json, manifest: Json, manager: str) -> Json:
    """Return an object in whose managedFields a manager has applied exactly the manifest."""
    entries = item["metadata"].get("managedFields") or []
    others = [entry for entry in entries if not is_applied_by(entry, manager)]
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "name"}
    fields = {**_tree({"metadata": metadata} if metadata else {}), **_tree({"spec": manifest["spec"]})}
    own = {"manager": manager, "operation": "Apply", "fieldsV1": fields}
    return {**item, "metadata": {**item["metadata"], "managedFields": [own, *others]}}


def after_apply(item: Json, before: Json, manifest: Json, manager: str) -> Json:
    """Return an object after a manager has applied a manifest: what it gave up is gone, and it owns what is there."""
    return _as_applied(without_given_up(item, before, manifest, manager), manifest, manager)


def _tree(value: t.Any) -> Json:
    return {f"f:{key}": _tree(item) for key, item in value.items()} if isinstance(value, dict) else {}


def _reduced(value: Json, owned: Json, applied: Json, others: Json) -> Json:
    made = {}
    for name, item in value.items():
        key = f"f:{name}"
        stays = key not in owned or name in applied or key in others
        if isinstance(item, dict) and owned.get(key, {}).keys() - {"."}:
            reduced = _reduced(item, owned[key], _mapping(applied.get(name)), others.get(key) or {})
            if reduced or stays:
                made[name] = reduced
        elif stays:
            made[name] = item
    return made


def _mapping(value: t.Any) -> Json:
    return value if isinstance(value, dict) else {}
