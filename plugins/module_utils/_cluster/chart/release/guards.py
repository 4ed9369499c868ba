# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What must not happen when Helm runs: a second operator or stack, or a lock broken in use."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release.record import Revision
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LOCK_MARGIN_S = 30.0
"""Time beyond Helm's own time-out in which a Helm that gave up still writes its record."""

_OLM_PACKAGES = "gpu-operator"
"""The beginning of the packages' names: ``gpu-operator-certified`` is NVIDIA's own."""


def operators(cluster: Cluster) -> list[Json]:
    """Return the Deployments of GPU Operators in all namespaces."""
    path = namespaced("apps/v1", None, "deployments")
    named = cluster.list(path, fieldSelector=f"metadata.name={names.OPERATOR}") or []
    return [item for item in named if operands.is_operator(item)]


_BESIDE_OLM = (
    "and a second one would fight over the operands. Upgrade it with OLM, and change its ClusterPolicy with "
    "gpuops.nvidia.clusterpolicy."
)
_UNDER_OLM = (
    "and it would come back or lose its objects. Delete its custom resources (gpuops.nvidia.clusterpolicy with "
    "state: absent), and then its Subscription and ClusterServiceVersion."
)


def refuse_olm(cluster: Cluster, deployments: t.Iterable[Json], removes: bool = False) -> None:
    """Raise if the Operator Lifecycle Manager has installed a GPU Operator, or is about to."""
    owned = [item for item in deployments if names.OLM_OWNER in objects.labels_of(item)]
    found = [f"Deployment {objects.full_name(item)}" for item in owned] or [
        f"Subscription {objects.full_name(item)}"
        for item in cluster.list_readable(namespaced("operators.coreos.com/v1alpha1", None, "subscriptions")).items
        if str((item.get("spec") or {}).get("name")).startswith(_OLM_PACKAGES)
    ]
    if found:
        raise GpuOpsError(
            f"The Operator Lifecycle Manager installs the GPU Operator here ({', '.join(found)}), "
            f"{_UNDER_OLM if removes else _BESIDE_OLM}",
            reason="OperatorOfOLM",
        )


def refuse_other_stack(cluster: Cluster, policy: Json | None, gpucluster: Json | None) -> None:
    """Raise if the cluster would have a ClusterPolicy and a GPUCluster, of which the operator serves neither then.

    ``policy`` and ``gpucluster`` are what the chart brings. NVIDIA supports no move from the one to the other in place.
    """
    reason: Reason
    if gpucluster:
        found = cluster.list_readable(observe.CLUSTERPOLICIES_PATH).items
        kind, wanted, value, reason = "ClusterPolicy", "GPUCluster", "gpuCluster.deployCR", "ClusterPolicyPresent"
    elif policy:
        found = cluster.list_readable(observe.GPUCLUSTERS_PATH).items
        kind, wanted, value, reason = "GPUCluster", "ClusterPolicy", "clusterPolicy.deployCR", "GPUClusterPresent"
    else:
        return
    if found:
        raise GpuOpsError(
            f"{kind} {objects.name_of(found[0])} exists, and these values bring a {wanted}. The operator serves "
            f"neither while both exist. Set {value} to false, or remove the stack first (operator_state: absent in the "
            "role operator).",
            reason=reason,
        )


def refuse_other_store(environment: t.Mapping[str, str]) -> None:
    """Raise if Helm keeps its records elsewhere than in Secrets, where this module could not see a release."""
    store = environment.get("HELM_DRIVER", "")
    if store not in ("", "secret", "secrets"):
        raise GpuOpsError(
            f"HELM_DRIVER is {store}, and this collection reads Helm's records in Secrets only. Unset it, and move the "
            "records of an existing release into Secrets first.",
            reason="Invalid",
        )


def refuse_other_policy(released: t.Iterable[Json], release: str, policy_name: str) -> None:
    """Raise if Helm would delete a ClusterPolicy of its release, because this collection applies one of another name.

    The operator removes the drivers with the ClusterPolicy, under the pods that use them.
    """
    others = [objects.name_of(item) for item in released if item.get("kind") == "ClusterPolicy"]
    for name in others:
        if name != policy_name:
            raise GpuOpsError(
                f"The Helm release {release} contains the ClusterPolicy {name}, and {policy_name} is to be applied. "
                f"Helm would delete {name}, and the operator the drivers of all nodes with it. Set policy_name: {name} "
                "(operator_policy_name in the role operator).",
                reason="SecondClusterPolicy",
            )


def stale_lock(found: t.Sequence[Revision], now: float, timeout_s: float, may_break: bool) -> Revision | None:
    """Return the lock of a Helm that cannot be running any more, or None if there is no lock.

    Raise for a lock that may be in use, or that must not be broken.
    """
    if not found or not found[0].is_pending:
        return None
    lock, age_s = found[0], now - found[0].written
    holds = f"Helm's operation {lock.status} of revision {lock.number} began {age_s:.0f} s ago and has not ended"
    if age_s < timeout_s + LOCK_MARGIN_S:
        limit_s = timeout_s + LOCK_MARGIN_S
        message = f"{holds}. Wait until it ends; its lock counts as left behind when it is older than {limit_s:.0f} s."
        raise GpuOpsError(message, reason="ReleaseLocked")
    if not may_break:
        remedy = "Set break_lock: true (operator_break_lock in the role operator) to remove its lock."
        message = f"{holds}, so that Helm was killed. {remedy}"
        raise GpuOpsError(message, reason="ReleaseLocked")
    return lock
