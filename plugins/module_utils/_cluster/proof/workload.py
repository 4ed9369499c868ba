# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Running one GPU workload on each of many nodes, judging it, and leaving nothing behind."""

from __future__ import annotations

import collections
import dataclasses
import time
import typing as t
import uuid

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import signals
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.nodes import is_ready, matches, selector_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NAME = "gpu-smoke-test"
OURS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "gpuops.nvidia"}
RUN_LABEL = "gpuops.nvidia/run"
NODE_ANNOTATION = "gpuops.nvidia/node"
EXPIRES_ANNOTATION = "gpuops.nvidia/expires"
"""When the object is nobody's any more, in seconds since 1970. A later run deletes it then."""

POLL_S = 0.5
SETTLE_S = 10.0
"""How long a pod may stay unschedulable before that is believed: a GPU that was just freed takes a moment to be seen."""

OUTAGE_S = 15.0
"""How long the API server may be away in the middle of a run."""

EXPIRY_MARGIN_S = 60
RESTRICTED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""A security context that the restricted pod security standard admits."""

# Waiting reasons of a container that do not get better by waiting.
_HOPELESS = {
    "ImagePullBackOff": "Check image and image_pull_secrets, and that the node reaches the registry.",
    "InvalidImageName": "Correct image.",
    "ErrImageNeverPull": "The node does not have the image: change image_pull_policy.",
    "CreateContainerConfigError": "Check image_pull_secrets and security_context.",
    "CreateContainerError": "Check the node's container runtime and the NVIDIA container toolkit.",
    "RunContainerError": "Check command, the node's container runtime and the NVIDIA container toolkit.",
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The verdict for one node."""

    node: str
    passed: bool = False
    skipped: bool = False
    phase: str | None = None
    exit_code: int | None = None
    reason: str = ""
    log: str = ""
    pod: str | None = None
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class Selection:
    """The nodes that the options select, and the verdicts that need no pod."""

    names: list[str]
    outcomes: list[Outcome]

    @property
    def testable(self) -> list[str]:
        """The nodes that a workload can run on."""
        settled = {outcome.node for outcome in self.outcomes}
        return [name for name in self.names if name not in settled]


def select(nodes: list[Json], options: t.Mapping[str, t.Any]) -> Selection:
    """Choose the nodes. Raises when there is nothing to test."""
    by_name = {node["metadata"]["name"]: node for node in nodes}
    resource = options["resource"]
    if options["nodes"] is not None:
        names = list(dict.fromkeys(options["nodes"]))
    elif options["node_selector"] is not None:
        selector = selector_of(options["node_selector"])
        names = [name for name, node in by_name.items() if _schedulable(node) and matches(selector, node)]
    else:
        names = [name for name, node in by_name.items() if _schedulable(node) and _offers(node, resource)]
    if not names:
        selected = (
            "" if options["node_selector"] is None else f" among those with the labels {options['node_selector']}"
        )
        raise GpuOpsError(
            f"There is nothing to test: no schedulable node{selected} offers {resource}. "
            "Check that the device plugin runs and that the nodes are not cordoned; gpu_stack_info shows both.",
            reason="NoGpuNodes",
        )
    troubles = ((name, _trouble(by_name.get(name), resource, options["count"])) for name in names)
    return Selection(names, [Outcome(name, reason=reason) for name, reason in troubles if reason])


def _schedulable(node: Json) -> bool:
    return not node["spec"].get("unschedulable")


def _offers(node: Json, resource: str) -> int:
    return int((node["status"].get("allocatable") or {}).get(resource, 0))


def _trouble(node: Json | None, resource: str, count: int) -> str:
    """Return why no workload can run on a node, or an empty string."""
    if node is None:
        return "There is no such node."
    if not is_ready(node):
        said = next(
            (item.get("message") for item in node["status"].get("conditions") or [] if item["type"] == "Ready"), None
        )
        return f"The node is not Ready: {said or 'its kubelet has not reported yet'}."
    offered = _offers(node, resource)
    if offered < count:
        return f"The node offers {offered} {resource}, the test asks for {count}. Check the device plugin on this node."
    return ""


def manifest(node: str, run: str, options: t.Mapping[str, t.Any], now: float) -> Json:
    """Return the pod or Job that tests one node.

    The node is chosen by affinity rather than by ``nodeName``, so that the scheduler accounts for the GPU.
    """
    container = {
        "name": "workload",
        "image": options["image"],
        "imagePullPolicy": options["image_pull_policy"],
        "command": options["command"],
        "args": options["args"],
        "resources": {"limits": {options["resource"]: str(options["count"])}},
        "securityContext": RESTRICTED if options["security_context"] is None else options["security_context"],
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": options["timeout"],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "runtimeClassName": options["runtime_class_name"],
        "priorityClassName": options["priority_class_name"],
        "imagePullSecrets": [{"name": name} for name in options["image_pull_secrets"]],
        "tolerations": options["tolerations"],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_only(node)]}}
        },
        "containers": [{key: value for key, value in container.items() if value is not None}],
    }
    spec = {key: value for key, value in spec.items() if value is not None}
    labels = {**OURS, RUN_LABEL: run}
    annotations = {NODE_ANNOTATION: node, EXPIRES_ANNOTATION: str(int(now + options["timeout"] + EXPIRY_MARGIN_S))}
    metadata = {"labels": labels, "annotations": annotations}
    named = {**metadata, "generateName": f"{NAME}-"}
    if options["kind"] == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}
    template = {"metadata": metadata, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": named,
        "spec": {"backoffLimit": 0, "template": template},
    }


def _only(node: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def judge(pod: Json | None, age_s: float, options: t.Mapping[str, t.Any]) -> Outcome | None:
    """Return the verdict on a workload of a certain age, or None while it may still pass. The node and log are the caller's."""
    status = (pod or {}).get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return Outcome("", passed=True, phase=phase, exit_code=0)
    if phase == "Failed":
        return _failed(status)
    waiting = _waiting(status)
    if waiting.get("reason") in _HOPELESS:
        said = f": {waiting['message']}" if waiting.get("message") else ""
        return Outcome("", phase=phase, reason=f"{waiting['reason']}{said}. {_HOPELESS[waiting['reason']]}")
    unschedulable = _unschedulable(status)
    if unschedulable and age_s >= SETTLE_S:
        verdict = _no_place(unschedulable, options)
        if verdict:
            return dataclasses.replace(verdict, phase=phase)
    if age_s >= options["timeout"]:
        return Outcome("", phase=phase, reason=_too_long(phase, waiting, unschedulable, options))
    return None


def _failed(status: Json) -> Outcome:
    ended: Json = next(
        (
            item["state"]["terminated"]
            for item in status.get("containerStatuses") or []
            if (item.get("state") or {}).get("terminated")
        ),
        {},
    )
    code = ended.get("exitCode")
    said = status.get("message") or ended.get("message") or ""
    why = status.get("reason") or ended.get("reason") or ""
    if code is None:
        return Outcome(
            "",
            phase="Failed",
            reason=f"The node refused or ended the pod ({why or 'no reason given'}): {said or 'no message'}.",
        )
    named = f" ({why})" if why not in ("", "Error") else ""
    return Outcome("", phase="Failed", exit_code=code, reason=f"The workload ended with status {code}{named}")


def _too_long(phase: str | None, waiting: Json, unschedulable: str, options: t.Mapping[str, t.Any]) -> str:
    after = f"after {options['timeout']} s"
    if unschedulable:
        return f"Other pods held the node's {options['resource']} and it was not placed {after}. Test the node when it is idle."
    if phase == "Running":
        return f"The workload still ran {after}. Raise timeout, or look at the GPUs of the node."
    state = f"was {phase} ({waiting.get('reason') or 'no reason given'})" if phase else "did not appear"
    return f"The pod {state} {after}. Raise timeout, or look at the node's kubelet."


def _waiting(status: Json) -> Json:
    states = (item.get("state") or {} for item in status.get("containerStatuses") or [])
    return next((state["waiting"] for state in states if state.get("waiting")), {})


def _unschedulable(status: Json) -> str:
    conditions = status.get("conditions") or []
    return next(
        (
            item.get("message") or ""
            for item in conditions
            if item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable"
        ),
        "",
    )


def _no_place(message: str, options: t.Mapping[str, t.Any]) -> Outcome | None:
    """Judge a pod that the scheduler has no place for; None means that a GPU may become free."""
    if f"Insufficient {options['resource']}" not in message:
        return Outcome("", reason=f"The scheduler cannot place the pod: {message}")
    if not options["skip_busy"]:
        return None
    return Outcome(
        "",
        skipped=True,
        reason=f"Other pods hold the node's {options['resource']}. Test it when it is idle, or wait for it with skip_busy: false.",
    )


@dataclasses.dataclass
class _Started:
    """A workload that runs."""

    name: str
    since: float
    seen: bool = False


class Run:
    """One run of the test over a fleet."""

    def __init__(self, cluster: Cluster, options: t.Mapping[str, t.Any]) -> None:
        self._cluster = cluster
        self._options = options
        self._id = uuid.uuid4().hex[:12]
        self._active: dict[str, _Started] = {}
        self._outcomes: list[Outcome] = []
        namespace = options["namespace"]
        self._pods = namespaced("v1", namespace, "pods")
        self._objects = self._pods if options["kind"] == "Pod" else namespaced("batch/v1", namespace, "jobs")

    def test(self, nodes: list[str]) -> list[Outcome]:
        """Test the nodes, at most ``parallel`` at a time. Whatever happens, nothing stays."""
        self._delete_expired()
        waiting, reached = collections.deque(nodes), time.monotonic()
        with signals.as_exceptions():
            try:
                while waiting or self._active:
                    try:
                        self._step(waiting)
                        reached = time.monotonic()
                    except GpuOpsError as e:
                        if e.reason not in AWAY or time.monotonic() - reached > OUTAGE_S:
                            raise
                    time.sleep(POLL_S if self._active else 0)
            finally:
                self._delete_all()
        return self._outcomes

    def _step(self, waiting: collections.deque[str]) -> None:
        """Start what there is room for, then judge every running workload from one LIST."""
        while waiting and len(self._active) < self._options["parallel"]:
            self._start(waiting[0])
            waiting.popleft()
        listed = self._cluster.list(self._pods, labelSelector=f"{RUN_LABEL}={self._id}") or []
        by_node = {(pod["metadata"].get("annotations") or {}).get(NODE_ANNOTATION): pod for pod in listed}
        for node, started in list(self._active.items()):
            self._look(node, started, by_node.get(node))

    def _start(self, node: str) -> None:
        body = manifest(node, self._id, self._options, time.time())
        try:
            made = self._cluster.create(self._objects, body)
        except GpuOpsError as e:
            raise _explain(e, self._options["namespace"]) from e
        self._active[node] = _Started(made["metadata"]["name"], time.monotonic())

    def _look(self, node: str, started: _Started, pod: Json | None) -> None:
        age_s = time.monotonic() - started.since
        if pod is None and started.seen:
            verdict: Outcome | None = Outcome(
                "", reason="The pod vanished while it ran: somebody deleted it, or evicted it from the node."
            )
        else:
            verdict = judge(pod, age_s, self._options)
        started.seen = started.seen or pod is not None
        if verdict:
            self._outcomes.append(self._conclude(node, started, pod, verdict, age_s))

    def _conclude(self, node: str, started: _Started, pod: Json | None, verdict: Outcome, age_s: float) -> Outcome:
        """Complete a verdict with the log, and delete the workload."""
        name = pod["metadata"]["name"] if pod else None
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

    def _delete_expired(self) -> None:
        """Delete what a run left that was killed before it could."""
        selector = ",".join(f"{key}={value}" for key, value in OURS.items())
        for item in self._cluster.list(self._objects, labelSelector=selector) or []:
            expires = (item["metadata"].get("annotations") or {}).get(EXPIRES_ANNOTATION, "0")
            if int(expires) < time.time():
                self._cluster.delete(f"{self._objects}/{item['metadata']['name']}")

    def _delete_all(self) -> None:
        """Delete what is still there of this run, by label: an interruption may have come between a creation and its answer."""
        try:
            for name in self._left(self._objects):
                self._cluster.delete(f"{self._objects}/{name}")
            deadline = time.monotonic() + SETTLE_S
            while self._left(self._pods) and time.monotonic() < deadline:
                time.sleep(POLL_S)
        except GpuOpsError as e:
            raise GpuOpsError(
                f"{e.msg} Pods of the test may be left; they end by themselves, and the next run deletes them.",
                **e.details,
            ) from e

    def _left(self, path: str) -> list[str]:
        """Return the names of this run's objects, read from storage rather than from a cache that may lag."""
        listed = self._cluster.get(path, {"labelSelector": f"{RUN_LABEL}={self._id}"}) or {}
        return [item["metadata"]["name"] for item in listed.get("items") or []]


def _explain(error: GpuOpsError, namespace: str) -> GpuOpsError:
    """Name the remedy where the API's answer to a creation does not."""
    if error.reason == "NotFound":
        return GpuOpsError(f"Namespace {namespace} does not exist. Create it, or set namespace.", reason="NotFound")
    if "violates PodSecurity" in error.msg:
        return GpuOpsError(
            f"The pod security of namespace {namespace} refuses the workload. Change security_context or namespace. {error.msg}",
            reason="Forbidden",
        )
    return error
