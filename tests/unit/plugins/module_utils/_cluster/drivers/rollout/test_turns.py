# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import turns
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import (
    DriverReader,
    WantedDrivers,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import fleet_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import SKIP, STATE, DriverCluster, asked

ZERO = "gpu-0000"
HELD = {"gpuops.nvidia/driver-rollout": "held 2026-01-01T00:00:00Z"}


def seen(cluster: DriverCluster, state: str = "upgrade-required", **annotations: str) -> DriverNode:
    cluster.operator_runs = False
    cluster.items[ZERO]["metadata"]["labels"] |= {STATE: state, SKIP: "true"}
    cluster.items[ZERO]["metadata"]["annotations"] |= {**HELD, **annotations}
    fleet = fleet_of(cluster.typed, asked(), waiting.Noted())
    return DriverReader(cluster.typed, WantedDrivers(stack.NAMESPACE)).look(fleet)[ZERO]


def obstacle(sight: DriverNode, cluster: DriverCluster, **options: t.Any) -> str:
    return turns.obstacle(sight, fleet_of(cluster.typed, asked(), waiting.Noted()), options.get("allow_shared", False))


def test_a_node_that_is_marked_by_the_operator_can_begin() -> None:
    cluster = DriverCluster(1)
    assert obstacle(seen(cluster), cluster) == "" and obstacle(seen(cluster, "upgrade-failed"), cluster) == ""
    assert "the operator to notice" in obstacle(seen(cluster, "upgrade-done"), cluster)


def test_a_blocked_operator_gets_no_further_node() -> None:
    cluster = DriverCluster(1)
    for state in ("upgrade-required", "upgrade-done"):  # it marks no node either
        blocked = dataclasses.replace(seen(cluster, state), blocked="a node is down")
        assert obstacle(blocked, cluster) == wording("the operator, which upgrades no node while a node is down")


def test_a_maintenance_of_ours_goes_first() -> None:
    cluster = DriverCluster(1)
    sight = seen(cluster, **{"gpuops.nvidia/maintenance.reboot": "2026-01-01T00:00:00Z here run"})
    assert obstacle(sight, cluster) == "its maintenance for reboot to end"


def test_another_maintainer_goes_first_unless_the_node_may_be_shared() -> None:
    cluster = DriverCluster(1)
    sight = seen(cluster, **{"skyhook.nvidia.com/cordon_x": "true"})
    assert "nodewright" in obstacle(sight, cluster) and obstacle(sight, cluster, allow_shared=True) == ""


def test_a_node_that_is_gone_has_not_failed() -> None:
    cluster = DriverCluster(1)
    sight = seen(cluster)
    made = turns.Turns(cluster.typed, fleet_of(cluster.typed, asked(), waiting.Noted()))
    del cluster.items[ZERO]
    assert made.fail(sight, "why", stack.NOW)[1] is None


# ---- calls for the operator


def look(cluster: DriverCluster, waker: turns.Waker, now: float) -> None:
    fleet = fleet_of(cluster.typed, asked(), waiting.Noted())
    sights = DriverReader(cluster.typed, WantedDrivers(stack.NAMESPACE)).look(fleet)
    waker.look(sights, sights, now)


def calls(cluster: DriverCluster) -> list[str]:
    return [name for kind, name in cluster.log if kind == "merge"]


def ready(nodes: int = 2) -> tuple[DriverCluster, turns.Waker]:
    """Return a cluster whose first node has a new driver that the operator has not seen, and a caller."""
    cluster = DriverCluster(nodes)
    cluster.operator_runs = False
    for name in cluster.items:
        cluster.replace(name, {})
    cluster.items[ZERO]["metadata"]["labels"][STATE] = "pod-restart-required"
    fleet = fleet_of(cluster.typed, asked(), waiting.Noted())
    return cluster, turns.Waker(turns.Turns(cluster.typed, fleet))


def test_the_operator_is_called_once_for_each_step_when_it_has_had_time_to_see_it() -> None:
    cluster, waker = ready()
    for second in range(2):
        look(cluster, waker, stack.NOW + second)
    assert calls(cluster) == []
    look(cluster, waker, stack.NOW + 2)
    assert calls(cluster) == ["gpu-0001"] and cluster.label("gpu-0001", STATE) is None
    cluster.items["gpu-0001"]["metadata"]["labels"][STATE] = "upgrade-done"
    look(cluster, waker, stack.NOW + 300)
    assert calls(cluster) == ["gpu-0001"], "it has been called for this step"
    cluster.items[ZERO]["metadata"]["labels"][STATE] = "validation-required"
    for second in (301, 303):
        look(cluster, waker, stack.NOW + second)
    assert calls(cluster) == ["gpu-0001", "gpu-0001"]


def test_an_operator_that_does_not_answer_is_not_called_again() -> None:
    cluster, waker = ready(3)
    for second in (0, 2, 4):
        look(cluster, waker, stack.NOW + second)
    cluster.items[ZERO]["metadata"]["labels"][STATE] = "validation-required"
    for second in (5, 100):
        look(cluster, waker, stack.NOW + second)
    assert calls(cluster) == ["gpu-0001"]
    del cluster.items["gpu-0001"]  # it will never answer
    look(cluster, waker, stack.NOW + 101)
    assert calls(cluster) == ["gpu-0001", "gpu-0002"]


def test_nobody_is_called_where_no_node_can_be_used_for_it() -> None:
    cluster, waker = ready(1)
    for second in (0, 5):
        look(cluster, waker, stack.NOW + second)
    assert calls(cluster) == []


def test_a_node_that_the_operator_keeps_changing_is_left_to_it() -> None:
    cluster, waker = ready()

    def merge(path: str, body: t.Any) -> t.NoReturn:
        raise GpuOpsError("The node has changed.", reason=reasons[0])

    cluster.merge = merge  # type: ignore[method-assign]
    reasons = ["Conflict"]
    for second in (0, 5):
        look(cluster, waker, stack.NOW + second)
    reasons[0] = "Forbidden"
    with pytest.raises(GpuOpsError):
        look(cluster, waker, stack.NOW + 10)


def test_a_node_that_the_operator_overlooks_is_marked_in_its_place() -> None:
    """NVIDIA's operator v26.7.0 did so: the garbage collector orphaned the pods after it had looked."""
    cluster = DriverCluster(2)
    cluster.operator_runs = False
    for name in cluster.items:
        cluster.replace(name, {})
        meta = cluster.items[name]["metadata"]
        meta["labels"] |= {
            "nvidia.com/gpu-operator.driver.owner": "default", "nvidia.com/gpu-driver-upgrade.skip": "true",
        }  # fmt: skip
        meta["annotations"] = {"gpuops.nvidia/driver-rollout": "held 2026-01-01T00:00:00Z"}
    for pod in cluster.pods.values():
        pod["metadata"]["ownerReferences"] = []
    cluster.daemonset["status"]["desiredNumberScheduled"] = 0
    waker = turns.Waker(turns.Turns(cluster.typed, fleet_of(cluster.typed, asked(), waiting.Noted())))
    look(cluster, waker, stack.NOW)
    assert calls(cluster) == []
    look(cluster, waker, stack.NOW + 2)
    assert calls(cluster) == [ZERO, "gpu-0001"]
    assert {cluster.label(name, STATE) for name in cluster.items} == {"upgrade-required"}
    look(cluster, waker, stack.NOW + 10)
    assert calls(cluster) == [ZERO, "gpu-0001"]
