# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Read the cluster for the preflight checks: a few lists, and the reviews of the user's permissions."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import permission_checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Answer = t.TypeVar("Answer")
Objects = list[Json]


class _CheckReader:
    """Reads the cluster, and notes what the user may not read. The checks that need it then report a warning."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.unreadable: set[str] = set()

    def list(self, group_version: str, plural: str, **selectors: str) -> Objects:
        """List a collection. The list is empty if the kind does not exist or the user may not read it."""
        path = namespaced(group_version, None, plural)
        return self._permitted(plural, lambda: self._cluster.list(path, **selectors)) or []

    def namespace(self, name: str) -> Json | None:
        """Return a namespace, or None."""
        return self._permitted("namespaces", lambda: self._cluster.get(namespaced("v1", None, "namespaces", name)))

    def operators(self) -> Objects:
        """Return the Deployments of GPU Operators. OLM does not label them, so they are found by name."""
        named = self.list("apps/v1", "deployments", fieldSelector=f"metadata.name={names.OPERATOR}")
        return [deployment for deployment in named if operands.is_operator(deployment)]

    def api_groups(self) -> frozenset[str]:
        """Return the groups that the API server has. Every user may ask for them unless that is forbidden."""
        found = self._permitted("apis", lambda: self._cluster.ask("GET", "/apis")) or {}
        return frozenset(group["name"] for group in found.get("groups") or [])

    def ungranted(self, namespace: str, rbac_roles: Objects) -> permission_checks.Ungranted:
        """Return what the chart's RBAC roles grant and the user lacks, or an empty list if the review is forbidden."""
        found = self._permitted(
            "selfsubjectrulesreviews", lambda: permission_checks.ungranted(self._cluster, namespace, rbac_roles)
        )
        return found or {}

    def _permitted(self, plural: str, ask: t.Callable[[], Answer]) -> Answer | None:
        try:
            return ask()
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            self.unreadable.add(plural)
            return None


def snapshot_of(
    cluster: Cluster, namespace: str, operations: t.Collection[str], rbac_roles: t.Sequence[Json] = ()
) -> Snapshot:
    """Read everything that the checks need.

    The user's permissions are asked for ``operations``. ``rbac_roles`` are the roles that Helm would create.
    """
    reader = _CheckReader(cluster)
    snapshot = Snapshot(
        version=cluster.ask("GET", "/version")["gitVersion"],
        nodes=reader.list("v1", "nodes"),
        daemonsets=reader.list("apps/v1", "daemonsets"),
        operators=reader.operators(),
        clusterpolicies=reader.list(names.CLUSTERPOLICY_API, names.CLUSTERPOLICIES),
        gpuclusters=reader.list(names.GPUCLUSTER_API, names.GPUCLUSTERS),
        namespace=reader.namespace(namespace),
        missing_permissions=permission_checks.missing_permissions(cluster, namespace, operations),
        ungranted=reader.ungranted(namespace, list(rbac_roles)),
        api_groups=reader.api_groups(),
    )
    return dataclasses.replace(snapshot, unreadable=frozenset(reader.unreadable))
