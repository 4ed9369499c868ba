# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reading what the judge needs in one pass of LISTs, and waiting for its verdict.

DaemonSets and nodes come first; the pod table is read only where they disagree, and whole pods and events only for a few
examples of what is in trouble. At 1,000 nodes that is five requests and about 4 MB when all is well.
"""

from __future__ import annotations

import re
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.operands import is_operator
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.judge import judge, suspects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Observation,
    PodRow,
    Verdict,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import OUTAGE_S, POLL_S, timeout_message
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CLUSTERPOLICIES = namespaced("nvidia.com/v1", None, "clusterpolicies")
GPUCLUSTERS = namespaced("nvidia.com/v1alpha1", None, "gpuclusters")

EXAMPLES = 8
"""Pods that are looked at one by one, one for each operand and kind of trouble."""


def observe(cluster: Cluster, namespace: str, name: str) -> Observation:
    """Read everything that the judge looks at."""
    with ThreadPoolExecutor(
        1
    ) as beside:  # the nodes are nearly all of the bytes: the rest arrives while the API server writes them
        nodes = beside.submit(cluster.list, namespaced("v1", None, "nodes"))
        seen = Observation(
            name=name,
            namespace=namespace,
            policies=read_policies(cluster),
            gpuclusters=cluster.list(GPUCLUSTERS) or [],
            daemonsets=cluster.list(namespaced("apps/v1", namespace, "daemonsets")) or [],
            operators=[
                item
                for item in cluster.list(namespaced("apps/v1", namespace, "deployments")) or []
                if is_operator(item)
            ],
            nodes=nodes.result() or [],
            now=cluster.now(),
        )
    return _with_troubles(cluster, seen)


def read_policies(cluster: Cluster) -> list[Json] | None:
    """Return every ClusterPolicy as it is now, or None without the CRD: a cache that lags would show the spec before our own edit."""
    return cluster.list(CLUSTERPOLICIES, resourceVersion="")


def _with_troubles(cluster: Cluster, seen: Observation) -> Observation:
    troubled = suspects(seen)
    if not troubled:
        return seen
    rows = _rows_by_daemonset(
        cluster.table(namespaced("v1", seen.namespace, "pods")), [name_of(item) for item in seen.daemonsets]
    )
    by_name = {name_of(item): item for item in troubled}
    explained: dict[str, tuple[PodRow, ...]] = {}
    left = EXAMPLES
    for name, item in by_name.items():
        kinds: dict[str, PodRow] = {}
        for row in rows.get(name, []):
            kinds.setdefault(row.status, row)
        examples = {row.name: _explain(cluster, seen.namespace, row, item) for row in list(kinds.values())[:left]}
        left -= len(examples)
        explained[name] = tuple(examples.get(row.name, row) for row in rows.get(name, []))
    return Observation(**{**vars(seen), "troubled": explained})


def _rows_by_daemonset(table: list[dict[str, t.Any]], names: list[str]) -> dict[str, list[PodRow]]:
    """Sort the pods that are not fine by DaemonSet; a pod belongs to the longest name that it starts with."""
    rows: dict[str, list[PodRow]] = {}
    for cells in table:
        ready, dummy, total = str(cells["ready"]).partition("/")
        if cells["status"] == "Running" and ready == total:
            continue
        owner = max(
            (name for name in names if re.fullmatch(re.escape(name) + r"-[a-z0-9]{5}", cells["name"])),
            key=len,
            default=None,
        )
        if owner:
            node = "" if cells.get("node") in (None, "<none>") else str(cells["node"])
            rows.setdefault(owner, []).append(
                PodRow(cells["name"], node, cells["status"], int(str(cells["restarts"]).split(" ", 1)[0]))
            )
    return rows


def _explain(cluster: Cluster, namespace: str, row: PodRow, daemonset: Json) -> PodRow:
    """Look at one pod: is it of the newest revision, and what holds it up."""
    pod = cluster.get(namespaced("v1", namespace, "pods", row.name))
    if pod is None:
        return row
    current = _shape(pod["spec"]) == _shape(daemonset["spec"]["template"]["spec"])
    cause = waiting_for(pod) or _last_warning(cluster, namespace, row.name)
    return PodRow(row.name, row.node or (pod["spec"].get("nodeName") or ""), row.status, row.restarts, cause, current)


def _shape(spec: Json) -> list[Json]:
    """What tells revisions of an operand apart and what the API server copies from the template to the pod unchanged."""
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    return [
        {key: container.get(key) for key in ("name", "image", "command", "args", "env")} for container in containers
    ]


def waiting_for(pod: Json) -> str:
    """Return what a pod's first unfinished container says of itself, or an empty string."""
    status = pod.get("status") or {}
    for item in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state = item.get("state") or {}
        waiting = state.get("waiting") or {}
        if waiting.get("message"):
            return f"container {item['name']}: {_short(waiting['message'])}"
        crash = (item.get("lastState") or {}).get("terminated") or state.get("terminated") or {}
        if crash.get("exitCode"):
            return f"container {item['name']} exited with {crash['exitCode']}" + (
                f": {_short(crash['message'])}" if crash.get("message") else ""
            )
        if "running" in state and not item.get("ready"):
            return f"container {item['name']} is still running"
    unscheduled = next(
        (c for c in status.get("conditions") or [] if c["type"] == "PodScheduled" and c["status"] == "False"), None
    )
    return _short((unscheduled or {}).get("message") or "")


def _last_warning(cluster: Cluster, namespace: str, pod: str) -> str:
    events = (
        cluster.list(namespaced("v1", namespace, "events"), fieldSelector=f"involvedObject.name={pod},type=Warning")
        or []
    )
    latest = max(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "", default=None)
    return _short(latest.get("message") or "") if latest else ""


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= 300 else line[:297] + "..."


def wait_until_ready(cluster: Cluster, namespace: str, name: str, timeout_s: float) -> tuple[Observation, Verdict]:
    """Poll until the verdict is ready; raise `GpuOpsError` with the verdict as soon as it is failed, or when time is up.

    Reasons: NotReady (waiting will not help), TimedOut, Unreachable (the API server was away for `OUTAGE_S` or to the end).
    """
    start = last_answer = time.monotonic()
    seen: Observation | None = None
    while True:
        try:
            seen = observe(cluster, namespace, name)
            last_answer = time.monotonic()
            verdict = judge(seen)
        except GpuOpsError as e:
            if e.reason not in AWAY or seen is None:
                raise
            away = time.monotonic() - last_answer
            if away > OUTAGE_S or time.monotonic() - start > timeout_s:
                raise GpuOpsError(
                    f"{e.msg} Its last answer was {int(away)} s ago.", **{**e.details, **outcome(seen, judge(seen))}
                ) from e
            time.sleep(POLL_S)
            continue
        if verdict.state == "ready":
            return seen, verdict
        waited = time.monotonic() - start
        if verdict.state == "failed":
            raise GpuOpsError(
                f"The GPU stack cannot become ready: {verdict.message}", reason="NotReady", **outcome(seen, verdict)
            )
        if waited >= timeout_s:
            raise GpuOpsError(timeout_message(verdict.message, timeout_s), reason="TimedOut", **outcome(seen, verdict))
        time.sleep(min(POLL_S, max(0.1, timeout_s - waited)))


def outcome(seen: Observation, verdict: Verdict) -> Json:
    """Return the verdict and the operands as result keys."""
    return {
        "verdict": verdict.as_result(),
        "operands": [vars(rollout) | {"images": list(rollout.images)} for rollout in verdict.operands],
    }
