# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which pods must leave a node, what prevents their eviction, and why they are still there."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from datetime import datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_ready, tolerates
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DEFAULT_GRACE_S = 30
CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
MIRROR_POD = "kubernetes.io/config.mirror"


@dataclasses.dataclass(frozen=True)
class EvictionPermits:
    """What the user permits to happen to pods."""

    force: bool = False
    """Whether pods may go that nobody starts again."""
    delete_emptydir_data: bool = False
    disruption: bool = True
    """Whether any pod may be evicted at all."""


# ---- which pods ---------------------------------------------------------------------------------------------------


def uid_of(pod: Json) -> str:
    """Return a pod's unique ID: a StatefulSet reuses the names of its pods."""
    return str(pod["metadata"]["uid"])


def is_movable(pod: Json) -> bool:
    """Return whether a drain evicts this pod: it is unfinished, and not kept there by a DaemonSet or the kubelet."""
    finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not finished and MIRROR_POD not in annotations_of(pod) and _controller(pod).get("kind") != "DaemonSet"


def is_ending(pod: Json) -> bool:
    """Return whether the deletion of a pod has begun."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def _controller(pod: Json) -> Json:
    return next((owner for owner in pod["metadata"].get("ownerReferences") or [] if owner.get("controller")), {})


def obstacles(pods: t.Iterable[Json], permits: EvictionPermits) -> list[str]:
    """Return why pods must not be evicted unless the user permits it."""
    found = []
    for pod in pods:
        if is_ending(pod):
            continue
        where = f"{full_name(pod)} on {pod['spec']['nodeName']}"
        if not permits.disruption:
            found.append(f"{where} would be evicted (allow_disruption permits it)")
        if not permits.force and not _controller(pod):
            found.append(f"{where} has no controller that would start it again elsewhere (force permits it)")
        volumes = [volume["name"] for volume in pod["spec"].get("volumes") or [] if "emptyDir" in volume]
        if not permits.delete_emptydir_data and volumes:
            found.append(
                f"{where} would lose its emptyDir data in {first_few(volumes)} (delete_emptydir_data permits it)"
            )
    return found


def pods_in_the_way(found: list[str]) -> GpuOpsError:
    """Return the error about obstacles."""
    pods = first_few(found, separator="; ")
    message = f"Pods are in the way: {pods}. Set these options, or delete the pods yourself."
    return GpuOpsError(message, reason="PodsInTheWay")


# ---- what prevents an eviction ------------------------------------------------------------------------------------


def explain_refusal(error: GpuOpsError, namespace: str) -> str | None:
    """Return why the API server refuses an eviction for now, or None if the next look at the pod will show the outcome.

    Raises the error if waiting does not help.
    """
    causes = error.details.get("causes") or []
    if error.reason in ("NotFound", "Conflict") or _is_terminating(causes):
        return None
    if "more than one PodDisruptionBudget" in error.msg:
        return "it has more than one PodDisruptionBudget, and the API server does not evict such a pod"
    if error.reason != "TooManyRequests":
        raise error
    for cause in causes:
        budget = re.match(r"The disruption budget (\S+) (.*)", cause.get("message") or "")
        if budget:
            return f"the PodDisruptionBudget {namespace}/{budget[1]} forbids its eviction: it {one_line(budget[2])}"
    return one_line(error.msg)


def _is_terminating(causes: list[Json]) -> bool:
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


# ---- pods that are still there ------------------------------------------------------------------------------------


def why_left(pod: Json, node: Json | None, refused: str | None, now: float) -> str:
    """Return why a pod is still there at the deadline. ``refused`` is the API's last answer to its eviction."""
    if is_ending(pod):
        return _why_not_ended(pod, node, now)
    if refused:
        return refused
    if any(tolerates(toleration, CORDON_TAINT) for toleration in pod["spec"].get("tolerations") or []):
        return "it tolerates the cordon, so its controller keeps starting it on this node"
    return "it arrived late, and was not evicted in time"


def _why_not_ended(pod: Json, node: Json | None, now: float) -> str:
    metadata = pod["metadata"]
    grace_s = metadata.get("deletionGracePeriodSeconds", DEFAULT_GRACE_S)
    left_s = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp() - now
    if left_s > 0:
        return (
            f"it is terminating, and has {left_s:.0f} s left of its grace period of {grace_s} s: "
            "raise timeout, or set grace_period"
        )
    text = f"it did not terminate within its grace period of {grace_s} s"
    if metadata.get("finalizers"):
        return f"{text}: the finalizers {first_few(metadata['finalizers'])} hold it"
    if node is None or not is_ready(node):
        return f"{text}: its node is not Ready, so no kubelet can end it"
    return f"{text}: check the kubelet of its node"


def given_up(pod: Json, node: Json, now: float, skip_s: int | None) -> str:
    """Return why a drain does not wait for a pod any more, or an empty string.

    The user permits this with ``skip_s``: for how long a pod may outlast its grace period on a node without a kubelet.
    """
    if skip_s is None or is_ready(node) or not is_ending(pod):
        return ""
    over_s = now - datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]).timestamp()
    if over_s < skip_s:
        return ""
    return (
        f"given up {over_s:.0f} s after its grace period, because its node is not Ready: it may still run there, and "
        "ends when the kubelet is back or the node is deleted"
    )


def explain_left(left: t.Mapping[str, str], timeout_s: int) -> str:
    """Return a sentence that says which pods are still on a node, and why."""
    pods = [f"{name} ({why})" for name, why in left.items()]
    return f"After {timeout_s} s these pods are still there: {first_few(pods, separator='; ')}."


def progress(total: int, drained: int, left: t.Mapping[str, t.Mapping[str, str]]) -> str:
    """Return a line about the progress of a drain.

    ``left`` has the pods on each node that is being drained, each with the reason why its eviction is refused, or an
    empty string.
    """
    line = f"{drained}/{total} nodes drained"
    refused = {node: pods for node, pods in left.items() if any(pods.values())}
    node, pods = next(iter((refused or left).items()), ("", {}))
    if not pods:
        return line
    line += f"; {node}: {len(pods)} pod{'s' if len(pods) > 1 else ''} left"
    reasons = [f", {pod}: {why}" for pod, why in pods.items() if why]
    return line + "".join(reasons[:1])
