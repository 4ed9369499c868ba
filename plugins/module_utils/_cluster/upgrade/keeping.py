# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Take a snapshot of the operator into a file on the controller, and put back what it contains."""

from __future__ import annotations

import json
import os
import re
import tempfile
import typing as t
from datetime import UTC, datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.crds import CRD_API
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import record
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import assess, snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

_CRDS = namespaced(CRD_API, None, "customresourcedefinitions")
_GROUPS = (".nvidia.com", ".nfd.k8s-sigs.io")
"""Ends of the names of the CRDs that the chart brings."""

_COLLECTIONS = {
    "ClusterPolicy": observe.CLUSTERPOLICIES_PATH,
    "NVIDIADriver": observe.NVIDIADRIVERS_PATH,
    "GPUCluster": observe.GPUCLUSTERS_PATH,
}
"""Where the custom resources of the stack are. All of them are cluster-scoped."""


def keep(cluster: Cluster, options: Options) -> Json:
    """Do what the state asks for; return the result of the module."""
    uid = _uid(cluster)
    path = _path(options, uid)
    found = _read(path, uid)
    if options["state"] == "taken":
        return _take(cluster, options, path, found)
    if options["state"] == "read":
        described = _described(found) if found else {"snapshot": None}
        return {"changed": False, "path": path, **described, "helm_values": found["release"]["values"] if found else {}}
    if found is None and cluster.check_mode and options["state"] == "closed":
        return {"changed": False, "path": path, "snapshot": None}
    if found is None:
        message = f"There is no snapshot {path}. Take one before the upgrade, or correct folder."
        raise GpuOpsError(message, reason="NotFound")
    if options["state"] == "closed":
        return _close(cluster, options, path, found)
    return _restore(cluster, path, found)


def _uid(cluster: Cluster) -> str:
    """Return what tells one cluster from another, whatever its address is."""
    return str(cluster.ask("GET", namespaced("v1", None, "namespaces", "kube-system"))["metadata"]["uid"])


def _path(options: Options, uid: str) -> str:
    release = f"{options['release_namespace']}.{options['release_name']}"
    return os.path.join(options["folder"], f"{re.sub(r'[^A-Za-z0-9.-]', '_', release)}.{uid[:8]}.json")


def _described(found: Json) -> Json:
    """Return the part of a snapshot that is no secret."""
    release = found["release"]
    return {
        "snapshot": {
            "taken": found["taken"],
            "target": found["target"],
            "closed": found["closed"],
            **{key: release[key] for key in ("revision", "chart_version", "app_version")},
            "objects": [f"{item['kind']} {objects.name_of(item)}" for item in found["objects"]],
            "crds": [objects.name_of(item) for item in found["crds"]],
            "nodes": len(found["nodes"]),
        }
    }


# ---- taking it ----------------------------------------------------------------------------------------------------


def _take(cluster: Cluster, options: Options, path: str, found: Json | None) -> Json:
    revisions = record.revisions(cluster, options["release_name"], options["release_namespace"])
    content = assess.installed_release(cluster, options["release_name"], options["release_namespace"])
    revision = next(item.number for item in revisions if item.status == "deployed")
    if snapshot.goes_on(found, options["target"], revision):
        return {"changed": False, "path": path, "kept": True, **_described(t.cast("Json", found))}
    made = _made(cluster, options, content, revision)
    if not cluster.check_mode:
        if found is not None:
            os.replace(path, f"{path}.previous")
        _write(path, made)
    return {"changed": True, "path": path, "kept": False, **_described(made)}


def _made(cluster: Cluster, options: Options, content: record.Content, revision: int) -> Json:
    listed = {kind: cluster.list(path, resourceVersion="") or [] for kind, path in _COLLECTIONS.items()}
    found = [
        {**item, "kind": kind, "apiVersion": path.removeprefix("/apis/").rpartition("/")[0]}
        for kind, path in _COLLECTIONS.items()
        for item in listed[kind]
    ]
    crds = [item for item in cluster.list(_CRDS, resourceVersion="") or [] if objects.name_of(item).endswith(_GROUPS)]
    return {
        "format": snapshot.SNAPSHOT_FORMAT,
        "taken": datetime.fromtimestamp(cluster.now(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cluster": {"uid": _uid(cluster), "server": cluster.host},
        "target": options["target"],
        "closed": "",
        "release": snapshot.release_entry(content, revision, listed["ClusterPolicy"], FIELD_MANAGER),
        "objects": [snapshot.bare(item) for item in found],
        "crds": [snapshot.bare({**item, "kind": "CustomResourceDefinition", "apiVersion": CRD_API}) for item in crds],
        "nodes": {objects.name_of(node): snapshot.node_entry(node) for node in observe.NodeReader(cluster).read()},
    }


def _close(cluster: Cluster, options: Options, path: str, found: Json) -> Json:
    if not cluster.check_mode and found["closed"] != options["outcome"]:
        _write(path, {**found, "closed": options["outcome"]})
    return {"changed": False, "path": path, **_described({**found, "closed": options["outcome"]})}


# ---- the file -----------------------------------------------------------------------------------------------------


def _read(path: str, uid: str) -> Json | None:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise GpuOpsError(f"Cannot read the snapshot {path}: {one_line(e)}.", reason="NotFound") from e
    except ValueError:
        found = None
    return snapshot.check(found, uid, path)


def _write(path: str, content: Json) -> None:
    """Replace the file at once, so that a kill leaves the old one or the new one. Only this user may read it."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=".snapshot-", dir=folder)  # readable by this user alone
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({**content, "digest": snapshot.digest(content)}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as e:
        raise GpuOpsError(f"Cannot write the snapshot {path}: {one_line(e)}.", reason="NotWritable") from e


# ---- putting it back ----------------------------------------------------------------------------------------------


def _restore(cluster: Cluster, path: str, found: Json) -> Json:
    """Put back the CRDs, then the custom resources, then the labels of nodes. The release is Helm's."""
    done: list[snapshot.Difference] = []
    left: list[snapshot.SnapshotDifference] = []
    for part in (_of_crds, _of_objects, _of_nodes):
        differences, others = part(cluster, found)
        for item in differences:
            _send(cluster, item)
            done.append(item)
        left += others
    lines = [str(item) for item in done]
    return {
        "changed": bool(done),
        "path": path,
        **_described(found),
        "restored": lines,
        "by_chart": [str(item) for item in done if item.by_chart],
        "left": [f"{item.object}: {item.reason}" for item in left],
        "diff": {"before": "", "after": "".join(f"{line}\n" for line in lines)},
    }


Part = tuple[list[snapshot.Difference], list[snapshot.SnapshotDifference]]


def _of_crds(cluster: Cluster, found: Json) -> Part:
    live = {objects.name_of(item): item for item in cluster.list(_CRDS, resourceVersion="") or []}
    kept = {objects.name_of(item): item for item in found["crds"]}
    differences = [snapshot.of_crd(item, live.get(name), f"{_CRDS}/{name}") for name, item in kept.items()]
    new = sorted(name for name in live if name.endswith(_GROUPS) and name not in kept)
    left = [snapshot.SnapshotDifference(f"CRD {name}", "it is new, and no CRD is ever deleted") for name in new]
    return [item for item in differences if item], left


def _of_objects(cluster: Cluster, found: Json) -> Part:
    differences, left = [], []
    for kind, collection in _COLLECTIONS.items():
        live = {objects.name_of(item): item for item in cluster.list(collection, resourceVersion="") or []}
        kept = {objects.name_of(item): item for item in found["objects"] if item["kind"] == kind}
        differences += [snapshot.of_object(item, live.get(name), f"{collection}/{name}") for name, item in kept.items()]
        left += [
            snapshot.SnapshotDifference(f"{kind} {name}", "it is new") for name in sorted(live) if name not in kept
        ]
    return [item for item in differences if item], left


def _of_nodes(cluster: Cluster, found: Json) -> Part:
    differences, left = [], []
    for node in observe.NodeReader(cluster).read():
        name = objects.name_of(node)
        if name in found["nodes"]:
            difference, others = snapshot.of_node(found["nodes"][name], node, f"{observe.NODES_PATH}/{name}")
            differences += [difference] if difference else []
            left += others
    return differences, left


def _send(cluster: Cluster, item: snapshot.Difference) -> None:
    """Send the request that puts one object back. In check mode, the API server only checks it."""
    try:
        if item.verb == "create":
            cluster.create(item.path, item.body)
        elif item.verb == "apply":
            cluster.apply(item.path, item.body, force=True)
        else:
            cluster.merge(item.path, item.body)
    except GpuOpsError as e:
        raise GpuOpsError(f"{item.object} could not be put back: {e.msg}", **e.details) from e
