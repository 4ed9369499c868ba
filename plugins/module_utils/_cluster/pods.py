# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Functions about pods: which pods hold GPUs, which are running, and which never start."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.nodes import is_gpu_resource
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import quantity
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DRA_DRIVER = "gpu.nvidia.com"

NEVER_STARTS = (
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
"""States of a waiting container that need manual intervention. The remedy depends on the pod."""

HEALS_S = 180.0
"""How long such a state may last before it counts as final: busy registries and a runtime that restarts heal sooner."""

_FINAL_STATES = ("InvalidImageName", "ErrImageNeverPull")
_PULL_STATES = ("ErrImagePull", "ImagePullBackOff")
_FINAL_ANSWER = re.compile(
    r"\bnot found\b|manifest unknown|name unknown|unauthorized|access denied|authentication required"
    r"|no match for platform|no matching manifest|invalid reference format|: 403 Forbidden",
    re.IGNORECASE,
)
"""What registries answer for an image that does not exist or may not be pulled (containerd's and CRI-O's wording)."""


def never_starts(state: str, message: str, lasts_s: float) -> bool:
    """Return whether a container in this waiting state needs manual intervention.

    ``lasts_s`` is how long it has been in such a state. A pull error that names the image or the credentials is final
    at once. All others may heal: a busy registry, a lost connection, a container runtime that restarts.
    """
    if state in _FINAL_STATES:
        return True
    if state in _PULL_STATES and _FINAL_ANSWER.search(message):
        return True
    return state in NEVER_STARTS and lasts_s >= HEALS_S


def is_running(row: t.Mapping[str, t.Any]) -> bool:
    """Return whether a row of the API's pod table shows a pod that runs with all its containers ready (``2/2``)."""
    ready, dummy, total = str(row["ready"]).partition("/")
    return row["status"] == "Running" and ready == total


@dataclasses.dataclass(frozen=True)
class GpuPod:
    """A pod that holds GPUs: ``gpus`` maps resource names to numbers."""

    namespace: str
    name: str
    node: str
    gpus: t.Mapping[str, int]


def gpu_pods(cluster: Cluster, operator_namespace: str) -> list[GpuPod]:
    """Return the scheduled, unfinished pods outside the operator's namespace that hold GPUs.

    The operands request no GPU, and most pods of a large fleet are operands, so the request excludes their
    namespace. The other pods are read in pages.
    """
    selector = f"metadata.namespace!={operator_namespace},status.phase!=Succeeded,status.phase!=Failed"
    found = []
    for pod in cluster.pages(namespaced("v1", None, "pods"), fieldSelector=selector):
        gpus = requested_gpus(pod["spec"])
        node = pod["spec"].get("nodeName")
        if gpus and node:
            found.append(GpuPod(pod["metadata"]["namespace"], pod["metadata"]["name"], node, gpus))
    return found


class GpuClaims:
    """Knows which pods hold a GPU through Dynamic Resource Allocation. Claims are read only if pods have any."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._holds: dict[tuple[str, str], bool] = {}

    def held_by(self, pod: Json) -> bool:
        """Return whether one of the pod's claims has a GPU allocated."""
        namespace = pod["metadata"]["namespace"]
        claims = [(namespace, name) for name in _claims(pod)]
        if any(claim not in self._holds for claim in claims):
            self._holds = dict.fromkeys(claims, False) | self._read()
        return any(self._holds.get(claim) for claim in claims)

    def _read(self) -> dict[tuple[str, str], bool]:
        listed = self._cluster.get(namespaced("resource.k8s.io/v1", None, "resourceclaims")) or {}
        return {
            (item["metadata"]["namespace"], item["metadata"]["name"]): _is_gpu(item)
            for item in listed.get("items") or []
        }


def _claims(pod: Json) -> set[str]:
    named = {item.get("resourceClaimName") for item in pod["spec"].get("resourceClaims") or []}
    made = {item.get("resourceClaimName") for item in (pod.get("status") or {}).get("resourceClaimStatuses") or []}
    return (named | made) - {None}


def _is_gpu(claim: Json) -> bool:
    """Return whether a claim has a GPU allocated. Admin access does not count, because it is for monitoring."""
    devices = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
    return any(
        result["driver"] == DRA_DRIVER and not result.get("adminAccess") for result in devices.get("results") or []
    )


def requested_gpus(spec: Json) -> dict[str, int]:
    """Return the GPUs that a pod holds: the sum of its containers, or more if an init container needs more."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or []:
        for name, number in _limits(container).items():
            total[name] = total.get(name, 0) + number
    for container in spec.get("initContainers") or []:
        for name, number in _limits(container).items():
            total[name] = max(total.get(name, 0), number)
    return total


def _limits(container: Json) -> dict[str, int]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return {name: quantity(number) for name, number in asked.items() if is_gpu_resource(name) and quantity(number)}
