# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What nodes offer by claims, compared with what they have: devices that are missing, tainted, or offered twice."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import LOST_TAINT, DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import claimed_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact, sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Quote, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

_POOL = pattern(
    r"asks for all devices, but resource pool (?P<pool>\S+) is currently (?P<how>being updated|invalid)",
    "asks for all devices, but resource pool",
)
_MIG_LABEL = re.compile(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb(?:\.me)?)\.count$")
_PLUGIN_OF = {"gpu.nvidia.com": "gpus", "compute-domain.nvidia.com": "compute-domains"}
"""The container of the plugin's pods that serves a driver."""

_DRA = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/"
_SITE = f"{_DRA}tree/95932046/site/content/docs/"
_INSTALL = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-intro-install.html"
_DOCS = "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"

_RESTART = "The plugin looks at the GPUs when it starts: delete its pod on this node, which interrupts no pod that runs"


def _incomplete(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_POOL):
        yield sighting(hit)
    for node, pool in view.once(claimed_pools.pools).items():
        if pool.missing:
            text = f"{pool.total - pool.missing} of {pool.total} slices of the newest generation"
            values = {"pool": node, "how": f"not complete ({text})"}
            yield Sighting(node, "", fact(text, claimed_pools.SOURCE, node), "certain", values)


def _twice(view: View) -> t.Iterator[Sighting]:
    for node, pool in view.once(claimed_pools.pools).items():
        offered = {
            name: number for name, number in (view.rows.get(node) or {}).get("allocatable", {}).items() if number
        }
        if offered and pool.devices:
            by_name = ", ".join(f"{number} {name}" for name, number in sorted(offered.items()))
            quotes = (*_of_slices(node, pool), Quote(f"allocatable: {by_name}", "the node", node))
            yield Sighting(node, "", quotes)


def _of_slices(node: str, pool: DevicePool) -> tuple[Quote, ...]:
    return fact(f"{len(pool.devices)} devices of gpu.nvidia.com", claimed_pools.SOURCE, node)


def _lost(view: View) -> t.Iterator[Sighting]:
    for node, pool in view.once(claimed_pools.pools).items():
        tainted = [each.name[2] for each in pool.devices if LOST_TAINT in {taint.key for taint in each.taints}]
        if tainted:
            text = f"taint {LOST_TAINT} of {first_few(tainted)}"
            yield Sighting(node, "", fact(text, claimed_pools.SOURCE, node))


def _without_devices(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes that offer no GPU, neither by claims nor by counts, where a DRA driver offers those of others."""
    plugins = [pod for pod in view.listed("draplugins") or [] if "gpus" in pod["containers"]]
    if view.listed("resourceslices") is None or not plugins:
        return
    offered, by_node = view.once(claimed_pools.pools), {str(pod.get("node") or ""): pod for pod in plugins}
    for node, row in view.rows.items():
        has_devices = node in offered and offered[node].devices
        if row.get("left_out") or has_devices or any((row.get("allocatable") or {}).values()):
            continue
        pod = by_node.get(node)
        state = "has no pod on the node" if pod is None else _STATES["gpus" in pod["ready"]]
        about = f"pod {objects.full_name(pod)}" if pod else ""
        yield Sighting(node, about, fact(f"The DRA driver {state}", "pods", node), "certain", {"state": state})


_STATES = {
    True: "has a pod on the node, whose container gpus is ready",
    False: "has a pod on the node, whose container gpus is not ready",
}


def _without_plugin(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes with claims whose driver has no container there that is ready."""
    plugins = view.listed("draplugins")
    if plugins is None:
        return
    ready = {(str(pod.get("node")), name) for pod in plugins for name in pod["ready"]}
    lost: dict[tuple[str, str], list[str]] = {}
    for held in view.once(claimed_pools.held):
        container = _PLUGIN_OF.get(held.driver)
        if container and held.claim.users and held.node and (held.node, container) not in ready:
            lost.setdefault((held.node, held.driver), []).append(held.name)
    for (node, driver), claims in sorted(lost.items()):
        text = f"allocated and in use: {first_few(sorted(claims))}"
        values = {"driver": driver, "container": _PLUGIN_OF[driver]}
        yield Sighting(node, "", fact(text, "ResourceClaims", node), "certain", values)


def _mig_missing(view: View) -> t.Iterator[Sighting]:
    """Yield the profiles of which a node's labels count more instances than its slices have."""
    for node, pool in view.once(claimed_pools.pools).items():
        if pool.is_divided:
            continue
        for key, value in sorted(objects.labels_of(view.nodes.get(node) or {"metadata": {}}).items()):
            found = _MIG_LABEL.match(key)
            wanted = int(value) if found and value.isdigit() else 0
            seen = sum(each.profile == found["profile"] for each in pool.devices) if found else 0
            if found and wanted > seen:
                text = f"{key}={value}, and {seen} in the ResourceSlices"
                values = {"profile": found["profile"], "wanted": str(wanted), "seen": str(seen)}
                yield Sighting(node, "", fact(text, "labels of the node", node), "likely", values)


def _gpus_missing(view: View) -> t.Iterator[Sighting]:
    for node, pool in view.once(claimed_pools.pools).items():
        of_host = len(view.facts(node).get("gpus") or [])
        wanted = of_host or int((view.rows.get(node) or {}).get("gpus") or 0)
        if not pool.missing and pool.gpus and pool.gpus < wanted:
            whose = "its host" if of_host else "its labels"
            text = f"{pool.gpus} GPUs in the ResourceSlices, and {wanted} by {whose}"
            values = {"wanted": str(wanted), "seen": str(pool.gpus), "whose": whose}
            yield Sighting(node, "", fact(text, claimed_pools.SOURCE, node), "likely", values)


RULES = (
    Rule(
        code="ResourcePoolIncomplete",
        title="The ResourceSlices of a node are not complete",
        severity="warning",
        cause="The pool {pool} is {how}. The scheduler takes no device of a pool that is not complete, until its "
        "plugin has published all slices of one generation.",
        remedy="Read the log of the plugin's pod on that node (container gpus) for errors about ResourceSlices, and "
        "compare spec.pool.resourceSliceCount with the slices of the newest generation (kubectl get resourceslices -o "
        "yaml).",
        sources=(
            "https://github.com/kubernetes/kubernetes/tree/v1.36.3/staging/src/k8s.io/dynamic-resource-allocation/structured",
            _DOCS,
        ),
        check=_incomplete,
        patterns=(_POOL,),
        explains=frozenset({"PoolIncomplete"}),
    ),
    Rule(
        code="GPUsOfferedTwice",
        title="The device plugin and the DRA driver offer the same GPUs",
        severity="warning",
        cause="The node offers its GPUs as nvidia.com resources and as devices for claims. The scheduler knows nothing "
        "of the one when it gives out the other, so a pod may get a GPU that another pod has.",
        remedy="Offer the GPUs of a node in one way. Turn the device plugin off there (devicePlugin.enabled: false in "
        "operator_values, or the node's label nvidia.com/gpu.deploy.device-plugin=false) after its pods have ended, or "
        "set resources.gpus.enabled=false in the values of the DRA driver's chart, which leaves ComputeDomains.",
        sources=(
            f"{_DRA}tree/95932046/deployments/helm/dra-driver-nvidia-gpu/templates/validation.yaml",
            "https://github.com/NVIDIA/aicr/pull/332",
        ),
        check=_twice,
        explains=frozenset({"OfferedTwice"}),
    ),
    Rule(
        code="DRADevicesLost",
        title="The DRA driver has lost a GPU, and offers no device of the node",
        severity="failure",
        cause="NVML said that a GPU is lost. The DRA driver cannot tell which one, and taints all devices of the node, "
        "so that no new claim gets one. Pods that run keep theirs.",
        remedy="Run nvidia-smi on the node, and look for Xid 79 in journalctl -k. Drain the node and reboot it. The "
        "taints stay until the plugin's pod starts again.",
        sources=(
            f"{_SITE}guides/gpu-health-checking.md",
            f"{_DRA}tree/95932046/cmd/gpu-kubelet-plugin/device_health.go",
        ),
        check=_lost,
        explains=frozenset({"DevicesTainted"}),
    ),
    Rule(
        code="NodeOffersNoDevices",
        title="A node with GPUs offers none for claims",
        severity="failure",
        cause="The DRA driver has its pod on the node, the container gpus {state}, and there are no devices of the "
        "node in ResourceSlices.",
        remedy="Read the log of the container gpus. If it runs without an error, look at nvidia-smi -L on the node: a "
        "GPU "
        f"with MIG mode on and no instances offers nothing. {_RESTART}.",
        sources=(_INSTALL, f"{_SITE}guides/gpu-allocation/mig.md"),
        check=_without_devices,
        explains=frozenset({"NoAllocatableGPUs", "NoDevices"}),
    ),
    Rule(
        code="ClaimsWithoutPlugin",
        title="Pods use claims on a node whose DRA driver does not run",
        severity="failure",
        cause="Claims have devices of {driver} on the node, and its container {container} is not ready there. No pod "
        "with such a claim can start, and none can end: they stay in Terminating, and the claims stay allocated.",
        remedy="Bring the plugin back before anything else: kubectl get pods -A -o wide shows its pod, or that the "
        "node's labels and taints keep it away. Then the pods end by themselves.",
        sources=("https://github.com/NVIDIA/gpu-operator/pull/2571", f"{_DRA}issues/725"),
        check=_without_plugin,
        explains=frozenset({"DRAPluginNotRegistered", "ClaimNotUnprepared", "ClaimsNotReleased"}),
    ),
    Rule(
        code="MIGInstancesNotOffered",
        title="MIG instances are missing from the ResourceSlices",
        severity="warning",
        cause="The node has {wanted} MIG instances {profile} by its labels, and its ResourceSlices have {seen}: the "
        "instances were made after the plugin started.",
        remedy=f"Compare nvidia-smi -L on the node with kubectl get resourceslices -o yaml. {_RESTART}. The module "
        "gpuops.nvidia.mig_slices does both, and proves the new slices.",
        sources=(f"{_SITE}guides/gpu-allocation/mig.md",),
        check=_mig_missing,
        explains=frozenset({"GPUsNotOffered"}),
    ),
    Rule(
        code="GPUsNotOffered",
        title="GPUs are missing from the ResourceSlices",
        severity="warning",
        cause="The node has {wanted} GPUs by {whose}, and its ResourceSlices know {seen}. A GPU with MIG mode on "
        "and no instances is in none, and neither is one that did not answer when the plugin started.",
        remedy=f"Run nvidia-smi -L on the node: it lists the GPUs and their instances. {_RESTART}.",
        sources=(f"{_SITE}guides/gpu-allocation/mig.md", f"{_DRA}tree/95932046/cmd/gpu-kubelet-plugin/nvlib.go"),
        check=_gpus_missing,
    ),
)
