# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What must not happen when Helm runs: a second operator, a lock broken in use, GPU pods that lose their driver."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import names, objects, operands, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import manifests
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release.record import Revision
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
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


def refuse_olm(cluster: Cluster, deployments: t.Iterable[Json]) -> None:
    """Raise if the Operator Lifecycle Manager has installed a GPU Operator, or is about to."""
    owned = [item for item in deployments if names.OLM_OWNER in objects.labels_of(item)]
    found = [f"Deployment {objects.full_name(item)}" for item in owned] or [
        f"Subscription {objects.full_name(item)}"
        for item in cluster.list_readable(namespaced("operators.coreos.com/v1alpha1", None, "subscriptions")).items
        if str((item.get("spec") or {}).get("name")).startswith(_OLM_PACKAGES)
    ]
    if found:
        raise GpuOpsError(
            f"The Operator Lifecycle Manager installs the GPU Operator here ({', '.join(found)}), and a second one "
            "would fight over the operands. Upgrade it with OLM, and change its ClusterPolicy with "
            "gpuops.nvidia.clusterpolicy.",
            reason="OperatorOfOLM",
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
        message = f"{holds}, so that Helm was killed. Set break_lock: true to remove its lock."
        raise GpuOpsError(message, reason="ReleaseLocked")
    return lock


def disrupting(live: Json | None, rendered: Json | None, deployments: t.Iterable[Json], image: str | None) -> list[str]:
    """Return what interrupts GPU workloads when Helm has run: fields of the ClusterPolicy, or a new operator.

    ``live`` is the ClusterPolicy in the cluster, ``rendered`` is the chart's. ``deployments`` are the operators that
    run, ``image`` is the one that the chart installs.
    """
    if live is None:
        return []
    before = live.get("spec") or {}
    after = merged(before, (rendered or {}).get("spec") or {})
    running = next((found for item in deployments for found in manifests.container_images(item)), None)
    versions = disruption.Operator(disruption.version(running), disruption.version(image))
    causes = disruption.disrupts(before, after, versions)
    is_unknown = versions.running is None or versions.acting is None
    if running and image and running != image and is_unknown and _replaces_drivers(after):
        causes.append(f"operator image {running} -> {image}")
    return causes


def _replaces_drivers(spec: Json) -> bool:
    """Return whether the operator replaces driver pods by itself when it renders their DaemonSet anew."""
    driver = spec.get("driver") or {}
    return driver.get("enabled") is not False and bool((driver.get("upgradePolicy") or {}).get("autoUpgrade"))


def merged(below: Json, above: Json) -> Json:
    """Return a mapping with the values of both, and with those of ``above`` where both have one."""
    both = dict(below)
    for key, value in above.items():
        inner = both.get(key)
        both[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both


def refuse_disruption(cluster: Cluster, causes: list[str], namespace: str, allowed: bool) -> str | None:
    """Raise if GPU pods would be evicted without permission. In check mode, return the message as a warning."""
    gpu_pods = pods.gpu_pods(cluster, namespace) if causes and not allowed else []
    if not gpu_pods:
        return None
    nodes = sorted({pod.node for pod in gpu_pods})
    examples = first_few([f"{pod.namespace}/{pod.name}" for pod in gpu_pods])
    message = (
        f"This changes {first_few(causes)}, for which the operator interrupts GPU workloads, and {len(gpu_pods)} pods "
        f"use GPUs on {first_few(nodes)} ({examples}). Drain these nodes, or set allow_disruption: true."
    )
    if cluster.check_mode:
        return message
    raise GpuOpsError(message, reason="Disruption", gpu_pods=len(gpu_pods))
