# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUCluster, which excludes a ClusterPolicy: its operands, its status, and the order of its removal.

All of it was recorded from NVIDIA's operator v26.7.0. What has been made for ComputeDomains stays when the GPUCluster
no longer wants them, and the labels of the nodes stay when the GPUCluster is gone.
"""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, ApiError, Json, now
from lab.cluster.operator.standin import claims
from lab.cluster.operator.standin.cache import Cache
from lab.cluster.operator.standin.controllers.policy import oldest
from lab.cluster.operator.standin.images import ReconcileError
from lab.cluster.operator.standin.objects import ensure, failing, owned, put, ready, report
from lab.cluster.operator.standin.readiness import pool_ready
from lab.cluster.operator.standin.render import Site

CLUSTERS = "/apis/nvidia.com/v1alpha1/gpuclusters"
_FINALIZER = "gpucluster.nvidia.com/dra-resourceclaim"
_ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
_AGAIN = 5.0
_RESYNC = 60.0
"""The controller watches DaemonSets only, and notices a ClusterPolicy or a lost DeviceClass when it runs again."""


class ClusterReconciler:
    """The controller of the GPUCluster."""

    def __init__(self, api: Api, namespace: str, env: t.Mapping[str, str], caches: t.Mapping[str, Cache]) -> None:
        self._api = api
        self._namespace = namespace
        self._env = env
        self._caches = caches
        self._apps = f"/apis/apps/v1/namespaces/{namespace}"

    def __call__(self) -> float | None:
        """Reconcile all GPUClusters, and return the seconds until the next run."""
        pauses = [self._one(cluster) for cluster in self._caches["gpuclusters"].items()]
        return min(pauses, default=None)

    def _one(self, cluster: Json) -> float:
        metadata = cluster["metadata"]
        path = f"{CLUSTERS}/{metadata['name']}"
        others = [name for name in metadata.get("finalizers") or [] if name != _FINALIZER]
        if metadata.get("deletionTimestamp"):
            return self._remove(cluster, path, others)
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
        self._api.merge(f"/api/v1/namespaces/{self._namespace}", {"metadata": {"labels": {_ADMIN_ACCESS: "true"}}})
        try:
            is_ready = self._sync(Site(self._namespace, cluster, self._env, kind=claims.KIND))
        except (ReconcileError, ApiError) as error:
            message = f"Error syncing state state-dra-driver: {error}"
            self._report(path, "notReady", failing("ReconcileFailed", message))
            return _AGAIN
        if not is_ready:
            self._report(path, "notReady", failing("OperandNotReady", "Waiting for operand pods to be ready"))
            return _AGAIN
        done = ready("Reconciled", "All resources have been successfully reconciled")
        self._report(path, "ready", done)
        return _RESYNC

    def _sync(self, site: Site) -> bool:
        """Write all objects, and return whether their pods are ready."""
        paths = claims.collections(self._namespace)
        made = [*claims.accounts(site), *claims.device_classes(site), *claims.admission(site)]
        for item in [*made, *claims.templates(site), *claims.services(site)]:
            ensure(self._api, paths[item["kind"]], item["metadata"]["name"], item)
        states = [self._controller(site)] if claims.has_domains(site.spec) else []
        for daemonset in claims.daemonsets(site):
            present, was_there = put(self._api, f"{self._apps}/daemonsets", daemonset)
            states.append(was_there and pool_ready(present))
        self._remove_unwanted(site)
        return all(states)

    def _controller(self, site: Site) -> bool:
        wanted = claims.controller(site)
        path = f"{self._apps}/deployments/{claims.CONTROLLER}"
        self._api.apply(path, wanted, "gpu-operator")
        status = (self._api.get(path) or {}).get("status") or {}
        return bool(status.get("availableReplicas"))

    def _remove_unwanted(self, site: Site) -> None:
        """Remove what belongs to DCGM or its exporter if they are no longer wanted."""
        for key, app, template in (
            ("dcgm", claims.DCGM, "nvidia-dcgm-admin"),
            ("dcgmExporter", claims.EXPORTER, "nvidia-dcgm-exporter-admin"),
        ):
            if claims.is_wanted(site.spec, key):
                continue
            paths = claims.collections(self._namespace)
            ensure(self._api, f"{self._apps}/daemonsets", app, None)
            for kind, name in (("Service", app), ("ServiceAccount", app), ("ResourceClaimTemplate", template)):
                ensure(self._api, paths[kind], name, None)

    def _report(self, path: str, state: str, conditions: t.Mapping[str, tuple[str, str, str]]) -> None:
        report(self._api, path, {"state": state, "namespace": self._namespace}, conditions)

    # ---- removal ----------------------------------------------------------------------------------------------------

    def _remove(self, cluster: Json, path: str, finalizers: list[str]) -> float:
        """Let the operands' own claims go first, while the plugin is there. The rest goes with its owner.

        Pods of users that hold claims are not waited for.
        """
        claiming = [
            item
            for item in self._api.list(f"{self._apps}/daemonsets")
            if owned(item, cluster) and item["spec"]["template"]["spec"].get("resourceClaims")
        ]
        if not claiming:
            self._api.merge(path, {"metadata": {"finalizers": finalizers}})
            return _RESYNC
        for item in claiming:
            if not item["metadata"].get("deletionTimestamp"):
                name = item["metadata"]["name"]
                self._api.delete(f"{self._apps}/daemonsets/{name}", propagationPolicy="Foreground")
        names = ", ".join(item["metadata"]["name"] for item in claiming)
        words = f"Waiting for ResourceClaim-consuming DaemonSet(s) to terminate: {names}"
        self._tell(cluster, "DrainingClaimConsumers", words)
        return _AGAIN

    def _tell(self, cluster: Json, reason: str, message: str) -> None:
        meta = cluster["metadata"]
        version, kind = claims.KIND
        event = {
            "metadata": {"generateName": f"{meta['name']}.", "namespace": "default"},
            "involvedObject": {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"]},
            "source": {"component": "nvidia-gpu-operator"},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "count": 1,
            "type": "Normal",
            "reason": reason,
            "message": message,
        }
        self._api.create("/api/v1/namespaces/default/events", event)
