# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Who does not tolerate the taints that nodes are to get: operands, Node Feature Discovery, other DaemonSets, pods."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import DEPLOY_PREFIX
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import OPERATOR_GROUP
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NO_EXECUTE = "NoExecute"

Tolerations = list[Json]
Planned = list[tuple[Json, list[Json]]]
"""Nodes, each with taints that it is to get or to keep."""


@dataclasses.dataclass(frozen=True)
class Guest:
    """Something that runs on nodes and must tolerate their taints, and where its tolerations are set."""

    what: str
    tolerations: Tolerations
    remedy: str
    pod: Json = dataclasses.field(default_factory=dict)
    """The spec of its pods as far as it chooses nodes."""

    def rejects(self, node: Json, taints: list[Json]) -> list[Json]:
        """Return the taints of a node that it runs on and does not tolerate."""
        return untolerated(taints, self.tolerations) if _runs_on(self.pod, node) else []


def untolerated(taints: t.Iterable[Json], tolerations: Tolerations) -> list[Json]:
    """Return the taints that keep a pod with these tolerations away."""
    return [
        taint
        for taint in taints
        if keeps_away(taint) and not any(nodes.tolerates(toleration, taint) for toleration in tolerations)
    ]


def keeps_away(taint: Json) -> bool:
    """Return whether a taint keeps pods away (PreferNoSchedule does not)."""
    return taint["effect"] in ("NoSchedule", NO_EXECUTE)


def _runs_on(pod: Json, node: Json) -> bool:
    """Return whether a DaemonSet's pods may run on a node. The operator's own labels come and go, and do not count."""
    selector = {key: value for key, value in (pod.get("nodeSelector") or {}).items() if DEPLOY_PREFIX not in key}
    affinity = (pod.get("affinity") or {}).get("nodeAffinity")
    return nodes.matches(selector, node) and (not affinity or nodes.fits_affinity(affinity, node))


# ---- the stack ----------------------------------------------------------------------------------------------------


def of_stack(policies: list[Json], gpuclusters: list[Json], drivers: list[Json]) -> list[Guest]:
    """Return the operands of the operator's custom resources. A driver of an NVIDIADriver inherits no tolerations."""
    found = []
    for kind, items in (("ClusterPolicy", policies[:1]), ("GPUCluster", gpuclusters if not policies else [])):
        for item in items:
            listed = operands.tolerations((item.get("spec") or {}).get("daemonsets"))
            where = (
                f"daemonsets.tolerations of {kind} {objects.name_of(item)}, which replaces the default nvidia.com/gpu "
                "and so must also have what it has now"
            )
            found.append(Guest("the operands", listed, where))
    for item in drivers:
        spec = item.get("spec") or {}
        # Source: the operator v26.7.0, manifests/state-driver/0500_daemonset.yaml: the default, and what is listed.
        listed = [*operands.DEFAULT_TOLERATIONS, *(spec.get("tolerations") or [])]
        where = f"spec.tolerations of NVIDIADriver {objects.name_of(item)}, which inherits none of the ClusterPolicy"
        found.append(Guest(f"the driver of NVIDIADriver {objects.name_of(item)}", listed, where, spec))
    return found


def of_daemonsets(daemonsets: list[Json]) -> tuple[list[Guest], list[Guest]]:
    """Return Node Feature Discovery, and all DaemonSets that belong to neither it nor the operator."""
    discovery, others = [], []
    for item in daemonsets:
        if _is_operators(item):
            continue
        pod = item["spec"]["template"]["spec"]
        guest = Guest(f"DaemonSet {objects.full_name(item)}", pod.get("tolerations") or [], "its tolerations", pod)
        if rollouts.is_discovery(item):
            where = "node-feature-discovery.worker.tolerations of the operator's Helm values"
            discovery.append(dataclasses.replace(guest, remedy=where))
        else:
            others.append(guest)
    return discovery, others


def _is_operators(item: Json) -> bool:
    owners = item["metadata"].get("ownerReferences") or []
    return any(str(owner.get("apiVersion")).partition("/")[0] == OPERATOR_GROUP for owner in owners)


def refuse(guests: list[Guest], planned: Planned) -> None:
    """Raise if the stack could not run on a node any more."""
    for guest in guests:
        found = {objects.name_of(node): bad for node, taints in planned if (bad := guest.rejects(node, taints))}
        if found:
            taint = next(iter(found.values()))[0]
            raise GpuOpsError(
                f"{guest.what[0].upper()}{guest.what[1:]} would not tolerate the taint "
                f"{nodes.format_taint(taint)} on {first_few(sorted(found))}, so GPUs would be lost there. Add "
                f"{_toleration(taint)} to {guest.remedy}.",
                reason="NotTolerated",
            )


def _toleration(taint: Json) -> str:
    return f"{{key: {taint['key']}, operator: Exists, effect: {taint['effect']}}}"


def rejecting(guests: list[Guest], planned: Planned) -> list[str]:
    """Return which guests do not tolerate a taint of a node that they run on."""
    return [guest.what for guest in guests if any(guest.rejects(node, taints) for node, taints in planned)]


# ---- pods ---------------------------------------------------------------------------------------------------------


class Displaced(t.NamedTuple):
    """The pods on a node that do not tolerate its new taints, as ``namespace/name``."""

    evicted: list[str]
    """Kubernetes evicts them at once, or after their ``tolerationSeconds``."""
    not_replaced: list[str]
    """Pods with GPUs that stay, and that cannot start again on this node."""


NOBODY = Displaced([], [])


def displaced(pods: list[Json], taints: list[Json], holds_gpus: t.Callable[[Json], bool]) -> Displaced:
    """Return which pods on a node new taints concern."""
    evicted, stranded = [], []
    for pod in pods:
        if _is_evicted(pod, taints):
            evicted.append(objects.full_name(pod))
        elif untolerated(taints, pod["spec"].get("tolerations") or []) and holds_gpus(pod):
            stranded.append(objects.full_name(pod))
    return Displaced(sorted(evicted), sorted(stranded))


def _is_evicted(pod: Json, taints: list[Json]) -> bool:
    """Return whether the taint manager ends a pod: it lacks a toleration, or tolerates the taint only for some
    seconds."""
    lasting = [
        toleration for toleration in pod["spec"].get("tolerations") or [] if toleration.get("tolerationSeconds") is None
    ]
    return bool(untolerated([taint for taint in taints if taint["effect"] == NO_EXECUTE], lasting))
