# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of a small stack that gives its GPUs by claims: a GPUCluster, its operands, ResourceSlices and claims."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_reader import Offered
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import DRA_OPERANDS

from tests.unit.fakes.stack import LONG_AGO, Json, Stack, daemonset, node, operator

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"

GPUCLUSTER: Json = {
    "apiVersion": "nvidia.com/v1alpha1",
    "kind": "GPUCluster",
    "metadata": {"name": "gpu-cluster", "uid": "uid-of-gpu-cluster", "creationTimestamp": LONG_AGO},
    "spec": {"draDriver": {}},
    "status": {
        "namespace": "gpu-operator",
        "state": "ready",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Reconciled",
                "message": "All resources have been successfully reconciled",
            },
            {"type": "Error", "status": "False", "reason": "Ready", "message": ""},
        ],
    },
}

DEPLOYED = DRA_OPERANDS[:2]
"""The operands that a GPUCluster without any block has: the kubelet plugin and the validator."""


def claimed(nodes: int = 2) -> Stack:
    """Return a stack with a GPUCluster in the place of the ClusterPolicy, which is ready once slices are there."""
    found = [claim_node(number) for number in range(nodes)]
    return Stack([], {item.daemonset: daemonset(item, nodes) for item in DEPLOYED}, [operator()], found)


def claim_node(number: int = 0) -> Json:
    """Return a node whose GPUs are claimed."""
    made = node(number)
    labels = made["metadata"]["labels"]
    kept = {key: value for key, value in labels.items() if not key.startswith("nvidia.com/gpu.deploy.")}
    made["metadata"]["labels"] = {**kept, **{item.deploy_label: "true" for item in DRA_OPERANDS}}
    for kind in ("capacity", "allocatable"):
        made["status"][kind] = {"cpu": "64"}
    return made


def gpu(index: int, **attributes: str) -> Json:
    """Return a whole GPU as the driver describes it."""
    known = {"type": "gpu", "uuid": f"GPU-{index}", "productName": "NVIDIA H100 80GB HBM3"}
    known |= {"resource.kubernetes.io/pciBusID": f"0000:{index:02x}:00.0", **attributes}
    return {
        "name": f"gpu-{index}",
        "attributes": {key: {"string": value} for key, value in known.items()},
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def mig(parent: int, start: int, profile: str = "1g.10gb") -> Json:
    """Return a MIG device as the driver describes it."""
    name = f"gpu-{parent}-mig-{profile.replace('.', '')}-19-{start}"
    more = {"type": "mig", "uuid": f"MIG-{parent}-{start}", "profile": profile, "parentUUID": f"GPU-{parent}"}
    return {**gpu(parent, **more), "name": name, "capacity": {"memory": {"value": "9984Mi"}}}


def taint(key: str = "gpu.nvidia.com/xid", value: str = "79", effect: str = "NoSchedule") -> Json:
    """Return a taint of a device."""
    return {"key": key, "value": value, "effect": effect, "timeAdded": LONG_AGO}


def slice_of(number: int, *devices: Json, generation: int = 1, total: int = 1) -> Json:
    """Return a ResourceSlice of a node. Without devices, it has two GPUs."""
    name = f"gpu-{number:04}"
    pool = {"name": name, "generation": generation, "resourceSliceCount": total}
    given = list(devices) or [gpu(0), gpu(1)]
    spec = {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": given}
    return {"metadata": {"name": f"{name}-{generation}-{len(given)}"}, "spec": copy.deepcopy(spec)}


def offered(*slices: Json, rules: t.Sequence[Json] = ()) -> Offered:
    """Return what ResourceSlices offer."""
    return Offered(tuple(device_pools.pools(map(device_pools.part_of, slices), rules)))


def claim(
    name: str,
    node_name: str,
    *devices: str,
    pods: t.Sequence[str] = (),
    admin: bool = False,
    driver: str = "gpu.nvidia.com",
    deleted: str | None = None,
) -> Json:
    """Return a claim that has devices of a node. ``deleted`` is when it was deleted."""
    results = [
        {"driver": driver, "pool": node_name, "device": device, "request": "gpu"}
        | ({"adminAccess": True} if admin else {})
        for device in devices
    ]
    reserved = [{"resource": "pods", "name": pod, "uid": f"uid-of-{pod}"} for pod in pods]
    return {
        "metadata": {"namespace": "default", "name": name} | ({"deletionTimestamp": deleted} if deleted else {}),
        "spec": {"devices": {"requests": []}},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
    }


def pending(device_class: str) -> Json:
    """Return a claim without a device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
    spec = {"devices": {"requests": [request]}}
    return {"metadata": {"namespace": "default", "name": "waits"}, "spec": spec, "status": {"reservedFor": []}}


def plugin(node_name: str = "gpu-0000", ready: t.Iterable[str] = ("gpus", "compute-domains")) -> Json:
    """Return a pod of the DRA driver in short, as the diagnosis keeps it."""
    metadata = {"namespace": "dra", "name": f"nvidia-dra-driver-gpu-kubelet-plugin-{node_name}"}
    return {"metadata": metadata, "node": node_name, "containers": ["compute-domains", "gpus"], "ready": sorted(ready)}


def domain(*nodes: tuple[str, str], deleted: str | None = None) -> Json:
    """Return a ComputeDomain with the status of each of its nodes."""
    status = {"status": "NotReady", "nodes": [{"name": name, "status": state} for name, state in nodes]}
    metadata = {"namespace": "team", "name": "job", "deletionTimestamp": deleted}
    return {"metadata": metadata, "spec": {}, "status": status}


def separate_driver(
    name: str = "nvidia-dra-driver-gpu-kubelet-plugin", image: str = "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.1"
) -> Json:
    """Return the DaemonSet of the driver's own chart, as its release ``dra`` at v25.8.1 has made it."""
    namespace = "nvidia-dra-driver-gpu"
    notes = {"meta.helm.sh/release-name": "dra", "meta.helm.sh/release-namespace": namespace}
    return {
        "metadata": {"namespace": namespace, "name": name, "annotations": notes},
        "spec": {"template": {"spec": {"containers": [{"name": "gpus", "image": image}]}}},
        "status": {"desiredNumberScheduled": 2},
    }
