# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What holds up the pods of operands, of the operator and of Node Feature Discovery.

The pod table lists all pods that are in trouble; whole pods and events are read only for a few examples. A pod that
could not even be created is not in the table: its controller then has an event.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, Rows, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import PodRow, Refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

EXPLAINED_PODS = 8
"""How many pods are read one by one: one for each operand and status."""

CAUSE_LENGTH = 300
"""Longer causes are truncated."""

REVISION = "controller-revision-hash"
"""The label of a DaemonSet's pods with their revision."""


class Troubles(t.NamedTuple):
    """What is wrong with pods, by the name of their controller: a DaemonSet or the operator's Deployment."""

    operands: dict[str, tuple[PodRow, ...]]
    others: dict[str, tuple[PodRow, ...]]
    """The pods in trouble of the operator and of Node Feature Discovery."""
    refusals: dict[str, Refusal]


def read(
    cluster: Cluster, namespace: str, daemonsets: list[Json], operators: list[Json], has_gpu_nodes: bool
) -> Troubles:
    """Return the pods that are in trouble and the refusals to create pods.

    ``daemonsets`` are all those in the namespace. Without GPU nodes, Node Feature Discovery is looked at too.
    """
    suspects, discovery = rollouts.suspects(daemonsets), _discovery([] if has_gpu_nodes else daemonsets)
    deployments = [item for item in operators if not rollouts.runs_newest(item)]
    if not (suspects or discovery or deployments):
        return Troubles({}, {}, {})
    reader = _TroubleReader(cluster, namespace, daemonsets, deployments)
    others = {objects.name_of(item): reader.of_deployment(item) for item in deployments}
    return Troubles(
        reader.of_daemonsets(suspects),
        others | reader.of_daemonsets(discovery),
        _check_refusal(cluster, namespace, [*suspects, *discovery], deployments),
    )


def _discovery(daemonsets: list[Json]) -> list[Json]:
    return [item for item in daemonsets if rollouts.is_discovery(item) and not rollouts.is_complete(item)]


def newest_revisions(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Return the hash of each DaemonSet's newest revision, which its newest pods have as a label.

    Without permission to list ControllerRevisions, the newest revision is unknown, and the dict is empty.
    """
    newest: dict[str, tuple[int, str]] = {}
    # An old answer would take the revision before for the newest.
    path = namespaced("apps/v1", namespace, "controllerrevisions")
    for row in _readable_table(cluster, path, resourceVersion=""):
        kind, dummy, name = str(row["controller"]).partition("/")  # "daemonset.apps/nvidia-dcgm"
        if kind == "daemonset.apps":
            revision = (int(row["revision"]), str(row["name"]).removeprefix(f"{name}-"))
            newest[name] = max(newest.get(name, (0, "")), revision)
    return {name: revision[1] for name, revision in newest.items()}


def on_old_revision(cluster: Cluster, namespace: str, daemonset: Json, newest: str) -> frozenset[str]:
    """Return the nodes with a pod of a DaemonSet that has another revision than the newest."""
    labels = ((daemonset["spec"].get("selector") or {}).get("matchLabels") or {}).items()
    selector = ",".join([*(f"{key}={value}" for key, value in labels), f"{REVISION}!={newest}"])
    path = namespaced("v1", namespace, "pods")
    return frozenset(str(row["node"]) for row in cluster.table(path, labelSelector=selector))


def _readable_table(cluster: Cluster, path: str, **selectors: str) -> Rows:
    try:
        return cluster.table(path, **selectors)
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return []


# Pods


class _TroubleReader:
    """Reads the pods in trouble, and a few of them one by one."""

    def __init__(self, cluster: Cluster, namespace: str, daemonsets: list[Json], deployments: list[Json]) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._left = EXPLAINED_PODS
        owners = {objects.name_of(item): r"-[a-z0-9]{5}" for item in daemonsets}
        owners |= {objects.name_of(item): r"-[a-z0-9]{1,10}-[a-z0-9]{5}" for item in deployments}
        self._rows = _by_owner(cluster.table(namespaced("v1", namespace, "pods")), owners)
        self._newest = newest_revisions(cluster, namespace) if self._rows else {}

    def of_daemonsets(self, daemonsets: list[Json]) -> dict[str, tuple[PodRow, ...]]:
        """Return the pods in trouble of these DaemonSets, by name."""
        return {name: self._of_daemonset(name) for name in map(objects.name_of, daemonsets)}

    def _of_daemonset(self, name: str) -> tuple[PodRow, ...]:
        newest = self._newest.get(name)
        return self._explained(name, lambda labels: newest is not None and labels.get(REVISION) == newest)

    def of_deployment(self, deployment: Json) -> tuple[PodRow, ...]:
        """Return a Deployment's pods that are in trouble. Those of an old version are removed, so they do not count."""
        return self._explained(objects.name_of(deployment), lambda labels: True)

    def _explained(self, name: str, is_newest: t.Callable[[dict[str, str]], bool]) -> tuple[PodRow, ...]:
        """Return the rows of a controller. One of each status has a cause, until `EXPLAINED_PODS` have been read."""
        rows = self._rows.get(name, [])
        examples = _one_of_each_status(rows)[: self._left]
        self._left -= len(examples)
        explained = {row.name: self._explain(row, is_newest) for row in examples}
        return tuple(explained.get(row.name, row) for row in rows)

    def _explain(self, row: PodRow, is_newest: t.Callable[[dict[str, str]], bool]) -> PodRow:
        """Read one pod, and add what holds it up and whether it has the newest revision."""
        pod = self._cluster.get(namespaced("v1", self._namespace, "pods", row.name))
        if pod is None:
            return row
        return dataclasses.replace(
            row,
            node=row.node or pod["spec"].get("nodeName") or "",
            cause=held_up_by(pod) or self._last_warning(row.name),
            current=is_newest(objects.labels_of(pod)),
            message=one_line(_waiting_message(pod)),
            age_s=self._cluster.now() - objects.timestamp(pod["metadata"].get("creationTimestamp")),
        )

    def _last_warning(self, pod: str) -> str:
        events = _events(self._cluster, self._namespace, f"involvedObject.name={pod},type=Warning")
        latest = max(events, key=last_seen, default=None)
        return _short(latest.get("message") or "") if latest else ""


def _by_owner(table: Rows, owners: t.Mapping[str, str]) -> dict[str, list[PodRow]]:
    """Group the pods that are in trouble by controller. ``owners`` has the pattern of each one's pod names' endings."""
    rows: dict[str, list[PodRow]] = {}
    for cells in table:
        owner = None if pods.is_running(cells) else _owner(cells["name"], owners)
        if owner:
            node = "" if cells.get("node") in (None, "<none>") else str(cells["node"])
            restarts = int(str(cells["restarts"]).split(" ", 1)[0])  # "7 (3m ago)"
            rows.setdefault(owner, []).append(PodRow(cells["name"], node, _short(cells["status"]), restarts))
    return rows


def _owner(pod: str, owners: t.Mapping[str, str]) -> str | None:
    """Return the controller of a pod by its name: the longest name that it starts with."""
    found = [name for name, ending in owners.items() if re.fullmatch(re.escape(name) + ending, pod)]
    return max(found, key=len, default=None)


def _one_of_each_status(rows: list[PodRow]) -> list[PodRow]:
    by_status: dict[str, PodRow] = {}
    for row in rows:
        by_status.setdefault(row.status, row)
    return list(by_status.values())


# Pods that are refused at creation


def _check_refusal(
    cluster: Cluster, namespace: str, suspects: list[Json], deployments: list[Json]
) -> dict[str, Refusal]:
    """Return why pods cannot be created, for those controllers that have fewer pods than they should."""
    lacking = {("DaemonSet", objects.name_of(item)) for item in suspects if rollouts.lacks_pods(item)}
    lacking |= {("ReplicaSet", objects.name_of(item)) for item in deployments}
    if not lacking:
        return {}
    refusals: dict[str, Refusal] = {}
    events = _events(cluster, namespace, "reason=FailedCreate,type=Warning")
    for event in sorted(events, key=last_seen):
        kind, name = event["involvedObject"].get("kind"), event["involvedObject"].get("name") or ""
        if kind == "ReplicaSet":
            name = name.rpartition("-")[0]
        if (kind, name) in lacking:
            age_s = cluster.now() - objects.timestamp(last_seen(event))
            refusals[name] = Refusal(_short(event.get("message") or ""), age_s)
    return refusals


def _events(cluster: Cluster, namespace: str, selector: str) -> list[Json]:
    return cluster.list_readable(namespaced("v1", namespace, "events"), fieldSelector=selector).items


def last_seen(event: Json) -> str:
    """Return when an event occurred last. Repeated events of the newer kind have a series."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(time) for time in times if time), "")


# What holds up one pod


def held_up_by(pod: Json) -> str:
    """Return what a pod's first unfinished container or the scheduler says, or an empty string."""
    causes = (_cause(container) for container in objects.container_statuses(pod))
    return next((cause for cause in causes if cause), _unscheduled(pod.get("status") or {}))


def _waiting_message(pod: Json) -> str:
    """Return all that a pod's first waiting container says, or an empty string."""
    states = ((container.get("state") or {}).get("waiting") or {} for container in objects.container_statuses(pod))
    return next((str(waiting["message"]) for waiting in states if waiting.get("message")), "")


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
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _short(condition.get("message") or "")
    return ""


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= CAUSE_LENGTH else line[: CAUSE_LENGTH - 3] + "..."
