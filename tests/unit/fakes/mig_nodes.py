# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and looks at them, for the tests of changes of MIG."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import Seen, Settings, Track
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_plan import NodePlan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted

from tests.unit.fakes.stack import Json, node

LAYOUT, CONFIG, STATE = "all-1g.10gb", "nvidia.com/mig.config", "nvidia.com/mig.config.state"
SEVEN = {index: parted.WantedLayout(True, {"1g.10gb": 7}) for index in range(8)}
DIVIDED = {"nvidia.com/mig-1g.10gb.count": "56"}


def mig_node(allocatable: t.Mapping[str, str] | None = None, spec: Json | None = None, **labels: str | None) -> Json:
    """Return a node with eight H100s. Underscores in the names of labels: ``config``, ``state``, or whole names."""
    made = node()
    short = {"config": CONFIG, "state": STATE, "product": "nvidia.com/gpu.product", "count": "nvidia.com/gpu.count"}
    found = {**made["metadata"]["labels"], **{short.get(key, key): value for key, value in labels.items()}}
    made["metadata"]["labels"] = {key: value for key, value in found.items() if value is not None}
    made["status"]["allocatable"] = dict(allocatable or {"nvidia.com/gpu": "8"})
    made["spec"] = dict(spec or {})
    return made


def held(made: Json) -> Json:
    """Return the node as a run of this module holds it."""
    made["metadata"]["annotations"] = {"gpuops.nvidia/maintenance.mig": "2026-11-22T10:00:00Z here run"}
    made["spec"]["unschedulable"] = True
    return made


def mig_sight(allocatable: t.Mapping[str, str] | None = None, **labels: str | None) -> Sight:
    """Return a look at such a node."""
    return Sight(mig_node(allocatable, **labels))


def mig_plan(**fields: t.Any) -> NodePlan:
    """Return the plan of a node that gets seven devices on each of eight GPUs."""
    values: dict[str, t.Any] = {"todo": "change", "strategy": "mixed", "count": 8, "wanted": SEVEN, **fields}
    return NodePlan("gpu-0000", LAYOUT, **values)


def seen(sight: Sight, step: t.Any, still_s: float = 0.0, **fields: t.Any) -> Seen:
    """Return a look at a node in a step. ``settings`` and ``track`` change those."""
    settings = Settings(**{"timeout_s": 100.0, **fields.pop("settings", {})})
    track = Track(**{"step": step, "since": 1000.0 - still_s, "moved": 1000.0 - still_s, **fields.pop("track", {})})
    return Seen(sight, mig_plan(), track, settings, 1000.0, **fields)
