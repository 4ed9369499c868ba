# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Why the operands that share GPUs do not work on a node, and the one repair that is safe: a new pod.

config-manager exits when a node's label names a key that its mounted ConfigMap lacks, and starts again after a pause
that grows to five minutes. A new pod mounts the ConfigMap as it is, and forgets a link that leads nowhere.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts, troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import container_statuses, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import DEVICE_PLUGIN
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SHARING_OPERANDS = (DEVICE_PLUGIN.daemonset, "gpu-feature-discovery", "nvidia-device-plugin-mps-control-daemon")
"""The DaemonSets whose pods read the configuration."""

MANAGERS = ("config-manager", "config-manager-init")
_CURED_BY_NEW_POD = re.compile(r"specified config .* does not exist|no configuration files available|file exists")
_ERROR = re.compile(r"[EF]\d{4} \S+ +\d+ [\w.-]+:\d+\] (.*)|(error .*)")
_CRASHED = re.compile(r"(Init:)?(CrashLoopBackOff|Error)")
_ENDING = "Terminating"
_EXPLAINED_NODES = 8
"""Of how many nodes the pods are read at one look."""


class Doctor:
    """Explains and repairs the pods of nodes that do not get their configuration."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._seen: set[str] = set()
        self.repaired: dict[str, list[str]] = {}
        """The pods that were deleted, by node."""

    def look(self, waiting: t.Collection[str]) -> dict[str, str]:
        """Return what is wrong on nodes that wait, and delete the pods that a new pod cures."""
        path = namespaced("v1", self._namespace, "pods")
        unwell = [row for row in self._cluster.table(path) if not pods.is_running(row)]
        rows = [row for row in unwell if row.get("node") in waiting]
        found: dict[str, str] = {}
        for row in rows:
            node = str(row["node"])
            if str(row["name"]).startswith(SHARING_OPERANDS) and node not in found and len(found) < _EXPLAINED_NODES:
                why = self._explain(node, str(row["name"]), str(row["status"]))
                found |= {node: why} if why else {}
        stalled = self._stalled(unwell) if len(found) < len(waiting) else ""
        return {**dict.fromkeys(waiting, stalled), **found} if stalled else found

    def _stalled(self, unwell: t.Iterable[t.Mapping[str, t.Any]]) -> str:
        """Return which pod cannot end on any node, while its DaemonSet replaces one pod after the other."""
        ending = [row for row in unwell if row["status"] == _ENDING and str(row["name"]).startswith(SHARING_OPERANDS)]
        if not ending:
            return ""
        path = namespaced("apps/v1", self._namespace, "daemonsets")
        moving = [name_of(item) for item in self._cluster.list(path) or [] if not rollouts.is_complete(item)]
        held_up = [row for row in ending if str(row["name"]).rpartition("-")[0] in moving]
        first = next(iter(held_up), None)
        return f"pod {first['name']} on {first['node']} cannot end, which holds up the others" if first else ""

    def _explain(self, node: str, name: str, status: str) -> str:
        pod = self._cluster.get(namespaced("v1", self._namespace, "pods", name))
        if pod is None:
            return ""
        container = crashed_container(pod) if _CRASHED.fullmatch(status) else ""
        said = self._last_error(pod, container) if container else ""
        if container in MANAGERS and _CURED_BY_NEW_POD.search(said):
            self._replace(node, pod)
        why = f"container {container}: {said}" if said else troubles.held_up_by(pod) or self._last_event(name)
        return f"pod {name} is {status}" + (f" ({why})" if why else "")

    def _last_error(self, pod: Json, container: str) -> str:
        """Return the last error in a container's log, or what its last state says, or an empty string."""
        path = namespaced("v1", self._namespace, "pods", name_of(pod)) + "/log"
        for previous in ("false", "true"):
            try:
                log = self._cluster.text(path, {"container": container, "tailLines": "20", "previous": previous})
            except GpuOpsError:
                continue
            found = [one_line(match[1] or match[2]) for match in _ERROR.finditer(log)]
            if found:
                return found[-1]
        return ""

    def _last_event(self, pod: str) -> str:
        path = namespaced("v1", self._namespace, "events")
        events = self._cluster.list_readable(path, fieldSelector=f"involvedObject.name={pod},type=Warning").items
        latest = max(events, key=troubles.last_seen, default={})
        return one_line(latest.get("message") or "")

    def _replace(self, node: str, pod: Json) -> None:
        """Delete a pod, once. Without the permission, the pod starts again by itself after a while."""
        uid = str(pod["metadata"].get("uid"))
        if uid in self._seen:
            return
        self._seen.add(uid)
        try:
            self._cluster.delete(namespaced("v1", self._namespace, "pods", name_of(pod)))
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            return
        self.repaired.setdefault(node, []).append(name_of(pod))


def crashed_container(pod: Json) -> str:
    """Return the name of a pod's first container that has ended with an error, or an empty string."""
    return next((str(container["name"]) for container in container_statuses(pod) if _has_crashed(container)), "")


def _has_crashed(container: Json) -> bool:
    state = container.get("state") or {}
    if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        return True
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    return bool(ended.get("exitCode")) and "running" not in state
