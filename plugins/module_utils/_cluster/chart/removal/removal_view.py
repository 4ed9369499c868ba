# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a removal has to know of a cluster: the release and what belongs to it, and who else is there."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import (
    METADATA_ONLY,
    Cluster,
    Listed,
    namespaced,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import installed_by, nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.crds import CRD_API
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import InstalledBy, ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import guards, record
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import fleet, marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CUSTOM_RESOURCES = {
    "GPUCluster": namespaced(names.GPUCLUSTER_API, None, names.GPUCLUSTERS),
    "ClusterPolicy": namespaced(names.CLUSTERPOLICY_API, None, names.CLUSTERPOLICIES),
    "NVIDIADriver": namespaced(names.GPUCLUSTER_API, None, names.NVIDIADRIVERS),
}
"""The operator's custom resources, in the order of their removal: the driver goes after everything that uses it."""

CRDS = namespaced(CRD_API, None, "customresourcedefinitions")


@dataclasses.dataclass(frozen=True)
class RemovalView:
    """The cluster as it was read. Lists of objects may be without their specs."""

    scope: ReleaseScope
    custom: t.Mapping[str, list[Json]] = dataclasses.field(default_factory=dict)
    """The custom resources of each kind of `CUSTOM_RESOURCES`."""
    revisions: t.Sequence[record.Revision] = ()
    operators: t.Sequence[Json] = ()
    daemonsets: t.Sequence[Json] = ()
    pods: t.Sequence[Json] = ()
    """The pods in the namespace of the release, without their specs."""
    crds: t.Sequence[Json] = ()
    nodes: t.Sequence[Json] = ()
    elsewhere: marks.Elsewhere = dataclasses.field(default_factory=dict)
    """The maintainers that take nodes out of service and record it in other objects."""
    namespace: Json | None = None
    refusals: t.Sequence[str] = ()
    """What this user may not read, in the API server's words."""

    @property
    def other_operators(self) -> list[Json]:
        """The GPU Operators that do not belong to the release."""
        return [item for item, owner in self.owners if not owner.is_release(self.scope)]

    @property
    def owners(self) -> list[tuple[Json, InstalledBy]]:
        """Each Deployment of a GPU Operator, and who has installed it."""
        return [(item, installed_by.owner_of(item, "Deployment")) for item in self.operators]

    @property
    def workers(self) -> list[nfd.Installation]:
        """The installations of Node Feature Discovery that do not belong to the release."""
        found = nfd.installations(self.daemonsets)
        return [each for each in found if not each.belongs_to(self.scope.release, self.scope.namespace)]

    @property
    def operand_daemonsets(self) -> list[Json]:
        """The DaemonSets of operands in the namespace of the release."""
        inside = (item for item in self.daemonsets if item["metadata"].get("namespace") == self.scope.namespace)
        return [item for item in inside if is_operand(item)]


def is_operand(daemonset: Json) -> bool:
    """Return whether a DaemonSet belongs to a custom resource of the operator, or has the name of an operand."""
    owners = daemonset["metadata"].get("ownerReferences") or []
    return any(owner.get("kind") in CUSTOM_RESOURCES for owner in owners) or (
        not owners and operands.operand_name(daemonset) is not None
    )


def read(cluster: Cluster, scope: ReleaseScope) -> RemovalView:
    """Read the cluster."""
    listed = {kind: cluster.list_readable(path) for kind, path in CUSTOM_RESOURCES.items()}
    crds = metadata_of(cluster, CRDS)
    daemonsets = cluster.list(fleet.DAEMONSETS) or []
    maintenances = cluster.list_readable(fleet.MAINTENANCES)
    return RemovalView(
        scope=scope,
        custom={kind: found.items for kind, found in listed.items()},
        revisions=record.revisions(cluster, scope.release, scope.namespace),
        operators=guards.operators(cluster),
        daemonsets=daemonsets,
        pods=pods_in(cluster, scope.namespace),
        crds=crds.items,
        nodes=cluster.list(fleet.NODES) or [],
        elsewhere=marks.elsewhere(daemonsets, maintenances.items, cluster.now()),
        namespace=cluster.get(namespaced("v1", None, "namespaces", scope.namespace)),
        refusals=[found.refusal for found in (*listed.values(), crds, maintenances) if found.refusal],
    )


def metadata_of(cluster: Cluster, path: str) -> Listed:
    """List a collection without the specs of its objects. One that this user may not list has a refusal."""
    try:
        answer = cluster.ask("GET", path, {"resourceVersion": "0"}, accept=METADATA_ONLY)
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return Listed([], refusal=e.msg)
    return Listed(list(answer.get("items") or []))


def pods_in(cluster: Cluster, namespace: str) -> list[Json]:
    """Return the pods of a namespace without their specs, as they are now."""
    answer = cluster.ask("GET", namespaced("v1", namespace, "pods"), accept=METADATA_ONLY)
    return list(answer.get("items") or [])
