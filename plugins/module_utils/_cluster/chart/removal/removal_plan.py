# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a removal takes away, what it leaves, and why. Pure."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import node_cleanup
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.removal_view import (
    CUSTOM_RESOURCES,
    RemovalView,
    is_operand,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import handover, ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Leftover = t.Literal["labels", "taints", "nfd", "crds", "namespace"]
LEFTOVERS: tuple[Leftover, ...] = ("labels", "taints", "nfd", "crds", "namespace")
"""What is removed on request only."""
EVERY_LEFTOVER = "all"
"""The word for every leftover."""


def wanted_of(words: t.Sequence[str]) -> t.Sequence[str]:
    """Return the leftovers that a request names."""
    return LEFTOVERS if EVERY_LEFTOVER in words else words


_GROUPS = (f".{names.CLUSTERPOLICY_API.partition('/')[0]}", f".resource.{names.CLUSTERPOLICY_API.partition('/')[0]}")
_CLAIMS_GROUP = _GROUPS[1]
"""The group of ComputeDomains, which NVIDIA's DRA driver also serves without the operator."""
_OPERATORS_CRDS = ("clusterpolicies", "nvidiadrivers", "gpuclusters", "computedomains", "computedomaincliques")
PRODUCED = ("NodeFeature",)
"""Kinds whose objects a program creates again at each start, so that they may be deleted."""
_PROTECTED = ("default", "kube-")
_GOES_WITH_THE_NAMESPACE = ("Secret ", "ConfigMap ", "Lease ")
_DISCOVERY_IMAGES = ("gpu-feature-discovery", "k8s-device-plugin")
"""Images of the programs that set the labels of GPU Feature Discovery."""


@dataclasses.dataclass(frozen=True)
class LeftObject:
    """Something that a removal leaves: what it is, with names, why, and how it goes."""

    what: str
    names: t.Sequence[str]
    reason: str
    remedy: str = ""

    def as_result(self) -> Json:
        """Return the part of a module's result."""
        return {**dataclasses.asdict(self), "names": list(self.names)}

    def __str__(self) -> str:
        return f"{self.what} ({first_few(self.names)}): {self.reason} {self.remedy}".rstrip()


# ---- custom resources and operands --------------------------------------------------------------------------------


def custom_resources(sight: RemovalView) -> tuple[list[tuple[str, str]], list[LeftObject]]:
    """Return the custom resources that go, as kind and name in the order of removal, and those that stay.

    While another operator runs, only what Helm's marks give to this release is known to be ours.
    """
    others = sight.other_operators
    gone, left = [], []
    for kind in CUSTOM_RESOURCES:
        for item in sight.custom.get(kind, ()):
            reason = _foreign(sight, item, others)
            if reason:
                left.append(LeftObject(kind, [objects.name_of(item)], reason, "Remove it with its own release."))
            else:
                gone.append((kind, objects.name_of(item)))
    installed = [(item, owner) for item, owner in sight.owners if not owner.is_release(sight.scope)]
    left += [
        LeftObject("GPU Operator", [objects.full_name(item)], f"It belongs to {owner.who}.")
        for item, owner in installed
    ]
    return gone, left


def _foreign(sight: RemovalView, item: Json, others: t.Sequence[Json]) -> str:
    """Return why an object with the scope of the cluster may not be ours, or an empty string."""
    if sight.scope.is_others(item):
        return f"It belongs to the release {_release_of(item)}."
    if others and not sight.scope.has(item):
        return f"Another GPU Operator runs in this cluster ({_named(others)}), and may serve it."
    return ""


def _release_of(item: Json) -> str:
    notes = objects.annotations_of(item)
    return f"{notes.get(names.HELM_RELEASE_NAMESPACE, '')}/{notes.get(names.HELM_RELEASE, '')}"


def _named(items: t.Iterable[Json]) -> str:
    return first_few(sorted(map(objects.full_name, items)))


def interrupts(sight: RemovalView, going: t.Sequence[tuple[str, str]]) -> bool:
    """Return whether the removal takes GPUs away from pods: there is a driver, or something that hands out GPUs."""
    return bool(going or sight.operand_daemonsets or orphans(sight.pods))


def orphans(pods: t.Iterable[Json]) -> list[Json]:
    """Return the driver pods without a DaemonSet, which a move to NVIDIADrivers has left behind."""
    return [pod for pod in pods if _is_driver(pod) and not pod["metadata"].get("ownerReferences")]


def _is_driver(pod: Json) -> bool:
    labels = objects.labels_of(pod)
    is_pool = labels.get(names.COMPONENT) == names.DRIVER_COMPONENT
    return is_pool or operands.belongs(operands.DRIVER, labels.get("app", ""))


def waits_for(kind: str, daemonsets: t.Iterable[Json], pods: t.Iterable[Json]) -> list[str]:
    """Return what still runs of a custom resource's operands: its DaemonSets, and pods whose DaemonSet is gone."""
    listed = list(daemonsets)
    mine = [item for item in listed if _owner_kind(item) == kind]
    present = {item["metadata"].get("uid") for item in listed}
    leaving = [pod for pod in pods if _daemonset_of(pod) not in (None, *present)]
    return [
        *(f"DaemonSet {objects.name_of(item)}" for item in mine),
        *(f"Pod {objects.name_of(pod)}" for pod in leaving),
    ]


def _owner_kind(item: Json) -> str | None:
    owners = item["metadata"].get("ownerReferences") or []
    return next((owner.get("kind") for owner in owners if owner.get("kind") in CUSTOM_RESOURCES), None)


def _daemonset_of(pod: Json) -> str | None:
    owners = pod["metadata"].get("ownerReferences") or []
    return next((owner.get("uid") for owner in owners if owner.get("kind") == "DaemonSet"), None)


def in_upgrade(sight: RemovalView, going: t.Sequence[tuple[str, str]]) -> str:
    """Return what a removal cuts off: the driver upgrades of nodes that have begun and not ended."""
    found = [f"{objects.name_of(node)} ({state})" for node in sight.nodes if (state := node_cleanup.in_upgrade(node))]
    if not found or not going:
        return ""
    return (
        f"The driver of {first_few(found)} is being upgraded, and the removal cuts that off. In the end, it lifts the "
        "cordons of the upgrade."
    )


# ---- the release --------------------------------------------------------------------------------------------------


def verdict_on(scope: ReleaseScope, item: Json) -> str:
    """Return why an object of the release's records stays although the release goes, or an empty string."""
    if scope.is_others(item):
        return f"It belongs to the release {_release_of(item)} now."
    if handover.is_kept(item):
        return "Its annotation helm.sh/resource-policy asks to keep it."
    if not scope.has(item):
        return "It does not have Helm's marks, so somebody else has made it."
    return ""


def after_release(sight: RemovalView, going: t.Sequence[tuple[str, str]]) -> RemovalView:
    """Return the cluster as it will be without the release and the custom resources that go."""
    gone = set(going)
    custom = {
        kind: [item for item in items if (kind, objects.name_of(item)) not in gone]
        for kind, items in sight.custom.items()
    }
    kept = [item for item in sight.daemonsets if not sight.scope.has(item) and _stays(item, sight, gone)]
    ours = {item["metadata"].get("uid") for item in sight.daemonsets} - {item["metadata"].get("uid") for item in kept}
    return dataclasses.replace(
        sight,
        custom=custom,
        revisions=(),
        operators=sight.other_operators,
        daemonsets=kept,
        pods=[pod for pod in sight.pods if _daemonset_of(pod) not in ours and not _is_of_release(pod)],
    )


def _stays(daemonset: Json, sight: RemovalView, gone: set[tuple[str, str]]) -> bool:
    inside = daemonset["metadata"].get("namespace") == sight.scope.namespace
    owners = daemonset["metadata"].get("ownerReferences") or []
    owned = any((owner.get("kind"), owner.get("name")) in gone for owner in owners)
    return not (owned or (inside and is_operand(daemonset) and not owners))


def _is_of_release(pod: Json) -> bool:
    """Return whether a pod runs the operator or Node Feature Discovery of the chart, or is an orphan of the driver."""
    labels = objects.labels_of(pod)
    app = labels.get("app.kubernetes.io/name", "")
    return labels.get("app") == names.OPERATOR or app == "node-feature-discovery" or bool(orphans([pod]))


# ---- leftovers ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Leftovers:
    """What goes after the release, and what stays."""

    wishes: node_cleanup.CleanupRequest
    nodes: t.Sequence[node_cleanup.NodeCleanup] = ()
    crds: t.Sequence[str] = ()
    namespace: bool = False
    namespace_label: bool = False
    left: t.Sequence[LeftObject] = ()


def leftovers(
    sight: RemovalView, wanted: t.Collection[str], in_use: t.Mapping[str, int], contents: t.Sequence[str]
) -> Leftovers:
    """Return what goes of the cluster's leftovers. ``sight`` is the cluster without the release.

    ``in_use`` has the number of objects of each CRD, and ``contents`` names what is in the namespace beside what
    Kubernetes itself puts into each.
    """
    wishes, left = _of_nodes(sight, wanted)
    changes = [node_cleanup.change(node, wishes) for node in sight.nodes]
    crds, kept_crds = _of_crds(sight, wanted, in_use)
    goes, kept_namespace = _of_namespace(sight, wanted, contents)
    labels = objects.labels_of(sight.namespace or {"metadata": {}})
    return Leftovers(
        wishes=wishes,
        nodes=[change for change in changes if change.lines],
        crds=crds,
        namespace=goes,
        namespace_label=wishes.labels and names.ADMIN_ACCESS in labels and not goes,
        left=[*left, *kept_crds, *kept_namespace],
    )


def _of_nodes(sight: RemovalView, wanted: t.Collection[str]) -> tuple[node_cleanup.CleanupRequest, list[LeftObject]]:
    left = []
    stack = _nodes_with(sight, node_cleanup.of_the_stack)
    foreign = _others_that_label(sight)
    labels = "labels" in wanted and not foreign
    if stack and not labels:
        left.append(
            LeftObject("labels of the stack", stack, foreign or _unasked("labels"), "" if foreign else _ask("labels"))
        )
    found = _nodes_with(sight, node_cleanup.of_nfd)
    workers = ", ".join(map(str, sight.workers))
    if found and (workers or "nfd" not in wanted):
        reason = (
            f"Node Feature Discovery of another installation sets them ({workers})." if workers else _unasked("nfd")
        )
        left.append(LeftObject("labels of Node Feature Discovery", found, reason, "" if workers else _ask("nfd")))
    kept = sorted({key for node in sight.nodes for key in node_cleanup.of_users(node)})
    if kept:
        remedy = "Remove them with kubectl label if the stack does not come back."
        left.append(LeftObject("labels of users on nodes", kept, "Users have set them.", remedy))
    divided = _nodes_with(sight, node_cleanup.of_layouts)
    if divided:
        reason = "The MIG manager, which could make them whole, goes with the release."
        remedy = "Make them whole before the removal (mig_state: absent), or on the hosts (role mig_partition)."
        left.append(LeftObject("divided GPUs on nodes", divided, reason, remedy))
    wishes = node_cleanup.CleanupRequest(
        labels=labels,
        nfd="nfd" in wanted and not workers,
        taints="taints" in wanted,
        cordons=not sight.operators,
        elsewhere=sight.elsewhere,
    )
    left += _cordoned(sight)
    tainted = [objects.name_of(node) for node in sight.nodes if not wishes.taints and _has_our_taints(node)]
    if tainted:
        left.append(LeftObject("taints of this collection", tainted, _unasked("taints"), _ask("taints")))
    return wishes, left


def _cordoned(sight: RemovalView) -> t.Iterator[LeftObject]:
    """Yield the nodes with a mark of ours that stay cordoned, and for what."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    for node in sight.nodes:
        reason = node_cleanup.stays_cordoned(node, sight.elsewhere)
        if reason:
            found[reason].append(objects.name_of(node))
    for reason, listed in found.items():
        remedy = "End it with node_maintenance, or lift the cordon with kubectl uncordon."
        yield LeftObject("cordoned nodes", listed, f"They are held for {reason}.", remedy)


def _has_our_taints(node: Json) -> bool:
    return bool(node_cleanup.change(node, node_cleanup.CleanupRequest(taints=True)).lines)


def _nodes_with(sight: RemovalView, found_on: t.Callable[[Json], t.Sequence[str]]) -> list[str]:
    return [objects.name_of(node) for node in sight.nodes if found_on(node)]


def _others_that_label(sight: RemovalView) -> str:
    """Return who else sets the stack's labels, as a reason, or an empty string."""
    if sight.operators:
        return f"Another GPU Operator runs in this cluster ({_named(sight.operators)}), and uses them."
    found = [
        item for item in sight.daemonsets if any(word in image for word in _DISCOVERY_IMAGES for image in _images(item))
    ]
    return f"GPU Feature Discovery of another installation sets them ({_named(found)})." if found else ""


def _images(daemonset: Json) -> list[str]:
    spec = ((daemonset.get("spec") or {}).get("template") or {}).get("spec") or {}
    return [str(container.get("image")) for container in spec.get("containers") or []]


def _unasked(word: str) -> str:
    return f"Their removal was not asked for ({word})."


def _ask(word: str) -> str:
    return f"Add {word} to remove (uninstall_remove in the role uninstall), or set it to all."


def is_operators_crd(name: str) -> bool:
    """Return whether the operator's chart brings a CRD."""
    plural, dot, group = name.partition(".")
    return plural in _OPERATORS_CRDS and dot + group in _GROUPS


def is_nfd_crd(name: str) -> bool:
    """Return whether Node Feature Discovery brings a CRD."""
    return name.endswith(f".{nfd.API_GROUP}")


def _of_crds(
    sight: RemovalView, wanted: t.Collection[str], in_use: t.Mapping[str, int]
) -> tuple[list[str], list[LeftObject]]:
    gone: list[str] = []
    kept: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for crd in sight.crds:
        name = objects.name_of(crd)
        if is_operators_crd(name) or is_nfd_crd(name):
            word = "nfd" if is_nfd_crd(name) else "crds"
            reason, remedy = _why_kept(sight, crd, word in wanted, in_use.get(name, 0), word)
            gone += [] if reason else [name]
            if reason:
                kept[(reason, remedy)].append(name)
    return sorted(gone), [LeftObject("CRDs", sorted(found), *key) for key, found in kept.items()]


def applied_crds(sight: RemovalView, gone: t.Container[str], manager: str) -> list[Json]:
    """Return the CRDs that stay and in which a manager has fields, with which Helm 4 would conflict."""
    if sight.operators:
        return []
    mine = (crd for crd in sight.crds if is_operators_crd(objects.name_of(crd)) or is_nfd_crd(objects.name_of(crd)))
    return [crd for crd in mine if objects.name_of(crd) not in gone and ownership.owned_by(crd, manager)]


def _why_kept(sight: RemovalView, crd: Json, is_wanted: bool, count: int, word: str) -> tuple[str, str]:
    """Return why a CRD stays, and the remedy; without a reason it goes."""
    name = objects.name_of(crd)
    if sight.scope.is_others(crd):
        return f"The release {_release_of(crd)} has installed them.", ""
    if is_nfd_crd(name) and sight.workers:
        return f"Node Feature Discovery of another installation uses them ({', '.join(map(str, sight.workers))}).", ""
    if not is_nfd_crd(name) and sight.operators:
        return f"Another GPU Operator runs in this cluster ({_named(sight.operators)}), and uses them.", ""
    if not is_wanted:
        return _unasked(word), _ask(word)
    if count:
        noun = "object" if count == 1 else "objects"
        return f"There are still {count} {noun}, which would go with it.", f"Look at them with kubectl get {name}."
    return "", ""


def _of_namespace(
    sight: RemovalView, wanted: t.Collection[str], contents: t.Sequence[str]
) -> tuple[bool, list[LeftObject]]:
    name = sight.scope.namespace
    if sight.namespace is None:
        return False, []
    foreign = [item for item in contents if not item.startswith(_GOES_WITH_THE_NAMESPACE)]
    if "namespace" not in wanted:
        return False, [LeftObject("namespace", [name], _unasked("namespace"), _ask("namespace"))]
    if name.startswith(_PROTECTED):
        return False, [LeftObject("namespace", [name], "Kubernetes or others use it, too.")]
    if foreign:
        remedy = "Remove these first, if they may go."
        return False, [LeftObject("namespace", [name], f"It also has {first_few(foreign)}.", remedy)]
    return True, []
