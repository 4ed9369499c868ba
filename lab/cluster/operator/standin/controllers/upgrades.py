# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an upgrade of drivers depends on: the states of nodes, the free slots, the pods that hold GPUs."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from lab.cluster.api import Json
from lab.cluster.operator.standin.nodes import STATE, labels_of
from lab.cluster.operator.standin.readiness import containers_ready, in_sync
from lab.cluster.operator.standin.render import DIGEST

_PREFIX = "nvidia.com/gpu-driver-upgrade"
INITIALLY_CORDONED = f"{_PREFIX}.node-initial-state.unschedulable"
REQUESTED = f"{_PREFIX}-requested"
SAFE_LOAD = f"{_PREFIX}.driver-wait-for-safe-load"
VALIDATION_STARTED = f"{_PREFIX}-validation-start-time"
JOBS_STARTED = f"{_PREFIX}-upgrade-wait-for-pod-completion-start-time"
STATES = (
    "",
    "upgrade-done",
    "upgrade-required",
    "cordon-required",
    "wait-for-jobs-required",
    "pod-deletion-required",
    "drain-required",
    "pod-restart-required",
    "upgrade-failed",
    "validation-required",
    "uncordon-required",
)
"""The states, in the order in which a run handles the nodes."""
_IDLE = STATES[:3]
_RESTARTS = 10


def state_of(node: Json) -> str:
    """Return the upgrade state of a node."""
    return labels_of(node).get(STATE, "")


def annotation(node: Json, key: str) -> str | None:
    """Return an annotation of a node; None if it is not set."""
    return t.cast("str | None", (node["metadata"].get("annotations") or {}).get(key))


def cordoned(node: Json) -> bool:
    """Return whether a node is cordoned."""
    return bool(node["spec"].get("unschedulable"))


def unavailable(node: Json) -> bool:
    """Return whether a node counts against maxUnavailable."""
    conditions = node.get("status", {}).get("conditions") or []
    return cordoned(node) or any(item["type"] == "Ready" and item["status"] != "True" for item in conditions)


def slots(nodes: list[Json], policy: Json) -> int:
    """Return how many more nodes may start their upgrade."""
    states = [state_of(node) for node in nodes]
    limit = _limit(policy.get("maxUnavailable"), len(nodes))
    parallel = policy.get("maxParallelUpgrades", 1)
    begun = sum(state not in _IDLE for state in states)
    free = min(parallel - begun if parallel else states.count("upgrade-required"), limit)
    # A node that was cordoned before its turn counts twice while it waits for its own cordon.
    used = sum(map(unavailable, nodes)) + states.count("cordon-required")
    if used >= limit:
        return 0
    # With all nodes allowed, those that are unavailable already take no slot.
    return max(0, min(free, limit - used) if limit < len(nodes) else free)


def _limit(most: t.Any, nodes: int) -> int:
    if most is None:
        return nodes
    return math.ceil(nodes * int(most[:-1]) / 100) if isinstance(most, str) and most.endswith("%") else int(most)


def uses_gpu(pod: Json) -> bool:
    """Return whether a pod asks for a GPU or a part of one."""
    resources = [container.get("resources") or {} for container in pod["spec"]["containers"]]
    names = {name for entry in resources for part in ("limits", "requests") for name in entry.get(part) or {}}
    return any(name.startswith(("nvidia.com/gpu", "nvidia.com/mig-")) for name in names)


def digest(spec: Json) -> str | None:
    """Return the digest of the driver configuration in a pod's spec."""
    variables = [entry for container in spec["containers"] for entry in container.get("env") or []]
    return next((entry.get("value") for entry in variables if entry["name"] == DIGEST), None)


@dataclass(frozen=True)
class Driver:
    """A driver pod and its node, with its DaemonSet and the DaemonSet's newest revision unless the pod is orphaned."""

    node: Json
    pod: Json
    daemonset: Json | None
    revision: str | None

    @property
    def current(self) -> bool:
        """Whether the pod has the newest revision of its DaemonSet."""
        return in_sync(self.pod, self.revision)

    @property
    def ready(self) -> bool:
        """Whether the pod is current and its containers are ready."""
        status = self.pod["status"]
        started = status.get("phase") == "Running" and bool(status.get("containerStatuses"))
        return self.current and started and containers_ready(self.pod)

    @property
    def failing(self) -> bool:
        """Whether a container has started again and again, and is not ready."""
        status = self.pod["status"]
        entries = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
        return any(not entry.get("ready") and entry.get("restartCount", 0) > _RESTARTS for entry in entries)

    @property
    def same_configuration(self) -> bool:
        """Whether a new pod would install the same driver."""
        if self.daemonset is None:
            return False
        wanted = digest(self.daemonset["spec"]["template"]["spec"])
        return wanted is not None and digest(self.pod["spec"]) == wanted
