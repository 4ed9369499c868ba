# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Claims of Dynamic Resource Allocation: which devices they have, and which pods use them.

Source: k8s.io/api/resource/v1 and k8s.io/api/core/v1 (``PodStatus``) of Kubernetes 1.36.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

ClaimName = tuple[str, str]
"""The namespace and the name of a claim."""

DeviceName = tuple[str, str, str]
"""The driver, the pool and the name of a device. Only all three are unique."""


@dataclasses.dataclass(frozen=True)
class AllocatedClaim:
    """A claim that has devices.

    ``monitored`` are those for which it has admin access, which takes no device from other claims. ``pods`` are the
    names of the pods for which it is reserved. ``users`` also counts what else it is reserved for, such as a PodGroup.
    """

    namespace: str
    name: str
    devices: tuple[DeviceName, ...]
    monitored: tuple[DeviceName, ...] = ()
    pods: tuple[str, ...] = ()
    users: int = 0
    deleted_at: str = ""

    @property
    def gpus(self) -> int:
        """How many devices of NVIDIA's driver it has, with admin access not counted."""
        return sum(driver == names.DRA_DRIVER for driver, dummy, dummy in self.devices)


def allocated(claim: Json) -> AllocatedClaim | None:
    """Return what a claim has, or None for a claim without devices."""
    metadata, status = claim["metadata"], claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    if not results:
        return None
    named: list[tuple[DeviceName, bool]] = [
        ((item["driver"], item.get("pool", ""), item.get("device", "")), bool(item.get("adminAccess")))
        for item in results
    ]
    users = status.get("reservedFor") or []
    return AllocatedClaim(
        namespace=metadata["namespace"],
        name=metadata["name"],
        devices=tuple(device for device, is_admin in named if not is_admin),
        monitored=tuple(device for device, is_admin in named if is_admin),
        pods=tuple(user["name"] for user in users if user.get("resource") == "pods"),
        users=len(users),
        deleted_at=metadata.get("deletionTimestamp") or "",
    )


def claims_of(pod: Json) -> set[ClaimName]:
    """Return the claims of a pod: named ones, those made from a template, and the one for its extended resources."""
    status: Json = pod.get("status") or {}
    references = [
        *(pod["spec"].get("resourceClaims") or []),
        *(status.get("resourceClaimStatuses") or []),
        status.get("extendedResourceClaimStatus") or {},
    ]
    named = {item.get("resourceClaimName") for item in references}
    return {(pod["metadata"]["namespace"], name) for name in named if name}


def extended_resources(pod: Json) -> set[str]:
    """Return the extended resources of a pod that the scheduler allocated through a claim, not from a device plugin."""
    mapped: Json = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return {item["resourceName"] for item in mapped.get("requestMappings") or []}


class ClaimReader:
    """Knows which claims have devices. Claims are read only if pods have any."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[ClaimName, AllocatedClaim | None] = {}

    def all(self) -> list[AllocatedClaim]:
        """Return the claims that have devices, as they were read for the last pod that has any, or now."""
        if not self._known:
            self._known = self._read()
        return [claim for claim in self._known.values() if claim]

    def _read(self) -> dict[ClaimName, AllocatedClaim | None]:
        return {(claim.namespace, claim.name): claim for claim in read_claims(self._cluster)}

    def holds_gpu(self, pod: Json) -> bool:
        """Return whether one of the pod's claims has a GPU allocated. Admin access does not count."""
        return bool(self.gpus_of(pod))

    def gpus_of(self, pod: Json) -> dict[ClaimName, int]:
        """Return the claims of a pod that have GPUs allocated, each with the number of devices."""
        claims = sorted(claims_of(pod))
        if any(claim not in self._known for claim in claims):
            # The newest answer counts. A claim that is gone is empty, and is not looked for again.
            self._known = {**dict.fromkeys(claims), **self._read()}
        found = {claim: self._known.get(claim) for claim in claims}
        return {name: claim.gpus for name, claim in found.items() if claim and claim.gpus}


def read_claims(cluster: Cluster) -> t.Iterator[AllocatedClaim]:
    """Yield the claims that have devices, in pages. Raises reason ClaimsUnreadable if no known version is served."""
    version = served_version(cluster, "resourceclaims")
    if version is None:
        raise GpuOpsError(
            f"Pods have resource claims, but the cluster serves none of {', '.join(names.DRA_VERSIONS)} of "
            "resource.k8s.io, so the pods that hold a GPU are unknown. Use a version of this collection that supports "
            "this Kubernetes, or drain nodes with evict: all.",
            reason="ClaimsUnreadable",
        )
    for item in cluster.pages(namespaced(f"{names.DRA_GROUP}/{version}", None, "resourceclaims")):
        claim = allocated(item)
        if claim:
            yield claim


def served_version(cluster: Cluster, plural: str) -> str | None:
    """Return the newest known version of resource.k8s.io that serves a kind, or None.

    Any user may ask this, unless an administrator has taken the ClusterRole ``system:discovery`` away. Then it is None.
    """
    for version in names.DRA_VERSIONS:
        try:
            served = cluster.get(f"/apis/{names.DRA_GROUP}/{version}")
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            return None
        if any(item["name"] == plural for item in (served or {}).get("resources") or []):
            return version
    return None
