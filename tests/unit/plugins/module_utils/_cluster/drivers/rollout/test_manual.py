# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import WantedDrivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import DriverRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import COMPLETE, NEW, OLD, STATE, DriverCluster, asked
from tests.unit.fakes.upgrades.rollouts import IMAGE_GONE, ZERO

pytestmark = pytest.mark.usefixtures("no_pauses")


def by_hand(nodes: int = 2) -> DriverCluster:
    cluster = DriverCluster(nodes, upgrade={**COMPLETE, "autoUpgrade": False})
    for name in cluster.items:
        cluster.items[name]["metadata"]["labels"].pop(STATE)
    return cluster


def test_without_the_operators_upgrades_each_node_is_drained_and_its_pod_replaced() -> None:
    cluster = by_hand()
    cluster.add(stack.workload("train", 0))
    rollout = DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE))
    result = rollout.roll()
    assert result.finished and set(cluster.versions.values()) == {NEW} and cluster.cordoned == []
    assert ("evict", "train") in cluster.log and result.rows[0].evicted == ["default/train"]
    assert cluster.most_cordoned <= 1
    assert not DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE)).roll().changed


def test_a_pod_that_the_policy_protects_keeps_its_node_as_it_was() -> None:
    cluster = by_hand()
    cluster.add(stack.workload("bare", 0, controller=""))
    with pytest.raises(GpuOpsError, match=r"pod_deletion\.force permits it"):
        DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE)).roll()
    assert cluster.cordoned == [] and cluster.versions[ZERO] == OLD


def test_a_drain_that_takes_too_long_puts_the_node_back() -> None:
    cluster = by_hand(1)
    cluster.add(stack.workload("train", 0))
    cluster.refused_evictions["train"] = "The disruption budget train needs 1 healthy pods and has 1 currently"
    with pytest.raises(GpuOpsError, match="train forbids its eviction"):
        DriverRollout(cluster.typed, asked(drain_timeout=1), WantedDrivers(stack.NAMESPACE)).roll()
    assert cluster.cordoned == [] and cluster.versions[ZERO] == OLD


def test_a_driver_that_does_not_come_up_by_hand_keeps_its_node_held() -> None:
    cluster = by_hand(1)
    cluster.broken[ZERO] = IMAGE_GONE
    with pytest.raises(GpuOpsError, match="for the purpose driver-upgrade"):
        DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE)).roll()
    assert cluster.cordoned == [ZERO]
    cluster.broken.clear()
    cluster.replace(ZERO, {})
    assert (
        DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE)).roll().finished and cluster.cordoned == []
    )
