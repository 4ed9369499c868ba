# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Claims for which the scheduler or the API server finds no devices."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_NOWHERE = pattern(r"\d+ (?:node\(s\) )?cannot allocate all claims", "cannot allocate all claims")
_ELSEWHERE = pattern(
    r"\d+ (?:node\(s\) )?resourceclaim not available on the node", "resourceclaim not available on the node"
)
_NO_CLASS = pattern(r"request [\w./-]+: device class (?P<name>[\w.-]+) does not exist", "does not exist")
_SELECTOR = pattern(
    r"(?:claim|class) (?P<object>[\w./-]+)(?:, request [\w.-]+)?[:,] selector #\d+: CEL (?P<what>compile|runtime) "
    r"error: (?P<why>.{1,200})",
    " error: ",
)
_ADMIN = pattern(
    r"admin access to devices requires the [`'\"]?resource\.kubernetes\.io/admin-access: true",
    "admin access to devices",
)
_NODE_OF_CLAIMS = pattern(
    r"device-plugin GPU requests cannot be scheduled on DRA-only nodes", "cannot be scheduled on dra-only nodes"
)

_SOURCE = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/"
_KUBERNETES = "https://github.com/kubernetes/kubernetes/tree/v1.36.3/"
_SCHEDULER = f"{_KUBERNETES}pkg/scheduler/framework/plugins/dynamicresources"
_DOCS = "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"


def _without_class(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_NO_CLASS):
        yield matches.sighting(hit)
    classes = view.listed("deviceclasses")
    known = {objects.name_of(item) for item in classes or []}
    for claim in view.listed("resourceclaims") or [] if classes is not None else ():
        if (claim.get("status") or {}).get("allocation"):
            continue
        for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or []:
            name = str((request.get("exactly") or request).get("deviceClassName") or "")
            if name and name not in known:
                about = f"claim {objects.full_name(claim)}"
                quote = matches.fact(f"deviceClassName: {name}", about)
                yield Sighting("", about, quote, "certain", {"name": name})


RULES = (
    Rule(
        code="ClaimFitsNowhere",
        title="The scheduler finds no devices for a claim",
        severity="warning",
        cause="On some nodes the scheduler cannot satisfy the claims of the pod: all devices that they select are "
        "given out or have a taint, the selectors match none, or the nodes' ResourceSlices are missing or incomplete.",
        remedy="Run kubectl get resourceslices for what each node offers, kubectl get resourceclaims -A for who holds "
        "it, and compare the DeviceClass and the selectors of the claim with the attributes in the slices.",
        sources=(f"{_SCHEDULER}/dynamicresources.go", _DOCS),
        patterns=(_NOWHERE,),
        certainty="likely",
    ),
    Rule(
        code="ClaimOnOtherNode",
        title="A pod shares a claim that belongs to another node",
        severity="warning",
        cause="The claim is allocated already, to a device that this pod's possible nodes do not have. Pods that share "
        "one claim by its name must run on one node.",
        remedy="Run kubectl get resourceclaim -o yaml for status.allocation, and let the pod's node selector agree "
        "with it. Pods that shall run apart need a ResourceClaimTemplate instead.",
        sources=(f"{_SCHEDULER}/dynamicresources.go", _DOCS),
        patterns=(_ELSEWHERE,),
    ),
    Rule(
        code="DeviceClassMissing",
        title="A claim names a DeviceClass that does not exist",
        severity="failure",
        cause="The claim asks for the DeviceClass {name}, and the cluster has none of this name.",
        remedy="Run kubectl get deviceclasses. The DRA driver brings gpu.nvidia.com and mig.nvidia.com where its GPUs "
        "are on (resources.gpus.enabled), and vfio.gpu.nvidia.com with PassthroughSupport.",
        sources=(f"{_SCHEDULER}/dynamicresources.go", f"{_SOURCE}deployments/helm"),
        check=_without_class,
        patterns=(_NO_CLASS,),
    ),
    Rule(
        code="ClaimSelectorFails",
        title="A CEL expression of a claim or DeviceClass fails",
        severity="failure",
        cause="The selector of {object} has a {what} error: {why}. The scheduler places no pod with it while a device "
        "makes the expression fail.",
        remedy="Compare the expression with the attributes in kubectl get resourceslices -o yaml. An attribute that "
        "some devices lack needs a test before: 'profile' in device.attributes['gpu.nvidia.com'] && ...",
        sources=(f"{_KUBERNETES}staging/src/k8s.io/dynamic-resource-allocation/structured", _DOCS),
        patterns=(_SELECTOR,),
    ),
    Rule(
        code="NamespaceWithoutAdminAccess",
        title="A namespace may not ask for admin access to devices",
        severity="failure",
        cause="A claim with adminAccess is refused, because its namespace has no label "
        "resource.kubernetes.io/admin-access.",
        remedy="If claims of that namespace may see devices that others hold, run kubectl label namespace NAMESPACE "
        "resource.kubernetes.io/admin-access=true. The operator's own namespace needs it with a GPUCluster.",
        sources=(f"{_KUBERNETES}pkg/registry/resource/utils.go", _DOCS),
        patterns=(_ADMIN,),
    ),
    Rule(
        code="SchedulerSeesOnlyClaims",
        title="The scheduler takes the node for one of claims only",
        severity="failure",
        cause="The pod asks for nvidia.com/gpu, and the scheduler KAI knows the GPUs of these nodes from "
        "ResourceSlices only. Some releases say so of nodes that have the device plugin, too.",
        remedy="Let the pod ask by a ResourceClaim, or update KAI. Do not let the device plugin and the DRA driver "
        "offer the same GPUs: they give them out twice.",
        sources=("https://github.com/kai-scheduler/KAI-Scheduler/pull/1177",),
        patterns=(_NODE_OF_CLAIMS,),
    ),
)
