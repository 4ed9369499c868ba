# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What must not happen when Helm runs: a second operator or stack, or a lock broken in use."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import installed_by
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import InstalledBy, ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release.record import Revision
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served
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


def refuse_others(cluster: Cluster, deployments: t.Iterable[Json], scope: ReleaseScope) -> None:
    """Raise if anybody but the release has installed a GPU Operator, or OLM is about to. Nothing is written before."""
    for item in deployments:
        owner = installed_by.owner_of(item, "Deployment")
        if not owner.is_release(scope):
            raise installed_by.refusal(owner, [f"Deployment {objects.full_name(item)}"], "install", scope)
    refuse_subscription(cluster, scope, "install")


def refuse_subscription(cluster: Cluster, scope: ReleaseScope, action: installed_by.Undertaking) -> None:
    """Raise if the Operator Lifecycle Manager is about to install a GPU Operator."""
    for item in cluster.list_readable(namespaced("operators.coreos.com/v1alpha1", None, "subscriptions")).items:
        if str((item.get("spec") or {}).get("name")).startswith(_OLM_PACKAGES):
            name = f"Subscription {objects.full_name(item)}"
            raise installed_by.refusal(
                InstalledBy("OLM", name, f"the package {item['spec']['name']}"), [name], action, scope
            )


def refuse_foreign_objects(
    cluster: Cluster, rendered: t.Iterable[Json], known: t.Iterable[Json], scope: ReleaseScope
) -> None:
    """Raise if objects of the chart exist that are not the release's: Helm would refuse them when CRDs are on already.

    ``known`` is what the release contains by Helm's records. Helm takes over an object with the release's marks only.
    """
    served, found = Served(cluster), list[tuple[str, InstalledBy]]()
    recorded = {_identity(item) for item in known}
    for item in rendered:
        kind = served.kind_of(item) if _identity(item) not in recorded and item["kind"] != "ClusterPolicy" else None
        live = cluster.get(kind.path(item, scope.namespace)) if kind else None
        if live is not None and not scope.has(live):
            found.append((f"{item['kind']} {objects.full_name(live)}", installed_by.owner_of(live, item["kind"])))
    if found:
        raise installed_by.refusal(found[0][1], [name for name, dummy in found], "install", scope)


def _identity(item: Json) -> tuple[str, str, str]:
    return item["kind"], str(item["metadata"].get("namespace") or ""), objects.name_of(item)


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
            f"{kind} {objects.name_of(found[0])} exists, and these values bring a {wanted}. The operator acts "
            f"only if one of them exists alone. Set {value} to false, or remove the stack first "
            "(operator_state: absent in the role operator).",
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
