# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The options that modules share which evict pods or change nodes a few at a time, and what follows from them.

The documentation fragments ``eviction`` and ``node_rollout`` describe these options.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
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

EVICTION = ArgumentSpec(
    {
        "force": {"type": "bool", "default": False},
        "delete_emptydir_data": {"type": "bool", "default": False},
        "grace_period": {"type": "int"},
    }
)
"""Which pods may be evicted, and how."""

HOLD = ArgumentSpec(
    {
        "allow_shared": {"type": "bool", "default": False},
        "lease": {"type": "int", "default": 3600},
        "take_over": {"type": "bool", "default": False},
        "pause_nvsentinel": {"type": "bool", "default": False},
    }
)
"""How a node is held among other maintainers."""

NODE_ROLLOUT = ArgumentSpec(
    {
        "canary": {"type": "raw", "default": 0},
        "waves": {"type": "list", "elements": "str", "default": []},
        "soak": {"type": "int", "default": 0},
        "max_unavailable": {"type": "str", "default": "1"},
        "max_failed": {"type": "str", "default": "0"},
        "group_by": {"type": "str"},
        "windows": {"type": "list", "elements": "str", "default": []},
        "time_zone": {"type": "str", "default": "UTC"},
        "drain_timeout": {"type": "int", "default": 600},
    }
).including(HOLD)
"""How many nodes change at a time, and how each of them is held and emptied."""

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
