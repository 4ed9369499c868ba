# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is special about new settings of the toolkit: a new pod of it, and its proof by a new pod of the validator.

The toolkit configures the node's container runtime and restarts it. The validator's pod then asks that runtime for
containers with GPUs, as every workload does: its init containers run ``nvidia-smi`` and a CUDA program through the
runtime class. Source: ``assets/state-operator-validation`` and ``cmd/nvidia-validator`` of the GPU Operator.
Containers that run go on, so that no pod is evicted. Cordoned, the node gets no new GPU pod before the proof.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    PROVED,
    WAIT,
    NodeWork,
    Outcome,
    progress_line,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts, troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.observe import NodeReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit import toolkit_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit.toolkit_plan import ToolkitRow
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

RESTART, VALIDATE = "restart", "validate"
"""The steps of a change beside those that every change has."""


class ToolkitChange(NodeWork[ToolkitRow]):
    """The change of nodes to the newest revision of the toolkit's DaemonSet."""

    purpose = toolkit_plan.TOOLKIT_PURPOSE

    def __init__(
        self, cluster: Cluster, namespace: str, revision: str, rows: t.Iterable[ToolkitRow], timeout_s: float
    ) -> None:
        super().__init__()
        self._cluster, self._revision, self.timeout_s = cluster, revision, timeout_s
        self._pods = namespaced("v1", namespace, "pods")
        self.rows: dict[str, ToolkitRow] = {row.name: row for row in rows}
        self._reader = NodeReader(cluster)
        self._began: dict[str, float] = {}
        self._former: dict[str, set[str]] = {}
        """The validator's pods that were there when the toolkit was ready: they prove the settings of before."""

    def look(self) -> dict[str, Json]:
        """Return all nodes by name."""
        return {objects.name_of(each): each for each in self._reader.read()}

    def consult(self, busy: t.Collection[str]) -> None:
        """Look at nothing more: each step reads the pods of its node."""

    def is_under_way(self, name: str, node: Json) -> bool:
        """Return that no node is drained."""
        return True

    def begin(self, name: str, now: float) -> None:
        """Begin with the toolkit's pod."""
        self.rows[name].step, self._began[name] = RESTART, now

    def advance(self, name: str, node: Json, now: float) -> Outcome:
        """Replace the toolkit's pod of a node, and then the validator's."""
        row = self.rows[name]
        toolkit, validator = self._pods_on(name)
        if row.step == RESTART:
            pod = self._restarted(row, toolkit, now)
            if pod is None or not is_ready(pod):
                return self._late(row, pod, now)
            row.step, self._former[name] = VALIDATE, {_uid(each) for each in validator}
        pod = self._replaced(row, validator, self._former[name], now)
        if pod is None or not is_ready(pod):
            return self._late(row, pod, now)
        missing = toolkit_plan.lacks(row, node)
        if not missing:
            return PROVED
        row.wait("the node to offer what it did", now)
        return self._late(row, None, now, missing)

    def _restarted(self, row: ToolkitRow, pods: t.Sequence[Json], now: float) -> Json | None:
        """Return the toolkit's pod with the new settings. Delete the one before it."""
        former = {_uid(pod) for pod in pods if objects.labels_of(pod).get(troubles.REVISION) != self._revision}
        return self._replaced(row, pods, former, now)

    def _replaced(self, row: ToolkitRow, pods: t.Sequence[Json], former: t.Collection[str], now: float) -> Json | None:
        """Return the pod that is none of the former ones. Delete those that are not ending yet."""
        for pod in pods:
            if _uid(pod) in former and not _is_ending(pod):
                self._delete(row, pod)
        new = next((pod for pod in pods if _uid(pod) not in former and not _is_ending(pod)), None)
        what = "toolkit" if row.step == RESTART else "validator"
        row.wait(f"a pod of the {what} to {'be ready' if new else 'start'}", now)
        return new

    def _delete(self, row: ToolkitRow, pod: Json) -> None:
        self.touched.add(row.name)
        try:
            row.changed = self._cluster.delete(f"{self._pods}/{objects.name_of(pod)}", uid=_uid(pod)) or row.changed
        except GpuOpsError as e:
            if e.reason != "Conflict":  # another pod has its name by now
                raise

    def _pods_on(self, node: str) -> tuple[list[Json], list[Json]]:
        """Return the pods of the toolkit and those of the validator on a node."""
        both = (operands.TOOLKIT.daemonset, operands.VALIDATOR.daemonset)
        query = {"fieldSelector": f"spec.nodeName={node}", "labelSelector": f"app in ({','.join(both)})"}
        listed = (self._cluster.get(self._pods, query) or {}).get("items") or []
        found = [[pod for pod in listed if objects.labels_of(pod).get("app") == app] for app in both]
        return found[0], found[1]

    def _late(self, row: ToolkitRow, pod: Json | None, now: float, cause: str = "") -> Outcome:
        """Fail a node whose pod has crashed too often, or that has waited for too long."""
        cause = cause or (troubles.held_up_by(pod) if pod else "")
        waited_s = now - self._began[row.name]
        if not (pod and _has_crashed(pod)) and waited_s <= self.timeout_s:
            return WAIT
        said = f"It has waited {int(waited_s)} s for {row.waits_for}"
        return Outcome("failed", f"{said}: {cause}." if cause else f"{said}.")

    def illness(self, name: str, node: Json) -> str:
        """Return what a node that was done lacks again, or an empty string."""
        return toolkit_plan.lacks(self.rows[name], node)

    def describe(self, name: str, node: Json) -> None:
        """Note nothing more: the result says what the nodes lacked, if they did."""

    def progress(self, now: float, closed: str) -> str:
        """Return a line about how far the nodes are, and what the first of those that wait waits for."""
        return progress_line(self.rows, "have the toolkit's new settings", {}, now, closed)


def is_ready(pod: Json) -> bool:
    """Return whether a pod is Ready and stays."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions) and not _is_ending(pod)


def _is_ending(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _uid(pod: Json) -> str:
    return str(pod["metadata"].get("uid"))


def _has_crashed(pod: Json) -> bool:
    return any(item["restartCount"] >= rollouts.CRASHES for item in objects.container_statuses(pod))
