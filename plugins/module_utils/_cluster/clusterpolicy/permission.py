# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Permission for a change that interrupts GPU workloads: which pods on which nodes it concerns."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import METADATA_ONLY, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption, mig_managers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask_field
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LISTED = 20
"""How many pods, and how many nodes, a result names before it only counts the rest."""

ALLOW = "set allow_disruption: true (operator_allow_disruption in the role operator)"
"""The second half of every remedy."""


@dataclasses.dataclass(frozen=True)
class Disruption:
    """Changes that interrupt GPU workloads, and the pods that run on the nodes concerned. None means unknown pods."""

    changes: tuple[disruption.Interruption, ...] = ()
    pods: tuple[pods.GpuPod, ...] | None = ()

    @property
    def nodes(self) -> list[str]:
        """The nodes with GPU pods that the changes concern."""
        return sorted({pod.node for pod in self.pods or ()})

    def as_result(self) -> Json:
        """Return the key ``disruption`` of the module's result."""
        named = [f"{pod.namespace}/{pod.name}" for pod in self.pods or ()]
        return {
            "changes": [_described(change) for change in self.changes],
            "pods": named[:LISTED],
            "pods_total": None if self.pods is None else len(named),
            "nodes": self.nodes[:LISTED],
            "nodes_total": len(self.nodes),
        }

    def message(self) -> str:
        """Return one sentence: which fields, which pods, which nodes, and what happens to them. Empty if harmless."""
        fields = first_few(list(dict.fromkeys(change.field for change in self.changes)))
        if self.pods is None:
            return f"Changing {fields} may interrupt GPU pods, and this user may not list pods in all namespaces."
        if not self.pods:
            return ""
        effects = ", and ".join(dict.fromkeys(change.effect for change in self.changes))
        named = first_few([f"{pod.namespace}/{pod.name}" for pod in self.pods])
        return (
            f"Changing {fields} interrupts {_number(len(self.pods), 'GPU pod')} ({named}) "
            f"on {_number(len(self.nodes), 'node')} ({first_few(self.nodes)}): {effects}."
        )


def _described(change: disruption.Interruption) -> Json:
    """Return a change as a result shows it: the values of variables and arguments are nobody's business."""
    fields = dataclasses.asdict(change)
    fields |= {side: mask_field(change.field, fields[side]) for side in ("before", "after")}
    hidden = ("nodes",) if change.driver else ("driver", "nodes")
    return {key: value for key, value in fields.items() if key not in hidden}


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


More = t.Callable[[disruption.Operator], t.Sequence[disruption.Interruption]]
"""Changes outside of the ClusterPolicy, by the operator that acts on them."""


def disruption_of(
    cluster: Cluster,
    namespace: str,
    existing: Json | None,
    after: Json,
    acting: str | None = None,
    image: str | None = None,
    more: More = lambda operator: (),
    assume_held: bool = False,
) -> Disruption:
    """Return what a change of the ClusterPolicy's spec interrupts. The pods are only read if a field that matters
    changes.

    ``acting`` and ``image`` are the version and the image of the operator that will act on the change, if it is not the
    one that runs. ``more`` are changes that come at the same time. ``assume_held`` is for check mode: all nodes will
    keep their driver.
    """

    before = (existing or {}).get("spec") or {}

    def changes(operator: disruption.Operator) -> list[disruption.Interruption]:
        found = disruption.changes(before, after, operator) if existing else []
        return [*found, *(change for change in more(operator) if change not in found)]

    is_new_operator = existing is not None and bool(disruption.line(acting) or image)
    if not (is_new_operator or changes(_ALL_OUTDATED)):
        return Disruption()
    found = changes(_operator(cluster, namespace, acting, image))
    if assume_held and cluster.check_mode:
        found = [change for change in found if change.effect != disruption.EVICTS]
    return _on_nodes(cluster, namespace, found, (before, after)) if found else Disruption()


_ALL_OUTDATED = disruption.Operator(outdated=True, toolkit_outdated=True, managers_outdated=True)


def permit(found: Disruption, allowed: bool, check_mode: bool, warns: bool = False) -> str:
    """Raise if a change interrupts GPU pods, or may do so, without permission. ``warns`` makes a warning of that.

    With permission, check mode returns what is interrupted.
    """
    if not found.message():
        return ""
    if allowed:
        return found.message() if check_mode else ""
    first = "Grant that permission" if found.pods is None else "Drain the nodes first"
    reason: Reason = "Forbidden" if found.pods is None else "Disruption"
    message = f"{found.message()} {first}, or {ALLOW}."
    return _check_refusal.refuse(GpuOpsError(message, reason=reason, disruption=found.as_result()), warns)


def permit_managers(cluster: Cluster, namespace: str, existing: Json, after: Json, allowed: bool) -> None:
    """Raise if MIG managers would divide GPUs in use now that updates go on: what was seen before them is old."""
    before = existing.get("spec") or {}
    found = disruption.changes(before, after, _operator(cluster, namespace, None, None))
    starting = [change for change in found if change.operand == operands.MIG_MANAGER.name]
    permit(_on_nodes(cluster, namespace, starting, (before, after)) if starting else Disruption(), allowed, False)


def permit_removal(running: list[pods.GpuPod] | None, allowed: bool) -> None:
    """Raise if pods that use GPUs would lose their driver, or may do so."""
    if allowed or running == []:
        return
    if running is None:
        raise GpuOpsError(
            "Pods that use GPUs would lose their driver, and this user may not list pods in all namespaces. "
            f"Grant that permission, or {ALLOW}.",
            reason="Forbidden",
        )
    examples = first_few([f"{pod.namespace}/{pod.name}" for pod in running])
    use = "1 running pod uses" if len(running) == 1 else f"{len(running)} running pods use"
    raise GpuOpsError(
        f"{use} a GPU ({examples}) and would lose the driver. Drain the nodes first, or {ALLOW}.",
        reason="Disruption",
        gpu_pods=len(running),
    )


# Reading the cluster


def _operator(cluster: Cluster, namespace: str, acting: str | None, image: str | None) -> disruption.Operator:
    deployments = cluster.list(namespaced("apps/v1", namespace, "deployments")) or []
    deployed = next(filter(operands.is_operator, deployments), None)
    running, running_image = version_of(deployed), _image(deployed)
    is_same, waiting = image is None or image == running_image, _pods_wait(cluster, namespace)
    return disruption.Operator(
        running=running,
        acting=disruption.line(acting) or _version_of_image(image) or (running if is_same else None),
        outdated=operands.DRIVER.name in waiting,
        toolkit_outdated=operands.TOOLKIT.name in waiting,
        managers_outdated=operands.MIG_MANAGER.name in waiting,
        images=(running_image, image) if running_image and image else None,
    )


def _pods_wait(cluster: Cluster, namespace: str) -> set[str]:
    """Return the operands with pods that wait for their replacement."""
    daemonsets = cluster.list(namespaced("apps/v1", namespace, "daemonsets")) or []
    statuses = [(operands.operand_name(item), item.get("status") or {}) for item in daemonsets]
    return {
        str(name)
        for name, status in statuses
        if status.get("updatedNumberScheduled", 0) < status.get("desiredNumberScheduled", 0)
    }


def _image(deployment: Json | None) -> str | None:
    """Return the image of an operator's Deployment."""
    containers = (deployment or {}).get("spec", {}).get("template", {}).get("spec", {}).get("containers")
    return str(containers[0].get("image", "")) if containers else None


def version_of(deployment: Json | None) -> disruption.Version | None:
    """Return the line of an operator, from its image's tag or, with a digest, from the chart's labels."""
    if deployment is None:
        return None
    labels = objects.labels_of(deployment)
    texts = (labels.get("app.kubernetes.io/version"), labels.get("helm.sh/chart"))
    found = (_version_of_image(_image(deployment)), *map(disruption.line, texts))
    return next(filter(None, found), None)


def _version_of_image(image: str | None) -> disruption.Version | None:
    """Return the line of an image's tag. A registry's address looks like a version, too."""
    return disruption.line((image or "").partition("@")[0].rpartition("/")[2].partition(":")[2])


def running_gpu_pods(cluster: Cluster, namespace: str) -> list[pods.GpuPod] | None:
    """Return the pods that use GPUs, or None if this user may not list pods."""
    try:
        return pods.gpu_pods(cluster, namespace)
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return None


def _on_nodes(
    cluster: Cluster, namespace: str, found: list[disruption.Interruption], specs: tuple[Json, Json]
) -> Disruption:
    """Return the GPU pods on nodes that the changes concern, and of the changes those that concern such a node.

    Without such pods, and if this user may not list pods, all changes count. Those that start the MIG managers count
    only with nodes that these would divide.
    """
    running = running_gpu_pods(cluster, namespace)
    used = None if running is None else {pod.node for pod in running}
    changes = mig_managers.narrowed(cluster, namespace, specs, found, used)
    if not changes:
        return Disruption()
    if not used:
        return Disruption(tuple(changes), None if running is None else ())
    listed = cluster.ask("GET", namespaced("v1", None, "nodes"), {"resourceVersion": "0"}, accept=METADATA_ONLY)
    labels = {objects.name_of(node): objects.labels_of(node) for node in listed.get("items") or []}
    concerned = {
        node: [change for change in changes if concerns(change, node, labels[node])] for node in used & labels.keys()
    }
    interrupting = [change for change in changes if any(change in own for own in concerned.values())]
    interrupted = tuple(pod for pod in running or () if concerned.get(pod.node))
    return Disruption(tuple(interrupting or changes), interrupted)


def concerns(change: disruption.Interruption, node: str, labels: t.Mapping[str, str]) -> bool:
    """Return whether a node runs the operand that changes, and whether an upgrade would touch the node.

    The operator labels nodes with the NVIDIADriver that they belong to from v26.7 on.
    """
    if change.driver and labels.get(names.DRIVER_OWNER, change.driver) != change.driver:
        return False
    if change.nodes and node not in change.nodes:
        return False
    deployed = labels.get(names.DEPLOY_PREFIX + change.operand, "false")
    if change.effect == disruption.EVICTS and labels.get(names.UPGRADE_SKIP) == "true":
        return False
    return deployed not in ("false", names.PRE_INSTALLED)
