# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Read what NVIDIA's driver for Dynamic Resource Allocation offers: one LIST, and no other if it offers nothing."""

from __future__ import annotations

import dataclasses
import functools

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Offered:
    """The pools of NVIDIA's GPUs. ``refusal`` says why they are unknown."""

    pools: tuple[DevicePool, ...] = ()
    refusal: str = ""

    @functools.cached_property
    def by_node(self) -> dict[str, DevicePool]:
        """The pool of each node that has one."""
        return {pool.node: pool for pool in self.pools if pool.node}

    def can_claim(self, node: str) -> bool:
        """Return whether a claim can get a GPU of a node, if none is held."""
        pool = self.by_node.get(node)
        return pool is not None and not pool.missing and any(not device.is_kept_away for device in pool.devices)


NO_DEVICES = Offered()


def read(cluster: Cluster) -> Offered:
    """Return the devices that NVIDIA's driver offers now. A cluster that does not serve the API offers none."""
    return DeviceReader(cluster).read()


class DeviceReader:
    """Reads the devices again and again. Which versions the cluster serves is asked only once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self) -> Offered:
        """Return the devices that NVIDIA's driver offers now."""
        if self._slices is None:
            return NO_DEVICES
        chosen = f"spec.driver={names.DRA_DRIVER}"
        try:
            parts, dummy = self._cluster.large_list(self._slices, device_pools.part_of, fieldSelector=chosen)
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            return Offered(refusal=e.msg)
        return Offered(tuple(device_pools.pools(parts, self._taint_rules() if parts else ())))

    def _taint_rules(self) -> list[Json]:
        """Return the DeviceTaintRules, or none if the cluster does not serve them or this user may not list them."""
        return self._cluster.list_readable(self._rules).items if self._rules else []

    @functools.cached_property
    def _slices(self) -> str | None:
        return self._path("resourceslices")

    @functools.cached_property
    def _rules(self) -> str | None:
        return self._path("devicetaintrules")

    def _path(self, plural: str) -> str | None:
        """Return the path of a kind in the newest version that is served, or None."""
        version = device_claims.served_version(self._cluster, plural)
        return namespaced(f"{names.DRA_GROUP}/{version}", None, plural) if version else None
