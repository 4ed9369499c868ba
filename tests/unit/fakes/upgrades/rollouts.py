# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rollouts of drivers on a cluster that lives in memory."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import WantedDrivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import RolloutResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import DriverRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import SKIP, DriverCluster, asked
from tests.unit.fakes.upgrades.drivers import waiting as pod_waits

ZERO, ONE, TWO = "gpu-0000", "gpu-0001", "gpu-0002"
IMAGE_GONE = pod_waits("ImagePullBackOff", 'Back-off pulling image: "driver:595": not found')


def roll(cluster: DriverCluster, **options: t.Any) -> RolloutResult:
    rollout = DriverRollout(cluster.typed, asked(**options), WantedDrivers(stack.NAMESPACE))
    rollout.hold(list(cluster.items), cluster.items.values())
    return rollout.roll()


def failure(cluster: DriverCluster, **options: t.Any) -> GpuOpsError:
    with pytest.raises(GpuOpsError) as raised:
        roll(cluster, **options)
    return raised.value


def nothing_is_left(cluster: DriverCluster) -> bool:
    notes = [cluster.note(name) for name in cluster.items]
    return not cluster.cordoned and not any(notes) and not any(cluster.label(name, SKIP) for name in cluster.items)
