# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Node maintenance, the pure half: who holds a node, which pods must leave it, what stands in their way, and what to write.

All state is on the node, so that anyone can resume or undo what an interrupted run left. A node may be held for several purposes
at once, and only the last one to go gives it back: a reboot must not put a node into service that somebody else is repairing.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t
from datetime import datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.names import UPGRADE_STATE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.nodes import (
    is_ready,
    matches,
    selector_of,
    tolerates,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MARK = "gpuops.nvidia/maintenance."
"""Beginning of an annotation; a purpose follows. Its value says since when, from which machine and by which run the node is held."""

INITIAL = "gpuops.nvidia/initial-state.unschedulable"
"""Annotation that remembers whether the node was cordoned before the first purpose took it."""

PURPOSE = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
IDLE_UPGRADES = ("", "upgrade-required", "upgrade-done", "upgrade-failed")
"""States of the operator's driver upgrade in which it will not uncordon the node by itself."""

DEFAULT_GRACE_S = 30
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
AT_MOST = 5
"""How many things one message names."""


@dataclasses.dataclass(frozen=True)
class Hold:
    """How a node is held: for which purposes, and whether it was cordoned before the first of them."""

    unschedulable: bool
    purposes: tuple[str, ...]
    initially: bool


def hold_of(node: Json) -> Hold:
    """Read a node's state."""
    notes = node["metadata"].get("annotations") or {}
    purposes = tuple(sorted(key.removeprefix(MARK) for key in notes if key.startswith(MARK)))
    return Hold(bool(node["spec"].get("unschedulable")), purposes, notes.get(INITIAL) == "true")


def take(node: Json, purpose: str, stamp: str) -> Json | None:
    """Return the patch that cordons a node for a purpose, or None when nothing is left to do."""
    hold = hold_of(node)
    if purpose in hold.purposes and hold.unschedulable:
        return None
    annotations = {MARK + purpose: stamp}
    if (
        not hold.purposes or not hold.unschedulable
    ):  # an earlier cordon that was lifted in the meantime is not to come back
        annotations[INITIAL] = "true" if hold.unschedulable else "false"
    return _patch(node, annotations, {"unschedulable": True})


def release(node: Json, purpose: str) -> Json | None:
    """Return the patch that ends a purpose, or None when the node is not held for it. The last one gives the node back as it was."""
    hold = hold_of(node)
    if purpose not in hold.purposes:
        return None
    annotations: dict[str, str | None] = {MARK + purpose: None}
    if hold.purposes != (purpose,):
        return _patch(node, annotations, {})
    return _patch(node, annotations | {INITIAL: None}, {} if hold.initially else {"unschedulable": None})


def _patch(node: Json, annotations: t.Mapping[str, str | None], spec: Json) -> Json:
    """Return a merge patch that holds only for the node as it was read."""
    metadata = {"annotations": dict(annotations), "resourceVersion": node["metadata"].get("resourceVersion")}
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def after(node: Json, patch: Json | None) -> Json:
    """Return as much of a node as a hold is read from, once a patch is applied."""
    changes = {} if patch is None else patch["metadata"]["annotations"]
    notes = (node["metadata"].get("annotations") or {}) | changes
    spec = node["spec"] | ((patch or {}).get("spec") or {})
    return {
        "metadata": {"annotations": {key: value for key, value in notes.items() if value is not None}},
        "spec": spec,
    }


# ---- which nodes ----------------------------------------------------------------------------------------------------------------


def check_options(options: t.Mapping[str, t.Any]) -> None:
    """Raise when an option makes no sense."""
    if not PURPOSE.fullmatch(options["purpose"]):
        raise GpuOpsError(
            "purpose must be at most 40 lower-case letters, digits and dashes, without a dash at either end.",
            reason="Invalid",
        )
    for name, least in (("timeout", 1), ("parallel", 1), ("max_in_maintenance", 1), ("grace_period", 0)):
        if options[name] is not None and options[name] < least:
            raise GpuOpsError(f"{name} must be at least {least}.", reason="Invalid")


def select(nodes: list[Json], options: t.Mapping[str, t.Any]) -> list[Json]:
    """Return the nodes that the options choose. Without a choice it is those that are held for the purpose."""
    if options["nodes"] is not None:
        by_name = {name_of(node): node for node in nodes}
        missing = [name for name in dict.fromkeys(options["nodes"]) if name not in by_name]
        if missing:
            raise GpuOpsError(f"The cluster has no node {some(missing)}. Correct the option nodes.", reason="NotFound")
        return [by_name[name] for name in dict.fromkeys(options["nodes"])]
    if options["node_selector"] is None:
        return [node for node in nodes if options["purpose"] in hold_of(node).purposes]
    selector = selector_of(options["node_selector"])
    chosen = [node for node in nodes if matches(selector, node)]
    if not chosen:
        raise GpuOpsError(f"No node has the labels {selector}. Correct the option node_selector.", reason="NotFound")
    return chosen


def check_nodes(nodes: list[Json], chosen: list[Json], options: t.Mapping[str, t.Any]) -> None:
    """Raise when the chosen nodes may not be taken: somebody else works on one, or there would be too many."""
    if options["state"] == "restored":
        return
    busy = [
        f"{name_of(node)} ({labels_of(node)[UPGRADE_STATE]})"
        for node in chosen
        if labels_of(node).get(UPGRADE_STATE, "") not in IDLE_UPGRADES
    ]
    if busy:
        raise GpuOpsError(
            f"The operator's driver upgrade is at work on {some(busy)}, and would uncordon the node in the midst of the maintenance. "
            "Wait until it has finished, or set driver.upgradePolicy.autoUpgrade to false.",
            reason="DriverUpgrade",
        )
    held = {name_of(node) for node in nodes if hold_of(node).purposes}
    more = {name_of(node) for node in chosen} - held
    limit = options["max_in_maintenance"]
    if limit is not None and more and len(held) + len(more) > limit:
        there = f"; {len(held)} of them already are ({some(sorted(held))})" if held else ""
        raise GpuOpsError(
            f"{len(held) + len(more)} nodes would be in maintenance at once{there}, and max_in_maintenance is {limit}. "
            "Choose fewer nodes, or restore others first.",
            reason="TooManyNodes",
        )


# ---- which pods -----------------------------------------------------------------------------------------------------------------


def ref(pod: Json) -> str:
    """Return a pod's namespace and name as people write them."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def uid_of(pod: Json) -> str:
    """Return a pod's unique id: a StatefulSet gives the same name again."""
    return str(pod["metadata"]["uid"])


def is_movable(pod: Json) -> bool:
    """Tell whether a drain is about this pod: it runs, and neither a DaemonSet nor the kubelet itself keeps it on its node."""
    mirror = "kubernetes.io/config.mirror" in (pod["metadata"].get("annotations") or {})
    finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not mirror and not finished and _controller(pod).get("kind") != "DaemonSet"


def is_ending(pod: Json) -> bool:
    """Tell whether a pod has already been told to go."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def _controller(pod: Json) -> Json:
    return next((owner for owner in pod["metadata"].get("ownerReferences") or [] if owner.get("controller")), {})


def obstacles(pods: t.Iterable[Json], options: t.Mapping[str, t.Any]) -> list[str]:
    """Return why pods may not be evicted without a further permission."""
    found = []
    for pod in pods:
        if is_ending(pod):
            continue
        where = f"{ref(pod)} on {pod['spec']['nodeName']}"
        if not options["force"] and not _controller(pod):
            found.append(f"{where} has no controller that would start it again elsewhere (force permits it)")
        volumes = [volume["name"] for volume in pod["spec"].get("volumes") or [] if "emptyDir" in volume]
        if not options["delete_emptydir_data"] and volumes:
            found.append(f"{where} would lose its emptyDir data in {some(volumes)} (delete_emptydir_data permits it)")
    return found


def refuse(found: list[str]) -> GpuOpsError:
    """Return the error about obstacles."""
    return GpuOpsError(
        f"Pods are in the way: {some(found, '; ')}. Permit it, or end these pods yourself.", reason="PodsInTheWay"
    )


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be done with one node."""

    node: Json
    make: t.Callable[[Json], Json | None]
    """Returns the patch for the node's newest version."""
    pods: list[Json]
    """Those that must go; some may be going already."""
    purpose: str
    stamp: str

    @property
    def name(self) -> str:
        """The node's name."""
        return name_of(self.node)

    @property
    def patch(self) -> Json | None:
        """What to change of the node as it was read."""
        return self.make(self.node)

    @property
    def node_after(self) -> Json:
        """As much of the node as a hold is read from, when all is done."""
        return after(self.node, self.patch)

    @property
    def evictions(self) -> list[Json]:
        """The pods that have not been told to go."""
        return [pod for pod in self.pods if not is_ending(pod)]

    @property
    def changed(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.patch or self.evictions)

    def facts(self, done: bool) -> Json:
        """Return one side of a diff."""
        hold = hold_of(self.node_after if done else self.node)
        pods = [] if done else sorted(map(ref, self.evictions))
        return {"unschedulable": hold.unschedulable, "purposes": list(hold.purposes), "pods": pods}

    def is_ours(self, node: Json) -> bool:
        """Tell whether it was this run that took the node."""
        return (node["metadata"].get("annotations") or {}).get(MARK + self.purpose) == self.stamp

    def undo(self, node: Json) -> Json | None:
        """Return the patch that gives the node back, or None where it was not this run that took it."""
        return release(node, self.purpose) if self.is_ours(node) else None


def plan(
    existing: tuple[list[Json], t.Mapping[str, list[Json]]], desired: t.Mapping[str, t.Any], stamp: str
) -> list[Plan]:
    """Compare nodes, and the pods on each that must go, with the options. Raises when a permission is missing."""
    nodes, pods = existing
    purpose = desired["purpose"]
    make = (
        functools.partial(release, purpose=purpose)
        if desired["state"] == "restored"
        else functools.partial(take, purpose=purpose, stamp=stamp)
    )
    plans = [Plan(node, make, pods.get(name_of(node), []), purpose, stamp) for node in nodes]
    found = [text for each in plans for text in obstacles(each.pods, desired)]
    if found:
        raise refuse(found)
    return plans


# ---- what goes wrong ------------------------------------------------------------------------------------------------------------


def judge_refusal(error: GpuOpsError, namespace: str) -> str | None:
    """Say why the API refused an eviction for now; None when the next look at the pod tells. Raises what time does not heal."""
    causes = error.details.get("causes") or []
    if error.reason in ("NotFound", "Conflict") or any(
        cause.get("reason") == "NamespaceTerminating" for cause in causes
    ):
        return None
    if "more than one PodDisruptionBudget" in error.msg:
        return "it has more than one PodDisruptionBudget, with which the API server evicts no pod"
    if error.reason != "TooManyRequests":
        raise error
    for cause in causes:
        said = re.match(r"The disruption budget (\S+) (.*)", cause.get("message") or "")
        if said:
            return f"the PodDisruptionBudget {namespace}/{said[1]} forbids its eviction: it {said[2].rstrip('.')}"
    return error.msg.rstrip(".")


def why_left(pod: Json, node: Json | None, refused: str | None, now: float) -> str:
    """Say why a pod is still there at the deadline. ``refused`` is the API's last answer to its eviction."""
    meta = pod["metadata"]
    if not is_ending(pod):
        if refused:
            return refused
        tolerated = any(tolerates(toleration, CORDON) for toleration in pod["spec"].get("tolerations") or [])
        return (
            "it tolerates the cordon, so its controller starts it here again and again"
            if tolerated
            else "it came late, and was not evicted in time"
        )
    grace_s = meta.get("deletionGracePeriodSeconds", DEFAULT_GRACE_S)
    over_s = now - datetime.fromisoformat(meta["deletionTimestamp"]).timestamp()
    if over_s < 0:
        return f"it was told to go, and may take {-over_s:.0f} s more of its grace period of {grace_s} s: raise timeout, or set grace_period"
    text = f"it was told to go, and did not within its grace period of {grace_s} s"
    if meta.get("finalizers"):
        return f"{text}: the finalizers {some(meta['finalizers'])} hold it"
    if node is None or not is_ready(node):
        return f"{text}: its node is not Ready, so no kubelet ends it"
    return f"{text}: look at the kubelet of its node"


def some(items: t.Sequence[str], separator: str = ", ") -> str:
    """Name the first few things, and how many more there are."""
    more = f"{separator}and {len(items) - AT_MOST} more" if len(items) > AT_MOST else ""
    return separator.join(items[:AT_MOST]) + more


def explain_left(left: t.Mapping[str, str], timeout_s: int) -> str:
    """Say which pods are still on a node."""
    return f"After {timeout_s} s these pods are still there: {some([f'{name} ({why})' for name, why in left.items()], '; ')}."


def progress(total: int, drained: int, left: t.Mapping[str, t.Mapping[str, str]]) -> str:
    """Say in a line how far a drain is. ``left`` has for each node at work its pods, with why an eviction was refused or an empty string."""
    line = f"{drained}/{total} nodes drained"
    held = {node: pods for node, pods in left.items() if any(pods.values())}
    node, pods = next(iter((held or left).items()), ("", {}))
    if not pods:
        return line
    line += f"; {node}: {len(pods)} pod{'s' if len(pods) > 1 else ''} left"
    return line + "".join([f", {pod}: {why}" for pod, why in pods.items() if why][:1])
