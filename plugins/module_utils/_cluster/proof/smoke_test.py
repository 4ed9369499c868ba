# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Run one GPU workload on each of many nodes, judge it, and leave nothing behind."""

from __future__ import annotations

import collections
import dataclasses
import time
import typing as t
import uuid

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import nodes, signals, waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import annotations_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import (
    EXPIRES_ANNOTATION,
    NODE_ANNOTATION,
    RUN_LABEL,
    TEST_LABELS,
    Verdict,
    judge,
    manifest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

WORKLOAD_POLL_S = 0.5
DELETION_S = 10.0
"""How long to wait for the test's pods to disappear after they were deleted."""


# ---- the module's one call ----------------------------------------------------------------------------------------


def smoke_test(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Test the selected nodes; in check mode only select them. Return the module's result."""
    for name in ("count", "parallel", "timeout", "log_lines"):
        if options[name] < 1:
            raise GpuOpsError(f"{name} must be at least 1.", reason="Invalid")
    selection = select(cluster.list(namespaced("v1", None, "nodes")) or [], options)
    total = len(selection.names)
    if cluster.check_mode:
        return {"nodes": selection.names, "results": [], "summary": summary([], total)}
    tested = Run(cluster, options).test(selection.testable)
    verdicts = sorted([*selection.verdicts, *tested], key=lambda verdict: verdict.node)
    counts = summary(verdicts, total)
    return {
        "passed": not counts["failed"],
        "nodes": selection.names,
        "results": [dataclasses.asdict(verdict) for verdict in verdicts],
        "summary": counts,
    }


def summary(verdicts: list[Verdict], nodes_selected: int) -> dict[str, int]:
    """Count the verdicts."""
    passed, skipped = sum(verdict.passed for verdict in verdicts), sum(verdict.skipped for verdict in verdicts)
    failed = len(verdicts) - passed - skipped
    return {"nodes": nodes_selected, "passed": passed, "failed": failed, "skipped": skipped}


def failure(result: Json) -> str:
    """Return one line that says which nodes did not pass, and why."""
    bad = [f"{row['node']}: {one_line(row['reason'])}" for row in result["results"] if not row["passed"]]
    passed, total = result["summary"]["passed"], len(result["nodes"])
    return f"{passed} of {total} nodes passed the GPU smoke test. {first_few(bad, separator='; ')}."


# ---- which nodes --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Selection:
    """The nodes that the options select, and the verdicts that need no pod."""

    names: list[str]
    verdicts: list[Verdict]

    @property
    def testable(self) -> list[str]:
        """The nodes that a workload can run on."""
        settled = {verdict.node for verdict in self.verdicts}
        return [name for name in self.names if name not in settled]


def select(all_nodes: list[Json], options: t.Mapping[str, t.Any]) -> Selection:
    """Choose the nodes. Raises an error if there is nothing to test."""
    names = _selected(all_nodes, options)
    if not names:
        raise _nothing_to_test(options)
    by_name = {name_of(node): node for node in all_nodes}
    problems = {name: _problem(by_name.get(name), options["resource"], options["count"]) for name in names}
    return Selection(names, [Verdict(name, reason=reason) for name, reason in problems.items() if reason])


def _selected(all_nodes: list[Json], options: t.Mapping[str, t.Any]) -> list[str]:
    if options["nodes"] is not None:
        return list(dict.fromkeys(options["nodes"]))
    schedulable = [node for node in all_nodes if not nodes.is_cordoned(node)]
    if options["node_selector"] is None:
        return [name_of(node) for node in schedulable if nodes.offered(node, options["resource"])]
    selector = nodes.selector_of(options["node_selector"])
    return [name_of(node) for node in schedulable if nodes.matches(selector, node)]


def _nothing_to_test(options: t.Mapping[str, t.Any]) -> GpuOpsError:
    selector = options["node_selector"]
    selected = "" if selector is None else f" among those with the labels {selector}"
    return GpuOpsError(
        f"There is nothing to test: no schedulable node{selected} offers {options['resource']}. "
        "Check that the device plugin runs and that the nodes are not cordoned; gpu_stack_info shows both.",
        reason="NoGpuNodes",
    )


def _problem(node: Json | None, resource: str, count: int) -> str:
    """Return why no workload can run on a node, or an empty string."""
    if node is None:
        return "There is no such node."
    if not nodes.is_ready(node):
        ready: Json = next((item for item in node["status"].get("conditions") or [] if item["type"] == "Ready"), {})
        return f"The node is not Ready: {ready.get('message') or 'its kubelet has not reported yet'}."
    offered = nodes.offered(node, resource)
    if offered < count:
        return f"The node offers {offered} {resource}, but the test needs {count}. Check the node's device plugin."
    return ""


# ---- the run ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Started:
    """A workload that has been started."""

    name: str
    since: float
    seen: bool = False


class Run:
    """One run of the test over a fleet."""

    def __init__(self, cluster: Cluster, options: t.Mapping[str, t.Any]) -> None:
        self._cluster = cluster
        self._options = options
        self._id = uuid.uuid4().hex[:12]
        self._waiting: collections.deque[str] = collections.deque()
        self._active: dict[str, _Started] = {}
        self._verdicts: list[Verdict] = []
        namespace = options["namespace"]
        self._pods = namespaced("v1", namespace, "pods")
        self._objects = self._pods if options["kind"] == "Pod" else namespaced("batch/v1", namespace, "jobs")

    def test(self, names: list[str]) -> list[Verdict]:
        """Test the nodes, at most ``parallel`` at a time. Delete all created objects, even after a failure."""
        self._delete_expired()
        if not names:
            return []
        self._waiting.extend(names)
        with signals.as_exceptions():
            try:
                waiting.until(self._step, poll_s=lambda: WORKLOAD_POLL_S if self._active else 0)
            finally:
                self._delete_all()
        return self._verdicts

    def _step(self) -> bool | None:
        """Start workloads up to the limit, and judge the running ones from one LIST. Return True at the end."""
        while self._waiting and len(self._active) < self._options["parallel"]:
            self._start(self._waiting[0])
            self._waiting.popleft()
        listed = self._cluster.list(self._pods, labelSelector=f"{RUN_LABEL}={self._id}") or []
        by_node = {annotations_of(pod).get(NODE_ANNOTATION): pod for pod in listed}
        for node, started in list(self._active.items()):
            self._look(node, started, by_node.get(node))
        return None if self._waiting or self._active else True

    def _start(self, node: str) -> None:
        body = manifest(node, self._id, self._options, time.time())
        try:
            created = self._cluster.create(self._objects, body)
        except GpuOpsError as e:
            raise _explain(e, self._options["namespace"]) from e
        self._active[node] = _Started(name_of(created), time.monotonic())

    def _look(self, node: str, started: _Started, pod: Json | None) -> None:
        age_s = time.monotonic() - started.since
        if pod is None and started.seen:
            reason = "The pod disappeared while it ran: it was deleted, or evicted from the node."
            verdict: Verdict | None = Verdict("", reason=reason)
        else:
            verdict = judge(pod, age_s, self._options)
        started.seen = started.seen or pod is not None
        if verdict:
            self._verdicts.append(self._conclude(node, started, pod, verdict, age_s))

    def _conclude(self, node: str, started: _Started, pod: Json | None, verdict: Verdict, age_s: float) -> Verdict:
        """Complete a verdict with the log, and delete the workload."""
        name = name_of(pod) if pod else None
        log = self._log(name) if name and verdict.phase in ("Running", "Succeeded", "Failed") else ""
        self._cluster.delete(f"{self._objects}/{started.name}")
        del self._active[node]
        reason = verdict.reason
        if verdict.exit_code:
            last = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "it wrote no log")
            reason = f"{reason}: {last}"
        return dataclasses.replace(verdict, node=node, pod=name, log=log, reason=reason, seconds=round(age_s, 1))

    def _log(self, pod: str) -> str:
        try:
            return self._cluster.text(f"{self._pods}/{pod}/log", {"tailLines": self._options["log_lines"]})
        except GpuOpsError as e:
            return f"(no log: {e.msg})\n"

    # ---- leaving nothing behind

    def _delete_expired(self) -> None:
        """Delete expired objects of earlier runs that were killed before they could clean up."""
        selector = ",".join(f"{key}={value}" for key, value in TEST_LABELS.items())
        for item in self._cluster.list(self._objects, labelSelector=selector) or []:
            if int(annotations_of(item).get(EXPIRES_ANNOTATION, "0")) < time.time():
                self._cluster.delete(f"{self._objects}/{name_of(item)}")

    def _delete_all(self) -> None:
        """Delete this run's objects by label, because an interruption may have lost the answer to a creation."""
        try:
            waiting.until(self._delete_objects)
            self._wait_for_pods_to_go()
        except GpuOpsError as e:
            raise GpuOpsError(
                f"{e.msg} Pods of the test may be left; they end by themselves, and the next run deletes them.",
                **e.details,
            ) from e

    def _delete_objects(self) -> bool:
        for name in self._left(self._objects):
            self._cluster.delete(f"{self._objects}/{name}")
        return True

    def _wait_for_pods_to_go(self) -> None:
        deadline = time.monotonic() + DELETION_S

        def look() -> bool | None:
            return True if not self._left(self._pods) or time.monotonic() >= deadline else None

        waiting.until(look, poll_s=WORKLOAD_POLL_S)

    def _left(self, path: str) -> list[str]:
        """Return the names of this run's objects, read from storage rather than from a cache that may lag."""
        listed = self._cluster.get(path, {"labelSelector": f"{RUN_LABEL}={self._id}"}) or {}
        return [name_of(item) for item in listed.get("items") or []]


def _explain(error: GpuOpsError, namespace: str) -> GpuOpsError:
    """Add the remedy if the API's answer to a creation does not name it."""
    if error.reason == "NotFound":
        return GpuOpsError(f"Namespace {namespace} does not exist. Create it, or set namespace.", reason="NotFound")
    if "violates PodSecurity" in error.msg:
        refused = f"The pod security of namespace {namespace} refuses the workload."
        return GpuOpsError(f"{refused} Change security_context or namespace. {error.msg}", reason="Forbidden")
    return error
