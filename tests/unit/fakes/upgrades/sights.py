# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a rollout of drivers sees of one node."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_pods import view
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import DriverSet

from tests.unit.fakes import stack
from tests.unit.fakes.stack import NOW, Json
from tests.unit.fakes.upgrades.drivers import NEW, STATE, driver_pod, validator_pod

SET = DriverSet("nvidia-driver-daemonset", revision=NEW, image=f"nvcr.io/nvidia/driver:{NEW}-ubuntu24.04", desired=1)


def node(state: str = "upgrade-done", version: str = NEW, **labels: str) -> Json:
    made = stack.node()
    made["metadata"]["labels"] |= {STATE: state, "nvidia.com/cuda.driver-version.full": version, **labels}
    return made


def sight(pod: Json | None = None, made: Json | None = None, **fields: t.Any) -> DriverNode:
    """Return a node that has its driver, with some changes."""
    views: dict[str, t.Any] = {
        "pod": view(pod or driver_pod("gpu-0000", NEW)),
        "validators": (view(validator_pod("gpu-0000")),),
    }
    return DriverNode(made or node(), SET, **{**views, **fields})


def lack(**fields: t.Any) -> str:
    return next(iter(sight(**fields).lacks(NOW)), "")
