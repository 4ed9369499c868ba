# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a call of gpu_claims reads of a cluster: the version of the API, classes, devices and claims."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import claim_users
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import device_selection as selections
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims.claim_objects import ClaimKinds
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_reader, free_devices
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import Device
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    DRA_DRIVER,
    DRA_GROUP,
    DRA_VERSIONS,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_TYPE = re.compile(rf"device\.attributes\['{re.escape(DRA_DRIVER)}'\]\.type == '(\w+)'")


@dataclasses.dataclass(frozen=True)
class ClaimScene:
    """The state of a cluster as it was read."""

    kinds: ClaimKinds
    classes: list[Json]
    """All DeviceClasses of the cluster."""
    devices: list[Device]
    """The devices of complete pools."""
    free: set[device_claims.DeviceName]
    incomplete: list[str]
    """The pools of which slices are missing."""
    claims: list[Json]
    """All ResourceClaims of the cluster, as `claim_users.slim` keeps them."""

    def types(self, wishes: t.Iterable[Json]) -> dict[str, str]:
        """Return the type of the devices of each class of which it is known: wishes, the vendor's, and our own."""
        found = {name_of(item): chosen.device_type for item in self.classes if (chosen := selections.of_class(item))}
        for item in self.classes:
            if self.kinds.classes.is_ours(item):
                expression = (item["spec"].get("selectors") or [{}])[0].get("cel", {}).get("expression", "")
                found |= {name_of(item): match[1] for match in [_TYPE.search(expression)] if match}
        return found | {wish["name"]: wish["type"] for wish in wishes}


def read(cluster: Cluster) -> ClaimScene:
    """Read a cluster. Raises if it serves no version of the API, or hides its devices."""
    kinds = ClaimKinds(_served_version(cluster))
    offered = device_reader.read(cluster)
    if offered.refusal:
        raise GpuOpsError(offered.refusal, reason="Forbidden")
    # Not from the cache, which may be behind: what is unused is removed.
    now = {"resourceVersion": ""}
    claims, dummy = cluster.large_list(kinds.claims.path(None), claim_users.slim, **now)
    allocated = [found for claim in claims if (found := device_claims.allocated(claim))]
    return ClaimScene(
        kinds=kinds,
        classes=cluster.list(kinds.classes.path(None), **now) or [],
        devices=[device for pool in offered.pools if not pool.missing for device in pool.devices],
        free=free_devices.free(offered.pools, allocated),
        incomplete=[pool.name for pool in offered.pools if pool.missing],
        claims=claims,
    )


def _served_version(cluster: Cluster) -> str:
    """Return the newest version of the API that the cluster serves and this collection knows."""
    version = device_claims.served_version(cluster, "deviceclasses")
    if version is None:
        release = cluster.ask("GET", "/version")["gitVersion"]
        raise GpuOpsError(
            f"This cluster (Kubernetes {release}) serves no version of {DRA_GROUP} that claims need "
            f"({', '.join(DRA_VERSIONS)}). Kubernetes 1.34 serves v1. The API server of 1.33 and 1.32 needs the "
            "feature gate DynamicResourceAllocation, and v1beta2 or v1beta1 in --runtime-config.",
            reason="KubernetesVersion",
        )
    return version
