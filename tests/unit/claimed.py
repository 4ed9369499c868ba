# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceSlices, claims and pods of the DRA driver, as the diagnosis keeps them."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NODE = "gpu-0000"


def device(number: int, **attributes: str) -> Json:
    """Return a GPU as a device of a ResourceSlice. Further attributes are added."""
    texts = {"type": "gpu", "uuid": f"GPU-{number}", "resource.kubernetes.io/pciBusID": f"0000:{number:02x}:00.0"}
    given = {**texts, **attributes}
    return {"name": f"gpu-{number}", "attributes": {key: {"string": text} for key, text in given.items()}}


def mig(number: int, profile: str) -> Json:
    """Return a MIG instance on the GPU 0."""
    return device(number, type="mig", uuid=f"MIG-{number}", parentUUID="GPU-0", profile=profile)


def resource_slice(*devices: Json, node: str = NODE, generation: int = 1, count: int = 1) -> Json:
    """Return one of the ``count`` slices of a generation of a node."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": f"{node}-gpu.nvidia.com"}, "spec": spec}


def claim(name: str = "gpu", driver: str = "gpu.nvidia.com", node: str = NODE, **given: t.Any) -> Json:
    """Return a claim of a pod that has a device. ``deleted`` is when it was deleted."""
    result = {"request": "gpu", "driver": driver, "pool": node, "device": "gpu-0"}
    result |= {"adminAccess": True} if given.get("admin") else {}
    metadata = {"namespace": "team", "name": name, "deletionTimestamp": given.get("deleted")}
    users = [{"resource": "pods", "name": "train"}] if given.get("used", True) else []
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    return {"metadata": metadata, "spec": {"devices": {"requests": []}}, "status": status}


def pending(device_class: str) -> Json:
    """Return a claim without a device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
    spec = {"devices": {"requests": [request]}}
    return {"metadata": {"namespace": "team", "name": "waits"}, "spec": spec, "status": {"reservedFor": []}}


def plugin(node: str = NODE, ready: t.Iterable[str] = ("gpus", "compute-domains")) -> Json:
    """Return a pod of the DRA driver in short."""
    metadata = {"namespace": "dra", "name": f"nvidia-dra-driver-gpu-kubelet-plugin-{node}"}
    return {"metadata": metadata, "node": node, "containers": ["compute-domains", "gpus"], "ready": sorted(ready)}


def domain(*nodes: tuple[str, str], deleted: str | None = None) -> Json:
    """Return a ComputeDomain with the status of each of its nodes."""
    status = {"status": "NotReady", "nodes": [{"name": name, "status": state} for name, state in nodes]}
    metadata = {"namespace": "team", "name": "job", "deletionTimestamp": deleted}
    return {"metadata": metadata, "spec": {}, "status": status}
