# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the GPUCluster asks for, who owns each field, which feature gates are on, and whether the stack is ready."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import changes, policy_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import cluster_gates
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import gpucluster_refusals
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import dra_gates
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def describe(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Read and judge the GPUCluster, after a wait if the options request one. Return the module's result."""
    observation, verdict = policy_info.judged(cluster, "", options)
    found = next(iter(observation.gpuclusters), None)
    gates = gpucluster_refusals.gates_of((found or {}).get("spec") or {})
    return {
        "gpucluster": changes.strip_managed(found) if found else {},
        "feature_gates": dra_gates.effective(gates) if found else {},
        "kubernetes": {
            "resource_api": device_claims.served_version(cluster, "resourceslices"),
            "feature_gates": cluster_gates.probed(cluster, cluster_gates.ASKABLE_GATES),
        },
        **policy_info.described(found, verdict),
    }
