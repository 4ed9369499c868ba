# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a snapshot of the operator contains, and what differs from it later. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import record
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, own_label
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SNAPSHOT_FORMAT = 2
"""The form of the file. A file of another form is refused."""

_VOLATILE = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")

CHOSEN = (
    names.OPERANDS_SWITCH,
    names.WORKLOAD_CONFIG,
    names.MIG_CONFIG,
    names.PLUGIN_CONFIG,
    names.UPGRADE_SKIP,
)
"""Labels with which people and this collection choose what a node does."""


_MARKS = {own.label: own.mark for own in own_label.OWN_LABELS}
"""Labels that this collection sets, and the annotation that says so."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """Something that is not as in the snapshot, and the request that puts it back. ``text`` says what it does."""

    object: str
    text: str
    path: str
    body: Json
    verb: t.Literal["merge", "apply", "create"] = "merge"
    by_chart: bool = False
    """Whether the chart of the snapshot puts it back, too."""

    def __str__(self) -> str:
        return f"{self.object}: {self.text}"


@dataclasses.dataclass(frozen=True)
class SnapshotDifference:
    """Something that is not as in the snapshot, and why it is left."""

    object: str
    reason: str


# ---- what is in it ------------------------------------------------------------------------------------------------


def bare(item: Json) -> Json:
    """Return an object without its status, and without what the API server adds."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in _VOLATILE}
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": metadata}


def node_entry(node: Json) -> Json:
    """Return what a snapshot keeps of a node: its labels and annotations of the stack, and whether it is cordoned.

    The marks of labels that this collection has set belong to them.
    """
    labels = {key: value for key, value in objects.labels_of(node).items() if key.startswith("nvidia.com/")}
    annotations = objects.annotations_of(node).items()
    notes = {key: value for key, value in annotations if key.startswith("nvidia.com/") or key in _MARKS.values()}
    return {"labels": labels, "annotations": notes, "unschedulable": nodes.is_cordoned(node)}


def release_entry(content: record.Content, revision: int, policies: t.Iterable[Json], manager: str) -> Json:
    """Return what a snapshot keeps of the Helm release. Its values are those that install the same again.

    If this collection owns the ClusterPolicy, Helm's record says that the chart does not contain it. The chart then has
    to render it again.
    """
    values = content.values
    block = values.get("clusterPolicy")
    if isinstance(block, dict) and any(ownership.owned_by(item, manager) for item in policies):
        rest = {key: value for key, value in block.items() if key != "deployCR"}
        values = {key: value for key, value in values.items() if key != "clusterPolicy"}
        values |= {"clusterPolicy": rest} if rest else {}
    return {
        "revision": revision,
        "chart_version": content.chart_version,
        "app_version": content.app_version,
        "values": values,
    }


def check(found: t.Any, cluster_uid: str, path: str) -> Json:
    """Return the content of a snapshot's file. Raise if it is invalid, or one of another cluster."""
    if not isinstance(found, dict) or found.get("format") != SNAPSHOT_FORMAT:
        message = f"{path} is no snapshot that this release can read. Delete it, or choose another folder."
        raise GpuOpsError(message, reason="Invalid")
    if found.get("digest") != digest(found):
        message = (
            f"{path} was changed or cut off after this collection wrote it, and what it says would be sent to the "
            f"cluster. Restore it from {path}.previous or a backup, or delete it."
        )
        raise GpuOpsError(message, reason="Invalid")
    if found["cluster"]["uid"] != cluster_uid:
        message = f"{path} is the snapshot of another cluster ({found['cluster']['server']}). Choose another folder."
        raise GpuOpsError(message, reason="Invalid")
    return t.cast("Json", found)


def digest(content: Json) -> str:
    """Return the digest that a snapshot's file has of the rest of it."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    return f"sha256:{hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}"


def goes_on(found: Json | None, target: str, revision: int) -> bool:
    """Return whether a snapshot belongs to an upgrade that began and has not ended, and so must be kept."""
    if found is None or found["closed"]:
        return False
    return bool(found["target"] == target or found["release"]["revision"] != revision)


# ---- what differs -------------------------------------------------------------------------------------------------


def of_object(kept: Json, live: Json | None, path: str) -> Difference | None:
    """Return how a custom resource differs from the snapshot: only in its spec, which is all that people write."""
    name, by_chart = f"{kept['kind']} {objects.name_of(kept)}", _comes_with_the_chart(kept)
    if live is None:
        return Difference(name, "created again", path.rpartition("/")[0], kept, "create", by_chart)
    spec = _back(live.get("spec") or {}, kept.get("spec") or {})
    fields = sorted(_fields(spec, "spec"))
    body = {"metadata": {}, "spec": spec}
    return Difference(name, f"set back {first_few(fields, 10)}", path, body, by_chart=by_chart) if spec else None


def _comes_with_the_chart(kept: Json) -> bool:
    """Return whether the chart brings a custom resource: one with Helm's marks, or the ClusterPolicy."""
    return bool(kept["kind"] == "ClusterPolicy" or names.HELM_RELEASE in objects.annotations_of(kept))


def of_crd(kept: Json, live: Json | None, path: str) -> Difference | None:
    """Return how a CRD differs from the snapshot. What comes with a new chart is taken away by the older schema."""
    name = f"CRD {objects.name_of(kept)}"
    if live is None:
        return Difference(name, "created again", path, kept, "apply", by_chart=True)
    is_same = bare(live)["spec"] == kept["spec"]
    return None if is_same else Difference(name, "set back to its schema", path, kept, "apply", by_chart=True)


def of_node(kept: Json, live: Json, path: str) -> tuple[Difference | None, list[SnapshotDifference]]:
    """Return how a node differs from the snapshot, and what of it is left.

    What an operand writes is its own business, and a label of a node during an upgrade is the operator's.
    """
    name = f"Node {objects.name_of(live)}"
    before, now = kept["labels"], objects.labels_of(live)
    left = [SnapshotDifference(name, f"label {key} is new") for key in CHOSEN if key in now and key not in before]
    if nodes.is_cordoned(live) and not kept["unschedulable"]:
        left.append(SnapshotDifference(name, "it is cordoned, and was not"))
    if nodes.upgrade_state(live) not in names.UPGRADE_IDLE:
        return None, [*left, SnapshotDifference(name, f"its driver's upgrade is at {nodes.upgrade_state(live)}")]
    labels = {key: before[key] for key in _restorable(before) if now.get(key) != before[key]}
    if not labels:
        return None, left
    text = f"set back {', '.join(f'{key}={value}' for key, value in sorted(labels.items()))}"
    notes = kept["annotations"]
    marks = {_MARKS[key]: notes[_MARKS[key]] for key in labels if key in _MARKS and _MARKS[key] in notes}
    metadata = {"labels": labels, **({"annotations": marks} if marks else {})}
    return Difference(name, text, path, {"metadata": metadata}), left


def _restorable(labels: t.Mapping[str, str]) -> t.Iterator[str]:
    """Yield the labels that are put back: what people choose, and which operands a node gets. Pauses end alone."""
    for key, value in labels.items():
        if key in CHOSEN or (key.startswith(names.DEPLOY_PREFIX) and names.PAUSED not in value):
            yield key


def _back(live: Json, kept: Json) -> Json:
    """Return the merge patch that makes one mapping of another. None removes a key."""
    patch: Json = {key: None for key in live if key not in kept}
    for key, value in kept.items():
        if isinstance(value, dict) and isinstance(live.get(key), dict):
            inner = _back(live[key], value)
            patch |= {key: inner} if inner else {}
        elif key not in live or live[key] != value:
            patch[key] = value
    return patch


def _fields(patch: Json, path: str) -> t.Iterator[str]:
    for key, value in patch.items():
        if isinstance(value, dict) and value:
            yield from _fields(value, f"{path}.{key}")
        else:
            yield f"{path}.{key}"
