# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUCluster, which excludes a ClusterPolicy, and what clients see of Dynamic Resource Allocation.

Of its operands there is only the kubelet plugin. The stand-in writes the ResourceSlices in the plugin's place, and the
scheduler allocates claims from them. What the GPUCluster's status says was recorded from NVIDIA's operator v26.7.0.
"""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.operator.standin.cache import Cache
from lab.cluster.operator.standin.controllers.policy import oldest
from lab.cluster.operator.standin.nodes import DEPLOY, labels_of
from lab.cluster.operator.standin.objects import failing, owned, put, ready, report
from lab.cluster.operator.standin.readiness import pool_ready
from lab.cluster.operator.standin.render import BUILT_IN_TOLERATION, hashed

CLUSTERS = "/apis/nvidia.com/v1alpha1/gpuclusters"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
_FINALIZER = "gpucluster.nvidia.com/dra-resourceclaim"
_DRIVER = "gpu.nvidia.com"
_PLUGIN = "nvidia-dra-driver-kubelet-plugin"
_LABEL = f"{DEPLOY}dra-driver"
_AGAIN = 5.0
_RESYNC = 60.0
"""The controller does not watch ClusterPolicies, and notices them only when it runs again."""


class ClusterReconciler:
    """The controller of the GPUCluster."""

    def __init__(self, api: Api, namespace: str, caches: t.Mapping[str, Cache]) -> None:
        self._api = api
        self._namespace = namespace
        self._caches = caches
        self._daemonsets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"

    def __call__(self) -> float | None:
        """Reconcile all GPUClusters, and return the seconds until the next run."""
        pauses = [self._one(cluster) for cluster in self._caches["gpuclusters"].items()]
        return min(pauses, default=None)

    def _one(self, cluster: Json) -> float:
        metadata = cluster["metadata"]
        path = f"{CLUSTERS}/{metadata['name']}"
        others = [name for name in metadata.get("finalizers") or [] if name != _FINALIZER]
        if metadata.get("deletionTimestamp"):
            self._remove(cluster)
            self._api.merge(path, {"metadata": {"finalizers": others}})
            return _RESYNC
        if _FINALIZER not in (metadata.get("finalizers") or []):
            self._api.merge(path, {"metadata": {"finalizers": [*others, _FINALIZER]}})
        policy = oldest(self._caches["policies"].items())
        if policy is not None:
            exclusion = "a ClusterPolicy CR and GPUCluster CR may not exist at the same time"
            message = f'A ClusterPolicy CR "{policy["metadata"]["name"]}" exists; {exclusion}'
            self._report(path, "notReady", failing("PrerequisiteNotMet", message))
            return _RESYNC
        return self._deploy(cluster, path)

    def _deploy(self, cluster: Json, path: str) -> float:
        present, was_there = put(self._api, self._daemonsets, plugin(cluster, self._namespace))
        if not (was_there and pool_ready(present)):
            self._report(path, "notReady", failing("OperandNotReady", "Waiting for operand pods to be ready"))
            return _AGAIN
        self._offer(cluster)
        done = ready("Reconciled", "All resources have been successfully reconciled")
        self._report(path, "ready", done)
        return _RESYNC

    def _report(self, path: str, state: str, conditions: t.Mapping[str, tuple[str, str, str]]) -> None:
        report(self._api, path, {"state": state, "namespace": self._namespace}, conditions)

    def _offer(self, cluster: Json) -> None:
        """Write the DeviceClass, and a ResourceSlice for each node on which the plugin runs."""
        made = [(_CLASSES, device_class())]
        made += [(SLICES, resource_slice(cluster, node)) for node in self._caches["nodes"].items() if _runs(node)]
        for collection, item in made:
            if self._api.get(f"{collection}/{item['metadata']['name']}") is None:
                self._api.create(collection, item)

    def _remove(self, cluster: Json) -> None:
        """Delete what belongs to a GPUCluster."""
        for item in (self._api.get(SLICES) or {}).get("items") or []:
            if owned(item, cluster):
                self._api.delete(f"{SLICES}/{item['metadata']['name']}")
        if self._api.get(f"{self._daemonsets}/{_PLUGIN}") is not None:
            self._api.delete(f"{self._daemonsets}/{_PLUGIN}")


def _runs(node: Json) -> bool:
    return labels_of(node).get(_LABEL) == "true"


def _owner(cluster: Json) -> Json:
    metadata = cluster["metadata"]
    names = {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster"}
    return {**names, "name": metadata["name"], "uid": metadata["uid"], "controller": True}


def plugin(cluster: Json, namespace: str) -> Json:
    """Return the DaemonSet of the kubelet plugin."""
    driver = cluster["spec"].get("draDriver") or {}
    image = "{repository}/{image}:{version}".format(**{"repository": "", "image": "", "version": "", **driver})
    common = cluster["spec"].get("daemonsets") or {}
    labels = {"app": _PLUGIN, "nvidia.com/gpu-operator.state": "state-dra-driver"}
    pod = {
        "nodeSelector": {_LABEL: "true"},
        "tolerations": [BUILT_IN_TOLERATION, *(common.get("tolerations") or [])],
        "containers": [{"name": name, "image": image} for name in ("gpus", "compute-domains")],
    }
    return hashed(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {
                "name": _PLUGIN,
                "namespace": namespace,
                "labels": labels,
                "ownerReferences": [_owner(cluster)],
            },
            "spec": {
                "selector": {"matchLabels": {"app": _PLUGIN}},
                "updateStrategy": {"type": "RollingUpdate"},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
    )


def device_class() -> Json:
    """Return the class of whole GPUs."""
    chosen = f"device.driver == '{_DRIVER}' && device.attributes['{_DRIVER}'].type == 'gpu'"
    spec = {"selectors": [{"cel": {"expression": chosen}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": _DRIVER}, "spec": spec}


def resource_slice(cluster: Json, node: Json) -> Json:
    """Return the GPUs of a node."""
    name, labels = node["metadata"]["name"], labels_of(node)
    product = labels.get("nvidia.com/gpu.product", "NVIDIA H100 80GB HBM3")
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{name}-{number}"},
                "productName": {"string": product},
            },
        }
        for number in range(int(labels.get("nvidia.com/gpu.count", "8")))
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{_DRIVER}", "ownerReferences": [_owner(cluster)]},
        "spec": {"driver": _DRIVER, "nodeName": name, "pool": pool, "devices": devices},
    }
