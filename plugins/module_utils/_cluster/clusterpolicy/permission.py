# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Permission for a change that interrupts GPU workloads: which pods on which nodes it concerns."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import names, objects, operands, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LISTED = 20
"""How many pods, and how many nodes, a result names before it only counts the rest."""

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


@dataclasses.dataclass(frozen=True)
class Disruption:
    """Changes that interrupt GPU workloads, and the pods that run on the nodes concerned. None means unknown pods."""

    changes: tuple[disruption.Change, ...] = ()
    pods: tuple[pods.GpuPod, ...] | None = ()

    @property
    def nodes(self) -> list[str]:
        """The nodes with GPU pods that the changes concern."""
        return sorted({pod.node for pod in self.pods or ()})

    def as_result(self) -> Json:
        """Return the key ``disruption`` of the module's result."""
        named = [f"{pod.namespace}/{pod.name}" for pod in self.pods or ()]
        return {
            "changes": [mask(dataclasses.asdict(change)) for change in self.changes],
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


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def disruption_of(
    cluster: Cluster, options: t.Mapping[str, t.Any], existing: Json | None, predicted: Json
) -> Disruption:
    """Return what a change interrupts. Nothing is read unless a field that matters changes."""
    before, after = (existing or {}).get("spec") or {}, predicted["spec"]
    acting = disruption.version(options["operator_version"])
    worst = disruption.Operator(outdated=True)
    if existing is None or (acting is None and not disruption.changes(before, after, worst)):
        return Disruption()
    found = disruption.changes(before, after, _operator(cluster, options["namespace"], acting))
    return Disruption(tuple(found), _pods_on(cluster, options, found)) if found else Disruption()


def refuse(found: Disruption) -> None:
    """Raise if a change interrupts GPU pods, or if nobody knows whether it does."""
    if found.pods is None:
        message = f"{found.message()} Grant that permission, or set allow_disruption: true."
        raise GpuOpsError(message, reason="Forbidden", disruption=found.as_result())
    if found.pods:
        message = f"{found.message()} Drain the nodes first, or set allow_disruption: true."
        raise GpuOpsError(message, reason="Disruption", disruption=found.as_result())


# Reading the cluster


def _operator(cluster: Cluster, namespace: str, acting: disruption.Version | None) -> disruption.Operator:
    deployments = cluster.list(namespaced("apps/v1", namespace, "deployments")) or []
    running = next((_version(item) for item in deployments if operands.is_operator(item)), None)
    daemonsets = cluster.list(namespaced("apps/v1", namespace, "daemonsets")) or []
    drivers = [item.get("status") or {} for item in daemonsets if operands.operand_name(item) == operands.DRIVER.name]
    outdated = any(item.get("updatedNumberScheduled", 0) < item.get("desiredNumberScheduled", 0) for item in drivers)
    return disruption.Operator(running, acting or running, outdated)


def _version(deployment: Json) -> disruption.Version | None:
    """Return the line of an operator, from its image's tag or, with a digest, from the chart's labels."""
    containers = (deployment["spec"]["template"].get("spec") or {}).get("containers") or [{}]
    image = str(containers[0].get("image", ""))
    tag = "" if "@" in image else image.rpartition("/")[2].rpartition(":")[2]
    labels = objects.labels_of(deployment)
    texts = (tag, labels.get("app.kubernetes.io/version"), labels.get("helm.sh/chart"))
    return next((found for found in map(disruption.version, texts) if found), None)


def running_gpu_pods(cluster: Cluster, namespace: str) -> list[pods.GpuPod] | None:
    """Return the pods that use GPUs, or None if this user may not list pods."""
    try:
        return pods.gpu_pods(cluster, namespace)
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return None


def _pods_on(
    cluster: Cluster, options: t.Mapping[str, t.Any], changes: list[disruption.Change]
) -> tuple[pods.GpuPod, ...] | None:
    """Return the GPU pods on nodes that the changes concern, or None if this user may not list pods."""
    running = running_gpu_pods(cluster, options["namespace"])
    if not running:
        return None if running is None else ()
    listed = cluster.ask("GET", namespaced("v1", None, "nodes"), {"resourceVersion": "0"}, accept=METADATA_ONLY)
    concerned = {
        objects.name_of(node)
        for node in listed.get("items") or []
        if any(concerns(change, objects.labels_of(node)) for change in changes)
    }
    return tuple(pod for pod in running if pod.node in concerned)


def concerns(change: disruption.Change, labels: t.Mapping[str, str]) -> bool:
    """Return whether a node runs the operand that changes, and whether an upgrade would touch the node."""
    deployed = labels.get(names.DEPLOY_PREFIX + change.operand, "false")
    if change.effect == disruption.EVICTS and labels.get(names.UPGRADE_SKIP) == "true":
        return False
    return deployed not in ("false", names.PRE_INSTALLED)
