# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a declaration of drivers has to know about the cluster: one LIST request for each kind."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption, permission
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class DriversView:
    """The cluster before the change."""

    namespace: str
    policy: Json | None
    gpucluster: Json | None
    drivers: t.Sequence[Json]
    serves_drivers: bool
    """Whether the CRD of NVIDIADrivers is installed."""
    nodes: t.Sequence[Json]
    daemonsets: t.Sequence[Json]
    operator: Json | None
    now: float

    @property
    def spec(self) -> Json:
        """The ClusterPolicy's spec."""
        return (self.policy or {}).get("spec") or {}

    @property
    def policy_name(self) -> str:
        """The ClusterPolicy's name, or an empty string without one."""
        return objects.name_of(self.policy) if self.policy else ""

    @property
    def delegates(self) -> bool:
        """Whether NVIDIADrivers determine the driver."""
        return self.policy is None or disruption.delegates(self.spec)

    @functools.cached_property
    def line(self) -> disruption.Version | None:
        """The operator's line, or None if it is not known."""
        return permission.version_of(self.operator)

    @functools.cached_property
    def gpu_nodes(self) -> list[Json]:
        """The nodes with driver containers, by name: those that the operator installs drivers on."""
        found = filter(pools.has_driver_container, self.nodes)
        return sorted((node for node in found if nodes.runs_containers(node, self.spec)), key=objects.name_of)

    @property
    def driver_daemonsets(self) -> list[Json]:
        """The DaemonSets of drivers."""
        return [item for item in self.daemonsets if operands.operand_name(item) == operands.DRIVER.name]


def look(cluster: Cluster, policy_name: str, namespace: str) -> DriversView:
    """Read the cluster. Raise if there is nothing whose driver could be declared."""
    policies = observe.read_policies(cluster)
    gpuclusters = cluster.list_readable(observe.GPUCLUSTERS_PATH).items
    drivers = cluster.list(observe.NVIDIADRIVERS_PATH, resourceVersion="")
    name, namespace = observe.found(policies, gpuclusters, policy_name, namespace)
    policy = next((item for item in policies or [] if objects.name_of(item) == name), None)
    _refuse(policies, policy, gpuclusters, policy_name)
    daemonsets = cluster.list(namespaced("apps/v1", namespace, "daemonsets"), resourceVersion="") or []
    deployments = cluster.list(namespaced("apps/v1", namespace, "deployments")) or []
    return DriversView(
        namespace=namespace,
        policy=policy,
        gpucluster=None if policy else next(iter(gpuclusters), None),
        drivers=drivers or [],
        serves_drivers=drivers is not None,
        nodes=observe.NodeReader(cluster).read(),
        daemonsets=daemonsets,
        operator=next(filter(operands.is_operator, deployments), None),
        now=cluster.now(),
    )


def _refuse(policies: list[Json] | None, policy: Json | None, gpuclusters: list[Json], wanted: str) -> None:
    if policies is None:
        message = (
            "The ClusterPolicy CRD is not installed. Install the GPU Operator first (role gpuops.nvidia.operator)."
        )
        raise GpuOpsError(message, reason="CRDMissing")
    found = [objects.name_of(item) for item in policies]
    if policy is None and (wanted or not gpuclusters):
        there = f" There is {first_few(found)}." if found else ""
        what = (
            f"There is no ClusterPolicy {wanted}." if wanted else "The cluster has no ClusterPolicy and no GPUCluster."
        )
        raise GpuOpsError(f"{what}{there} Install the GPU Operator first, or correct policy_name.", reason="NotFound")
    if len(found) > 1:
        message = f"There are several ClusterPolicies ({first_few(found)}), and the operator ignores all but one."
        raise GpuOpsError(f"{message} Delete the others first.", reason="SecondClusterPolicy")
    if policy is not None and gpuclusters:
        message = (
            f"ClusterPolicy {found[0]} and a GPUCluster exist, and the operator acts only if one of them exists alone."
        )
        raise GpuOpsError(f"{message} Delete one of them first.", reason="GPUClusterPresent")
