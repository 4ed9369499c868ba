# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Read what the judge needs, with one LIST request for each kind.

Pods are read only if a DaemonSet is not complete. With 1,000 nodes and no problems, that makes five requests and about
4 MB.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import names, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts, troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CLUSTERPOLICIES_PATH = namespaced(names.CLUSTERPOLICY_API, None, names.CLUSTERPOLICIES)
GPUCLUSTERS_PATH = namespaced(names.GPUCLUSTER_API, None, names.GPUCLUSTERS)


def observe(cluster: Cluster, namespace: str, name: str) -> Observation:
    """Read everything that the judge needs."""
    # The nodes are nearly all of the data. The rest is read while the API server sends them.
    with ThreadPoolExecutor(1) as executor:
        nodes = executor.submit(cluster.list, namespaced("v1", None, "nodes"))
        policies = read_policies(cluster)
        gpuclusters = cluster.list(GPUCLUSTERS_PATH) or []
        daemonsets = cluster.list(namespaced("apps/v1", namespace, "daemonsets")) or []
        deployments = cluster.list(namespaced("apps/v1", namespace, "deployments")) or []
    return Observation(
        name=name,
        namespace=namespace,
        policies=policies,
        gpuclusters=gpuclusters,
        daemonsets=daemonsets,
        operators=[item for item in deployments if operands.is_operator(item)],
        nodes=nodes.result() or [],
        now=cluster.now(),
        troubled=troubles.of_daemonsets(cluster, namespace, daemonsets, rollouts.suspects(daemonsets)),
    )


def read_policies(cluster: Cluster) -> list[Json] | None:
    """Return every ClusterPolicy as it is now, or None without the CRD.

    This bypasses the API server's cache, which may lag and show the spec before our own edit.
    """
    return cluster.list(CLUSTERPOLICIES_PATH, resourceVersion="")
