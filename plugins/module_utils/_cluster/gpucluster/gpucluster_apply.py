# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Applying the GPUCluster, the wait that follows, and its removal."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    changes,
    permission,
    policy_info,
    prediction,
    removal,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import (
    gpucluster_refusals,
    gpucluster_request,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster.gpucluster_request import (
    GpuClusterRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe, wait
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Warn = t.Callable[[str], None]
GPUCLUSTER_PATH = f"{observe.GPUCLUSTERS_PATH}/{names.GPUCLUSTER}"


def ensure(cluster: Cluster, options: t.Mapping[str, t.Any], warn: Warn) -> Json:
    """Bring the GPUCluster into the state that the options ask for; return the result of the module."""
    request = gpucluster_request.request_of(options)
    if request.is_present:
        return _present(cluster, request, warn)
    refuse = functools.partial(gpucluster_refusals.refuse_orphans, cluster, after=None)
    return removal.remove(cluster, GPUCLUSTER_PATH, "gpucluster", request, refuse)


def _present(cluster: Cluster, request: GpuClusterRequest, warn: Warn) -> Json:
    """Apply the GPUCluster and wait."""
    found = cluster.list(observe.GPUCLUSTERS_PATH, resourceVersion="")
    if found is None and not cluster.check_mode:
        raise GpuOpsError(
            "The GPUCluster CRD is not installed. It comes with the GPU Operator's chart from v26.7 on: apply its CRDs "
            "first (gpuops.nvidia.operator_crds).",
            reason="CRDMissing",
        )
    gpucluster_refusals.refuse_clusterpolicy(cluster)
    gpucluster_refusals.refuse_old_kubernetes(cluster)
    existing = next(iter(found or []), None)
    if existing is None:
        gpucluster_refusals.refuse_separate_driver(cluster)
    result, before = _write(cluster, request, existing, found is not None, warn)
    if cluster.check_mode:
        return result
    return policy_info.after(cluster, "", request, result, before)


def _write(
    cluster: Cluster, request: GpuClusterRequest, existing: Json | None, is_served: bool, warn: Warn
) -> tuple[Json, Marks | None]:
    """Apply the GPUCluster if that changes it, and if what it interrupts is allowed.

    Return the result, and what shows later whether the operator has acted on a change.
    """
    manifest = gpucluster_request.manifest(request, existing, FIELD_MANAGER)
    predicted = _predicted(cluster, request, manifest, is_served, warn)
    spec = predicted["spec"]
    gpucluster_refusals.refuse_gates(spec)
    change = changes.between(existing, predicted, FIELD_MANAGER)
    disrupted = permission.Disruption()
    if change.changed:
        for warning in gpucluster_refusals.refuse_missing_gates(cluster, spec):
            warn(warning)
        gpucluster_refusals.refuse_orphans(cluster, existing, spec)
        disrupted = gpucluster_refusals.disruption_of(cluster, request.namespace, existing, spec)
    is_check = cluster.check_mode
    warning = permission.permit(disrupted, request.allows_disruption, is_check, request.only_warns and is_check)
    if warning:
        warn(warning)
    is_written = change.changed and not is_check
    before = wait.read_marks(cluster, request.namespace, existing) if is_written else None
    made = _apply(cluster, request, manifest) if is_written else predicted
    result = {
        "changed": change.changed,
        "gpucluster": changes.strip_managed(made),
        "disruption": disrupted.as_result(),
        "diff": change.diff,
    }
    return result, before


def _predicted(cluster: Cluster, request: GpuClusterRequest, manifest: Json, is_served: bool, warn: Warn) -> Json:
    if not is_served:
        warn("The GPUCluster CRD is not installed yet, so its fields could not be checked.")
        return manifest
    return _apply(cluster, request, manifest, dry_run=True)


def _apply(cluster: Cluster, request: GpuClusterRequest, manifest: Json, dry_run: bool = False) -> Json:
    try:
        return cluster.apply(GPUCLUSTER_PATH, manifest, force=request.forces, dry_run=dry_run)
    except GpuOpsError as e:
        raise prediction.explained(cluster, e, "GPUCluster", names.GPUCLUSTER_CRD) from e
