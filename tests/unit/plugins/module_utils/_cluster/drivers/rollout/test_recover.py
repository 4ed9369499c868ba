# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import recover
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.read import Wanted
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.run import Rollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import FOUND_CORDONED, NEW, OPTIONS, SKIP, STATE, DriverCluster
from tests.unit.fakes.upgrades.drivers import waiting as pod_waits
from tests.unit.fakes.upgrades.rollouts import ONE, ZERO

pytestmark = pytest.mark.usefixtures("no_pauses")

PAUSED = "nvidia.com/gpu.deploy.dcgm"


def recovered(cluster: DriverCluster, **options: t.Any) -> dict[str, t.Any]:
    return recover.recover(cluster.typed, {**OPTIONS, **options}, lambda text: None)


def with_a_failed_node(trouble: t.Any) -> DriverCluster:
    cluster = DriverCluster(2)
    cluster.broken[ONE] = trouble
    rollout = Rollout(cluster.typed, {**OPTIONS, "max_failed": "1"}, Wanted(stack.NAMESPACE))
    rollout.hold(list(cluster.items))
    rollout.roll()
    return cluster


def upgraded(nodes: int = 2) -> DriverCluster:
    cluster = DriverCluster(nodes)
    Rollout(cluster.typed, OPTIONS, Wanted(stack.NAMESPACE)).roll()
    cluster.log.clear()
    return cluster


def test_a_healthy_fleet_has_nothing_to_recover() -> None:
    cluster = upgraded()
    assert recovered(cluster) == {
        "recovered": [], "nodes": [], "summary": {}, "finished": True, "changed": False,
    }  # fmt: skip
    assert cluster.log == []


def test_a_failed_node_is_tried_again_once_its_cause_is_gone() -> None:
    cluster = with_a_failed_node("pods")
    cluster.add(stack.workload("train", 1, controller=""))
    with pytest.raises(GpuOpsError, match="The cause is still there") as raised:
        recovered(cluster)
    found = raised.value.details["recovered"][0]
    assert found["node"] == ONE and "default/train on gpu-0001 has no controller" in found["cause"]
    assert found["repairs"] == [] and found["problems"][0].startswith("The operator gave its upgrade up")
    del cluster.pods["train"]
    cluster.broken.clear()
    result = recovered(cluster)
    assert result["changed"] and result["recovered"][0]["repairs"] == ["the upgrade was tried again"]
    assert cluster.versions[ONE] == NEW and cluster.label(ONE, SKIP) is None and cluster.cordoned == []


def test_a_node_that_was_not_begun_is_not_begun_by_a_recovery() -> None:
    cluster = DriverCluster(3)
    cluster.broken[ZERO] = "pods"
    rollout = Rollout(cluster.typed, OPTIONS, Wanted(stack.NAMESPACE))
    rollout.hold(list(cluster.items))
    with pytest.raises(GpuOpsError):
        rollout.roll()
    cluster.broken.clear()
    recovered(cluster)
    assert [name for name, version in cluster.versions.items() if version == NEW] == [ZERO]
    assert cluster.label(ONE, SKIP) == "true" and cluster.note(ONE) == "held"


def test_a_new_driver_that_still_does_not_start_is_left_alone() -> None:
    cluster = with_a_failed_node(pod_waits("ImagePullBackOff", "manifest unknown"))
    with pytest.raises(GpuOpsError, match="manifest unknown"):
        recovered(cluster)
    cluster.broken.clear()
    cluster.replace(ONE, {})
    assert recovered(cluster)["finished"] and cluster.cordoned == [] and cluster.note(ONE) == ""


def test_paused_operands_and_a_cordon_that_was_left_are_set_back() -> None:
    cluster = upgraded()
    node = cluster.items[ONE]
    node["metadata"]["labels"] |= {PAUSED: "paused-for-driver-upgrade", STATE: ""}
    node["metadata"]["annotations"]["gpuops.nvidia/driver-rollout"] = "turn 2026-01-01T00:00:00Z"
    node["spec"]["unschedulable"] = True
    cluster.operator_runs = False
    cluster.typed.check_mode = True
    predicted = recovered(cluster)
    assert predicted["changed"] and cluster.cordoned == [ONE] and cluster.log == []
    cluster.typed.check_mode = False
    result = recovered(cluster)
    assert result["recovered"] == predicted["recovered"] and result["recovered"][0]["repairs"] == [
        f"{PAUSED} was set to true",
        "the cordon was lifted",
    ]
    assert cluster.cordoned == [] and cluster.label(ONE, PAUSED) == "true" and cluster.note(ONE) == ""
    assert not recovered(cluster)["changed"]


def test_a_note_with_which_the_next_upgrade_would_leave_the_node_cordoned_is_removed() -> None:
    cluster = upgraded()
    cluster.items[ONE]["metadata"]["annotations"][FOUND_CORDONED] = "true"
    found = recovered(cluster)
    assert found["changed"] and found["recovered"][0]["repairs"] == ["the note about a cordon was removed"]
    assert "would leave it cordoned" in found["recovered"][0]["problems"][0]
    assert FOUND_CORDONED not in cluster.items[ONE]["metadata"]["annotations"] and not recovered(cluster)["changed"]


def test_operands_stay_away_while_a_driver_pod_starts() -> None:
    cluster = upgraded()
    cluster.operator_runs = False
    cluster.items[ONE]["metadata"]["labels"] |= {PAUSED: "paused-for-driver-upgrade", STATE: ""}
    cluster.replace(ONE, pod_waits("PodInitializing"))
    assert recovered(cluster)["recovered"] == [] and cluster.label(ONE, PAUSED) == "paused-for-driver-upgrade"


def test_a_cordon_of_somebody_else_is_left() -> None:
    cluster = upgraded()
    cluster.items[ONE]["spec"]["unschedulable"] = True
    assert recovered(cluster)["recovered"] == [] and cluster.cordoned == [ONE]
    cluster.items[ONE]["metadata"]["annotations"] |= {
        "gpuops.nvidia/driver-rollout": "turn 2026-01-01T00:00:00Z",
        "gpuops.nvidia/maintenance.reboot": "2026-01-01T00:00:00Z here run",
    }
    assert recovered(cluster)["recovered"] == [] and cluster.cordoned == [ONE]


def test_a_pause_says_who_goes_on_and_happens_once() -> None:
    cluster, warnings = DriverCluster(2), list[str]()
    cluster.items[ZERO]["metadata"]["labels"][STATE] = "validation-required"
    cluster.operator_runs = False
    first = recover.pause(cluster.typed, OPTIONS, warnings.append)
    assert first == {"changed": True, "paused": [ONE], "upgrading": [ZERO], "finished": False}
    assert warnings == [f"{ZERO} is in the upgrade already, which goes on."] and cluster.note(ONE) == "paused"
    assert not recover.pause(cluster.typed, OPTIONS, warnings.append)["changed"]


def test_options_that_cannot_be_meant_are_refused_before_anything_is_read() -> None:
    for wrong in ({"soak": -1}, {"timeout": 0}, {"waves": ["0"]}, {"windows": ["never"]}, {"time_zone": "Mars"}):
        with pytest.raises(GpuOpsError):
            recover.recover(t.cast("t.Any", None), {**OPTIONS, **wrong}, lambda text: None)
