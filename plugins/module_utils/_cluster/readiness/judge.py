# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Judge readiness: every node that should run operands runs their newest revision, and the GPUs can be allocated.

``status.state: ready`` alone is not sufficient. The operator writes no observedGeneration, and it reports a DaemonSet
that schedules no pods as ready. It reports ready if every node is tainted, if Node Feature Discovery is missing, if it
has not yet noticed an edit, and while a driver upgrade still cordons nodes. Each reason covers one of these cases.
This file and those that it imports from this folder are pure.
"""

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import (
    device_reasons,
    driver_reasons,
    node_reasons,
    operand_reasons,
    policy_reasons,
    rollouts,
    tolerance,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import JudgedScope, Tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    DaemonSetRollout,
    Level,
    Observation,
    Reason,
    Reasons,
    State,
    Verdict,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CORRECTED_S = 10
"""How long after an edit an operand's failure may still be about the previous spec."""

_ORDER: tuple[Level, ...] = ("failed", "progressing", "note")


def judge(observation: Observation, limits: Tolerance = tolerance.NOTHING) -> Verdict:
    """Return the verdict on what was observed, within the limits of what the user tolerates."""
    scope = scope_of(observation, limits)
    gpu_nodes = scope.judged
    found = list(rollouts.of_operands(observation, gpu_nodes, scope.outside))
    reasons = _causes(list(_reasons(_without(observation, scope.outside), found, scope, limits)))
    if observation.subject is not None and observation.seconds_since_edit < CORRECTED_S:
        reasons = [_not_final(reason) for reason in reasons]
    reasons.sort(key=lambda reason: _ORDER.index(reason.level))
    usable = sum(nodes.is_ready(node) and _offers_gpus(observation, node) for node in gpu_nodes)
    state, message = _summary(reasons, usable, scope)
    return Verdict(state, message, tuple(reasons), tuple(found), usable, len(gpu_nodes))


def _offers_gpus(observation: Observation, node: Json) -> bool:
    """Return whether pods can get GPUs of a node, from the device plugin or by claims."""
    return nodes.has_allocatable_gpus(node) or observation.offered.can_claim(objects.name_of(node))


def scope_of(observation: Observation, limits: Tolerance) -> JudgedScope:
    """Return which GPU nodes are judged: unready ones are left out if there are not more of them than tolerated."""
    scope = tolerance.scope_of(observation.nodes, observation.spec, limits)
    allowed = limits.allowed(len(scope.judged))
    if not allowed:
        return scope
    unready = node_reasons.unready(observation, scope.judged)
    return scope.without(unready) if 0 < len(unready) <= allowed else scope


def _without(observation: Observation, outside: list[Json]) -> Observation:
    """Return the observation without the pods on nodes that are not judged."""
    if not outside:
        return observation
    ignored = {objects.name_of(node) for node in outside}
    troubled = {
        name: tuple(row for row in rows if row.node not in ignored) for name, rows in observation.troubled.items()
    }
    return dataclasses.replace(observation, troubled=troubled)


def _reasons(observation: Observation, found: list[DaemonSetRollout], scope: JudgedScope, limits: Tolerance) -> Reasons:
    """Yield all reasons. At the same level, a cause comes before its consequences."""
    gpu_nodes = scope.judged
    yield from policy_reasons.about_policy(observation)
    if observation.subject is not None:
        yield from driver_reasons.about_conflicts(observation)
        if limits.min_nodes and not (scope.judged or scope.outside):
            yield from policy_reasons.about_discovery(observation)
        yield from node_reasons.about_scope(observation, scope, limits)
        yield from node_reasons.reasons(node_reasons.about_nodes(observation, gpu_nodes), gpu_nodes)
        yield from device_reasons.about_driver(observation)
        yield from operand_reasons.about_operands(observation, found, gpu_nodes)
        held = rollouts.held_drivers(observation, found)
        yield from driver_reasons.about_drivers(observation, held)
        yield from node_reasons.reasons(driver_reasons.about_nodes(observation, gpu_nodes), gpu_nodes)
        yield from node_reasons.reasons(node_reasons.about_state(observation, gpu_nodes), gpu_nodes)
        yield from node_reasons.reasons(device_reasons.about_devices(observation, gpu_nodes), gpu_nodes)
        yield from policy_reasons.about_state(observation, held)


def _causes(reasons: list[Reason]) -> list[Reason]:
    """Return the reasons without those that follow from NVIDIADrivers in conflict."""
    if not any(reason.code == driver_reasons.CONFLICT for reason in reasons):
        return reasons
    return [reason for reason in reasons if reason.code not in driver_reasons.CONSEQUENCES]


def _not_final(reason: Reason) -> Reason:
    """Return the reason with level ``progressing`` if it is an operand's failure, because it may still go away."""
    is_failure = reason.operand and reason.level == "failed"
    return dataclasses.replace(reason, level="progressing") if is_failure else reason


def _summary(reasons: list[Reason], usable: int, scope: JudgedScope) -> tuple[State, str]:
    blocking = [reason for reason in reasons if reason.level != "note"]
    if not blocking:
        outside = len(scope.outside)
        left_out = f" {outside} other GPU node{'s are' if outside > 1 else ' is'} left out." if outside else ""
        total = len(scope.judged)
        return "ready", f"The GPU stack is ready: {usable} of {total} GPU nodes have allocatable GPUs.{left_out}"
    first = blocking[0]
    more = f" ({len(blocking) - 1} more)" if len(blocking) > 1 else ""
    remedy = f" {first.remedy}" if first.remedy else ""
    return "failed" if first.level == "failed" else "progressing", f"{first.message}{more}{remedy}"
