# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What an apply changes in a ClusterPolicy. Pure."""

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Change:
    """What an apply would do. ``before`` and ``after`` are for a diff: our part of the object, secrets masked."""

    changed: bool
    before: Json
    after: Json

    @property
    def diff(self) -> Json:
        """The key ``diff`` of a module's result: empty without a change, since jobs keep each result."""
        return {"before": self.before, "after": self.after} if self.changed else {"before": {}, "after": {}}


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
        f"fields owned by {manager}": ownership.owned_by(item, manager),
    }


def strip_managed(item: Json) -> Json:
    """Return the object with its secrets masked and without managedFields, which readers do not need."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    stripped: Json = mask({**item, "metadata": metadata})
    return stripped
