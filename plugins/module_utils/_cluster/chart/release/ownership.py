# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""The hand-over of a ClusterPolicy between Helm and this collection. Pure.

Helm regards an object as its own if two annotations and a label say so, and it deletes what a release no longer
contains. The API server remembers in managedFields who set each field.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

HELM = "helm"
"""The field manager of Helm 3 and 4."""

KEEP = {"helm.sh/resource-policy": "keep"}
"""The annotation of objects that Helm does not delete when a release no longer contains them."""


def belongs_to_helm(policy: Json) -> bool:
    """Return whether Helm regards the object as its own."""
    return names.HELM_RELEASE in objects.annotations_of(policy)


def is_kept(policy: Json) -> bool:
    """Return whether Helm leaves the object in the cluster when a release no longer contains it."""
    return KEEP.items() <= objects.annotations_of(policy).items()


def marks(release: str, namespace: str) -> Json:
    """Return the metadata by which Helm knows the objects of a release."""
    return {
        "annotations": {names.HELM_RELEASE: release, names.HELM_RELEASE_NAMESPACE: namespace},
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
    }


def hand_to_helm(policy: Json, manager: str, release: str, namespace: str) -> str:
    """Return the JSON patch after which Helm can import the object into a release, and owns our fields."""
    metadata, mark = policy["metadata"], marks(release, namespace)
    annotations = {key: value for key, value in objects.annotations_of(policy).items() if key not in KEEP}
    return json.dumps(
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            {"op": "add", "path": "/metadata/annotations", "value": {**annotations, **mark["annotations"]}},
            {"op": "add", "path": "/metadata/labels", "value": {**objects.labels_of(policy), **mark["labels"]}},
            {
                "op": "add",
                "path": "/metadata/managedFields",
                "value": moved(metadata.get("managedFields") or [], (manager, HELM), HELM),
            },
        ]
    )


def moved(entries: t.Sequence[Json], managers: t.Container[str], to: str) -> list[Json]:
    """Return managedFields in which one server-side apply of ``to`` has all that these managers have set."""
    ours = [entry for entry in entries if entry.get("manager") in managers and not entry.get("subresource")]
    if not ours:
        return list(entries)
    fields: Json = {}
    for entry in ours:
        _unite(fields, entry.get("fieldsV1") or {})
    owned = {**ours[0], "manager": to, "operation": "Apply", "fieldsV1": fields}
    return [owned, *(entry for entry in entries if entry not in ours)]


def _unite(fields: Json, more: Json) -> None:
    for key, inner in more.items():
        _unite(fields.setdefault(key, {}), inner)
