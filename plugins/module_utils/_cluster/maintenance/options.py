# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What follows from the options that modules share which evict pods or change nodes a few at a time."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import (
    MaintenanceRequest,
    drain_request_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import PaceRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import maintenance_windows, stages
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import (
    OPTIONS_FOR_NODES,
    RolloutRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

_MINIMA = {"timeout": 1, "soak": 0, "drain_timeout": 1, "lease": 1, "grace_period": 0}
"""The smallest values of these options."""


@dataclasses.dataclass(frozen=True)
class NodeRolloutRequest:
    """What the options ask of a rollout of held nodes."""

    maintenance: MaintenanceRequest
    """How each node is held and emptied."""
    pace: PaceRequest
    """How many nodes change at a time, and when, without the groups, which the nodes' labels decide."""
    group_by: str | None = None

    @property
    def canaries(self) -> list[str]:
        """The nodes that are named as canaries."""
        canary = self.pace.wishes.canary
        return canary if isinstance(canary, list) else []

    def pace_of(self, nodes: t.Mapping[str, Json]) -> PaceRequest:
        """Return the pace of these nodes, by name, whose label in ``group_by`` is their group."""
        if not self.group_by:
            return self.pace
        groups = {name: labels_of(node).get(self.group_by) for name, node in nodes.items()}
        return dataclasses.replace(self.pace, wishes=dataclasses.replace(self.pace.wishes, groups=groups))


def rollout_of(options: Options, purpose: str) -> NodeRolloutRequest:
    """Return what the options ask of a rollout. Raises an error for a value that cannot be meant.

    A module without the option ``evict`` needs idle GPUs only.
    """
    refuse_below(options, **{name: least for name, least in _MINIMA.items() if name in options})
    stages.check(options["waves"])
    hours = maintenance_windows.parse(options["windows"], options["time_zone"])
    wishes = RolloutRequest(
        options["max_unavailable"], options["canary"], None, options["max_failed"], OPTIONS_FOR_NODES
    )
    return NodeRolloutRequest(
        maintenance=drain_request_of(options, purpose),
        pace=PaceRequest(wishes, tuple(options["waves"]), options["soak"], hours),
        group_by=options["group_by"],
    )
