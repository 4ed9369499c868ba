# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What nodes offer by Dynamic Resource Allocation, and who holds it, in what a diagnosis knows. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import AllocatedClaim
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

SOURCE = "ResourceSlices"
"""Where devices stand, as the source of a quote."""


def pools(view: View) -> dict[str, DevicePool]:
    """Return the pools of NVIDIA's GPUs by node. Nodes without one, and ResourceSlices that are unknown, are absent."""
    parts = map(device_pools.part_of, view.listed("resourceslices") or [])
    found = device_pools.pools(part for part in parts if part.driver == names.DRA_DRIVER and part.node)
    return {str(pool.node): pool for pool in found}


class HeldClaim(t.NamedTuple):
    """A claim that has devices of a driver on a node."""

    claim: AllocatedClaim
    driver: str
    node: str

    @property
    def name(self) -> str:
        """The namespace and the name of the claim."""
        return f"{self.claim.namespace}/{self.claim.name}"


def held(view: View) -> list[HeldClaim]:
    """Return the claims that have devices of NVIDIA's drivers, each once for each driver and node.

    Claims with admin access see devices, and hold none.
    """
    claims = filter(None, map(device_claims.allocated, view.listed("resourceclaims") or []))
    found = {
        HeldClaim(claim, driver, pool): None
        for claim in claims
        for driver, pool, dummy in claim.devices
        if driver.endswith(".nvidia.com")
    }
    return list(found)
