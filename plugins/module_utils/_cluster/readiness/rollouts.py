# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Rollouts of the operands' DaemonSets."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import nodes, objects, operands, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Observation,
    PodRow,
    Rollout,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CRASHES = 3
"""Restarts after which a crash loop does not end by itself: about a minute with the kubelet's back-off."""


def of_operands(observation: Observation, gpu_nodes: list[Json]) -> t.Iterator[Rollout]:
    """Yield the rollout of each DaemonSet of each operand, and one for an operand without a DaemonSet."""
    for operand in operands.OPERANDS:
        daemonsets = [item for item in observation.daemonsets if operands.operand_name(item) == operand.name]
        for item in daemonsets:
            yield _rollout(observation, operand, item, gpu_nodes)
        if not daemonsets:
            wanted = operands.enabled(operand, observation.spec) and observation.policy is not None
            state, expected = ("progressing", len(gpu_nodes)) if wanted else ("disabled", 0)
            yield Rollout(operand.name, None, state, expected=expected)


def _rollout(observation: Observation, operand: operands.Operand, daemonset: Json, gpu_nodes: list[Json]) -> Rollout:
    name, status = objects.name_of(daemonset), daemonset.get("status") or {}
    template = daemonset["spec"]["template"]["spec"]
    expected = sum(1 for node in gpu_nodes if _should_run_on(node, template))
    desired = int(status.get("desiredNumberScheduled", 0))
    state = "ready" if is_complete(daemonset) and desired == expected else "progressing"
    if any(never_starts(row) for row in observation.troubled.get(name, ())):
        state = "failed"
    return Rollout(
        operand=operand.name,
        daemonset=name,
        state=state,
        expected=expected,
        desired=desired,
        updated=int(status.get("updatedNumberScheduled", 0)),
        available=int(status.get("numberAvailable", 0)),
        images=tuple(item["image"] for item in template["containers"] if item["name"] == operand.container),
    )


def _should_run_on(node: Json, template: Json) -> bool:
    tolerations = template.get("tolerations") or []
    return nodes.matches(template.get("nodeSelector"), node) and not nodes.untolerated(node, tolerations)


def is_complete(daemonset: Json) -> bool:
    """Return whether all pods of a DaemonSet are available and of the newest revision (also with OnDelete)."""
    status = daemonset.get("status") or {}
    if status.get("observedGeneration", 0) < daemonset["metadata"].get("generation", 0):
        return False  # its controller has not seen the last edit
    # updatedNumberScheduled counts pods of the newest revision whatever the update strategy is.
    desired, updated = status.get("desiredNumberScheduled", 0), status.get("updatedNumberScheduled", 0)
    return bool(updated == desired == status.get("numberAvailable", 0))


def suspects(daemonsets: list[Json]) -> list[Json]:
    """Return the operands' DaemonSets that are not complete. Their pods may be in trouble."""
    return [item for item in daemonsets if not is_complete(item) and operands.operand_name(item)]


def never_starts(row: PodRow) -> bool:
    """Return whether a pod of the newest revision needs manual intervention."""
    status = row.status.removeprefix("Init:")
    is_hopeless = status in pods.NEVER_STARTS or (status == "CrashLoopBackOff" and row.restarts >= CRASHES)
    return row.current and is_hopeless
