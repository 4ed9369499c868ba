# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUCluster, which excludes a ClusterPolicy. The stack for Dynamic Resource Allocation is not simulated."""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.operator.standin.cache import Cache
from lab.cluster.operator.standin.controllers.policy import oldest
from lab.cluster.operator.standin.objects import failing, report

CLUSTERS = "/apis/nvidia.com/v1alpha1/gpuclusters"
_FINALIZER = "gpucluster.nvidia.com/dra-resourceclaim"
_NOT_SIMULATED = "Error syncing state state-dra-driver: the stand-in operator has no DRA driver"
_RESYNC = 60.0
"""The controller does not watch ClusterPolicies, and notices them only when it runs again."""


class ClusterReconciler:
    """The controller of the GPUCluster."""

    def __init__(self, api: Api, namespace: str, caches: t.Mapping[str, Cache]) -> None:
        self._api = api
        self._namespace = namespace
        self._caches = caches

    def __call__(self) -> float | None:
        """Reconcile all GPUClusters, and return the seconds until the next run."""
        clusters = self._caches["gpuclusters"].items()
        for cluster in clusters:
            self._one(cluster)
        return _RESYNC if clusters else None

    def _one(self, cluster: Json) -> None:
        metadata = cluster["metadata"]
        path = f"{CLUSTERS}/{metadata['name']}"
        others = [name for name in metadata.get("finalizers") or [] if name != _FINALIZER]
        if metadata.get("deletionTimestamp"):
            self._api.merge(path, {"metadata": {"finalizers": others}})
            return
        if _FINALIZER not in (metadata.get("finalizers") or []):
            self._api.merge(path, {"metadata": {"finalizers": [*others, _FINALIZER]}})
        policy = oldest(self._caches["policies"].items())
        reason, message = "ReconcileFailed", _NOT_SIMULATED
        if policy is not None:
            name = policy["metadata"]["name"]
            reason = "PrerequisiteNotMet"
            exclusion = "a ClusterPolicy CR and GPUCluster CR may not exist at the same time"
            message = f'A ClusterPolicy CR "{name}" exists; {exclusion}'
        report(self._api, path, {"state": "notReady", "namespace": self._namespace}, failing(reason, message))
