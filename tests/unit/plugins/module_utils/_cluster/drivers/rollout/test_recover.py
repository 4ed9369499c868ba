# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import recover
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import WantedDrivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import DriverRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import FOUND_CORDONED, NEW, SKIP, STATE, DriverCluster, asked
from tests.unit.fakes.upgrades.drivers import waiting as pod_waits
from tests.unit.fakes.upgrades.rollouts import ONE, ZERO

pytestmark = pytest.mark.usefixtures("no_pauses")

PAUSED = "nvidia.com/gpu.deploy.dcgm"


def recovered(cluster: DriverCluster, **options: t.Any) -> dict[str, t.Any]:
    return recover.recover(cluster.typed, asked(**options), lambda text: None)


def with_a_failed_node(trouble: t.Any) -> DriverCluster:
    cluster = DriverCluster(2)
    cluster.broken[ONE] = trouble
    rollout = DriverRollout(cluster.typed, asked(max_failed="1"), WantedDrivers(stack.NAMESPACE))
    rollout.hold(list(cluster.items))
    rollout.roll()
    return cluster


def test_a_check_fails_as_the_run_does_while_the_cause_is_there_unless_it_is_to_warn() -> None:
    cluster = with_a_failed_node("pods")
    cluster.add(stack.workload("train", 1, controller=""))
    cluster.typed.check_mode = True
    with pytest.raises(GpuOpsError) as raised:
        recovered(cluster)
    assert raised.value.reason == "NodesFailed" and raised.value.details["recovered"][0]["cause"] != ""
    said: list[str] = []
    told = recover.recover(cluster.typed, asked(), said.append, warns=True)
    assert told["recovered"][0]["repairs"] == [] and len(said) == 1 and said[0].startswith(WOULD_STOP)


def upgraded(nodes: int = 2) -> DriverCluster:
    cluster = DriverCluster(nodes)
    DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE)).roll()
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
    with pytest.raises(GpuOpsError) as raised:
        recovered(cluster)
    assert raised.value.reason == "NodesFailed"
    assert raised.value.msg == wording(
        "The cause is still there, so the upgrade was not tried again: gpu-0001: pods are in the way: default/train on gpu-0001 has no controller that would start it again elsewhere (upgrade_policy.pod_deletion.force permits it)."
    )
    found = raised.value.details["recovered"][0]
    assert found["node"] == ONE and "default/train on gpu-0001 has no controller" in found["cause"]
    assert found["repairs"] == [] and found["problems"][0] == wording("The operator gave its upgrade up")
    del cluster.pods["train"]
    cluster.broken.clear()
    result = recovered(cluster)
    assert result["changed"] and result["recovered"][0]["repairs"] == [wording("the upgrade was tried again")]
    assert cluster.versions[ONE] == NEW and cluster.label(ONE, SKIP) is None and cluster.cordoned == []


def test_a_node_that_was_not_begun_is_not_begun_by_a_recovery() -> None:
    cluster = DriverCluster(3)
    cluster.broken[ZERO] = "pods"
    rollout = DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE))
    rollout.hold(list(cluster.items))
    with pytest.raises(GpuOpsError):
        rollout.roll()
    cluster.broken.clear()
    recovered(cluster)
    assert [name for name, version in cluster.versions.items() if version == NEW] == [ZERO]
    assert cluster.label(ONE, SKIP) == "true" and cluster.note(ONE) == "held"


def test_a_driver_pod_in_the_kubelets_back_off_is_replaced_once_nothing_is_in_the_way() -> None:
    cluster = with_a_failed_node(pod_waits("CrashLoopBackOff", "back-off 5m0s restarting failed container"))
    cluster.pods[f"nvidia-driver-daemonset-{ONE}-{NEW}"]["status"]["containerStatuses"][0]["restartCount"] = 9
    cluster.add(stack.workload("train", 1, controller=""))
    with pytest.raises(GpuOpsError, match="default/train on gpu-0001 has no controller"):
        recovered(cluster)
    assert ("delete", f"nvidia-driver-daemonset-{ONE}-{NEW}") not in cluster.log
    del cluster.pods["train"]
    cluster.broken.clear()
    result = recovered(cluster)
    assert ("delete", f"nvidia-driver-daemonset-{ONE}-{NEW}") in cluster.log
    assert result["recovered"][0]["repairs"] == wording(["its driver pod was replaced", "the upgrade was tried again"])
    assert cluster.versions[ONE] == NEW and cluster.cordoned == []


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
    assert found["changed"] and found["recovered"][0]["repairs"] == [wording("the note about a cordon was removed")]
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
    first = recover.pause(cluster.typed, asked(), warnings.append)
    assert first == {"changed": True, "paused": [ONE], "upgrading": [ZERO], "finished": False}
    assert (
        warnings == [wording("gpu-0000 is in the upgrade already, which continues.")] and cluster.note(ONE) == "paused"
    )
    assert not recover.pause(cluster.typed, asked(), warnings.append)["changed"]
