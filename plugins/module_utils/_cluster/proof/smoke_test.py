# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Run one GPU workload on each of many nodes, judge it, and clean up."""

from __future__ import annotations

import collections
import dataclasses
import math
import time
import typing as t
import uuid

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_reader import NO_DEVICES, Offered
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import (
    candidates,
    priority,
    smoke_claims,
    workload,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.smoke_claims import SmokeClaims
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import (
    Options,
    WorkloadProgress,
    WorkloadVerdict,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line, whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

WORKLOAD_POLL_S = 0.5
DELETION_S = 10.0
"""How long to wait for the test's pods to disappear after they were deleted."""

LOG_BYTES = 64 * 1024
"""How much of a log is read. One line of a workload may be as long as its author likes."""

REFUSAL_S = 3.0
"""How long a Job may have no pod before the module asks whether the API server refuses it."""

NEW_CLASS_S = 15.0
"""How long the API servers may take to learn of a new PriorityClass."""


# ---- the module's one call ----------------------------------------------------------------------------------------


def prove(cluster: Cluster, options: Options) -> Json:
    """Return the result of `smoke_test`. Raises `GpuOpsError` with it if the nodes must pass and have not."""
    result = smoke_test(cluster, options)
    if options["require_pass"] and not result.get("passed", True):
        raise GpuOpsError(failure(result), **result)
    return result


def smoke_test(cluster: Cluster, options: Options) -> Json:
    """Test the selected nodes; in check mode only select them. Return the module's result."""
    refuse_below(options, count=1, parallel=1, timeout=1, log_lines=1)
    candidates.too_few_tested([], 0, options["min_tested"])
    nodes, _version = cluster.large_list(namespaced("v1", None, "nodes"), candidates.CandidateSlimmer())
    offered = device_reader.read(cluster)
    selection = candidates.select(nodes, options, offered)
    if options["priority_class_name"]:
        priority.check_given(cluster, options["priority_class_name"])
    tested = [] if cluster.check_mode else SmokeTestRun(cluster, options, offered).test(selection.testable)
    verdicts = sorted([*selection.verdicts, *tested], key=lambda verdict: verdict.node)
    counts = summary(verdicts, len(selection.names))
    result: Json = {
        "nodes": selection.names,
        "results": [dataclasses.asdict(verdict) for verdict in verdicts],
        "summary": counts,
    }
    if cluster.check_mode:
        return result
    too_few = candidates.too_few_tested(verdicts, selection.countable, options["min_tested"])
    return {**result, "too_few_tested": too_few, "passed": not counts["failed"] and not too_few}


def summary(verdicts: list[WorkloadVerdict], nodes_selected: int) -> dict[str, int]:
    """Count the verdicts."""
    passed, skipped = sum(verdict.passed for verdict in verdicts), sum(verdict.skipped for verdict in verdicts)
    failed = len(verdicts) - passed - skipped
    return {"nodes": nodes_selected, "passed": passed, "failed": failed, "skipped": skipped}


def failure(result: Json) -> str:
    """Return one line that says which nodes did not pass, and why."""
    counts, rows = result["summary"], result["results"]
    bad = [f"{row['node']}: {one_line(row['reason'])}" for row in rows if not row["passed"] and not row["skipped"]]
    skipped = f", and {counts['skipped']} were skipped" if counts["skipped"] else ""
    said = [f"{counts['passed']} of {counts['nodes']} nodes passed the GPU smoke test{skipped}."]
    said += [f"{first_few(bad, separator='; ')}."] if bad else []
    return " ".join([*said, result["too_few_tested"]]).strip()


# ---- the run ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Started:
    """A workload that has been started. ``pod`` is the name of its pod once it is known."""

    name: str
    resource: str
    since: float
    pod: str | None = None
    stuck_since: float | None = None
    devices: list[Json] = dataclasses.field(default_factory=list)
    """What the claim of its pod has, once that is known."""

    def progress(self, pod: Json | None) -> WorkloadProgress:
        """Return how far the workload is, and note since when its container has been stuck."""
        now = time.monotonic()
        self.stuck_since = (self.stuck_since or now) if workload.is_stuck(pod) else None
        return WorkloadProgress(self.resource, now - self.since, now - (self.stuck_since or now))


class SmokeTestRun:
    """One run of the test over a fleet."""

    def __init__(self, cluster: Cluster, options: Options, offered: Offered = NO_DEVICES) -> None:
        self._cluster = cluster
        self._options = options
        self._id = uuid.uuid4().hex[:12]
        self._is_held_up = False
        self._waiting: collections.deque[tuple[str, str]] = collections.deque()
        self._active: dict[str, _Started] = {}
        self._verdicts: list[WorkloadVerdict] = []
        self._class: str | None = options["priority_class_name"]
        self._own_class = f"{workload.TEST_NAME}-{self._id}"
        self._class_since = 0.0
        namespace = options["namespace"]
        self._pods = namespaced("v1", namespace, "pods")
        self._objects = self._pods if options["kind"] == "Pod" else namespaced("batch/v1", namespace, "jobs")
        self._events = namespaced("v1", namespace, "events")
        self._selector = f"{workload.RUN_LABEL}={self._id}"
        self._claims = SmokeClaims(cluster, namespace, options["count"], offered)

    def test(self, resources: t.Mapping[str, str]) -> list[WorkloadVerdict]:
        """Test the nodes, at most ``parallel`` at a time. Delete all created objects, even after a failure.

        ``resources`` has the resource to request on each node.
        """
        self._delete_expired()
        if any(map(smoke_claims.is_class, resources.values())):
            self._delete_expired_at(self._claims.templates_path)
        if not resources:
            return []
        self._waiting.extend(resources.items())
        with waiting.signals_as_exceptions():
            try:
                self._make_class()
                waiting.until(self._step, poll_s=lambda: WORKLOAD_POLL_S if self._active or self._is_held_up else 0)
            finally:
                self._delete_all()
        return self._verdicts

    def _make_class(self) -> None:
        """Make the PriorityClass of this run unless the user names one."""
        if self._class:
            return
        if priority.make(self._cluster, self._own_class, self._metadata()):
            self._class, self._class_since = self._own_class, time.monotonic()

    def _step(self) -> bool | None:
        """Start workloads up to the limit, and judge the running ones from one LIST. Return True at the end."""
        self._start_some()
        listed = self._cluster.list(self._pods, labelSelector=self._selector) or []
        claims = self._claims.read(self._selector)
        by_node = {annotations_of(pod).get(workload.NODE_ANNOTATION): pod for pod in listed}
        refused = self._refused(by_node)
        for node, started in list(self._active.items()):
            if node in refused:
                self._refuse(node, started, refused[node])
            else:
                started.devices = started.devices or self._claims.devices_of(by_node.get(node), claims)
                self._look(node, started, by_node.get(node))
        return None if self._waiting or self._active else True

    def _start_some(self) -> None:
        """Start workloads up to the limit."""
        self._is_held_up = False
        while self._waiting and not self._is_held_up and len(self._active) < self._options["parallel"]:
            self._is_held_up = not self._start(*self._waiting[0])
            if not self._is_held_up:
                self._waiting.popleft()

    def _refused(self, by_node: t.Collection[str | None]) -> dict[str, str]:
        """Return why the API server refuses the pods of Jobs that have lacked one for a while, by node.

        The controller of Jobs says so in events only.
        """
        without = {node: started for node, started in self._active.items() if node not in by_node and not started.pod}
        since = min((started.since for started in without.values()), default=math.inf)
        said = self._check_refusal() if time.monotonic() - since > REFUSAL_S else {}
        others_work = len(without) < len(self._active)
        found = {node: said.get(started.name, "") for node, started in without.items()}
        return {node: why for node, why in found.items() if _is_final(why, others_work)}

    def _check_refusal(self) -> dict[str, str]:
        """Return what the controller of Jobs was told when it tried to create a pod, by the name of the Job."""
        reasons = "reason=FailedCreate,involvedObject.kind=Job"
        events = self._cluster.list_readable(self._events, fieldSelector=reasons).items
        return {str(event["involvedObject"].get("name")): str(event.get("message") or "") for event in events}

    def _refuse(self, node: str, started: _Started, why: str) -> None:
        error = GpuOpsError(f"The pod of Job {started.name} is refused. {why}")
        verdict = WorkloadVerdict("", reason=_explain(error, self._options["namespace"]).msg)
        self._verdicts.append(self._conclude(node, started, verdict, started.progress(None).age_s))

    def _start(self, node: str, resource: str) -> bool:
        """Start a workload, or judge the node if the API refuses it. Return False if the same may work later."""
        try:
            template = self._template(resource) if smoke_claims.is_class(resource) else None
            request = workload.WorkloadRequest(node, resource, self._class, template)
            body = workload.manifest(request, self._id, self._options, self._cluster.now())
            created = self._cluster.create(self._objects, body)
        except GpuOpsError as e:
            if e.reason in AWAY:
                raise
            if self._may_work_later(e):
                return False
            error = _explain(e, self._options["namespace"])
            if _concerns_every_node(error) and not self._active and not self._verdicts:
                raise error from e
            self._verdicts.append(WorkloadVerdict(node, resource=resource, reason=error.msg))
            return True
        pod = name_of(created) if self._options["kind"] == "Pod" else None
        self._active[node] = _Started(name_of(created), resource, time.monotonic(), pod)
        return True

    def _template(self, device_class: str) -> str:
        """Return the name of the template for the claims of pods."""
        return self._claims.template(device_class, self._own_class, self._metadata())

    def _metadata(self) -> Json:
        """Return the labels and annotations of what outlives each workload of this run."""
        longest_s = math.ceil((len(self._waiting) + len(self._active)) / self._options["parallel"])
        return workload.metadata_of(self._id, self._cluster.now() + longest_s * self._options["timeout"])

    def _may_work_later(self, error: GpuOpsError) -> bool:
        """Return whether a quota may become free, or an API server has not heard of the new PriorityClass yet."""
        if "exceeded quota" in error.msg:
            return bool(self._active)
        is_new = time.monotonic() - self._class_since < NEW_CLASS_S
        return is_new and f"no PriorityClass with name {self._own_class} was found" in error.msg

    def _look(self, node: str, started: _Started, pod: Json | None) -> None:
        if pod is None and started.pod:  # the list may come from an API server whose cache lags
            pod = self._cluster.get(f"{self._pods}/{started.pod}")
        progress = started.progress(pod)
        if pod is None and started.pod:
            reason = "The pod disappeared while it ran: it was deleted, or evicted from the node."
            verdict: WorkloadVerdict | None = WorkloadVerdict("", reason=reason)
        else:
            verdict = workload.judge(pod, progress, self._options)
        started.pod = name_of(pod) if pod else started.pod
        if verdict:
            self._verdicts.append(self._conclude(node, started, verdict, progress.age_s))

    def _conclude(self, node: str, started: _Started, verdict: WorkloadVerdict, age_s: float) -> WorkloadVerdict:
        """Complete a verdict with the log, and delete the workload."""
        log = self._log(started.pod) if started.pod and verdict.phase in ("Running", "Succeeded", "Failed") else ""
        self._cluster.delete(f"{self._objects}/{started.name}")
        del self._active[node]
        reason = verdict.reason
        if verdict.exit_code:
            last = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "it wrote no log")
            reason = f"{reason}: {last}"
        strange = smoke_claims.contradiction(log, started.devices) if verdict.passed else ""
        if strange:
            verdict, reason = dataclasses.replace(verdict, passed=False), strange
        seen: Json = {"resource": started.resource, "pod": started.pod, "log": log, "seconds": round(age_s, 1)}
        return dataclasses.replace(verdict, node=node, reason=reason, devices=tuple(started.devices), **seen)

    def _log(self, pod: str) -> str:
        try:
            return self._cluster.text(
                f"{self._pods}/{pod}/log", {"tailLines": self._options["log_lines"], "limitBytes": LOG_BYTES}
            )
        except GpuOpsError as e:
            return f"(no log: {e.msg})\n"

    # ---- leaving nothing behind

    def _delete_expired(self) -> None:
        """Delete expired objects of earlier runs that were killed before they could clean up."""
        self._delete_expired_at(self._objects)
        try:
            self._delete_expired_at(priority.CLASSES_PATH)
        except GpuOpsError as e:
            if e.reason != "Forbidden":  # a user who may not delete classes has not created one
                raise

    def _delete_expired_at(self, path: str) -> None:
        selector = ",".join(f"{key}={value}" for key, value in workload.TEST_LABELS.items())
        for item in self._cluster.list(path, labelSelector=selector) or []:
            if (whole_number(annotations_of(item).get(workload.EXPIRES_ANNOTATION)) or 0) < self._cluster.now():
                self._cluster.delete(f"{path}/{name_of(item)}")

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
        self._claims.delete(self._selector)
        if self._class in (None, self._own_class):
            self._delete_class()
        return True

    def _delete_class(self) -> None:
        """Delete the PriorityClass of this run, which may exist although the answer to its creation was lost."""
        try:
            self._cluster.delete(f"{priority.CLASSES_PATH}/{self._own_class}")
        except GpuOpsError as e:
            if e.reason != "Forbidden" or self._class:
                raise

    def _wait_for_pods_to_go(self) -> None:
        deadline = time.monotonic() + DELETION_S

        def look() -> bool | None:
            return True if not self._left(self._pods) or time.monotonic() >= deadline else None

        waiting.until(look, poll_s=WORKLOAD_POLL_S)

    def _left(self, path: str) -> list[str]:
        """Return the names of this run's objects, read from storage rather than from a cache that may lag."""
        listed = self._cluster.get(path, {"labelSelector": self._selector}) or {}
        return [name_of(item) for item in listed.get("items") or []]


def _is_final(refusal: str, others_work: bool) -> bool:
    """Return whether a pod was refused for good: a quota may become free when another workload ends."""
    return bool(refusal) and not (others_work and "exceeded quota" in refusal)


def _concerns_every_node(error: GpuOpsError) -> bool:
    """Return whether a refusal is independent of the one workload that was refused."""
    is_forbidden = error.reason == "Forbidden" and any(
        words in error.msg for words in ("cannot create resource", "violates PodSecurity")
    )
    return is_forbidden or error.reason in ("NotFound", "Unauthorized")


def _explain(error: GpuOpsError, namespace: str) -> GpuOpsError:
    """Add the remedy if the API's answer to a creation does not name it."""
    if error.reason == "NotFound":
        return GpuOpsError(f"Namespace {namespace} does not exist. Create it, or set namespace.", reason="NotFound")
    if "violates PodSecurity" in error.msg:
        refused = f"The pod security of namespace {namespace} refuses the workload."
        return GpuOpsError(f"{refused} Change security_context or namespace. {error.msg}", reason="Forbidden")
    if "exceeded quota" in error.msg:
        remedy = f"Raise the quota of namespace {namespace}, or set namespace."
        return GpuOpsError(f"{error.msg.rstrip('.')}. {remedy}", **error.details)
    return error
