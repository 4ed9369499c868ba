# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a change of MIG reads: a few lists for the whole fleet, however large it is."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.layout_request import LayoutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_plan import Stack
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.layouts import Catalog, text_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import last_write, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import candidates
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LOG_LINES = 40


class Reader:
    """Reads the cluster for a change of MIG."""

    def __init__(self, cluster: Cluster, request: LayoutRequest) -> None:
        self._cluster, self._request = cluster, request
        self._nodes = observe.NodeReader(cluster)
        policies = observe.read_policies(cluster)
        if not policies:
            _refuse_claims(cluster)
        if policies is None:
            message = "The cluster has no ClusterPolicy: install the GPU Operator first (role operator)."
            raise GpuOpsError(message, reason="CRDMissing")
        name, self.namespace = observe.found(policies, [], request.policy_name, request.namespace)
        self._policy: Json = next((item for item in policies if name_of(item) == name), {})
        if not self._policy:
            raise GpuOpsError(f"The cluster has no ClusterPolicy {name}. Correct policy_name.", reason="NotFound")

    def nodes(self) -> dict[str, Json]:
        """Return the nodes by name. From the second time on, only those that have changed are read."""
        return {name_of(node): node for node in self._nodes.read()}

    @property
    def _spec(self) -> Json:
        return self._policy.get("spec") or {}

    @property
    def _layouts(self) -> Json:
        return (self._spec.get("migManager") or {}).get("config") or {}

    def stack(self) -> Stack:
        """Return what the plan must know about the MIG manager."""
        path = namespaced("apps/v1", self.namespace, "daemonsets", names.MIG_MANAGER_APP)
        daemonset = self._cluster.get(path)
        default = self._layouts.get("default") or ""
        return Stack(
            strategy=(self._spec.get("mig") or {}).get("strategy") or "",
            default=default,
            managed=None if daemonset is None else frozenset(self.managers()),
            may_reboot=daemonset is not None and _may_reboot(daemonset),
            allows_reboot=self._request.allows_reboot,
            allows_shared=self._request.rollout.maintenance.allows_shared,
            removes=self._request.removes and default != names.MIG_DISABLED,
        )

    def managers(self) -> dict[str, str]:
        """Return the status of the MIG manager's pod on each node that has one."""
        rows = self._cluster.table(self._pods, labelSelector=f"app={names.MIG_MANAGER_APP}")
        return {row["node"]: _status(row) for row in rows}

    @property
    def _pods(self) -> str:
        return namespaced("v1", self.namespace, "pods")

    def catalog(self) -> Catalog:
        """Return the layouts of all nodes: the ConfigMap that the ClusterPolicy names, or those of the nodes."""
        if self._request.content:
            planned = "to be published"
            return Catalog({planned: self._request.content}, planned)
        path = namespaced("v1", self.namespace, "configmaps")
        custom = self._layouts.get("name") or ""
        found: dict[str, str | None] = {}
        if not custom:
            selector = f"{names.COMPONENT}={names.MIG_MANAGER_APP}"
            found = {name_of(item): text_of(item) for item in self._cluster.pages(path, labelSelector=selector)}
        common = custom or names.MIG_LAYOUTS
        shared = self._cluster.get(f"{path}/{common}")
        edited = last_write(shared, "data") if custom and shared else 0.0
        return Catalog(found | ({common: text_of(shared)} if shared else {}), custom, edited)

    def missing_map(self) -> str:
        """Return the ConfigMap that the ClusterPolicy names if the MIG manager does not use it yet."""
        custom = str(self._layouts.get("name") or "")
        path = namespaced("apps/v1", self.namespace, "daemonsets", names.MIG_MANAGER_APP)
        daemonset = self._cluster.get(path) if custom else None
        volumes = daemonset["spec"]["template"]["spec"].get("volumes") or [] if daemonset else []
        used = [(volume.get("configMap") or {}).get("name") for volume in volumes]
        return custom if daemonset and custom not in used else ""

    def pods(self, fleet: Fleet, chosen: t.Collection[str]) -> dict[str, list[Json]]:
        """Return the pods that must leave these nodes. Operands are left out by the API server."""
        found: dict[str, list[Json]] = {name: [] for name in chosen}
        if found and self._request.rollout.maintenance.evicts_all:
            return fleet.pods([{"metadata": {"name": name}} for name in found])
        for pod in candidates(self._cluster, self.namespace) if found else ():
            node = pod["spec"].get("nodeName")
            if node in found and fleet.must_leave(pod):
                found[node].append(pod)
        return found

    def restart_manager(self, node: str) -> None:
        """Delete the MIG manager's pod on a node: its successor applies the node's label when it starts."""
        query = {"labelSelector": f"app={names.MIG_MANAGER_APP}", "fieldSelector": f"spec.nodeName={node}"}
        for pod in (self._cluster.get(self._pods, query) or {}).get("items") or []:
            self._cluster.delete(f"{self._pods}/{name_of(pod)}")

    def last_error(self, node: str) -> str:
        """Return the last error in the log of a node's MIG manager, or an empty string."""
        query = {"labelSelector": f"app={names.MIG_MANAGER_APP}", "fieldSelector": f"spec.nodeName={node}"}
        try:
            pods = (self._cluster.get(self._pods, query) or {}).get("items") or []
            logs = [self._cluster.text(f"{self._pods}/{name_of(pod)}/log", {"tailLines": LOG_LINES}) for pod in pods]
        except GpuOpsError:  # the log only explains a failure that is reported anyway
            return ""
        lines = [line for log in logs for line in log.splitlines() if "rror" in line]
        return one_line(lines[-1])[-300:] if lines else ""


def _refuse_claims(cluster: Cluster) -> None:
    """Raise if the cluster has a GPUCluster instead of a ClusterPolicy, since it brings no MIG manager."""
    clusters = cluster.list_readable(observe.GPUCLUSTERS_PATH).items
    if clusters:
        raise GpuOpsError(
            f"The cluster has the GPUCluster {name_of(clusters[0])} and no ClusterPolicy. With it, there is no "
            "MIG manager: divide the GPUs on their hosts with the role mig_partition (mig_partition_claims: true).",
            reason="Unsupported",
        )


def _status(row: t.Mapping[str, t.Any]) -> str:
    """Return a pod's status; a pod that runs without being ready is starting."""
    ready, dummy, total = str(row["ready"]).partition("/")
    return "starting" if row["status"] == "Running" and ready != total else str(row["status"])


def _may_reboot(daemonset: Json) -> bool:
    containers = daemonset["spec"]["template"]["spec"].get("containers") or []
    env = [item for container in containers for item in container.get("env") or []]
    return any(item.get("name") == "WITH_REBOOT" and str(item.get("value")).lower() == "true" for item in env)
