# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The objects for Prometheus and Grafana: what is wanted, what is there, and the steps between them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.prometheus_choice import (
    MONITOR,
    PROMETHEUS_GROUP,
    RULES,
    ObjectKind,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.scrape_jobs import NODE_OF_POD
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MARK = "gpuops.nvidia/monitoring"
"""Label of each object that the module has made, with the name of the ClusterPolicy. It changes no other object."""

CONFIG_MAP = ObjectKind("ConfigMap", "configmaps", "", "")
_VERSIONS = {CONFIG_MAP.name: "v1", MONITOR.name: PROMETHEUS_GROUP, RULES.name: PROMETHEUS_GROUP}
MONITORING_KINDS = (CONFIG_MAP, MONITOR, RULES)

RULES_NAME = "gpuops-gpu-rules"
OPERATORS_MONITOR = "gpuops-gpu-operator"
EXPORTERS_MONITOR = "gpuops-dcgm-exporter"
STATUS_MONITOR = "gpuops-node-status-exporter"

RELABELINGS: list[Json] = [
    {"sourceLabels": [NODE_OF_POD], "targetLabel": "node"},
    # The exporter says which pod holds a GPU in these labels. Without this, they would name the exporter's own pod.
    {"action": "labeldrop", "regex": "pod|namespace|container|service|endpoint"},
]
"""What makes ``node`` the GPU's node, and ``pod``, ``namespace`` and ``container`` those that hold the GPU."""


def path_of(kind: ObjectKind, namespace: str | None, name: str = "") -> str:
    """Return the path of an object, or of all of its kind."""
    return namespaced(_VERSIONS[kind.name], namespace, kind.plural, name).rstrip("/")


def manifest(
    kind: ObjectKind, namespace: str, name: str, policy: str, labels: t.Mapping[str, str], **rest: t.Any
) -> Json:
    """Return an object with this module's mark."""
    marked = {**labels, "app.kubernetes.io/managed-by": "gpuops.nvidia", MARK: policy}
    metadata = {"name": name, "namespace": namespace, "labels": marked}
    return {"apiVersion": _VERSIONS[kind.name], "kind": kind.name, "metadata": metadata, **rest}


def owned(item: Json, policy: Json) -> Json:
    """Return an object that goes with the ClusterPolicy, whoever deletes that."""
    owner = {key: policy[key] for key in ("apiVersion", "kind")}
    owner |= {"name": objects.name_of(policy), "uid": policy["metadata"]["uid"]}
    return {**item, "metadata": {**item["metadata"], "ownerReferences": [owner]}}


def monitors(namespace: str, policy: str, labels: t.Mapping[str, str], interval: str) -> list[Json]:
    """Return the ServiceMonitors for the exporters of GPUs and of nodes' status, and for the operator's own metrics.

    The exporter of the status is off by default. Then its monitor selects nothing.
    """
    exporters: Json = {"port": "gpu-metrics", "path": "/metrics", "interval": interval, "relabelings": RELABELINGS}
    operator: Json = {"port": "gpu-operator-metrics", "path": "/metrics", "interval": interval}
    status: Json = {"port": "node-status", "path": "/metrics", "interval": interval}
    made = {
        EXPORTERS_MONITOR: (exporters, "nvidia-dcgm-exporter"),
        STATUS_MONITOR: (status, "nvidia-node-status-exporter"),
        OPERATORS_MONITOR: (operator, "gpu-operator"),
    }
    return [
        manifest(MONITOR, namespace, name, policy, labels, spec=_monitor(namespace, endpoint, app))
        for name, (endpoint, app) in made.items()
    ]


def _monitor(namespace: str, endpoint: Json, app: str) -> Json:
    chosen = {"selector": {"matchLabels": {"app": app}}, "namespaceSelector": {"matchNames": [namespace]}}
    return {"jobLabel": "app", "endpoints": [endpoint], **chosen}


def dashboard(namespace: str, policy: str, name: str, text: str) -> Json:
    """Return the ConfigMap that the sidecar of Grafana's chart reads a dashboard from."""
    made = manifest(CONFIG_MAP, namespace, f"gpuops-dashboard-{name}", policy, {"grafana_dashboard": "1"})
    made["metadata"]["annotations"] = {"grafana_folder": "GPUs"}
    return {**made, "data": {f"{name}.json": text}}


@dataclasses.dataclass(frozen=True)
class ObjectStep:
    """What a call does with an object: ``wanted`` is applied, or ``existing`` removed as it was read."""

    kind: ObjectKind
    existing: Json | None
    wanted: Json | None
    predicted: Json | None = None

    @property
    def title(self) -> str:
        """The kind and the name of the object."""
        return f"{self.kind.name} {objects.full_name(self.wanted or self.existing or {})}"

    @property
    def changed(self) -> bool:
        """Whether the object differs afterwards."""
        return self.wanted is None or content(self.existing) != content(self.predicted)


def content(item: Json | None) -> Json:
    """Return what matters of an object: its labels, its annotations, and what it says."""
    if item is None:
        return {}
    said: Json = {key: item[key] for key in ("data", "immutable", "spec") if key in item}
    return {"labels": objects.labels_of(item), "annotations": objects.annotations_of(item), **said}


def existing(
    cluster: Cluster, namespace: str, policy: str, kinds: t.Iterable[ObjectKind]
) -> list[tuple[ObjectKind, Json]]:
    """Return the objects of these kinds with the mark for this ClusterPolicy. A kind that is not served has none."""
    found = []
    for kind in kinds:
        listed = cluster.list(path_of(kind, namespace), labelSelector=f"{MARK}={policy}", resourceVersion="")
        found += [(kind, item) for item in listed or []]
    return found


def steps(cluster: Cluster, wanted: t.Sequence[Json], present: t.Sequence[tuple[ObjectKind, Json]]) -> list[ObjectStep]:
    """Return what to do with each object, with the API server's prediction. Raise for an object of somebody else."""
    by_title = {(kind.name, objects.full_name(item)): item for kind, item in present}
    kinds = {kind.name: kind for kind in MONITORING_KINDS}
    made = [_applied(cluster, kinds[item["kind"]], item, by_title) for item in wanted]
    for item in wanted:
        by_title.pop((item["kind"], objects.full_name(item)), None)
    return made + [ObjectStep(kinds[kind], item, None) for (kind, dummy), item in by_title.items()]


def _applied(cluster: Cluster, kind: ObjectKind, item: Json, present: t.Mapping[tuple[str, str], Json]) -> ObjectStep:
    metadata = item["metadata"]
    path = path_of(kind, metadata["namespace"], metadata["name"])
    known = present.get((kind.name, objects.full_name(item)))
    if known is None and cluster.get(path) is not None:
        raise GpuOpsError(
            f"{kind.name} {objects.full_name(item)} exists, and somebody else has made it. Remove it, or rename it.",
            reason="AlreadyExists",
        )
    return ObjectStep(kind, known, item, cluster.apply(path, item, dry_run=True, force=True))


def carry_out(cluster: Cluster, planned: t.Iterable[ObjectStep]) -> None:
    """Apply what is wanted, and remove the rest as it was read. Reason Conflict means that it has changed since."""
    for step in planned:
        item = step.wanted or step.existing or {}
        path = path_of(step.kind, item["metadata"]["namespace"], item["metadata"]["name"])
        if step.wanted is None:
            cluster.delete(
                path, uid=item["metadata"].get("uid"), resourceVersion=item["metadata"].get("resourceVersion")
            )
        elif step.changed:
            cluster.apply(path, step.wanted, force=True)
