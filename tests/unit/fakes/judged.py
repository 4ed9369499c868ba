# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The judge's verdict on a stack, and helpers with which tests break a stack."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import NOTHING, Tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Observation,
    PodRow,
    Reason,
    Verdict,
)

from tests.unit.fakes.stack import NAMESPACE, NOW, Json, Stack, progress


def observed(stack: Stack, **changes: t.Any) -> Observation:
    """Return a stack as the judge sees it."""
    facts: Json = {
        "name": "cluster-policy",
        "namespace": NAMESPACE,
        "policies": stack.policies,
        "gpuclusters": [],
        "daemonsets": list(stack.daemonsets.values()),
        "operators": stack.operators,
        "nodes": stack.nodes,
        "now": NOW,
    }
    return Observation(**{**facts, **changes})


def verdict(stack: Stack, limits: Tolerance = NOTHING, **changes: t.Any) -> Verdict:
    """Return the verdict on a stack."""
    return judge.judge(observed(stack, **changes), limits)


def reason(found: Verdict, code: str) -> Reason:
    """Return the reason with a code."""
    return next(item for item in found.reasons if item.code == code)


def codes(found: Verdict) -> list[str]:
    """Return the codes of all reasons in their order."""
    return [item.code for item in found.reasons]


def stamp(seconds_ago: float) -> str:
    """Return a time of the API."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW - seconds_ago))


def edited(stack: Stack, seconds_ago: float) -> Stack:
    """Change the age of the ClusterPolicy's last edit. Its status is new."""
    stack.policies[0]["metadata"]["managedFields"] = [
        {"manager": "gpuops.nvidia", "time": stamp(seconds_ago)},
        {"manager": "gpu-operator", "time": stamp(0), "subresource": "status"},
    ]
    return stack


def set_labels(stack: Stack, count: int, **labels: str) -> Stack:
    """Set labels of the first nodes. Two underscores in a name become a slash."""
    for node in stack.nodes[:count]:
        node["metadata"]["labels"].update({key.replace("__", "/"): value for key, value in labels.items()})
    return stack


def roll(stack: Stack, name: str, *numbers: int, generation: int = 1) -> Stack:
    """Set the counters of a DaemonSet's status."""
    stack.daemonsets[name]["metadata"]["generation"] = generation
    stack.daemonsets[name]["status"].update(progress(*numbers))
    return stack


def troubled(name: str, status: str, restarts: int = 0, **more: t.Any) -> dict[str, tuple[PodRow, ...]]:
    """Return a pod of a DaemonSet that is in trouble: for five minutes, unless ``more`` says otherwise."""
    return {name: (row(name, 1, status, restarts, **more),)}


def row(name: str, number: int, status: str, restarts: int = 0, **more: t.Any) -> PodRow:
    """Return a pod of a DaemonSet on the node with this number."""
    facts: Json = {"cause": "container x: because", "current": True, "age_s": 900.0, "stuck_s": 300.0}
    return PodRow(f"{name}-abcd{number}", f"gpu-{number:04}", status, restarts, **{**facts, **more})
