# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller of NVIDIADrivers: a DaemonSet for each pool of nodes, and a status."""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, ApiError, Json
from lab.cluster.operator.standin.cache import Cache
from lab.cluster.operator.standin.controllers.policy import oldest
from lab.cluster.operator.standin.drivers import (
    Problem,
    clash,
    conflict,
    daemonset_name,
    delegated,
    driver_daemonset,
    pools,
    site,
    unsupported,
)
from lab.cluster.operator.standin.images import ReconcileError
from lab.cluster.operator.standin.lines import V26_7, Line
from lab.cluster.operator.standin.objects import ensure, failing, owned, put, ready, report
from lab.cluster.operator.standin.operands import OPERANDS
from lab.cluster.operator.standin.readiness import pool_ready
from lab.cluster.operator.standin.render import companions

DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
_NOT_DELEGATED = "useNvidiaDriverCRD is not enabled in ClusterPolicy"
_NO_POLICY = "no ClusterPolicy object found in the cluster"
_AGAIN = 5.0


class DriverReconciler:
    """The controller of NVIDIADrivers, from a start of the operator to its end."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        env: t.Mapping[str, str],
        caches: t.Mapping[str, Cache],
        line: Line = V26_7,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._env = env
        self._caches = caches
        self._line = line
        self._daemonsets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"

    def __call__(self) -> float | None:
        """Reconcile all drivers, and return the seconds until the next run without a change."""
        # These are the labels at the start of the run. A driver whose nodes have no owner label yet has no nodes, and
        # a driver without nodes is ready.
        drivers, nodes = self._caches["nvidiadrivers"].items(), self._caches["nodes"].items()
        pauses = [
            self._one(driver, drivers, nodes) for driver in drivers if not driver["metadata"].get("deletionTimestamp")
        ]
        return min(filter(None, pauses), default=None)

    def _one(self, driver: Json, drivers: list[Json], nodes: list[Json]) -> float | None:
        path = f"{DRIVERS}/{driver['metadata']['name']}"
        policy = oldest(self._caches["policies"].items())
        if policy is None and not self._line.owners:
            report(self._api, path, {"state": "notReady"}, failing("ReconcileFailed", _NO_POLICY), at_once=True)
            return None
        if policy is not None and not delegated(policy["spec"]):
            return self._leave_alone(driver, nodes, path)
        problem = self._conflict(driver, drivers, nodes) or unsupported(driver["spec"])
        if problem:
            # Lines without owners leave the state unchanged if drivers select the same node.
            kept = problem[0] == "ConflictingNodeSelector" and not self._line.owners
            state = ((driver.get("status") or {}).get("state") if kept else None) or "notReady"
            report(self._api, path, {"state": state}, failing(*problem), at_once=True)
            return None
        problem = self._missing_secret(driver["spec"])
        if problem:
            # The real operator leaves the state unchanged here, even if it is ready.
            state = (driver.get("status") or {}).get("state") or "notReady"
            report(self._api, path, {"state": state}, failing(*problem), at_once=True)
            return None
        return self._deploy(driver, nodes, path)

    def _conflict(self, driver: Json, drivers: list[Json], nodes: list[Json]) -> Problem | None:
        return (conflict if self._line.owners else clash)(driver, drivers, nodes)

    def _leave_alone(self, driver: Json, nodes: list[Json], path: str) -> float | None:
        """Do what the line does for a driver that the ClusterPolicy does not want."""
        if self._line.ignores_policy:
            return self._deploy(driver, nodes, path)
        report(self._api, path, {"state": "disabled"}, failing("Reconciled", _NOT_DELEGATED), at_once=True)
        return None

    def _missing_secret(self, spec: Json) -> Problem | None:
        name = spec.get("secretEnv")
        if not name or self._api.get(f"/api/v1/namespaces/{self._namespace}/secrets/{name}") is not None:
            return None
        return "ReconcileFailed", f'Secret "{name}" not found'

    def _deploy(self, driver: Json, nodes: list[Json], path: str) -> float | None:
        try:
            complete = self._sync(driver, nodes)
        except (ReconcileError, ApiError) as error:
            failed = failing("ReconcileFailed", f"Error syncing state state-driver: {error}")
            report(self._api, path, {"state": "notReady"}, failed)
            return _AGAIN
        if not complete:
            waiting = failing("DriverNotReady", "Waiting for driver pod to be ready")
            report(self._api, path, {"state": "notReady"}, waiting)
            return _AGAIN
        done = ready("Reconciled", "All resources have been successfully reconciled")
        report(self._api, path, {"state": "ready"}, done)
        return None

    def _sync(self, driver: Json, nodes: list[Json]) -> bool:
        """Write the DaemonSets for a driver's nodes. Return whether all are ready; True if there are none."""
        wanted = pools(driver, nodes, self._line)
        names = {daemonset_name(driver, pool) for pool in wanted}
        for item in self._caches["daemonsets"].items():
            if owned(item, driver) and item["metadata"]["name"] not in names:
                self._api.delete(f"{self._daemonsets}/{item['metadata']['name']}")
        states = []
        for pool in wanted:
            surroundings = site(driver, pool, self._namespace, self._env)
            made = driver_daemonset(driver, pool, surroundings)
            account = made["spec"]["template"]["spec"]["serviceAccountName"]
            for collection, companion in companions(OPERANDS[0], surroundings, account):
                ensure(self._api, collection, companion["metadata"]["name"], companion)
            present, was_there = put(self._api, self._daemonsets, made)
            states.append(was_there and pool_ready(present))
        return all(states)
