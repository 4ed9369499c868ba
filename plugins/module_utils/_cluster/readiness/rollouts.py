# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Rollouts of the operands' DaemonSets, and the state of the operator's own Deployment."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    DaemonSetRollout,
    Observation,
    PodRow,
    Refusal,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes, objects, operands, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

YOUNG_S = 30
"""Age from which a pod is a proof: by then, the kubelet has tried to pull an image at least twice."""

REFUSED_S = 60
"""How long a wait must see that pods are refused: a new namespace's service account may come a moment later."""

CRASHES = 3
"""Restarts after which a crash loop does not end by itself: about a minute with the kubelet's back-off."""


def of_operands(
    observation: Observation, gpu_nodes: list[Json], left_out: t.Sequence[Json] = ()
) -> t.Iterator[DaemonSetRollout]:
    """Yield the rollout of each DaemonSet of each operand, and one for an operand without a DaemonSet.

    Its numbers are about ``gpu_nodes``. Operands also run on the GPU nodes that are ``left_out``.
    """
    for operand in operands.ALL_OPERANDS:
        daemonsets = [item for item in observation.daemonsets if operands.operand_name(item) == operand.name]
        for item in daemonsets:
            yield _rollout(observation, operand, item, gpu_nodes, left_out)
        is_wanted = operand in observation.operands and operands.enabled(operand, observation.spec)
        if not daemonsets and (is_wanted or operand in operands.OPERANDS):
            state, expected = ("progressing", len(gpu_nodes)) if is_wanted else ("disabled", 0)
            yield DaemonSetRollout(operand.name, None, state, expected=expected)


def _rollout(
    observation: Observation,
    operand: operands.Operand,
    daemonset: Json,
    gpu_nodes: list[Json],
    left_out: t.Sequence[Json],
) -> DaemonSetRollout:
    name, template = objects.name_of(daemonset), daemonset["spec"]["template"]["spec"]
    expected = nodes_of(daemonset, gpu_nodes)
    outside = {objects.name_of(node): node for node in nodes_of(daemonset, left_out)}
    skipped = {objects.name_of(node) for node in expected if operand is operands.DRIVER and nodes.skips_upgrades(node)}
    desired, updated, available = _numbers(observation, daemonset, outside, skipped)
    is_ready = is_observed(daemonset) and desired == updated == available == len(expected)
    rows = [row for row in observation.troubled.get(name, ()) if row.node not in outside]
    return DaemonSetRollout(
        operand=operand.name,
        daemonset=name,
        state=_state(rows, updated, is_ready),
        expected=len(expected),
        desired=desired,
        updated=updated,
        available=available,
        images=tuple(item["image"] for item in template["containers"] if item["name"] == operand.container),
    )


def _state(rows: list[PodRow], updated: int, is_ready: bool) -> str:
    if any(never_starts(row, rows, updated) for row in rows):
        return "failed"
    return "ready" if is_ready else "progressing"


def _numbers(
    observation: Observation, daemonset: Json, outside: t.Mapping[str, Json], skipped: set[str]
) -> tuple[int, int, int]:
    """Return how many pods are desired, updated and available on the nodes that are judged.

    The status counts all nodes. What the nodes ``outside`` (and for the revision, those ``skipped`` by upgrades) do
    not explain is taken to be missing on a judged node.
    """
    name, status = objects.name_of(daemonset), daemonset.get("status") or {}
    counted = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    desired, current, updated, available = (int(status.get(field, 0)) for field in counted)
    troubled = {row.node for row in observation.troubled.get(name, ())}
    down_outside = sum(1 for node, item in outside.items() if node in troubled or not nodes.is_ready(item))
    missing = max(desired - current, 0)
    unavailable = max(len(troubled - outside.keys()) + missing, desired - available - down_outside)
    outdated = desired - updated - len(observation.outdated.get(name, frozenset()) & (outside.keys() | skipped))
    inside = desired - len(outside)
    if outside:
        available = inside - max(min(unavailable, desired - available), 0)
    return inside, inside - max(outdated, 0), available


def nodes_of(daemonset: Json, gpu_nodes: t.Iterable[Json]) -> list[Json]:
    """Return the nodes on which pods of a DaemonSet should run."""
    template = daemonset["spec"]["template"]["spec"]
    return [node for node in gpu_nodes if _should_run_on(node, template)]


def _should_run_on(node: Json, template: Json) -> bool:
    tolerations = template.get("tolerations") or []
    if not nodes.matches(template.get("nodeSelector"), node) or nodes.untolerated(node, tolerations):
        return False
    return nodes.fits_affinity((template.get("affinity") or {}).get("nodeAffinity") or {}, node)


def is_complete(daemonset: Json) -> bool:
    """Return whether all pods of a DaemonSet are available and of the newest revision (also with OnDelete)."""
    status = daemonset.get("status") or {}
    if not is_observed(daemonset):
        return False
    # updatedNumberScheduled counts pods of the newest revision whatever the update strategy is.
    desired, updated = status.get("desiredNumberScheduled", 0), status.get("updatedNumberScheduled", 0)
    return bool(updated == desired == status.get("numberAvailable", 0))


def is_observed(daemonset: Json) -> bool:
    """Return whether the DaemonSet's controller has seen the last edit."""
    observed = (daemonset.get("status") or {}).get("observedGeneration", 0)
    return bool(observed >= daemonset["metadata"].get("generation", 0))


def is_rolling(daemonset: Json) -> bool:
    """Return whether some pods of a DaemonSet have an old revision, or do not exist."""
    status = daemonset.get("status") or {}
    return bool(status.get("updatedNumberScheduled", 0) < status.get("desiredNumberScheduled", 0))


def suspects(daemonsets: list[Json]) -> list[Json]:
    """Return the operands' DaemonSets that are not complete. Their pods may be in trouble."""
    return [item for item in daemonsets if not is_complete(item) and operands.operand_name(item)]


def never_starts(row: PodRow, rows: t.Sequence[PodRow], updated: int) -> bool:
    """Return whether a pod of the newest revision needs manual intervention.

    ``rows`` are all pods of its controller that are in trouble, ``updated`` is how many have the newest revision. If
    some of these work, a registry or a node is to blame: that heals, or is no reason to give up the other nodes.
    """
    if not row.current:
        return False
    alike = sum(1 for other in rows if other.trouble == row.trouble)
    is_everywhere = len(rows) >= updated and 2 * alike > updated
    if row.trouble == "CrashLoopBackOff" and row.restarts >= CRASHES:
        return is_everywhere or row.stuck_s >= pods.HEALS_S
    is_old_enough = max(row.age_s, row.stuck_s) >= YOUNG_S
    status = row.status.removeprefix("Init:")
    return is_everywhere and is_old_enough and pods.never_starts(status, row.message, row.stuck_s)


def is_final(refusal: Refusal, waited_s: float) -> bool:
    """Return whether pods stay refused: by a rule (not by a webhook that is down), for `REFUSED_S`, and still now."""
    is_forbidden = "forbidden" in refusal.message or "denied the request" in refusal.message
    return is_forbidden and refusal.seen_s >= REFUSED_S and refusal.age_s < waited_s


def held_drivers(observation: Observation, found: t.Iterable[DaemonSetRollout]) -> frozenset[str]:
    """Return the driver DaemonSets with old pods only where they may stay: on skipped nodes and those left out."""
    rolling = {objects.name_of(item) for item in observation.daemonsets if is_rolling(item)}
    drivers = (rollout for rollout in found if rollout.operand == operands.DRIVER.name and rollout.state == "ready")
    return frozenset(rollout.daemonset for rollout in drivers if rollout.daemonset in rolling)


# The operator and Node Feature Discovery


def runs_newest(deployment: Json) -> bool:
    """Return whether a Deployment runs its newest version, and that alone. Old pods would act on their old rules."""
    status, wanted = deployment.get("status") or {}, (deployment.get("spec") or {}).get("replicas", 1)
    if not is_observed(deployment) or not status.get("availableReplicas"):
        return False
    return bool(status.get("updatedReplicas", 0) == status.get("replicas", 0) == wanted)


def is_discovery(daemonset: Json) -> bool:
    """Return whether a DaemonSet is the worker of the Node Feature Discovery that the operator's chart installs."""
    labels = objects.labels_of(daemonset)
    return labels.get("app.kubernetes.io/name") == "node-feature-discovery" and labels.get("role") == "worker"


def lacks_pods(daemonset: Json) -> bool:
    """Return whether pods of a DaemonSet are yet to be created."""
    status = daemonset.get("status") or {}
    return int(status.get("currentNumberScheduled", 0)) < int(status.get("desiredNumberScheduled", 0))
