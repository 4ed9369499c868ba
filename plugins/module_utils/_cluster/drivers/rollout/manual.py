# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The upgrade of nodes whose driver the operator does not replace by itself: ``autoUpgrade`` is off, or a pod is left.

The operator's DaemonSets never replace a driver pod. So a node is held and emptied here, its driver pod is deleted, and
it is put back when the new driver is proved. The upgrade policy says which pods may go, as it does for the operator.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.causes import in_policy_words
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import (
    DRIVER_PURPOSE,
    DriverNode,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_pods import PodView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import DriverRow
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.rollout_options import (
    DriverRolloutRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import Deletion
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import (
    drain,
    hold,
    maintenance_plan,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintain import release
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

STAYS = f"It stays cordoned for the purpose {DRIVER_PURPOSE}, since its driver does not run."


def delete_pod(cluster: Cluster, namespace: str, pod: PodView) -> None:
    """Delete a driver pod, and not the one that has taken its place meanwhile."""
    try:
        cluster.delete(namespaced("v1", namespace, "pods", pod.name), uid=pod.uid)
    except GpuOpsError as e:
        if e.reason != "Conflict":
            raise


class Hands:
    """Does by hand what the operator would do."""

    def __init__(self, cluster: Cluster, fleet: Fleet, request: DriverRolloutRequest) -> None:
        self._cluster, self._fleet, self._request = cluster, fleet, request
        self._drains: dict[Deletion, drain.Drains] = {}
        """The drains, by what may be deleted."""
        self._sights: dict[str, DriverNode] = {}
        """The nodes that are being drained, as they were before."""

    def is_draining(self, name: str) -> bool:
        """Return whether a node is being drained."""
        return name in self._sights

    def waits_for(self, name: str) -> str:
        """Return which pods a drain waits for."""
        for drains in self._drains.values():
            left = drains.left.get(name)
            if left:
                refused = next((f" ({pod}: {why})" for pod, why in left.items() if why), "")
                return f"{len(left)} pod{'s' if len(left) > 1 else ''} to leave{refused}"
        return "its pods to leave"

    def begin(self, sight: DriverNode, row: DriverRow) -> tuple[bool, str]:
        """Hold a node and begin to empty it. Return whether that has begun, and why it has failed if it has."""
        fleet, now, name = self._fleet_for(sight.driver.deletion), self._fleet.now, sight.name
        claim = self._request.rollout.maintenance.claim(now)
        held = NodeResult(name)
        try:
            pods = fleet.pods_on(name)
            change = maintenance_plan.plan([sight.node], {name: pods}, fleet.request, claim, fleet.holders_of)[0]
            taken = drain.cordon(fleet, change, held)
        except GpuOpsError as e:
            if e.reason not in ("NodesBusy", "HeldElsewhere", "PodsInTheWay"):
                raise
            return False, "" if e.reason == "NodesBusy" else in_policy_words(e.msg)
        if taken is None:
            return False, held.reason
        row.notes = list(dict.fromkeys([*row.notes, *held.notes]))
        self._sights[name] = sight
        self._drains[sight.driver.deletion].begin(taken)
        return True, ""

    def _fleet_for(self, deletion: Deletion) -> Fleet:
        """Return a fleet that drains by the rules of one upgrade policy."""
        ours = self._fleet.request
        permits = dataclasses.replace(deletion.permits, disruption=ours.permits.disruption)
        request = dataclasses.replace(ours, permits=permits, evicts_all=deletion.drains)
        fleet = Fleet(self._cluster, request, self._fleet.interruption)
        found = self._drains.setdefault(deletion, drain.Drains(fleet))
        return found.fleet

    def look(self, rows: t.Mapping[str, DriverRow]) -> dict[str, str]:
        """Take the next step on all nodes that are being drained. Return those whose drain has failed, and why."""
        failed = {}
        for drains in self._drains.values():
            for ended in drains.look() if drains.active else ():
                rows[ended.name].evicted.extend(ended.result.evicted)
                if ended.result.failed:
                    failed[ended.name] = ended.result.reason
                else:
                    self._replace(self._sights.pop(ended.name))
        return failed

    def _replace(self, sight: DriverNode) -> None:
        """Delete the driver pod of an empty node, unless it is the right one."""
        if sight.pod is not None and not sight.is_current:
            delete_pod(self._cluster, sight.namespace, sight.pod)

    def end(self, sight: DriverNode) -> bool:
        """Put a node back that has its driver. Return whether there was anything to do."""
        return self._release([sight.name]) if DRIVER_PURPOSE in sight.purposes else False

    def fail(self, sight: DriverNode, reason: str) -> tuple[str, Json | None]:
        """Put a node back whose driver was not touched. Return what was done with it."""
        if self._sights.pop(sight.name, None) is None:
            return (STAYS, None) if DRIVER_PURPOSE in sight.purposes else ("", None)
        self._release([sight.name])
        return "It serves with the driver before.", self._fleet.node(sight.name)

    def put_back(self, rows: t.Mapping[str, DriverRow]) -> None:
        """At the end of a call, put back the nodes whose driver has not been touched."""
        for drains in self._drains.values():
            drains.fleet.finish()
        for name in list(self._sights):
            rows[name].fail("The call ended before its driver was replaced.")
            del self._sights[name]
            try:
                self._release([name])
            except GpuOpsError as e:
                rows[name].note(f"It could not be put back: {one_line(e.msg)}.")

    def _release(self, chosen: list[str]) -> bool:
        fleet = self._fleet
        done, errors = release(
            fleet, dict.fromkeys(chosen, lambda node: hold.release_patch(node, DRIVER_PURPOSE, fleet.holders_of(node)))
        )
        left = {name: error for name, error in errors.items() if error.reason != "NodeDeleted"}
        if left:
            raise GpuOpsError(
                f"{first_few(list(left))} could not be put back: {one_line(next(iter(left.values())).msg)}.",
                **next(iter(left.values())).details,
            )
        return any(changed for dummy, changed in done.values())
