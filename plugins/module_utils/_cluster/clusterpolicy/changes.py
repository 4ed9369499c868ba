# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What an apply changes in a ClusterPolicy. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class PolicyChange:
    """What an apply would do. ``before`` and ``after`` are for a diff: our part of the object, secrets masked."""

    changed: bool
    before: Json
    after: Json

    @property
    def diff(self) -> Json:
        """The key ``diff`` of a module's result: empty without a change, since jobs keep each result."""
        return {"before": self.before, "after": self.after} if self.changed else {"before": {}, "after": {}}


def between(existing: Json | None, predicted: Json | None, manager: str) -> PolicyChange:
    """Compare the object with the API server's own prediction (a dry run). None means that there is no object."""
    before, after = _our_part(existing), _our_part(predicted)
    given_up, taken_over = _moved(existing, predicted, manager), _moved(predicted, existing, manager)
    if given_up or taken_over:
        # Taking over a field with the same value is also a change: from then on, we maintain the value.
        before |= {f"fields of {manager} that others keep": given_up}
        after |= {f"fields of others that {manager} takes over": taken_over}
    is_changed = before != after or _owned(existing, manager) != _owned(predicted, manager)
    return PolicyChange(is_changed, mask(before), mask(after))


def _our_part(item: Json | None) -> Json:
    if item is None:
        return {}
    metadata = {key: item["metadata"][key] for key in ("name", "labels", "annotations") if item["metadata"].get(key)}
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": metadata,
        "spec": item.get("spec") or {},
    }


def _owned(item: Json | None, manager: str) -> list[str]:
    return ownership.owned_by(item, manager) if item else []


def _moved(one: Json | None, other: Json | None, manager: str) -> list[str]:
    """Return the fields that a manager owns in one object, and that the other one has without this owner."""
    if one is None or other is None:
        return []
    there = ownership.owners_of(other)
    others = [path for path in _owned(one, manager) if manager not in there.get(path, ())]
    # A default of the schema has no owner.
    return [path for path in others if path in there or _has(other, path)]


def _has(item: Json, path: str) -> bool:
    """Return whether an object has a value at a path, such as ``spec.driver.version``."""
    value: t.Any = item
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value is not None


def strip_managed(item: Json) -> Json:
    """Return the object with its secrets masked and without managedFields, which readers do not need."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    stripped: Json = mask({**item, "metadata": metadata})
    return stripped
