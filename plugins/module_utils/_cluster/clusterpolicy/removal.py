# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Deleting the ClusterPolicy or the GPUCluster, and the wait until its operands are gone."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import changes, permission
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def _nothing_in_the_way(dummy: Json) -> None:
    """Refuse nothing."""


class Removal(t.Protocol):
    """What a request says about the object that goes."""

    @property
    def namespace(self) -> str: ...
    @property
    def allows_disruption(self) -> bool: ...
    @property
    def waits(self) -> bool: ...
    @property
    def timeout_s(self) -> int: ...


def remove(
    cluster: Cluster, path: str, key: str, request: Removal, refuse: t.Callable[[Json], None] = _nothing_in_the_way
) -> Json:
    """Delete the ClusterPolicy or the GPUCluster, and wait until its operands are gone.

    Where pods use GPUs, this needs permission. ``refuse`` raises for what else is in the way. ``key`` is that of the
    object in the module's result.
    """
    existing = cluster.get(path)
    change = changes.between(existing, None, FIELD_MANAGER)
    if existing is None:
        return {"changed": False, key: {}, "diff": change.diff}
    refuse(existing)
    running = permission.running_gpu_pods(cluster, request.namespace)
    permission.permit_removal(running, request.allows_disruption)
    cluster.delete(path, uid=existing["metadata"].get("uid"))
    if request.waits and not cluster.check_mode:
        wait_until_gone(cluster, existing, path, request.namespace, request.timeout_s)
    gpu_pods = None if running is None else len(running)
    return {"changed": True, key: {}, "gpu_pods": gpu_pods, "diff": change.diff}


def wait_until_gone(cluster: Cluster, owner: Json, path: str, namespace: str, timeout_s: float) -> None:
    """Wait until a deleted ClusterPolicy or GPUCluster and its DaemonSets are gone."""
    left = ""

    def look() -> bool | None:
        nonlocal left
        left = _remains(cluster, owner, path, namespace)
        return None if left else True

    if waiting.until(look, timeout_s) is None:
        raise GpuOpsError(
            f"Not removed after {timeout_s} s: {left}. See `kubectl -n {namespace} get pods` for what holds them.",
            reason="TimedOut",
        )


def _remains(cluster: Cluster, owner: Json, path: str, namespace: str) -> str:
    """Return what is left of a deleted object, or an empty string: its DaemonSets, or else the object itself."""
    daemonsets = cluster.list(namespaced("apps/v1", namespace, "daemonsets")) or []
    left = [objects.name_of(item) for item in daemonsets if _is_owned_by(owner, item)]
    if left or cluster.get(path) is None:
        return first_few(left)
    finalizers = json.dumps(owner["metadata"].get("finalizers") or [])
    return f"{owner['kind']} {objects.name_of(owner)} (finalizers: {finalizers})"


def _is_owned_by(owner: Json, item: Json) -> bool:
    return any(each["uid"] == owner["metadata"]["uid"] for each in item["metadata"].get("ownerReferences") or [])
