# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What kubelets say of the GPUs that pods hold, in the status of these pods (KEP-4680, on since Kubernetes 1.36).

Pure. Source: Kubernetes 1.36.3, ``ResourceStatus`` in k8s.io/api/core/v1, and who writes it:
``pkg/kubelet/cm/devicemanager/manager.go`` and ``pkg/kubelet/cm/dra/manager.go``.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_gpu_resource
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

HEALTHY, UNHEALTHY, UNKNOWN_HEALTH = "Healthy", "Unhealthy", "Unknown"

_CLAIM = "claim:"
"""The beginning of the name of a device that a pod got by a claim: ``claim:NAME`` or ``claim:NAME/REQUEST``, with the
pod's own name of the claim."""
_CLAIMED_GPU = re.compile(rf"(?:k8s\.)?{re.escape(names.DRA_DRIVER)}/")
"""The beginning of the ID of such a GPU. The API's documentation says ``DRIVER/POOL/DEVICE``. The kubelet writes that
only for devices without a name in CDI, and NVIDIA's driver names all: ``k8s.gpu.nvidia.com/claim=UID-gpu-0``."""


@dataclasses.dataclass(frozen=True)
class ReportedHealth:
    """What a kubelet says of a GPU of a container, if it is not that the GPU is healthy."""

    container: str
    resource: str
    """The resource's name, or ``claim:NAME`` and ``claim:NAME/REQUEST``."""
    device: str
    """The ID of the device: with NVIDIA's device plugin the UUID, with a claim a name in CDI or in a pool."""
    health: str
    """``Unhealthy`` or ``Unknown``."""
    message: str = ""
    """What the driver says of it, which only drivers for claims do."""


def doubted(pod: Json) -> tuple[ReportedHealth, ...]:
    """Return the GPUs of a pod that the kubelet does not call healthy. A kubelet that says nothing doubts none."""
    return tuple(
        ReportedHealth(
            container=container["name"],
            resource=resource["name"],
            device=device["resourceID"],
            health=device.get("health") or UNKNOWN_HEALTH,
            message=device.get("message") or "",
        )
        for container in objects.container_statuses(pod)
        for resource in container.get("allocatedResourcesStatus") or []
        for device in resource.get("resources") or []
        if device.get("health") != HEALTHY and _is_gpu(resource["name"], device["resourceID"])
    )


def _is_gpu(resource: str, device: str) -> bool:
    return bool(_CLAIMED_GPU.match(device)) if resource.startswith(_CLAIM) else is_gpu_resource(resource)


def row_of(namespace: str, pod: str, found: ReportedHealth) -> dict[str, t.Any]:
    """Return a GPU that a kubelet does not call healthy as a row for people, with the pod that holds it."""
    return {"namespace": namespace, "pod": pod, **dataclasses.asdict(found), "message": found.message or None}


def sick(row: t.Mapping[str, t.Any]) -> dict[str, list[dict[str, t.Any]]]:
    """Return who holds each unhealthy GPU of a node, by the ID of the device. ``row`` is of gpu_stack_info.

    ``Unknown`` is left out: kubelets say it of all GPUs whose driver does not report health.
    """
    found: dict[str, list[dict[str, t.Any]]] = {}
    for each in row.get("device_health") or ():
        if each["health"] == UNHEALTHY:
            found.setdefault(each["device"], []).append(each)
    return found


def counted_sick(row: t.Mapping[str, t.Any]) -> str:
    """Return how many GPUs that pods hold are unhealthy: ``1 unhealthy GPU``, or an empty string."""
    number = len(sick(row))
    return f"{number} unhealthy GPU{'s' if number > 1 else ''}" if number else ""


def sick_text(row: t.Mapping[str, t.Any]) -> str:
    """Return the unhealthy GPUs that pods hold, for people: ``GPU-8f6 in ml/train: critical XID 79``."""
    texts = []
    for device, held in sick(row).items():
        holders = first_few(sorted({f"{each['namespace']}/{each['pod']}" for each in held}))
        said = next((each["message"] for each in held if each["message"]), "")
        texts.append(f"{device} in {holders}" + (f": {said}" if said else ""))
    return first_few(texts, separator="; ")
