# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import (
    MaintenanceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import machines
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kinds import Kind
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.machines import MachineFleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.node_kinds import instance, kata, launcher
from tests.unit.fakes.stack import workload

Json = dict[str, t.Any]


class FakeCluster:
    """A cluster with one machine, whose deletion may end in an error."""

    def __init__(self, item: Json | None, error: str = "", gone: bool = False) -> None:
        self.item, self.error, self.gone, self.asked = item, error, gone, list[str]()

    def get(self, path: str, query: t.Any = None) -> Json | None:
        return self.item

    def list_readable(self, path: str) -> t.Any:
        return type("Listed", (), {"items": []})

    def delete(self, path: str, **only_if: str) -> bool:
        self.asked.append(f"delete {only_if['uid']}")
        if self.error:
            raise GpuOpsError("It did not work.", reason=self.error)
        return not self.gone

    def evict(self, namespace: str, pod: str, uid: str, grace_s: int | None) -> None:
        self.asked.append(f"evict {pod}")


def fleet(cluster: FakeCluster, stops: bool = True, aliases: t.Collection[str] = ()) -> MachineFleet:
    return MachineFleet(t.cast("t.Any", cluster), MaintenanceRequest(), waiting.Noted(), stops, aliases)


@pytest.mark.parametrize(
    ("strategy", "can_move", "way"),
    [
        (None, False, "evict"), ("None", False, "evict"), ("None", True, "evict"),
        ("LiveMigrate", False, "stop"), ("LiveMigrate", True, "move"),
        ("LiveMigrateIfPossible", False, "evict"), ("LiveMigrateIfPossible", True, "move"),
        ("External", False, "move"),
    ],
)  # fmt: skip
def test_how_a_machine_leaves(strategy: str | None, can_move: bool, way: str) -> None:
    assert machines.machine_of(instance("vm", strategy, can_move), "None").way == way


def test_which_pod_runs_which_machine() -> None:
    pod = launcher("windows")
    assert machines.instance_of(pod) == "windows"
    pod["metadata"]["annotations"] = {}
    assert machines.instance_of(pod) == "windows"
    pod["metadata"]["ownerReferences"] = []
    assert machines.instance_of(pod) == machines.instance_of(workload("train")) == ""


def test_a_machine_is_stopped_as_the_one_that_was_read() -> None:
    cluster = FakeCluster(instance("windows", "LiveMigrate"))
    assert fleet(cluster).evict(launcher("windows")) == "" and cluster.asked == ["delete uid-of-windows"]
    assert fleet(FakeCluster(instance("windows", "LiveMigrate"), "Conflict")).evict(launcher("windows")) is None
    assert fleet(FakeCluster(instance("windows", "LiveMigrate"), gone=True)).evict(launcher("windows")) is None
    with pytest.raises(GpuOpsError):
        fleet(FakeCluster(instance("windows", "LiveMigrate"), "Forbidden")).evict(launcher("windows"))


def test_a_machine_that_ends_already_is_left_alone_and_one_without_permission_too() -> None:
    ending = instance("windows", "LiveMigrate")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = FakeCluster(ending)
    assert fleet(cluster).evict(launcher("windows")) is None and cluster.asked == []
    assert fleet(cluster, stops=False).obstacles([launcher("windows")]) == []
    cluster = FakeCluster(instance("windows", "LiveMigrate"))
    assert "stop_machines" in (fleet(cluster, stops=False).evict(launcher("windows")) or "") and cluster.asked == []


def test_a_pod_whose_machine_is_gone_is_evicted() -> None:
    cluster = FakeCluster(None)
    assert fleet(cluster).evict(launcher("windows")) == "" and cluster.asked == ["evict virt-launcher-windows"]
    assert fleet(cluster).obstacles([launcher("windows")]) == []


def test_the_pod_of_a_former_machine_of_the_same_name_is_evicted_and_the_new_machine_stays() -> None:
    again = instance("windows", "LiveMigrate")
    again["metadata"]["uid"] = "another"
    cluster = FakeCluster(again)
    assert fleet(cluster).evict(launcher("windows")) == "" and cluster.asked == ["evict virt-launcher-windows"]


def test_who_must_leave_a_node_that_changes_and_one_that_has_changed() -> None:
    pods = [workload("train"), launcher("windows"), kata("enclave"), workload("web", gpus=0)]
    found = fleet(FakeCluster(None))
    assert [found.must_leave(pod) for pod in pods] == [True, True, True, False]
    found.stays = {"gpu-0000": Kind("vm-passthrough")}
    assert [found.must_leave(pod) for pod in pods] == [True, False, False, False]
    found.stays = {"gpu-0000": Kind("container")}
    assert [found.must_leave(pod) for pod in pods] == [False, True, True, False]


def test_a_pod_asks_for_a_device_in_limits_or_requests_of_any_container() -> None:
    pod = workload("vm", gpus=0)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/own": "1"}}
    assert machines.holds_device(pod, ("nvidia.com/own",)) and not machines.holds_device(pod)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/GA102GL_A10": "0"}}
    assert not machines.holds_device(pod)
    pod["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": {"nvidia.com/pgpu": "1"}}}]
    assert machines.holds_device(pod)
