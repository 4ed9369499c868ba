# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the module gpu_smoke_test, nodes, and pods in every state."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.modules.gpu_smoke_test import SPEC

DEFAULTS: dict[str, t.Any] = {name: option.get("default") for name, option in SPEC.options.items()}


def options(**changes: t.Any) -> dict[str, t.Any]:
    return {**DEFAULTS, **changes}


def pod(
    phase: str = "Pending",
    *,
    waiting: dict | None = None,
    terminated: dict | None = None,
    unschedulable: str | None = None,
    **status: t.Any,
) -> dict:
    state = {"waiting": waiting} if waiting else {"terminated": terminated} if terminated else {}
    conditions = (
        [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unschedulable}]
        if unschedulable
        else []
    )
    return {"status": {"phase": phase, "containerStatuses": [{"state": state}], "conditions": conditions, **status}}


def node(
    name: str,
    offered: t.Mapping[str, int | str] | None = None,
    *,
    gpu: bool = True,
    ready: str = "True",
    cordoned: bool = False,
    labels: dict[str, str] | None = None,
) -> dict:
    """Return a node that offers resources of NVIDIA; without ``gpu``, nothing labels it as a GPU node."""
    resources = {f"nvidia.com/{key}": str(value) for key, value in ({"gpu": 8} if offered is None else offered).items()}
    return {
        "metadata": {"name": name, "labels": {**({"nvidia.com/gpu.present": "true"} if gpu else {}), **(labels or {})}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": ready, "message": "container runtime is down"},
            ],
        },
    }
