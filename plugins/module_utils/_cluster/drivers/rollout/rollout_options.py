# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The options of a driver's rollout, and what is wrong with them. The documentation fragment is driver_rollout."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DRIVER_PURPOSE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.option_specs import NODE_ROLLOUT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import (
    NodeRolloutRequest,
    rollout_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS

Options = t.Mapping[str, t.Any]

SPEC = ArgumentSpec(
    {
        "wait": {"type": "bool", "default": True},
        "timeout": {"type": "int", "default": 1800},
    }
).including(NODE_ROLLOUT, PROGRESS)


@dataclasses.dataclass(frozen=True)
class DriverRolloutRequest:
    """What the options ask of a rollout, as every step of it takes it."""

    namespace: str
    policy_name: str
    rollout: NodeRolloutRequest
    """How nodes are held and emptied, and the pace. The upgrade policy says which pods may go."""
    timeout_s: int


def request_of(options: Options) -> DriverRolloutRequest:
    """Return what the options ask for. Raises `GpuOpsError` for a value that cannot be meant."""
    permits = {"grace_period": None, "force": False, "delete_emptydir_data": False, "allow_disruption": True}
    return DriverRolloutRequest(
        namespace=options["namespace"],
        policy_name=options["policy_name"],
        rollout=rollout_of({**permits, **options, "evict": "gpu"}, DRIVER_PURPOSE),
        timeout_s=options["timeout"],
    )
