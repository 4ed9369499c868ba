# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What stands in the way of a move between the device plugin and claims, and what it costs. Pure.

NVIDIA supports GPUClusters for new installations only (technology preview, v26.7). What keeps the drivers loaded in
between comes from the operator's code: without a ClusterPolicy and a GPUCluster, it leaves the labels of nodes as they
are, and NVIDIADrivers keep their pods (NVIDIA GPU Operator v26.7.0, ``controllers/nodelabeling_controller.go``).
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.driver_chart import SeparateDriver
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster.gpucluster_refusals import gates_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.eviction import EvictionPermits
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Target = t.Literal["claims", "device_plugin"]
Findings = t.Iterator[ClusterFinding]

DRIVER_BRANCH = 580
"""The oldest driver branch that NVIDIA supports for its DRA driver with the GPU Operator v26.7 (documentation of
2026-08-21)."""

CONTAINERD_WITH_CDI = (2, 0)
"""From this version on, containerd has CDI switched on by default. CRI-O has had it for longer."""


@dataclasses.dataclass(frozen=True)
class MoveView:
    """What the checks look at. ``policy`` and ``gpucluster`` are the custom resources that exist."""

    target: Target
    policy: Json | None
    gpucluster: Json | None
    nvidiadrivers: list[Json]
    gpu_nodes: list[Json]
    serves_claims: bool
    has_crd: bool
    """Whether the CRD of GPUClusters is installed."""
    domains: list[Json]
    quotas: list[Json]
    queues: list[Json] | None
    """The ClusterQueues of Kueue, or None if they are unknown."""
    drivers: list[SeparateDriver]
    """Drivers for claims that the operator has not deployed."""
    has_cdi: bool
    """Whether the user says that older containerds have CDI switched on."""
    drops_sharing: bool
    """Whether the user gives up sharing by the device plugin."""
    held: list[GpuPod]
    """The pods that hold GPUs."""
    permits: EvictionPermits
    """What the user permits to happen to pods."""


def checks(view: MoveView) -> Findings:
    """Yield the findings, while the old stack is still there: after that, there is no way but forward."""
    if view.target == "claims" and view.policy is not None:
        yield from _to_claims(view, view.policy.get("spec") or {})
        yield from _pods(view)
    if view.target == "device_plugin" and view.gpucluster is not None:
        yield from _to_device_plugin(view)
        yield from _pods(view)


def _failure(check: str, message: str, remedy: str, found: t.Sequence[Json] = ()) -> ClusterFinding:
    return ClusterFinding(check, "failure", message, remedy, **about(found))


def _warning(check: str, message: str, remedy: str = "", found: t.Sequence[Json] = ()) -> ClusterFinding:
    return ClusterFinding(check, "warning", message, remedy, **about(found))


def _to_claims(view: MoveView, spec: Json) -> Findings:
    if not view.has_crd:
        message = "The cluster has no CRD for GPUClusters, which comes with the GPU Operator v26.7."
        yield _failure("operator", message, "Upgrade the operator first (playbook upgrade_operator).")
    if not view.serves_claims:
        message = "Kubernetes does not serve Dynamic Resource Allocation (resource.k8s.io)."
        yield _failure("kubernetes", message, "Upgrade Kubernetes to 1.34.2 or newer.")
    if (spec.get("sandboxWorkloads") or {}).get("enabled"):
        message = "The ClusterPolicy has virtual machines (sandboxWorkloads.enabled), which a GPUCluster cannot serve."
        yield _failure("virtual_machines", message, "Move these nodes out of the cluster, or keep the ClusterPolicy.")
    for separate in view.drivers:
        message = f"NVIDIA's driver for claims runs already, without the operator ({separate})."
        yield _failure("other_driver", message, separate.way_out)
    yield from _drivers(view, spec)
    yield from _runtimes(view)
    yield from _sharing(view, spec)
    yield from _mig(view)
    yield from _quotas(view)
    yield from _queues(view)
    yield from _karpenter(view)


def _pods(view: MoveView) -> Findings:
    """Find pods that a drain leaves, or that come back at once: with them, it would end when most nodes are empty."""
    yield from _about_pods(
        view,
        "are of DaemonSets, or static, and a drain leaves them",
        "Delete their DaemonSets, or give them a node selector that matches no node, until the move is done.",
        [pod for pod in view.held if _stays(pod)],
    )
    yield from _about_pods(
        view,
        "tolerate cordons, so that their controllers start them again on the node that they have to leave",
        f"Scale them down, or let them not tolerate {nodes.CORDON['key']}.",
        [pod for pod in view.held if pod.ignores_cordons and not _stays(pod) and not pod.is_bare],
    )
    yield from _about_pods(
        view,
        "have no controller that would start them again",
        "Delete them, or set stack_move_force: true.",
        [pod for pod in view.held if pod.is_bare and not view.permits.force],
    )
    yield from _about_pods(
        view,
        "would lose the data of their emptyDir volumes",
        "Delete them, or set stack_move_delete_emptydir_data: true.",
        [pod for pod in view.held if pod.keeps_data and not view.permits.delete_emptydir_data],
    )


def _stays(pod: GpuPod) -> bool:
    return pod.owner.startswith(("DaemonSet/", "Node/"))


def _about_pods(view: MoveView, what: str, remedy: str, found: list[GpuPod]) -> Findings:
    if found:
        named = first_few([f"{pod.namespace}/{pod.name} on {pod.node}" for pod in found])
        on = {pod.node for pod in found}
        affected = [node for node in view.gpu_nodes if objects.name_of(node) in on]
        yield _failure("pods", f"Pods that use GPUs {what}: {named}.", remedy, affected)


def _drivers(view: MoveView, spec: Json) -> Findings:
    """Find drivers that would go with the ClusterPolicy, and drivers that are too old."""
    driver = spec.get("driver") or {}
    if driver.get("enabled") is not False and not (driver.get("useNvidiaDriverCRD") and view.nvidiadrivers):
        message = "The drivers belong to the ClusterPolicy, and would be unloaded with it."
        remedy = "Hand them to NVIDIADrivers first: run upgrade_driver with driver_container_pools in the inventory."
        yield _failure("driver", message, remedy)
    old = [node for node in view.gpu_nodes if (branch_of(node) or DRIVER_BRANCH) < DRIVER_BRANCH]
    if old:
        message = f"{_named(old)} have a driver older than {DRIVER_BRANCH}, which NVIDIA's DRA driver needs."
        yield _failure("driver", message, "Upgrade the driver first (playbook upgrade_driver).", old)
    unknown = [node for node in view.gpu_nodes if branch_of(node) is None]
    if unknown:
        message = f"The driver's version on {_named(unknown)} is unknown."
        yield _warning("driver", message, f"It must be {DRIVER_BRANCH} or newer.", unknown)


def branch_of(node: Json) -> int | None:
    """Return the branch of a node's driver, or None if GPU Feature Discovery has not said it."""
    found = re.match(r"\d+", node_rows.driver_version(objects.labels_of(node)) or "")
    return int(found[0]) if found else None


def _runtimes(view: MoveView) -> Findings:
    """Find container runtimes without CDI. The toolkit, which switches it on, goes with the ClusterPolicy."""
    without = [node for node in view.gpu_nodes if not _may_have_cdi(node)]
    if without:
        runtime = nodes.node_info(without[0], "containerRuntimeVersion")
        message = f"{_named(without)} run {runtime}, which cannot give containers the devices of claims."
        yield _failure("runtime", message, "Use containerd or CRI-O on these nodes.", without)
    older = [node for node in view.gpu_nodes if _may_have_cdi(node) and not _has_cdi(node)]
    if older and not view.has_cdi:
        message = (
            f"{_named(older)} run a containerd older than {'.'.join(map(str, CONTAINERD_WITH_CDI))}, in which CDI must "
            "be switched on. The container toolkit, which does that now, goes with the ClusterPolicy."
        )
        remedy = (
            "Set enable_cdi = true and cdi_spec_dirs in containerd's own configuration on these hosts, and then set "
            "stack_move_has_cdi: true."
        )
        yield _failure("runtime", message, remedy, older)


def _may_have_cdi(node: Json) -> bool:
    return str(nodes.node_info(node, "containerRuntimeVersion")).startswith(("containerd://", "cri-o://"))


def _has_cdi(node: Json) -> bool:
    runtime = str(nodes.node_info(node, "containerRuntimeVersion"))
    found = re.match(r"containerd://(\d+)\.(\d+)", runtime)
    return found is None or (int(found[1]), int(found[2])) >= CONTAINERD_WITH_CDI


def _sharing(view: MoveView, spec: Json) -> Findings:
    """Find GPUs that several pods share. Claims have no replicas."""
    config = ((spec.get("devicePlugin") or {}).get("config") or {}).get("name")
    shared = [node for node in view.gpu_nodes if _strategy(node) not in ("none", "")]
    if not shared:
        return
    named = f" (ConfigMap {config})" if config else ""
    message = f"{_named(shared)} share their GPUs by the device plugin{named}, and claims know no replicas."
    remedy = (
        "Pods can share one claim, and feature gates of the driver offer time-slicing, MPS and consumable shares for "
        "claims. To give the replicas up, set stack_move_drop_sharing: true."
    )
    level = _warning if view.drops_sharing else _failure
    yield level("sharing", message, remedy, shared)


def _strategy(node: Json) -> str:
    return objects.labels_of(node).get(names.SHARING_STRATEGY, "none")


def _mig(view: MoveView) -> Findings:
    divided = [
        node
        for node in view.gpu_nodes
        if objects.labels_of(node).get(names.MIG_CONFIG, names.MIG_DISABLED) != names.MIG_DISABLED
    ]
    if divided:
        message = (
            f"{_named(divided)} have a MIG layout. The MIG manager goes with the ClusterPolicy: the layout stays until "
            "the next reboot, and is offered as mig.nvidia.com."
        )
        remedy = "Use the role mig_partition on these hosts, which makes the layout again at each boot."
        yield _warning("mig", message, remedy, divided)


def _quotas(view: MoveView) -> Findings:
    limited = [item for item in view.quotas if any("nvidia.com/" in key for key in (item["spec"].get("hard") or {}))]
    if limited:
        message = (
            f"{first_few([objects.full_name(item) for item in limited])} limit GPUs by resource names of the plugin."
        )
        remedy = "Claims are limited by DeviceClass (gpu_claims, quotas)."
        yield _warning("quotas", message, remedy)


def _queues(view: MoveView) -> Findings:
    """Find ClusterQueues of Kueue that count GPUs by resources of the device plugin.

    Source: kubernetes-sigs/kueue at ff69552e, ``apis/kueue/v1beta2/clusterqueue_types.go``,
    ``apis/config/v1beta2/configuration_types.go`` and ``pkg/features/kube_features.go``.
    """
    if view.queues is None:
        message = "Whether Kueue has quotas for GPUs is unknown, because this user may not list its ClusterQueues."
        yield _warning("kueue", message, "Let the user list clusterqueues of kueue.x-k8s.io, or look there yourself.")
        return
    counted = [(item, sorted(filter(nodes.is_gpu_resource, _covered(item)))) for item in view.queues]
    found = [f"{objects.name_of(item)} ({first_few(resources)})" for item, resources in counted if resources]
    if found:
        message = (
            f"ClusterQueues of Kueue have quotas for resources of the device plugin: {first_few(found)}. Kueue counts "
            "GPUs of claims only for DeviceClasses that its configuration maps to a resource."
        )
        remedy = (
            "Map gpu.nvidia.com and mig.nvidia.com in Kueue's configuration (resources.deviceClassMappings; before "
            "Kueue 0.18, its gate DynamicResourceAllocation is off), and give the queues quotas for these resources. "
            "The name of a mapping may be the resource that the quotas have already."
        )
        yield _warning("kueue", message, remedy)


def _covered(queue: Json) -> set[str]:
    groups = (queue.get("spec") or {}).get("resourceGroups") or []
    return {str(name) for group in groups for name in group.get("coveredResources") or []}


KARPENTER = "karpenter.sh/nodepool"
"""The label of Karpenter's nodes. For claims it makes nodes with ``settings.enableDRA`` alone, which is alpha
(https://karpenter.sh/docs/tasks/dra/)."""


def _karpenter(view: MoveView) -> Findings:
    made = [node for node in view.gpu_nodes if KARPENTER in objects.labels_of(node)]
    if made:
        message = f"Karpenter made {_named(made)}, and makes nodes for claims only with its alpha setting enableDRA."
        remedy = "Set settings.enableDRA in Karpenter's chart, or keep nodes for the claims that you expect."
        yield _warning("autoscaler", message, remedy, made)


def _to_device_plugin(view: MoveView) -> Findings:
    if view.domains:
        message = f"ComputeDomains exist ({first_few([objects.full_name(item) for item in view.domains])})."
        yield _failure("compute_domains", message, "Delete them first: only the GPUCluster's controller can.")
    if gates_of((view.gpucluster or {}).get("spec") or {}).get("DynamicMIG"):
        message = "The driver makes MIG devices for claims (DynamicMIG). It may leave some behind."
        yield _warning("mig", message, "Declare the layouts (mig_layouts), so that the MIG manager makes them anew.")


def _named(found: list[Json]) -> str:
    return first_few([objects.name_of(node) for node in found])
