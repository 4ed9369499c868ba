# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The wait until no operand mounts the ConfigMap any more, so that it can be deleted.

What counts is who mounts it: a pod that only cannot finish terminating, because its node came back or is gone, needs
the ConfigMap no more. It holds up the rollout of its DaemonSet, though, and is then named.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.doctor import SHARING_OPERANDS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_scene import Scene
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_OVER = ("Succeeded", "Failed")


def wait(scene: Scene) -> None:
    """Wait until neither a DaemonSet of the operands nor a pod of theirs mounts the ConfigMap."""
    left: list[str] = []

    def look() -> bool | None:
        scene.fleet.interruption.check()
        left[:] = mounting(scene.cluster, scene.namespace, scene.store.name)
        return None if left else True

    if waiting.until(look, scene.request.timeout_s) is None:
        stuck = terminating(_pods(scene.cluster, scene.namespace))
        cause = f" {first_few(stuck)} cannot end, which holds up the others: delete it with --force." if stuck else ""
        waited = f"is still mounted after {scene.request.timeout_s} s"
        raise GpuOpsError(
            f"The ConfigMap {scene.store.name} {waited}: {first_few(left)}.{cause} "
            "Run it again when they have been replaced.",
            reason="TimedOut",
        )


def mounting(cluster: Cluster, namespace: str, config_map: str) -> list[str]:
    """Return the DaemonSets and pods of the operands that mount a ConfigMap."""
    daemonsets = cluster.list(namespaced("apps/v1", namespace, "daemonsets"), resourceVersion="") or []
    found = [f"DaemonSet {name_of(item)}" for item in daemonsets if _is_concerned(item, config_map)]
    return found or [f"pod {_where(pod)}" for pod in _pods(cluster, namespace) if _uses(pod, config_map)]


def terminating(pods: t.Iterable[Json]) -> list[str]:
    """Return the pods that are being deleted, each with its node."""
    return [f"pod {_where(pod)}" for pod in pods if pod["metadata"].get("deletionTimestamp")]


def _pods(cluster: Cluster, namespace: str) -> list[Json]:
    return (
        cluster.list(namespaced("v1", namespace, "pods"), labelSelector=f"app in ({','.join(SHARING_OPERANDS)})") or []
    )


def _where(pod: Json) -> str:
    return f"{name_of(pod)} on {pod['spec'].get('nodeName') or 'no node'}"


def _is_concerned(daemonset: Json, config_map: str) -> bool:
    return name_of(daemonset) in SHARING_OPERANDS and _mounts(daemonset["spec"]["template"]["spec"], config_map)


def _uses(pod: Json, config_map: str) -> bool:
    is_ending = bool(pod["metadata"].get("deletionTimestamp")) or (pod.get("status") or {}).get("phase") in _OVER
    return not is_ending and _mounts(pod["spec"], config_map)


def _mounts(spec: Json, config_map: str) -> bool:
    return any((volume.get("configMap") or {}).get("name") == config_map for volume in spec.get("volumes") or [])
