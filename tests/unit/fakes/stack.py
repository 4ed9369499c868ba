# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of a small GPU stack that is ready. Each test breaks it in one way."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import OPERANDS, Operand

Json = dict[str, t.Any]
NAMESPACE = "gpu-operator"
LONG_AGO = "2026-01-01T00:00:00Z"
NOW = 1_800_000_000.0
"""A year later, in seconds since the epoch."""

DEPLOYED = tuple(operand for operand in OPERANDS if operand.default)
COMPONENT_LABELS = {operand.name: f"nvidia.com/gpu.deploy.{operand.name}" for operand in OPERANDS}


def policy(name: str = "cluster-policy", **spec: t.Any) -> Json:
    """Return a ClusterPolicy that the operator reports as ready."""
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": LONG_AGO, "managedFields": []},
        "spec": {operand.key: {} for operand in DEPLOYED} | spec,
        "status": {
            "state": "ready",
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Reconciled", "lastTransitionTime": LONG_AGO},
                {"type": "Error", "status": "False", "reason": "Ready", "lastTransitionTime": LONG_AGO},
            ],
        },
    }


def node(number: int = 0) -> Json:
    """Return a node with eight H100s that the operator has labelled."""
    return {
        "metadata": {
            "name": f"gpu-{number:04}",
            "labels": {
                "feature.node.kubernetes.io/pci-10de.present": "true",
                "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
                "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "nvidia.com/gpu.count": "8",
                "nvidia.com/gpu.memory": "81559",
                "nvidia.com/cuda.driver-version.full": "595.91.07",
                "nvidia.com/mig.capable": "true",
                "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
                **dict.fromkeys(COMPONENT_LABELS.values(), "true"),
            },
        },
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "kernelVersion": "6.8.0-31-generic",
                "containerRuntimeVersion": "containerd://2.1.4",
                "osImage": "Ubuntu 24.04 LTS",
            },
            "capacity": {"cpu": "64", "nvidia.com/gpu": "8"},
            "allocatable": {"cpu": "64", "nvidia.com/gpu": "8"},
        },
    }


def cpu_node() -> Json:
    """Return a node without a GPU."""
    made = node()
    made["metadata"] = {"name": "cpu-0000", "labels": {"feature.node.kubernetes.io/cpu-model.vendor_id": "Intel"}}
    made["status"]["capacity"] = made["status"]["allocatable"] = {"cpu": "64"}
    return made


def daemonset(operand: Operand, nodes: int, image: str = "") -> Json:
    """Return an operand's DaemonSet that is rolled out to this many nodes."""
    return {
        "metadata": {"name": operand.daemonset, "generation": 1, "ownerReferences": [{"uid": "uid-of-cluster-policy"}]},
        "spec": {
            "updateStrategy": {"type": "OnDelete" if operand.key == "driver" else "RollingUpdate"},
            "template": {
                "spec": {
                    "nodeSelector": {operand.deploy_label: "true"},
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [{"name": operand.container, "image": image or f"nvcr.io/nvidia/{operand.name}:1.0"}],
                }
            },
        },
        "status": {"observedGeneration": 1} | progress(nodes, nodes, nodes, nodes),
    }


def progress(desired: int, current: int, updated: int, available: int) -> Json:
    """Return the counters of a DaemonSet's status."""
    return {
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": current,
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
    }


def operator(available: int = 1) -> Json:
    """Return the operator's Deployment."""
    return {
        "metadata": {"name": "gpu-operator", "generation": 1},
        "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "gpu-operator"}}}},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": available},
    }


def pod(daemonset: Json, number: int = 0, **status: t.Any) -> Json:
    """Return a pod of a DaemonSet, on the node with this number."""
    return {
        "metadata": {
            "name": f"{daemonset['metadata']['name']}-abcd{number}",
            "namespace": NAMESPACE,
            "creationTimestamp": LONG_AGO,
            "labels": {"controller-revision-hash": "newest"},
        },
        "spec": copy.deepcopy(daemonset["spec"]["template"]["spec"]) | {"nodeName": f"gpu-{number:04}"},
        "status": status,
    }


class Stack(t.NamedTuple):
    """Everything that the judge reads."""

    policies: list[Json]
    daemonsets: dict[str, Json]
    operators: list[Json]
    nodes: list[Json]


def ready(nodes: int = 2, **spec: t.Any) -> Stack:
    """Return a stack that is ready."""
    return Stack(
        [policy(**spec)],
        {item.daemonset: daemonset(item, nodes) for item in DEPLOYED},
        [operator()],
        [node(number) for number in range(nodes)],
    )


def workload(name: str, number: int = 0, gpus: int = 1, controller: str = "ReplicaSet", **metadata: t.Any) -> Json:
    """Return a user's pod on a node, with a controller that would start it again."""
    owners = [{"kind": controller, "name": name, "controller": True}] if controller else []
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-of-{name}",
            "ownerReferences": owners,
            **metadata,
        },
        "spec": {
            "nodeName": f"gpu-{number:04}",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}}}],
        },
        "status": {"phase": "Running"},
    }
