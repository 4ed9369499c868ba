# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The ClusterPolicy changes hands between Helm and this collection.

Helm regards an object as its own if two annotations and a label say so, and it deletes what a release no longer
contains. Server-side apply knows the owners of fields only from managedFields, so both have to change hands.
"""

from __future__ import annotations

import copy
import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import conflicts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

HELM = "helm"
"""The field manager of Helm 3 and 4."""

_KEEP_KEY = "helm.sh/resource-policy"
KEEP = {_KEEP_KEY: "keep"}
"""The annotation of objects that Helm does not delete when a release no longer contains them."""

_MANAGED_BY = "app.kubernetes.io/managed-by"


def is_helm(manager: str) -> bool:
    """Return whether a field manager is Helm: its command writes as ``helm``, with Update or (Helm 4) with Apply."""
    return manager.lower() == HELM or manager.startswith("terraform-provider-helm")


def is_in_release(item: Json) -> bool:
    """Return whether Helm regards an object as part of a release, and deletes it with the release."""
    return names.HELM_RELEASE in annotations_of(item)


def is_kept(item: Json) -> bool:
    """Return whether Helm leaves an object in the cluster when a release no longer contains it."""
    return KEEP.items() <= annotations_of(item).items()


def has_traces_of_helm(item: Json | None) -> bool:
    """Return whether an adoption has something to do: Helm owns fields of an object, or has left its marks on it."""
    if item is None:
        return False
    owners = {manager for managers in ownership.owners_of(item).values() for manager in managers}
    return any(map(is_helm, owners)) or bool(_marks_on(item))


def marks(release: str, namespace: str) -> Json:
    """Return the metadata by which Helm knows the objects of a release."""
    return {
        "annotations": {names.HELM_RELEASE: release, names.HELM_RELEASE_NAMESPACE: namespace},
        "labels": {_MANAGED_BY: "Helm"},
    }


def _marks_on(item: Json) -> list[tuple[str, str]]:
    """Return Helm's marks on an object, each as its place in the metadata and its key."""
    annotations, labels = annotations_of(item), labels_of(item)
    found = [("annotations", key) for key in (names.HELM_RELEASE, names.HELM_RELEASE_NAMESPACE) if key in annotations]
    return [*found, *([("labels", _MANAGED_BY)] if labels.get(_MANAGED_BY) == "Helm" else [])]


def _is_of_helm(entry: Json) -> bool:
    return is_helm(str(entry.get("manager")))


def write(cluster: Cluster, path: str, seen: Json, patch_of: t.Callable[[Json], list[Json]], manager: str) -> None:
    """Let an object change hands; in check mode, only ask the API server. Raise if its spec is no longer the one seen.

    If the run ends right afterwards, the next one finds the fields with their new owner.
    """
    query = {"fieldManager": manager, **({"dryRun": "All"} if cluster.check_mode else {})}
    known = iter([seen])

    def hand_over() -> bool:
        item = next(known, None) or cluster.get(path) or {"metadata": {}}
        if item["metadata"].get("generation") != seen["metadata"].get("generation"):
            return False
        cluster.ask("PATCH", path, query, json.dumps(patch_of(item)), "application/json-patch+json")
        return True

    name = f"ClusterPolicy {objects.name_of(seen)}"
    if not conflicts.settled(hand_over, name):
        message = f"{name} was changed by somebody else while it changed hands with Helm. Run it again."
        raise GpuOpsError(message, reason="Conflict")


# From Helm to this collection


def adopted(item: Json, manager: str) -> Json:
    """Return an object after its adoption: Helm's fields are the manager's own, as if it had applied them itself.

    Without this, server-side apply makes both of them owners, and a field that is later given up stays with Helm.
    The annotation that keeps Helm from deleting the object stays, in case Helm's release still has the object.
    """

    def moves(entry: Json) -> bool:
        return ownership.is_applied_by(entry, manager) or _is_of_helm(entry)

    made = _without_marks(item)
    nobodys = [*_marks_on(item), ("annotations", _KEEP_KEY)]
    made["metadata"]["managedFields"] = ownership.moved(item, moves, manager, nobodys)
    return made


def adoption_patch(item: Json, manager: str) -> list[Json]:
    """Return the JSON patch that adopts an object. The API server refuses it if the object has changed since."""
    after = adopted(item, manager)["metadata"]
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": item["metadata"]["resourceVersion"]},
        {"op": "replace", "path": "/metadata/managedFields", "value": after["managedFields"]},
        *({"op": "remove", "path": f"/metadata/{place}/{_escaped(key)}"} for place, key in _marks_on(item)),
    ]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def without_helm(item: Json) -> Json:
    """Return an object without Helm's marks and without Helm's entries in managedFields."""
    made = _without_marks(item)
    entries = made["metadata"].get("managedFields") or []
    made["metadata"]["managedFields"] = [entry for entry in entries if not _is_of_helm(entry)]
    return made


def _without_marks(item: Json) -> Json:
    made = copy.deepcopy(item)
    for place, key in _marks_on(item):
        del made["metadata"][place][key]
    return made


# From this collection to nobody, and to Helm


def release(cluster: Cluster, path: str, manager: str) -> None:
    """Give up all fields of a manager in an object, which stays as it is. In check mode, only ask the API server.

    An object without any entry would count as applied by ``before-first-apply``, so Helm gets the fields of such a one.
    """
    query = {"fieldManager": manager, **({"dryRun": "All"} if cluster.check_mode else {})}

    def give_up() -> None:
        item = cluster.get(path)
        entries = (item or {"metadata": {}})["metadata"].get("managedFields") or []
        others = [entry for entry in entries if entry.get("manager") != manager]
        if item is None or others == entries:
            return
        left = others or ownership.moved(item, lambda entry: True, HELM)
        body = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": item["metadata"]["resourceVersion"]},
            {"op": "replace", "path": "/metadata/managedFields", "value": left},
        ]
        cluster.ask("PATCH", path, query, json.dumps(body), "application/json-patch+json")

    conflicts.settled(give_up, path)


def hand_over_patch(item: Json, manager: str, release: str, namespace: str) -> list[Json]:
    """Return the JSON patch after which Helm can import an object into a release, and owns the manager's fields.

    The API server refuses it if the object has changed since.
    """

    def moves(entry: Json) -> bool:
        return entry.get("manager") == manager or _is_of_helm(entry)

    metadata, mark = item["metadata"], marks(release, namespace)
    annotations = {key: value for key, value in annotations_of(item).items() if key not in KEEP}
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/metadata/annotations", "value": {**annotations, **mark["annotations"]}},
        {"op": "add", "path": "/metadata/labels", "value": {**labels_of(item), **mark["labels"]}},
        {"op": "add", "path": "/metadata/managedFields", "value": ownership.moved(item, moves, HELM)},
    ]
