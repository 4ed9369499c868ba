# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The priority of the test's pods: they displace no other pod, and every other pod may displace them.

A pod cannot forbid preemption by itself: Kubernetes refuses a ``preemptionPolicy`` other than that of its
PriorityClass. So each run makes a class of its own, and deletes it with its pods. Binding the pods to their nodes
without the scheduler would avoid preemption too, but a pod that the scheduler places there at the same moment would
then be refused by the kubelet.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CLASSES_PATH = namespaced("scheduling.k8s.io/v1", None, "priorityclasses")

VALUE = -1_000_000
"""Lower than any workload's. The cluster autoscaler adds no node for pods below -10."""


def manifest(name: str, metadata: Json) -> Json:
    """Return the PriorityClass of one run."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {**metadata, "name": name},
        "value": VALUE,
        "preemptionPolicy": "Never",
        "description": "Pods of gpuops.nvidia.gpu_smoke_test, which displace no other pod.",
    }


def check_given(cluster: Cluster, name: str) -> None:
    """Raise if the class that a user names lets pods displace others. A class that may not be read is trusted."""
    try:
        item = cluster.get(f"{CLASSES_PATH}/{name}")
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return
    if item is None:
        message = f"There is no PriorityClass {name}. Create it, or correct priority_class_name."
        raise GpuOpsError(message, reason="NotFound")
    if item.get("preemptionPolicy") != "Never":
        raise GpuOpsError(
            f"Pods of PriorityClass {name} may displace workloads. "
            "Set priority_class_name to a class whose preemptionPolicy is Never, or leave it out.",
            reason="Disruption",
        )


def make(cluster: Cluster, name: str, metadata: Json) -> bool:
    """Create the class of a run. Return False if this user may not, and the pods are harmless without one."""
    try:
        cluster.create(CLASSES_PATH, manifest(name, metadata))
    except GpuOpsError as e:
        if e.reason == "AlreadyExists":  # the answer to an earlier request was lost
            return True
        if e.reason != "Forbidden":
            raise
        if not _is_harmless_without(cluster):
            raise _may_displace(e) from e
        return False
    return True


def _is_harmless_without(cluster: Cluster) -> bool:
    """Return whether no pod can have a lower priority than one without a class. Preemption takes only such pods."""
    try:
        classes = cluster.list(CLASSES_PATH, resourceVersion="") or []
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return False
    default: Json = next((item for item in classes if item.get("globalDefault")), {})
    lowest = min([0, *(item["value"] for item in classes)])
    return default.get("preemptionPolicy") == "Never" or default.get("value", 0) <= lowest


def _may_displace(error: GpuOpsError) -> GpuOpsError:
    return GpuOpsError(
        "The test's pods could displace pods of lower priority, and this user may not create the PriorityClass that "
        "prevents it. Grant create and delete on priorityclasses.scheduling.k8s.io, or set priority_class_name to a "
        f"class whose preemptionPolicy is Never. {error.msg}",
        reason="Forbidden",
    )
