# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reasons why the stack is not ready: the operands' DaemonSets and pods."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import driver_reasons, rollouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    DaemonSetRollout,
    Observation,
    PodRow,
    Reason,
    Reasons,
    Refusal,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import Operand
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PULL = "Check the image, its tag and the pull secret, and that the node can reach the registry."
_RUNTIME = "See the pod's events, and check the node's container runtime."
REMEDIES = {
    "ImagePullBackOff": _PULL,
    "ErrImagePull": _PULL,
    "InvalidImageName": "Correct the operand's repository, image and version.",
    "ErrImageNeverPull": "Set the operand's imagePullPolicy to IfNotPresent, or load the image on the node.",
    "CreateContainerConfigError": "Create the ConfigMap or Secret that the pod refers to.",
    "CreateContainerError": _RUNTIME,
    "RunContainerError": _RUNTIME,
}
"""What to do about an operand's pod in one of the states `pods.NEVER_STARTS`."""


def about_operands(observation: Observation, found: list[DaemonSetRollout], gpu_nodes: list[Json]) -> Reasons:
    """Yield what is missing in each rollout. Rollouts are in order of dependency."""
    if not gpu_nodes:
        return
    by_name = {operand.name: operand for operand in operands.ALL_OPERANDS}
    daemonsets = {objects.name_of(item): item for item in observation.daemonsets}
    for rollout in found:
        operand = by_name[rollout.operand]
        if rollout.daemonset is None:
            yield from _about_missing(observation, operand, rollout)
        elif operands.belongs(operand, rollout.daemonset) and not operands.enabled(operand, observation.spec):
            message = f"{operand.name} is disabled, but DaemonSet {rollout.daemonset} still exists."
            yield Reason("progressing", "OperandNotRemoved", message, operand=operand.name)
        else:
            yield from _about_rollout(observation, operand, rollout, daemonsets[rollout.daemonset])


def _if_never_seen(observation: Observation) -> str:
    """Return what to do if the operator has never written a status, or an empty string."""
    if (observation.subject or {}).get("status"):
        return ""
    logs = f"kubectl logs -n {observation.namespace} deployment/{names.OPERATOR}"
    return f"The operator has not written a status yet. If that lasts, its process does not work: see `{logs}`."


def _about_missing(observation: Observation, operand: Operand, rollout: DaemonSetRollout) -> Reasons:
    spec = observation.spec
    if rollout.state != "disabled":
        message = f"{operand.name}: the operator has not created DaemonSet {operand.daemonset} yet."
        yield Reason("progressing", "OperandMissing", message, _if_never_seen(observation), operand=operand.name)
    elif operand is operands.DRIVER and operands.delegates_driver(spec):
        yield Reason(
            "progressing",
            "NoNVIDIADriver",
            "driver.useNvidiaDriverCRD is true, but no NVIDIADriver has a driver DaemonSet, so no node gets a driver.",
            "Create an NVIDIADriver, for example with default: true.",
            operand=operand.name,
        )


def _about_rollout(observation: Observation, operand: Operand, rollout: DaemonSetRollout, daemonset: Json) -> Reasons:
    yield from _about_image(observation.spec, operand, rollout, daemonset)
    rows = observation.troubled.get(objects.name_of(daemonset), ())
    refusal = observation.refusals.get(objects.name_of(daemonset))
    if refusal and rollout.state != "ready":
        yield _refused(observation, operand, rollout, refusal)
    if rollout.state != "ready" and rows:
        yield from _about_pods(observation, operand, rollout, rows)
    elif rollout.desired != rollout.expected:
        message = (
            f"{operand.name}: {rollout.desired} pods are scheduled for {rollout.expected} nodes; "
            "the DaemonSet controller is behind."
        )
        desired, expected = rollout.desired, rollout.expected
        yield Reason("progressing", "NotScheduled", message, operand=operand.name, count=desired, total=expected)
    elif rollout.state != "ready":
        yield _outdated(observation, operand, rollout, daemonset)


def _refused(observation: Observation, operand: Operand, rollout: DaemonSetRollout, refusal: Refusal) -> Reason:
    remedy = f"Exempt namespace {observation.namespace} from the policy or quota that the message names, or correct it."
    if "failed calling webhook" in refusal.message:
        remedy = "Start that webhook's service, or remove the webhook's configuration."
    return Reason(
        "failed" if rollouts.is_final(refusal, observation.waited_s) else "progressing",
        "PodsRefused",
        f"{operand.name}: {rollout.available} of {rollout.expected} nodes ready; "
        f"the API server refuses to create pods: {refusal.message}.",
        remedy,
        operand=operand.name,
        total=rollout.expected,
    )


def _about_image(spec: Json, operand: Operand, rollout: DaemonSetRollout, daemonset: Json) -> Reasons:
    """Yield a reason if the operand still runs a different image from that in the spec."""
    if not operands.belongs(operand, objects.name_of(daemonset)) or not rollout.images:
        return  # an NVIDIADriver has its own spec
    wanted, running = operands.image_of(spec.get(operand.key) or {}), rollout.images[0]
    if not wanted or _is_image(running, wanted, operand):
        return
    if _is_image(_name(running), _name(wanted), operand):
        message = f"{operand.name}: {running} runs in place of {wanted}: something rewrites the registry of images."
        yield Reason("note", "OtherRegistry", message, operand=operand.name)
        return
    message = f"{operand.name}: the operator still runs {running} instead of {wanted}; it has not acted on the change."
    yield Reason("progressing", "OldImage", message, operand=operand.name)


def _is_image(running: str, wanted: str, operand: Operand) -> bool:
    # The operator adds the node's operating system to the driver's tag (and its kernel, when precompiled).
    return running == wanted or (operand is operands.DRIVER and running.startswith(wanted + "-"))


def _name(image: str) -> str:
    """Return an image without its registry and folders. An admission policy for a mirror rewrites only these."""
    return image.rpartition("/")[2]


def _outdated(observation: Observation, operand: Operand, rollout: DaemonSetRollout, daemonset: Json) -> Reason:
    """Return the reason for a rollout with outdated or unavailable pods that are not in trouble."""
    done, what = rollout.available, "an available pod"
    if rollout.updated < rollout.desired:
        done, what = rollout.updated, "the new revision"
    message = f"{operand.name}: {done} of {rollout.expected} nodes run {what}."
    if not _stays_outdated(observation, operand, rollout, daemonset):
        total = rollout.expected
        return Reason("progressing", "RollingOut", message, operand=operand.name, count=done, total=total)
    remedy = "Set daemonsets.updateStrategy to RollingUpdate, or delete the pods node by node."
    if names.TOOLKIT_ROLLOUT_MARK in objects.annotations_of(observation.policy or {"metadata": {}}):
        remedy = "A rollout of the toolkit has not ended. Run site.yml again to continue it."
    if operand is operands.DRIVER:
        remedy = (
            "These pods are replaced only when somebody deletes them: set driver.upgradePolicy.autoUpgrade, "
            "or delete them node by node."
        )
    return Reason("failed", "PodsOutdated", message, remedy, operand.name, count=done, total=rollout.expected)


def _stays_outdated(observation: Observation, operand: Operand, rollout: DaemonSetRollout, daemonset: Json) -> bool:
    """Return whether there are pods of an old revision that stay."""
    # Pods that do not exist yet also count as not updated, but they need no deletion.
    status = daemonset.get("status") or {}
    outside = int(status.get("desiredNumberScheduled", 0)) - rollout.desired
    has_old_pods = int(status.get("currentNumberScheduled", 0)) - outside > rollout.updated
    is_manual = daemonset["spec"]["updateStrategy"]["type"] == "OnDelete"
    # Only the operator's upgrade controller deletes outdated OnDelete pods, and only those of the driver.
    is_replaced = operand is operands.DRIVER and driver_reasons.replaces_pods(observation, daemonset)
    return has_old_pods and is_manual and not is_replaced


def _about_pods(
    observation: Observation, operand: Operand, rollout: DaemonSetRollout, rows: tuple[PodRow, ...]
) -> Reasons:
    """Yield one reason for each status of the pods. The statuses that need manual intervention come first."""
    hopeless = {row.name for row in rows if rollouts.never_starts(row, rows, rollout.updated)}
    by_status: dict[str, list[PodRow]] = {}
    for row in sorted(rows, key=lambda row: row.name not in hopeless):
        by_status.setdefault(row.status, []).append(row)
    for group in by_status.values():
        reason = _trouble(observation.namespace, operand, rollout, group, group[0].name in hopeless)
        remedy = _about_sharing(observation, reason, group)
        yield dataclasses.replace(reason, remedy=remedy) if remedy else reason


_MANAGER = re.compile(r"container (config-manager(?:-init)?)\b")
"""The container beside the device plugin and GPU Feature Discovery that picks a node's configuration by its label."""
_CONFIGURED = (operands.DEVICE_PLUGIN.name, "gpu-feature-discovery")


def _about_sharing(observation: Observation, reason: Reason, group: list[PodRow]) -> str:
    """Return the remedy for pods that end again and again, perhaps because of the device plugin's configuration."""
    source = ((observation.spec.get("devicePlugin") or {}).get("config")) or {}
    ends = any(row.trouble == "CrashLoopBackOff" for row in group)
    if not (ends and source.get("name") and reason.operand in _CONFIGURED):
        return ""
    key, where = _configured_key(observation, reason, source), f"ConfigMap {observation.namespace}/{source['name']}"
    if any(_MANAGER.search(row.cause) for row in group):
        return f"The {key} must name a key of {where}: correct it, or publish the key with gpu_sharing."
    return f"{reason.remedy} Its configuration is in {where} ({key}); gpu_sharing checks what it publishes.".lstrip()


def _configured_key(observation: Observation, reason: Reason, source: Json) -> str:
    """Return which setting names the configuration of the node in a reason."""
    node: Json = next((item for item in observation.nodes if objects.name_of(item) == reason.node), {"metadata": {}})
    label = objects.labels_of(node).get(names.PLUGIN_CONFIG)
    return (
        f"label {names.PLUGIN_CONFIG}={label}" if label else f"devicePlugin.config.default={source.get('default', '')}"
    )


def _trouble(
    namespace: str, operand: Operand, rollout: DaemonSetRollout, group: list[PodRow], is_failed: bool
) -> Reason:
    """Return the reason for pods with the same status. The example is a pod whose cause is known, if there is one."""
    example = next((row for row in group if row.cause), group[0])
    where = f"pod {example.name}" + (f" on {example.node}" if example.node else "")
    cause = f": {example.cause}" if example.cause else ""
    message = (
        f"{operand.name}: {rollout.available} of {rollout.expected} nodes ready; {where} is {example.status}{cause}."
    )
    status = example.status.removeprefix("Init:")
    logs = f"See `kubectl logs -n {namespace} {example.name} --all-containers`."
    logs = logs if status == "CrashLoopBackOff" or is_failed else ""
    return Reason(
        level="failed" if is_failed else "progressing",
        code=status if is_failed else "PodsNotReady",
        message=message,
        remedy=REMEDIES.get(status, logs),
        operand=operand.name,
        node=example.node or None,
        pod=example.name,
        count=len(group),
        total=rollout.expected,
        nodes=tuple(row.node for row in group if row.node),
    )
