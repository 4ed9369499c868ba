# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceSlices with the attributes that NVIDIA's driver writes, and claims, pods and classes around them."""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]

DRIVER = "gpu.nvidia.com"


def device(number: int, memory: str = "81559Mi", product: str = "NVIDIA H100 80GB HBM3", **more: t.Any) -> Json:
    """Return a whole GPU."""
    attributes = {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{number}"}, "productName": {"string": product}}
    attributes |= {"architecture": {"string": "Hopper"}, "driverVersion": {"version": "580.95.5"}}
    attributes |= {"resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"}}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}


def resource_slice(node: str, *devices: Json, generation: int = 1, count: int = 1, **more: t.Any) -> Json:
    """Return a slice with devices of a node."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices), **more}
    return {"metadata": {"name": f"{node}-{generation}"}, "spec": spec}


def claim(name: str, *devices: tuple[str, str], class_name: str = DRIVER, namespace: str = "research") -> Json:
    """Return a claim that has the devices of these pools and names."""
    results = [{"driver": DRIVER, "pool": pool, "device": name, "request": "gpu"} for pool, name in devices]
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": class_name}}]}},
        "status": {"allocation": {"devices": {"results": results}}} if results else {},
    }


def pod(name: str, namespace: str = "research", template: str = "", phase: str = "Running", **spec: t.Any) -> Json:
    """Return a pod, whose claim may come from a template."""
    asked = [{"name": "gpus", "resourceClaimTemplateName": template}] if template else []
    made = {"containers": [], "resourceClaims": asked, **spec}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": made, "status": {"phase": phase}}
