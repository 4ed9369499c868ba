# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The list of all checks of a cluster, and the function that runs them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _findings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import (
    cluster_reader,
    facts,
    gpu_nodes,
    labels,
    other_stacks,
    permission_checks,
    platform_checks,
    versions,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Check:
    """A check, and the collections that it needs."""

    function: t.Callable[[Snapshot, Intent], t.Iterator[ClusterFinding]]
    needs: frozenset[str] = frozenset()


_NODES = frozenset({"nodes"})
_STACKS = frozenset({"daemonsets", "deployments", "clusterpolicies", "gpuclusters"})
CHECKS = {
    "kubernetes_version": Check(versions.check_kubernetes_version),
    "permissions": Check(permission_checks.check_permissions),
    "role_grants": Check(permission_checks.check_role_grants, frozenset({"selfsubjectrulesreviews"})),
    "gpu_nodes": Check(gpu_nodes.check_gpu_nodes, _NODES),
    "nfd": Check(other_stacks.check_nfd, frozenset({"daemonsets"})),
    "other_stacks": Check(other_stacks.check_other_stacks, _STACKS),
    "container_runtime": Check(versions.check_container_runtime, _NODES),
    "operating_system": Check(versions.check_operating_system, _NODES),
    "driver": Check(versions.check_driver, _NODES),
    "taints": Check(gpu_nodes.check_taints, _NODES),
    "pod_security": Check(permission_checks.check_pod_security, frozenset({"namespaces"})),
    "node_state": Check(gpu_nodes.check_node_state, _NODES),
    "platform": Check(platform_checks.check_platform, _NODES),
}


def preflight(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Read the cluster once and check it."""
    skip = options["skip"]
    if options["wait_timeout"]:
        labels.wait_until_labelled(cluster, options["wait_timeout"])
    intent = Intent(
        options["namespace"],
        options["release_name"],
        options["operator_version"],
        options["values"],
        preset=options["preset"],
    )
    rbac_roles = [] if "role_grants" in skip else options["roles"]
    operations = [] if "permissions" in skip else options["operations"]
    snapshot = cluster_reader.snapshot_of(cluster, intent.namespace, operations, rbac_roles)
    found = _findings.as_result(run_checks(snapshot, intent, skip))
    return {**found, "missing_permissions": snapshot.missing_permissions, "facts": facts.facts(snapshot)}


def run_checks(snapshot: Snapshot, intent: Intent, skip: t.Collection[str] = ()) -> list[ClusterFinding]:
    """Run all checks except those to skip. Failures come first."""
    found: list[ClusterFinding] = []
    for name, check in CHECKS.items():
        if name not in skip:
            found += _run(name, check, snapshot, intent)
    return _findings.worst_first(found)


def _run(name: str, check: Check, snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    unreadable = ", ".join(sorted(check.needs & snapshot.unreadable))
    if unreadable:
        message = f"Not checked, because this user may not read {unreadable}."
        yield ClusterFinding(name, "warning", message, "Grant this permission, or skip this check.")
    else:
        yield from check.function(snapshot, intent)
