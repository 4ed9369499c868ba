# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""One GPU workload on one node: its pod or Job, and the verdict on it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import smoke_claims
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

TEST_NAME = "gpu-smoke-test"
TEST_LABELS = {"app.kubernetes.io/name": TEST_NAME, "app.kubernetes.io/managed-by": "gpuops.nvidia"}
RUN_LABEL = "gpuops.nvidia/run"
NODE_ANNOTATION = "gpuops.nvidia/node"
EXPIRES_ANNOTATION = "gpuops.nvidia/expires"
"""When the object expires, in seconds since the epoch. A later run deletes expired objects."""

UNSCHEDULABLE_S = 10.0
"""How long a pod may stay unschedulable: the scheduler takes a moment to see a GPU that was just freed."""

EXPIRY_MARGIN_S = 60
RESTRICTED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""A security context that the restricted pod security standard admits."""

_PULL_REMEDY = "Check image and image_pull_secrets, and that the node reaches the registry."
_REMEDIES = {
    "ImagePullBackOff": _PULL_REMEDY,
    "ErrImagePull": _PULL_REMEDY,
    "InvalidImageName": "Correct image.",
    "ErrImageNeverPull": "The node does not have the image: change image_pull_policy.",
    "CreateContainerConfigError": "Check image_pull_secrets and security_context.",
    "CreateContainerError": "Check the node's container runtime and the NVIDIA container toolkit.",
    "RunContainerError": "Check command, the node's container runtime and the NVIDIA container toolkit.",
}
"""What to do about a container that does not start."""


@dataclasses.dataclass(frozen=True)
class WorkloadVerdict:
    """The result for one node. ``code`` is a word for the cause if the node was skipped."""

    node: str
    passed: bool = False
    skipped: bool = False
    code: str = ""
    resource: str | None = None
    phase: str | None = None
    exit_code: int | None = None
    reason: str = ""
    log: str = ""
    pod: str | None = None
    seconds: float = 0.0
    devices: tuple[Json, ...] = ()


@dataclasses.dataclass(frozen=True)
class WorkloadRequest:
    """What one workload asks for: a resource of a node, in a PriorityClass or the cluster's default.

    With a ``claim_template``, the resource is a DeviceClass, and the template makes the pod's claim.
    """

    node: str
    resource: str
    priority_class: str | None = None
    claim_template: str | None = None


def metadata_of(run: str, expires: float) -> Json:
    """Return the labels and annotations of everything that a run creates. ``expires`` is by the API server's clock."""
    return {
        "labels": {**TEST_LABELS, RUN_LABEL: run},
        "annotations": {EXPIRES_ANNOTATION: str(int(expires + EXPIRY_MARGIN_S))},
    }


def manifest(request: WorkloadRequest, run: str, options: Options, now: float) -> Json:
    """Return the pod or Job that tests one node. ``run`` identifies the run that creates it."""
    metadata = metadata_of(run, now + options["timeout"])
    metadata["annotations"][NODE_ANNOTATION] = request.node
    named = {**metadata, "generateName": f"{TEST_NAME}-"}
    spec = _pod_spec(request, options)
    if options["kind"] == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}
    job = {"backoffLimit": 0, "template": {"metadata": metadata, "spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": job}


def _pod_spec(request: WorkloadRequest, options: Options) -> Json:
    return _without_none(
        {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": options["timeout"],
            "automountServiceAccountToken": False,
            "serviceAccountName": options["service_account_name"],
            "terminationGracePeriodSeconds": 1,
            "runtimeClassName": options["runtime_class_name"],
            "priorityClassName": request.priority_class,
            "imagePullSecrets": [{"name": name} for name in options["image_pull_secrets"]],
            "tolerations": options["tolerations"],
            "affinity": {"nodeAffinity": _only_on(request.node)},
            "resourceClaims": _claims(request),
            "containers": [_container(request, options)],
        }
    )


def _claims(request: WorkloadRequest) -> list[Json] | None:
    if request.claim_template is None:
        return None
    return [{"name": smoke_claims.REQUEST, "resourceClaimTemplateName": request.claim_template}]


def _container(request: WorkloadRequest, options: Options) -> Json:
    limits: Json = {"limits": {request.resource: str(options["count"])}}
    return _without_none(
        {
            "name": "workload",
            "image": options["image"],
            "imagePullPolicy": options["image_pull_policy"],
            "command": options["command"],
            "args": options["args"],
            "resources": {"claims": [{"name": smoke_claims.REQUEST}]} if request.claim_template else limits,
            "securityContext": RESTRICTED if options["security_context"] is None else options["security_context"],
        }
    )


def _without_none(fields: Json) -> Json:
    return {key: value for key, value in fields.items() if value is not None}


def _only_on(node: str) -> Json:
    """Choose the node by affinity rather than by ``nodeName``, so that the scheduler accounts for the GPU."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


# ---- the verdict --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class WorkloadProgress:
    """How long a workload exists, and how long its container has been in a state in which it does not start."""

    resource: str
    age_s: float
    stuck_s: float = 0.0


def is_stuck(pod: Json | None) -> bool:
    """Return whether the pod's container waits in a state that may last forever."""
    return _waiting((pod or {}).get("status") or {}).get("reason") in pods.NEVER_STARTS


def judge(pod: Json | None, progress: WorkloadProgress, options: Options) -> WorkloadVerdict | None:
    """Return the verdict on a workload, or None while it may still pass.

    The caller adds the node, the resource and the log.
    """
    status = (pod or {}).get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return WorkloadVerdict("", passed=True, phase=phase, exit_code=0)
    verdict = _judge_displaced(status) or _judge_refused(status, progress, options)
    if not verdict:
        verdict = _judge_end(status) if phase == "Failed" else _judge_wait(status, progress, options)
    return dataclasses.replace(verdict, phase=phase) if verdict else None


def _judge_wait(status: Json, progress: WorkloadProgress, options: Options) -> WorkloadVerdict | None:
    """Judge a pod that has not ended."""
    verdict = _judge_start(status, progress) or _judge_schedule(status, progress, options)
    if verdict or progress.age_s < options["timeout"]:
        return verdict
    return WorkloadVerdict("", reason=_too_long(status, progress, options))


_DISPLACED = ("PreemptionByScheduler", "EvictionByEvictionAPI")
"""Why a pod is removed for others' sake, without a fault of the node or of the pod."""


def _judge_displaced(status: Json) -> WorkloadVerdict | None:
    """Judge a pod that had to make way: every other pod has a higher priority."""
    for item in status.get("conditions") or []:
        if item["type"] == "DisruptionTarget" and item.get("reason") in _DISPLACED:
            reason = f"The pod had to make way ({item['reason']}): {item.get('message') or 'no message'}."
            return WorkloadVerdict("", skipped=True, code="Displaced", reason=reason)
    return None


def _judge_refused(status: Json, progress: WorkloadProgress, options: Options) -> WorkloadVerdict | None:
    """Judge a pod that the kubelet refused because another pod took the GPU first."""
    if status.get("reason") == f"OutOf{progress.resource}" and options["skip_busy"]:
        return _busy(progress.resource)
    return None


def _busy(resource: str) -> WorkloadVerdict:
    remedy = "Test the node when it is idle, or wait for a free GPU with skip_busy: false."
    return WorkloadVerdict("", skipped=True, code="Busy", reason=f"Other pods hold the node's {resource}. {remedy}")


def _judge_end(status: Json) -> WorkloadVerdict:
    ended = _terminated(status)
    code = ended.get("exitCode")
    why = status.get("reason") or ended.get("reason") or ""
    if code is None:
        said = status.get("message") or "no message"
        reason = f"The node refused or ended the pod ({why or 'no reason given'}): {said}."
        return WorkloadVerdict("", reason=reason)
    named = f" ({why})" if why not in ("", "Error") else ""
    return WorkloadVerdict("", exit_code=code, reason=f"The workload ended with status {code}{named}")


def _judge_start(status: Json, progress: WorkloadProgress) -> WorkloadVerdict | None:
    """Judge a container that does not start."""
    waiting = _waiting(status)
    cause, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if not pods.never_starts(cause, message, progress.stuck_s):
        return None
    said = f": {message}" if message else ""
    return WorkloadVerdict("", reason=f"{cause}{said}. {_REMEDIES[cause]}")


_ALL_HELD = "cannot allocate all claims"
"""The scheduler's words for a node without enough free devices. Source: Kubernetes 1.36,
``pkg/scheduler/framework/plugins/dynamicresources``."""


def _judge_schedule(status: Json, progress: WorkloadProgress, options: Options) -> WorkloadVerdict | None:
    """Judge a pod that the scheduler cannot place. None means that a GPU may still become free."""
    message = _unschedulable(status)
    if not message or progress.age_s < UNSCHEDULABLE_S:
        return None
    if f"Insufficient {progress.resource}" not in message and _ALL_HELD not in message:
        return WorkloadVerdict("", reason=f"The scheduler cannot place the pod: {message}")
    return _busy(progress.resource) if options["skip_busy"] else None


def _too_long(status: Json, progress: WorkloadProgress, options: Options) -> str:
    phase, after = status.get("phase"), f"after {options['timeout']} s"
    if _unschedulable(status):
        held = f"other pods held the node's {progress.resource}"
        return f"The pod was not placed {after}, because {held}. Test the node when it is idle."
    if phase == "Running":
        return f"The workload was still running {after}. Raise timeout, or check the GPUs of the node."
    waiting = _waiting(status)
    cause = waiting.get("reason") or "no reason given"
    said = f": {waiting['message']}" if cause in pods.NEVER_STARTS and waiting.get("message") else ""
    state = f"was {phase} ({cause}{said})" if phase else "did not appear"
    return f"The pod {state} {after}. Raise timeout, or check the node's kubelet."


def _container_state(status: Json, kind: str) -> Json:
    """Return the first state of this kind (``waiting``, ``terminated``) among the containers."""
    states = (item.get("state") or {} for item in status.get("containerStatuses") or [])
    return next((state[kind] for state in states if state.get(kind)), {})


def _waiting(status: Json) -> Json:
    return _container_state(status, "waiting")


def _terminated(status: Json) -> Json:
    return _container_state(status, "terminated")


def _unschedulable(status: Json) -> str:
    """Return the scheduler's message if it cannot place the pod, or an empty string."""
    for item in status.get("conditions") or []:
        if item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable":
            return item.get("message") or ""
    return ""
