# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a GPUCluster must not ask for: gates that end the driver, and what would leave workloads or objects stuck."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import driver_chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.disruption import Interruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.permission import (
    Disruption,
    running_gpu_pods,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import cluster_gates
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import dra_gates
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_DAEMONSETS = namespaced("apps/v1", None, "daemonsets")
COMPUTE_DOMAINS = namespaced("resource.nvidia.com/v1beta1", None, "computedomains")


def refuse_clusterpolicy(cluster: Cluster) -> None:
    """Raise if a ClusterPolicy exists: the operator would serve neither."""
    policies = cluster.list_readable(observe.CLUSTERPOLICIES_PATH).items
    if policies:
        raise GpuOpsError(
            f"ClusterPolicy {objects.name_of(policies[0])} exists, and the operator acts only if it or a GPUCluster "
            "exists alone. Remove it first (clusterpolicy with state: absent).",
            reason="ClusterPolicyPresent",
        )


def refuse_separate_driver(cluster: Cluster) -> None:
    """Raise if the separate chart of NVIDIA's driver for claims is installed: both would give out the same GPUs."""
    found = driver_chart.separate_drivers(cluster.list_readable(_DAEMONSETS).items)
    if found:
        raise GpuOpsError(
            f"NVIDIA's driver for claims runs without the operator ({found[0]}), and NVIDIA supports no GPUCluster "
            f"beside it: both would give out the same GPUs. {found[0].way_out}",
            reason="OwnedByOthers",
        )


def refuse_old_kubernetes(cluster: Cluster) -> None:
    """Raise if the cluster does not serve Dynamic Resource Allocation."""
    if device_claims.served_version(cluster, "deviceclasses") is None:
        version = cluster.ask("GET", "/version")["gitVersion"]
        raise GpuOpsError(
            f"Kubernetes {version} does not serve DeviceClasses of resource.k8s.io. NVIDIA asks for 1.34.2 or newer; "
            "before 1.34, the API must be switched on (--runtime-config and --feature-gates).",
            reason="KubernetesVersion",
        )


def gates_of(spec: Json) -> dict[str, bool]:
    """Return the feature gates that a GPUCluster sets."""
    return dict((spec.get("draDriver") or {}).get("featureGates") or {})


def refuse_gates(spec: Json) -> None:
    """Raise for feature gates with which the driver ends at its start."""
    plugin = (((spec.get("draDriver") or {}).get("gpus") or {}).get("kubeletPlugin") or {}).get("env") or []
    found = dra_gates.problems(gates_of(spec), {item.get("name", "") for item in plugin})
    if found:
        raise GpuOpsError(" ".join(found), reason="Invalid")


def refuse_missing_gates(cluster: Cluster, spec: Json) -> t.Iterator[str]:
    """Raise if the cluster lacks a gate that the driver's gates need, and yield a warning if that is unknown."""
    needed = dra_gates.of_cluster(gates_of(spec))
    probed = cluster_gates.probed(cluster, needed)
    off = [gate for gate, state in probed.items() if state == "off"]
    if off:
        raise GpuOpsError(
            f"draDriver.featureGates.{needed[off[0]]} needs the feature gate {off[0]} of Kubernetes, which is off. Set "
            f"--feature-gates={off[0]}=true on the API servers, the schedulers, the controller managers and the "
            f"kubelets, or set {needed[off[0]]} to false.",
            reason="Invalid",
        )
    for gate, state in probed.items():
        if state == "unknown":
            yield (
                f"Whether Kubernetes has the feature gate {gate}, which {needed[gate]} needs, is unknown, because this "
                "user may not create ResourceSlices in a dry run."
            )


def refuse_orphans(cluster: Cluster, existing: Json | None, after: Json | None) -> None:
    """Raise if ComputeDomains would lose the controller that removes their finalizers. ``after`` is the new spec."""
    before = has_domains((existing or {}).get("spec") or {})
    if existing is None or before is False or (after is not None and has_domains(after) in (True, before)):
        return
    found = cluster.list_readable(COMPUTE_DOMAINS)
    if found.refusal:
        raise GpuOpsError(
            "ComputeDomains would lose the controller that can delete them, and this user may not list ComputeDomains. "
            "Grant that permission.",
            reason="Forbidden",
        )
    if found.items:
        named = first_few([objects.full_name(item) for item in found.items])
        raise GpuOpsError(
            f"ComputeDomains exist ({named}), and only their controller can delete them. Delete them first "
            "(compute_domain with state: absent).",
            reason="ComputeDomainsPresent",
        )


def has_domains(spec: Json) -> bool | None:
    """Return whether a GPUCluster manages ComputeDomains, or None if it does not say.

    The CRD's default is inside the block. Without the block, the operator (v26.7.0, ``IsComputeDomainsEnabled``) does
    not manage them.
    """
    enabled: bool | None = ((spec.get("draDriver") or {}).get("computeDomains") or {}).get("enabled")
    return enabled


def disruption_of(cluster: Cluster, namespace: str, existing: Json | None, after: Json) -> Disruption:
    """Return what a change interrupts: with DynamicMIG, the driver deletes MIG devices that it has not made.

    Source: ``DestroyUnknownMIGDevices`` in cmd/gpu-kubelet-plugin of kubernetes-sigs/dra-driver-nvidia-gpu (95932046).
    """
    before = dra_gates.effective(gates_of((existing or {}).get("spec") or {}))["DynamicMIG"]
    if before or not dra_gates.effective(gates_of(after))["DynamicMIG"]:
        return Disruption()
    effect = "the driver deletes all MIG devices that it has not made itself, under the pods that use them"
    field = "draDriver.featureGates.DynamicMIG"
    change = Interruption(field, before, True, effect, operands.DRA_PLUGIN.name)
    running = running_gpu_pods(cluster, namespace)
    return Disruption((change,), None if running is None else tuple(running))
