# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reasons why the stack is not ready: the ClusterPolicy, its operator and its status."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import edits, rollouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Level,
    Observation,
    Reason,
    Reasons,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

RECONCILE_ERROR_S = 30
"""How long a wait must see the same ReconcileFailed before it counts: the operator often recovers within a second."""


def about_policy(observation: Observation) -> Reasons:
    """Yield what prevents the operator from acting on the ClusterPolicy at all."""
    if observation.policies is None:
        yield Reason(
            "failed",
            "CRDMissing",
            "The ClusterPolicy CRD is not installed.",
            "Apply the CRDs of the GPU Operator's chart first.",
        )
        return
    if observation.gpucluster is not None:
        yield from _about_operator(observation)
        return
    if observation.gpuclusters:
        gpucluster = objects.name_of(observation.gpuclusters[0])
        message = (
            f"A GPUCluster ({gpucluster}) exists beside the ClusterPolicy, and the operator acts only if one of them "
            "exists alone."
        )
        yield Reason("failed", "GPUClusterPresent", message, "Delete one of the two.")
    if observation.policy is None:
        message = f"There is no ClusterPolicy {observation.name}."
        yield Reason("progressing", "NoClusterPolicy", message, "Create it with gpuops.nvidia.clusterpolicy.")
        return
    yield from _about_others(observation.policy, observation.policies)
    yield from _about_operator(observation)


def _about_others(policy: Json, policies: list[Json]) -> Reasons:
    """Yield a reason if there is a second ClusterPolicy: the operator serves only one."""
    name = objects.name_of(policy)
    served = _served(policies)
    if served is not policy:
        other = objects.name_of(served)
        yield Reason(
            "failed",
            "NotInCharge",
            f"The operator ignores ClusterPolicy {name}: it serves only one, and that is {other}.",
            f"Delete {name}, or delete {other} if its drivers may be removed.",
        )
    elif len(policies) > 1:
        others = first_few(sorted(objects.name_of(item) for item in policies if item is not policy))
        message = f"The operator ignores another ClusterPolicy: {others}."
        yield Reason("note", "IgnoredClusterPolicy", message, "Delete it.")


def _served(policies: list[Json]) -> Json:
    """Return the ClusterPolicy that the operator serves.

    Before v26.7, that is the first one that it has looked at since it started; it writes no status into others. From
    v26.7 on, it is the oldest one.
    """
    with_status = [item for item in policies if (item.get("status") or {}).get("state")]
    if len(with_status) == 1:
        return with_status[0]
    return min(policies, key=lambda item: (item["metadata"]["creationTimestamp"], objects.name_of(item)))


def _about_operator(observation: Observation) -> Reasons:
    namespace = observation.namespace
    if not observation.operators:
        yield Reason(
            "progressing",
            "OperatorMissing",
            f"There is no operator Deployment (pods with label {names.OPERATOR_SELECTOR}) in namespace {namespace}, "
            "so the ClusterPolicy has no effect.",
            "Install the GPU Operator's chart there, or correct the option namespace.",
        )
        return
    deployment = next((item for item in observation.operators if rollouts.runs_newest(item)), None)
    if deployment is None:
        yield _not_running(observation, observation.operators[0])


def _not_running(observation: Observation, deployment: Json) -> Reason:
    """Return why the operator's newest version does not run. An old one acts on the ClusterPolicy by its old rules."""
    name = objects.name_of(deployment)
    cause, is_failed = held_up(observation, name)
    level: Level = "failed" if is_failed else "progressing"
    remedy = f"See `kubectl -n {observation.namespace} describe deployment {name}`."
    if (deployment.get("status") or {}).get("availableReplicas"):
        message = f"The operator Deployment {name} does not run its newest version, and the old one still acts{cause}."
        return Reason(level, "OperatorNotUpdated", message, remedy)
    message = f"The operator Deployment {name} has no available pod, so the ClusterPolicy's status is stale{cause}."
    return Reason(level, "OperatorNotAvailable", message, remedy)


def about_discovery(observation: Observation) -> Reasons:
    """Yield the state of the chart's Node Feature Discovery, for a cluster in which it has found no GPU node."""
    for daemonset in filter(rollouts.is_discovery, observation.daemonsets):
        if not rollouts.is_complete(daemonset):
            name, status = objects.name_of(daemonset), daemonset.get("status") or {}
            cause, is_failed = held_up(observation, name)
            message = (
                f"Node Feature Discovery is not ready, so no GPU node is known: {status.get('numberAvailable', 0)} of "
                f"{status.get('desiredNumberScheduled', 0)} pods of DaemonSet {name} are available{cause}."
            )
            remedy = f"See `kubectl -n {observation.namespace} describe daemonset {name}`."
            yield Reason("failed" if is_failed else "progressing", "DiscoveryNotReady", message, remedy)


def held_up(observation: Observation, name: str) -> tuple[str, bool]:
    """Return what holds up a Deployment or DaemonSet that is no operand, and whether it does so for good."""
    refusal, rows = observation.refusals.get(name), observation.others.get(name, ())
    if refusal:
        return f": {refusal.message}", rollouts.is_final(refusal, observation.waited_s)
    for row in sorted(rows, key=lambda row: not row.cause):
        cause = f" ({row.cause})" if row.cause else ""
        return f": pod {row.name} is {row.status}{cause}", any(rollouts.never_starts(row, rows, 1) for row in rows)
    return "", False


_ONLY_THE_DRIVER = re.compile(r"not ready[;,] states not ready: \[state-driver\]$")
"""The operator's words if no operand but the driver keeps the ClusterPolicy from being ready. A comma before v26.7."""


def about_state(observation: Observation, held: t.Collection[str] = ()) -> Reasons:
    """Yield what the operator reports. These reasons come last, because other reasons name pods and nodes.

    ``held`` are the driver DaemonSets with old pods on nodes that keep their driver. The operator counts these pods, so
    that the ClusterPolicy is not ready for as long as the driver is held.
    """
    status = (observation.subject or {}).get("status") or {}
    error = error_condition(observation)
    if error and error.get("reason") != "OperandNotReady":
        yield _not_reconciled(observation, error)
    elif status.get("state") != "ready":
        cause = str((error or {}).get("message") or f"state is {status.get('state') or 'not set yet'}")
        is_hold = bool(held) and _ONLY_THE_DRIVER.search(cause) is not None
        why = " It counts the nodes that keep their driver." if is_hold else ""
        message = f"The operator does not report the {observation.kind} as ready: {cause}.{why}"
        yield Reason("note" if is_hold else "progressing", "StateNotReady", message)
    yield from edits.about_edit(observation)


def error_condition(observation: Observation) -> Json | None:
    """Return the condition Error of what describes the stack if it is true, or None."""
    conditions = ((observation.subject or {}).get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item["type"] == "Error" and item["status"] == "True"), None)


def _not_reconciled(observation: Observation, error: Json) -> Reason:
    # An error from before the last edit may be about something that this edit has corrected. The condition's own time
    # is no sign: it is also true, with another reason, during every rollout.
    lasts_s = min(observation.error_lasts_s, observation.seconds_since_edit)
    message = f"The operator cannot reconcile: {error.get('message') or error.get('reason')}."
    level: Level = "failed" if lasts_s >= RECONCILE_ERROR_S else "progressing"
    return Reason(level, str(error.get("reason")), message, "Correct what the message names.")
