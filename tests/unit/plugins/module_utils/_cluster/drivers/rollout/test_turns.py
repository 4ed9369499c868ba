# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import turns
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.read import Reader, Wanted
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.run import fleet_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sight import Sight

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import OPTIONS, SKIP, STATE, DriverCluster

ZERO = "gpu-0000"
HELD = {"gpuops.nvidia/driver-rollout": "held 2026-01-01T00:00:00Z"}


def seen(cluster: DriverCluster, state: str = "upgrade-required", **annotations: str) -> Sight:
    cluster.operator_runs = False
    cluster.items[ZERO]["metadata"]["labels"] |= {STATE: state, SKIP: "true"}
    cluster.items[ZERO]["metadata"]["annotations"] |= {**HELD, **annotations}
    fleet = fleet_of(cluster.typed, OPTIONS, waiting.Noted())
    return Reader(cluster.typed, Wanted(stack.NAMESPACE)).look(fleet)[ZERO]


def obstacle(sight: Sight, cluster: DriverCluster, **options: t.Any) -> str:
    return turns.obstacle(sight, fleet_of(cluster.typed, OPTIONS, waiting.Noted()), options.get("allow_shared", False))


def test_a_node_that_is_marked_by_the_operator_can_begin() -> None:
    cluster = DriverCluster(1)
    assert obstacle(seen(cluster), cluster) == "" and obstacle(seen(cluster, "upgrade-failed"), cluster) == ""
    assert "the operator to notice" in obstacle(seen(cluster, "upgrade-done"), cluster)


def test_a_blocked_operator_gets_no_further_node() -> None:
    cluster = DriverCluster(1)
    for state in ("upgrade-required", "upgrade-done"):  # it marks no node either
        blocked = dataclasses.replace(seen(cluster, state), blocked="a node is down")
        assert obstacle(blocked, cluster) == "the operator, which upgrades no node while a node is down"


def test_a_maintenance_of_ours_goes_first() -> None:
    cluster = DriverCluster(1)
    sight = seen(cluster, **{"gpuops.nvidia/maintenance.reboot": "2026-01-01T00:00:00Z here run"})
    assert obstacle(sight, cluster) == "its maintenance for reboot to end"


def test_another_maintainer_goes_first_unless_the_node_may_be_shared() -> None:
    cluster = DriverCluster(1)
    sight = seen(cluster, **{"skyhook.nvidia.com/cordon_x": "true"})
    assert "nodewright" in obstacle(sight, cluster) and obstacle(sight, cluster, allow_shared=True) == ""


def test_a_node_that_changed_in_the_meantime_is_asked_again() -> None:
    cluster = DriverCluster(1)
    sight = seen(cluster)
    made = turns.Turns(cluster.typed, fleet_of(cluster.typed, OPTIONS, waiting.Noted()))
    cluster.items[ZERO]["metadata"]["annotations"] = {"gpuops.nvidia/driver-rollout": "paused 2026-01-01T00:00:00Z"}
    assert made.begin(sight, stack.NOW) is None and cluster.cordoned == []
    del cluster.items[ZERO]
    assert made.begin(sight, stack.NOW) is None and made.fail(sight, "why", stack.NOW)[1] is None
