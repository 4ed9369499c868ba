# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster as a store of objects by their paths, with garbage collection: what a removal needs of one."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Listed, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

Json = dict[str, t.Any]

KINDS = {
    "Deployment": ("apps/v1", "deployments", True),
    "DaemonSet": ("apps/v1", "daemonsets", True),
    "StatefulSet": ("apps/v1", "statefulsets", True),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "ConfigMap": ("v1", "configmaps", True),
    "Secret": ("v1", "secrets", True),
    "Pod": ("v1", "pods", True),
    "Lease": ("coordination.k8s.io/v1", "leases", True),
    "Node": ("v1", "nodes", False),
    "Namespace": ("v1", "namespaces", False),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "ClusterPolicy": ("nvidia.com/v1", "clusterpolicies", False),
    "NVIDIADriver": ("nvidia.com/v1alpha1", "nvidiadrivers", False),
    "GPUCluster": ("nvidia.com/v1alpha1", "gpuclusters", False),
    "Subscription": ("operators.coreos.com/v1alpha1", "subscriptions", True),
    "NodeMaintenance": ("maintenance.nvidia.com/v1alpha1", "nodemaintenances", False),
    "NodeFeatureRule": ("nfd.k8s-sigs.io/v1alpha1", "nodefeaturerules", False),
}


class KilledError(Exception):
    """The run was killed before this write."""


class Store:
    """Objects by path. ``writes`` has each write; the run is killed at the write after ``lives`` of them."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.check_mode = False
        self.writes: list[str] = []
        self.lives = 10_000
        self.refused: set[str] = set()
        """Kinds that this user may not list."""
        self.stuck: set[str] = set()
        """Names of objects whose deletion never ends."""
        self.on_delete: dict[str, t.Callable[[], t.Any]] = {}
        """What the operator does once an object of this plural is deleted."""
        self._made = 0

    def add(self, kind: str, name: str, namespace: str | None = None, owner: Json | None = None, **more: t.Any) -> Json:
        """Add an object, and return it."""
        version, plural, is_namespaced = KINDS[kind]
        self._made += 1
        metadata: Json = {"name": name, "uid": f"uid-{self._made}", **more.pop("metadata", {})}
        metadata |= {"namespace": namespace} if namespace else {}
        if owner is not None:
            metadata["ownerReferences"] = [{"kind": owner["kind"], "name": owner["metadata"]["name"],
                                            "uid": owner["metadata"]["uid"]}]  # fmt: skip
        item = {"apiVersion": version, "kind": kind, "metadata": metadata, **more}
        self.objects[namespaced(version, namespace if is_namespaced else None, plural, name)] = item
        return item

    def record(
        self, release: str, namespace: str, contents: list[Json], status: str = "deployed", number: int = 1
    ) -> None:
        """Add Helm's record of a release."""
        manifest = "".join(f"---\n{json.dumps(item)}\n" for item in contents)
        whole = {"manifest": manifest, "chart": {"metadata": {"appVersion": "v26.7.0"}}}
        packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(whole).encode()))).decode()
        labels = {"owner": "helm", "name": release, "status": status, "version": str(number)}
        self.add("Secret", f"sh.helm.release.v1.{release}.v{number}", namespace, metadata={"labels": labels},
                 data={"release": packed})  # fmt: skip

    def named(self, kind: str) -> list[str]:
        """Return the names of all objects of a kind."""
        return [item["metadata"]["name"] for item in self.objects.values() if item["kind"] == kind]

    # ---- what Cluster has -----------------------------------------------------------------------------------------

    def now(self) -> float:
        return 1_000_000.0

    def get(self, path: str, query: t.Mapping[str, t.Any] | None = None) -> Json | None:
        return copy.deepcopy(self.objects.get(path))

    def list(self, path: str, **selectors: str) -> list[Json] | None:
        group_version, plural, namespace = _collection(path)
        found = []
        for item in self.objects.values():
            version, its_plural, dummy = KINDS[item["kind"]]
            if (version, its_plural) != (group_version, plural):
                continue
            if namespace in (None, item["metadata"].get("namespace")):
                found.append(copy.deepcopy(item))
        name = selectors.get("fieldSelector", "").partition("metadata.name=")[2]
        return [item for item in found if not name or item["metadata"]["name"] == name]

    def list_readable(self, path: str, **selectors: str) -> Listed:
        if path.rpartition("/")[2] in self.refused:
            return Listed([], refusal=f"No permission: list {path.rpartition('/')[2]}.")
        return Listed(self.list(path, **selectors) or [])

    def pages(self, path: str, **selectors: str) -> t.Iterator[Json]:
        yield from () if "labelSelector" in selectors else self.list(path) or []

    def ask(
        self, method: str, path: str, query: Json | None = None, body: t.Any = None, *dummies: str, **dummy: t.Any
    ) -> Json:
        if method == "PATCH":
            return self._patch_metadata(path, json.loads(body))
        assert method == "GET", (method, path)
        if path in ("/api", "/apis"):
            return _discovery() if path == "/apis" else {"kind": "APIGroupDiscoveryList", "items": []}
        plural = path.rpartition("/")[2]
        if plural in self.refused:
            raise GpuOpsError(f"No permission: list {plural}.", reason="Forbidden")
        items = self.list(path) or []
        wanted = (query or {}).get("labelSelector", "")
        if wanted.startswith("owner=helm,name="):
            release = wanted.rpartition("=")[2]
            items = [item for item in items if item["metadata"].get("labels", {}).get("name") == release]
        return {"items": items}

    def merge(self, path: str, body: Json) -> Json:
        self._write(f"merge {path}")
        item = self.objects[path]
        if self.check_mode:
            return item
        for place in ("labels", "annotations"):
            mine = item["metadata"].setdefault(place, {})
            for key, value in (body["metadata"].get(place) or {}).items():
                mine.pop(key, None) if value is None else mine.update({key: value})
        if "finalizers" in body["metadata"]:
            item["metadata"].pop("finalizers", None)
        for key, value in (body.get("spec") or {}).items():
            item["spec"].pop(key, None) if value is None else item["spec"].update({key: value})
        self._collect()
        return item

    def _patch_metadata(self, path: str, operations: list[Json]) -> Json:
        """Apply a JSON patch that replaces fields of the metadata, if nobody has changed the object meanwhile."""
        metadata = self.objects[path]["metadata"]
        assert operations[0]["value"] == metadata["resourceVersion"]
        self._write(f"patch {path}")
        for each in operations[1:] if not self.check_mode else ():
            assert each["op"] == "replace" and each["path"].startswith("/metadata/")
            metadata[each["path"].removeprefix("/metadata/")] = each["value"]
        return self.objects[path]

    def delete(self, path: str, propagation: str = "Background", grace_period_s: int | None = None) -> bool:
        if path not in self.objects:
            return False
        self._write(f"delete {path}")
        if not self.check_mode:
            self.objects[path]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._collect()
            self.on_delete.get(path.split("/")[-2], lambda: None)()
        return True

    def _write(self, line: str) -> None:
        if not self.check_mode:
            if self.lives <= 0:
                raise KilledError(line)
            self.lives -= 1
            self.writes.append(line)

    def _collect(self) -> None:
        """Remove deleted objects without finalizers, and all that belongs to them or is inside."""
        gone = True
        while gone:
            gone = [path for path, item in self.objects.items() if self._goes(item)]
            for path in gone:
                del self.objects[path]

    def _goes(self, item: Json) -> bool:
        meta = item["metadata"]
        if meta["name"] in self.stuck or meta.get("finalizers"):
            return False
        uids = {other["metadata"]["uid"] for other in self.objects.values()}
        owners = meta.get("ownerReferences") or []
        if "deletionTimestamp" in meta or (owners and not any(owner["uid"] in uids for owner in owners)):
            return True
        namespaces = self.named("Namespace")
        return "namespace" in meta and meta["namespace"] not in namespaces


def _collection(path: str) -> tuple[str, str, str | None]:
    parts = path.strip("/").split("/")
    group_version, rest = ("/".join(parts[1:3]), parts[3:]) if parts[0] == "apis" else (parts[1], parts[2:])
    if rest[0] == "namespaces" and len(rest) == 3:
        return group_version, rest[2], rest[1]
    assert len(rest) == 1, path
    return group_version, rest[0], None


def _discovery() -> Json:
    items = []
    for kind, (version, plural, is_namespaced) in KINDS.items():
        group, dummy, number = version.rpartition("/")
        scope = "Namespaced" if is_namespaced else "Cluster"
        resource = {"resource": plural, "scope": scope, "responseKind": {"kind": kind}}
        items.append(
            {"metadata": {"name": group} if group else {}, "versions": [{"version": number, "resources": [resource]}]}
        )
    return {"kind": "APIGroupDiscoveryList", "items": items}
