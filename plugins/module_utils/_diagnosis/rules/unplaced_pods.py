# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Pods that ask for a GPU in vain: who cannot be placed, who waits, and whom the kubelet refuses."""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes, objects, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Certainty, Quote, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_SCHEDULER = "https://kubernetes.io/docs/concepts/scheduling-eviction/"

# What the scheduler says

_UNAVAILABLE = pattern(r"\b0/\d+ nodes are available: (?P<why>.+?)(?:\. preemption: |\.$|\.?$)", "nodes are available:")
_NO_GPU_LEFT = pattern(
    r"No nodes with enough resources were found: \d+ node\(s\) didn't have enough resources: GPUs",
    "didn't have enough resources",
)
"""How the scheduler KAI says it. Source: kai-scheduler/KAI-Scheduler issue 39."""
_PARTS = re.compile(r"(?P<count>\d+) (?P<what>(?:node\(s\) |Insufficient |Too many |Preemption ).*?)(?=, \d+ |$)")
_CONTROL_PLANE = "node-role.kubernetes.io/"
_OTHER_RESOURCE = re.compile(r"Insufficient (?!nvidia\.com/)(\S+)")
_POD_RULES = ("didn't match pod affinity rules", "didn't match pod anti-affinity rules", "topology spread constraints")


def _parts(message: str) -> collections.Counter[str]:
    """Return how many nodes the scheduler turned down for which reason, without the control plane's taint."""
    found = _UNAVAILABLE.regex.search(message)
    parts = _PARTS.finditer(found["why"] if found else "")
    return collections.Counter(
        {part["what"].rstrip("."): int(part["count"]) for part in parts if _CONTROL_PLANE not in part["what"]}
    )


def _message(pod: Json) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or []
    found = [item.get("message") or "" for item in conditions if item.get("type") == "PodScheduled"]
    return str(found[0]) if found else ""


# Why one pod has no node


@dataclasses.dataclass(frozen=True)
class _Cause:
    """The code of the rule that applies to a pod, and the values of its blanks."""

    code: str
    values: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    certainty: Certainty = "certain"


def _cause_of(pod: Json, all_nodes: list[Json]) -> _Cause | None:
    """Return why a pod that asks for GPUs has no node, by the scheduler's rules. Of several causes, the first."""
    spec, message = pod["spec"], _message(pod)
    wanted = pods.requested_gpus(spec)
    if not wanted:
        return None
    if spec.get("schedulingGates"):
        gates = ", ".join(sorted(str(gate["name"]) for gate in spec["schedulingGates"]))
        return _Cause("PodGated", {"gates": gates})
    offering = [node for node in all_nodes if nodes.has_allocatable_gpus(node)]
    if not offering:
        return _Cause("PodWaitsForStack")
    return _by_size(wanted, offering) or _by_place(spec, wanted, offering) or _by_message(wanted, message)


def _by_size(wanted: t.Mapping[str, int], offering: list[Json]) -> _Cause | None:
    """Return the cause if no node of the cluster offers such a resource, or so much of it."""
    for resource, number in sorted(wanted.items()):
        most = max(nodes.offered(node, resource) for node in offering)
        if not most:
            offered = sorted({name for node in offering for name in _offers(node)})
            return _Cause("PodAsksUnknownResource", {"resource": resource, "offered": first_few(list(offered))})
        if number > most:
            return _Cause("PodAsksTooManyGPUs", {"resource": resource, "number": str(number), "most": str(most)})
    return None


def _offers(node: Json) -> list[str]:
    return [name for name, number in nodes.gpu_quantities(node, "allocatable").items() if number]


def _by_place(spec: Json, wanted: t.Mapping[str, int], offering: list[Json]) -> _Cause | None:
    """Return the cause if the pod selects or tolerates none of the nodes that have enough."""
    large = [node for node in offering if all(nodes.offered(node, name) >= n for name, n in wanted.items())]
    if not large:
        return _Cause("PodAsksTooManyGPUs", _combination(wanted))
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    chosen = [node for node in large if nodes.matches(spec.get("nodeSelector"), node)]
    chosen = [node for node in chosen if nodes.fits_affinity(affinity, node)]
    if not chosen:
        return _Cause("PodSelectsNoGPUNode", {"selector": _selector(spec)})
    tolerated = [node for node in chosen if not _untolerated(node, spec)]
    if not tolerated:
        return _Cause("PodToleratesNoGPUNode", {"taint": nodes.format_taint(_untolerated(chosen[0], spec)[0])})
    if not any(nodes.is_ready(node) and not nodes.is_cordoned(node) for node in tolerated):
        return _Cause("PodWaitsForNodes", {"count": str(len(tolerated))})
    return None


def _combination(wanted: t.Mapping[str, int]) -> dict[str, str]:
    resource = " and ".join(f"{number} {name}" for name, number in sorted(wanted.items()))
    return {"resource": resource, "number": "all of", "most": "less of one of them"}


_MAINTENANCE = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that stand for a cordon or for a node that is not Ready."""


def _untolerated(node: Json, spec: Json) -> list[Json]:
    tolerations = spec.get("tolerations") or []
    return [
        taint
        for taint in nodes.taints_of(node)
        if taint["key"] not in _MAINTENANCE and not any(nodes.tolerates(each, taint) for each in tolerations)
    ]


def _selector(spec: Json) -> str:
    """Return what a pod demands of its node, in short."""
    demands = [f"{key}={value}" for key, value in sorted((spec.get("nodeSelector") or {}).items())]
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for term in affinity.get("nodeSelectorTerms") or []:
        for item in [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]:
            demands.append(" ".join([item["key"], item["operator"], ",".join(item.get("values") or [])]).strip())
    return "; ".join(demands)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _by_message(wanted: t.Mapping[str, int], message: str) -> _Cause | None:
    """Return the cause for a pod that fits on some node by its GPUs, according to the scheduler."""
    parts = _parts(message)
    other = sorted({found[1] for what in parts if (found := _OTHER_RESOURCE.match(what))})
    if "PersistentVolumeClaim" in message or "volume node affinity conflict" in message:
        return _Cause("PodWaitsForVolume")
    if any(rule in what for what in parts for rule in _POD_RULES):
        return _Cause("PodHeldByPodRules", {}, "likely")
    if other:
        return _Cause("PodLacksOtherResources", {"resources": ", ".join(other)}, "likely")
    if any(f"Insufficient {resource}" in what for resource in wanted for what in parts):
        return _Cause("PodWaitsForGPU", {"resource": " and ".join(sorted(wanted))})
    return None


# Where only the message is known


def _cause_in(message: str) -> _Cause | None:
    """Return the cause that a message of the scheduler shows by itself, if it is about GPUs at all."""
    parts = _parts(message)
    if not parts:
        return None
    gpus = sorted({what.removeprefix("Insufficient ") for what in parts if what.startswith("Insufficient nvidia.com/")})
    taints = [what for what in parts if "had untolerated taint" in what or "had taint {" in what]
    if gpus and any(rule in what for what in parts for rule in _POD_RULES):
        return _Cause("PodHeldByPodRules", {}, "likely")
    if gpus and len(parts) == len(gpus):
        return _Cause("PodWaitsForGPU", {"resource": " and ".join(gpus)}, "possible")
    taint = re.search(r"\{([^}]*)\}", taints[0]) if taints else None
    values = {"taint": taint[1].strip(": ") if taint else ""}
    if len(taints) == len(parts) and any("gpu" in what for what in taints):
        return _Cause("PodToleratesNoGPUNode", values)
    if gpus and len(taints) == 1 and len(parts) == len(gpus) + 1:
        # The other nodes lack GPUs. Whether those with the taint have some, the message does not say.
        return _Cause("PodToleratesNoGPUNode", values, "possible")
    return None


def _found(view: View) -> list[tuple[_Cause, Sighting]]:
    """Return the cause for each pod that waits for a GPU, and for each message about a pod that is not known whole."""
    all_nodes = view.listed("nodes")
    waiting = [pod for pod in view.evidence.pods if _waits(pod)]
    known = {f"pod {objects.full_name(pod)}" for pod in waiting} if all_nodes is not None else set[str]()
    found = []
    for pod in waiting if all_nodes is not None else ():
        cause = _cause_of(pod, all_nodes or [])
        if cause:
            text = _message(pod) or f"asks for {_asked(pod)}"
            name = f"pod {objects.full_name(pod)}"
            quote = Quote(text, f"status of {name}")
            found.append((cause, Sighting("", name, (quote,), cause.certainty, cause.values, name)))
    for hit in view.hits(_UNAVAILABLE):
        alone = None if hit.line.object in known else _cause_in(hit.line.text)
        if alone:
            found.append((alone, _of_line(hit, alone)))
    for hit in view.hits(_NO_GPU_LEFT):
        if hit.line.object not in known:
            cause = _Cause("PodWaitsForGPU", {"resource": "GPUs"}, "possible")
            found.append((cause, _of_line(hit, cause)))
    return found


def _waits(pod: Json) -> bool:
    spec = pod.get("spec") or {}
    return not spec.get("nodeName") and (pod.get("status") or {}).get("phase", "Pending") == "Pending"


def _asked(pod: Json) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(pods.requested_gpus(pod["spec"]).items()))


def _of_line(hit: Hit, cause: _Cause) -> Sighting:
    quote = Quote(hit.line.text, hit.line.source)
    return Sighting("", hit.line.object, (quote,), cause.certainty, cause.values, hit.line.object or "a pod")


def _rule(code: str, title: str, severity: t.Literal["failure", "warning", "ok"], cause: str, remedy: str) -> Rule:
    """Return a rule about pods that wait. All of them share one look at the pods."""

    def check(view: View) -> t.Iterator[Sighting]:
        return (sighting for found, sighting in view.once(_found) if found.code == code)

    sources = (f"{_SCHEDULER}assign-pod-node/", f"{_SCHEDULER}kube-scheduler/")
    return Rule(code, title, severity, cause, remedy, sources, check, (_UNAVAILABLE, _NO_GPU_LEFT))


RULES = (
    _rule(
        "PodAsksUnknownResource",
        "A pod asks for a GPU resource that no node offers",
        "failure",
        "No node offers {resource}, so the pod cannot be placed. The nodes offer {offered}.",
        "Correct the resource in the pod's limits, or offer it. playbooks/mig.yml makes MIG devices: with mig.strategy "
        "mixed they are called nvidia.com/mig-<profile>, with single nvidia.com/gpu. playbooks/sharing.yml makes "
        "nvidia.com/gpu.shared.",
    ),
    _rule(
        "PodAsksTooManyGPUs",
        "A pod asks for more GPUs than any node has",
        "failure",
        "The pod asks for {number} {resource}, and no node has more than {most}, so the pod cannot be placed.",
        "Ask for fewer GPUs in the pod's limits, or spread the work over several pods.",
    ),
    _rule(
        "PodSelectsNoGPUNode",
        "A pod selects no node that has enough GPUs",
        "failure",
        "The pod's nodeSelector or nodeAffinity ({selector}) matches no node with enough GPUs, so the pod can never be "
        "placed.",
        "Correct nodeSelector or nodeAffinity of the pod. `kubectl get nodes -L nvidia.com/gpu.product` shows the "
        "models of the GPUs as labels.",
    ),
    _rule(
        "PodToleratesNoGPUNode",
        "A pod does not tolerate the taint of the GPU nodes",
        "failure",
        "All nodes that the pod could use have the taint {taint}, which it does not tolerate.",
        "Add a toleration for this taint to the pod, or remove the taint with `kubectl taint node <node> <key>-` if "
        "it is no longer needed.",
    ),
    _rule(
        "PodWaitsForNodes",
        "A pod waits for nodes that are cordoned or not Ready",
        "warning",
        "All {count} nodes that the pod could use are cordoned or not Ready.",
        "See them with `kubectl get nodes`. Run `kubectl uncordon <node>` when the maintenance is over, and repair "
        "those that are NotReady.",
    ),
    _rule(
        "PodWaitsForStack",
        "A pod waits until the nodes offer GPUs",
        "warning",
        "No node of the cluster offers GPUs at the moment, so no pod can get one.",
        "Repair the GPU stack first. The other findings name the causes.",
    ),
    _rule(
        "PodHeldByPodRules",
        "A pod must be near another pod, or away from it",
        "warning",
        "The pod has a rule about other pods (podAffinity, podAntiAffinity or topologySpreadConstraints), and no node "
        "with a free GPU fulfils it.",
        "Make the rule a preference (preferredDuringSchedulingIgnoredDuringExecution), or move the pods that it names "
        "to nodes with GPUs, or away from them.",
    ),
    _rule(
        "PodLacksOtherResources",
        "A pod waits for something else than GPUs",
        "warning",
        "The nodes have too little {resources} left for the pod, even if they have free GPUs.",
        "Ask for less {resources} in the pod's requests, or keep pods without GPUs off the GPU nodes with a taint "
        "(scheduling_taints of the role scheduling).",
    ),
    _rule(
        "PodWaitsForVolume",
        "A pod waits for its volume",
        "warning",
        "A volume that the pod needs is not bound, or is bound to other nodes than those with GPUs.",
        "See why with `kubectl describe pvc` in the pod's namespace. If the volume lies where no GPU is, move its data "
        "to a volume whose StorageClass has volumeBindingMode: WaitForFirstConsumer.",
    ),
    _rule(
        "PodGated",
        "A queue holds a pod",
        "ok",
        "The pod has the scheduling gates {gates}. The program that set them, usually a queue, has not let it go yet.",
        "Look at the queue, for example with `kubectl get workloads` for Kueue.",
    ),
    _rule(
        "PodWaitsForGPU",
        "A pod waits for a free GPU",
        "ok",
        "The nodes that the pod could use have no {resource} left at the moment.",
        "Wait, or add nodes. playbooks/report.yml shows which pods hold the GPUs.",
    ),
)

# Pods that the kubelet refuses
