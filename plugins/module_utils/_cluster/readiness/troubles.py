# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The pods of operands that are in trouble, and what holds them up.

The pod table lists all of these pods; whole pods and events are read only for a few examples.
"""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import objects, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, Rows, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import PodRow
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

EXPLAINED_PODS = 8
"""How many pods are read one by one: one for each operand and status."""

CAUSE_LENGTH = 300
"""Longer causes are truncated."""

Troubles = dict[str, tuple[PodRow, ...]]


def of_daemonsets(cluster: Cluster, namespace: str, daemonsets: list[Json], suspects: list[Json]) -> Troubles:
    """Return the troubled pods of ``suspects``, by DaemonSet name. ``daemonsets`` are all those in the namespace."""
    if not suspects:
        return {}
    table = cluster.table(namespaced("v1", namespace, "pods"))
    rows = _by_daemonset(table, [objects.name_of(item) for item in daemonsets])
    troubled: Troubles = {}
    left = EXPLAINED_PODS
    for daemonset in suspects:
        found = rows.get(objects.name_of(daemonset), [])
        examples = _one_of_each_status(found)[:left]
        left -= len(examples)
        explained = {row.name: _explain(cluster, namespace, row, daemonset) for row in examples}
        troubled[objects.name_of(daemonset)] = tuple(explained.get(row.name, row) for row in found)
    return troubled


def _by_daemonset(table: Rows, names: list[str]) -> dict[str, list[PodRow]]:
    """Group the pods that are in trouble by DaemonSet."""
    rows: dict[str, list[PodRow]] = {}
    for cells in table:
        owner = None if pods.is_running(cells) else _owner(cells["name"], names)
        if owner:
            node = "" if cells.get("node") in (None, "<none>") else str(cells["node"])
            restarts = int(str(cells["restarts"]).split(" ", 1)[0])  # "7 (3m ago)"
            rows.setdefault(owner, []).append(PodRow(cells["name"], node, cells["status"], restarts))
    return rows


def _owner(pod: str, names: list[str]) -> str | None:
    """Return the DaemonSet of a pod by its name: the longest name that it starts with."""
    owners = [name for name in names if re.fullmatch(re.escape(name) + r"-[a-z0-9]{5}", pod)]
    return max(owners, key=len, default=None)


def _one_of_each_status(rows: list[PodRow]) -> list[PodRow]:
    by_status: dict[str, PodRow] = {}
    for row in rows:
        by_status.setdefault(row.status, row)
    return list(by_status.values())


def _explain(cluster: Cluster, namespace: str, row: PodRow, daemonset: Json) -> PodRow:
    """Read one pod, and add what holds it up and whether it has the newest revision."""
    pod = cluster.get(namespaced("v1", namespace, "pods", row.name))
    if pod is None:
        return row
    return dataclasses.replace(
        row,
        node=row.node or pod["spec"].get("nodeName") or "",
        cause=held_up_by(pod) or _last_warning(cluster, namespace, row.name),
        current=_revision(pod["spec"]) == _revision(daemonset["spec"]["template"]["spec"]),
    )


def _revision(spec: Json) -> list[Json]:
    """Return the fields that differ between revisions of an operand and are the same in its pods."""
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    return [{key: item.get(key) for key in ("name", "image", "command", "args", "env")} for item in containers]


def held_up_by(pod: Json) -> str:
    """Return what a pod's first unfinished container or the scheduler says, or an empty string."""
    status = pod.get("status") or {}
    containers = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    causes = (_cause(container) for container in containers)
    return next((cause for cause in causes if cause), _unscheduled(status))


def _cause(container: Json) -> str:
    name, state = container["name"], container.get("state") or {}
    waiting = (state.get("waiting") or {}).get("message")
    if waiting:
        return f"container {name}: {_short(waiting)}"
    crash = (container.get("lastState") or {}).get("terminated") or state.get("terminated") or {}
    if crash.get("exitCode"):
        return f"container {name} exited with {crash['exitCode']}" + _message(crash)
    is_unfinished = "running" in state and not container.get("ready")
    return f"container {name} is still running" if is_unfinished else ""


def _message(terminated: Json) -> str:
    message = _short(terminated.get("message") or "")
    return f": {message}" if message else ""


def _unscheduled(status: Json) -> str:
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return _short(condition.get("message") or "")
    return ""


def _last_warning(cluster: Cluster, namespace: str, pod: str) -> str:
    selector = f"involvedObject.name={pod},type=Warning"
    events = cluster.list(namespaced("v1", namespace, "events"), fieldSelector=selector) or []
    latest = max(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "", default=None)
    return _short(latest.get("message") or "") if latest else ""


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= CAUSE_LENGTH else line[: CAUSE_LENGTH - 3] + "..."
