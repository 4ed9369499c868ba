# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import obstacles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.obstacles import RolloutScene
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DRIVER,
    POLICY,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.pools import DriverSource
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node, workload

BLOCKS: dict[str, t.Any] = {"waitForCompletion": {}, "podDeletion": {}, "drain": {}}
UPGRADES = {"autoUpgrade": True, "maxUnavailable": "50%", **BLOCKS}


def scene(kind: str = POLICY, upgrades: dict | None = None, nodes: int = 2, **fields: t.Any) -> RolloutScene:
    policy = UPGRADES if upgrades is None else upgrades
    source = DriverSource(kind, "x", {"upgradePolicy": policy} if policy else {})
    listed = fields.pop("listed", None) or [node(number) for number in range(nodes)]
    names = [item["metadata"]["name"] for item in listed]
    plain: dict[str, t.Any] = {
        "nodes": listed, "gpu_nodes": listed, "source_of": dict.fromkeys(names, source),
        "automatic": dict.fromkeys(names, True), "pods": [], "budgets": [], "daemonsets": [], "validated": set(names),
    }  # fmt: skip
    return RolloutScene(**{**plain, **fields})


def found(made: RolloutScene, check: str, level: str = "failure") -> list[t.Any]:
    return [item for item in obstacles.findings(made) if (item.check, item.level) == (check, level)]


def test_without_an_obstacle_each_check_is_ok() -> None:
    assert [(item.check, item.level) for item in obstacles.findings(scene())] == [
        (check, "ok") for check in ("upgrade_policy", "gpu_pods", "nodes", "limits", "operands", "validators")
    ]


def test_nothing_is_checked_where_nothing_changes() -> None:
    assert list(obstacles.findings(RolloutScene([], [], {}, {}, [], [], [], set()))) == []


# ---- the policy ---------------------------------------------------------------------------------------------------


def test_missing_blocks_of_a_clusterpolicy_are_named() -> None:
    (item,) = found(scene(upgrades={"autoUpgrade": True, "podDeletion": {}}), "upgrade_policy")
    assert "lacks waitForCompletion, drain" in item.message
    assert "upgrade_policy.wait_for_completion, upgrade_policy.drain" in item.remedy
    assert found(scene(upgrades={"autoUpgrade": False}), "upgrade_policy") == []
    assert found(scene(DRIVER, upgrades={"autoUpgrade": True}), "upgrade_policy") == [], "it has defaults of its own"


# ---- pods ---------------------------------------------------------------------------------------------------------


def bare(name: str = "alone") -> dict:
    return workload(name, controller="")


def with_volume(name: str = "scratch") -> dict:
    made = workload(name)
    made["spec"]["volumes"] = [{"name": "tmp", "emptyDir": {}}, {"name": "other", "configMap": {}}]
    return made


@pytest.mark.parametrize(("pod", "field"), [(bare(), "force"), (with_volume(), "deleteEmptyDir")])
def test_pods_that_are_not_deleted_without_permission_are_named(pod: dict, field: str) -> None:
    (item,) = found(scene(pods=[pod]), "gpu_pods")
    assert pod["metadata"]["name"] in item.message and f"pod_deletion.{field}: true" in item.remedy
    permitted = {**UPGRADES, "podDeletion": {field: True}}
    assert found(scene(pods=[pod], upgrades=permitted), "gpu_pods") == []
    drained = {**UPGRADES, "drain": {"enable": True, field: True}}
    assert found(scene(pods=[pod], upgrades=drained), "gpu_pods") == []
    assert (
        len(found(scene(pods=[pod], upgrades={**UPGRADES, "drain": {"enable": False, field: True}}), "gpu_pods")) == 1
    )


def test_pods_with_one_remedy_are_one_finding() -> None:
    (item,) = found(scene(pods=[bare("a"), bare("b")]), "gpu_pods")
    assert "default/a on gpu-0000, default/b on gpu-0000" in item.message and item.count == 1


def test_pods_that_end_or_are_elsewhere_do_not_matter() -> None:
    ending = workload("a", controller="", deletionTimestamp="2026-01-01T00:00:00Z")
    assert found(scene(pods=[ending, workload("b", number=7, controller="")]), "gpu_pods") == []


def test_unknown_pods_and_budgets_are_told() -> None:
    assert "may not list pods" in found(scene(pods=None), "gpu_pods", "warning")[0].message
    assert "PodDisruptionBudgets" in found(scene(budgets=None), "gpu_pods", "warning")[0].message


def test_a_policy_before_v26_7_is_that_of_the_clusterpolicy() -> None:
    permitted = {"driver": {"upgradePolicy": {**UPGRADES, "podDeletion": {"force": True}}}}
    assert found(scene(DRIVER, upgrades={}, pods=[bare()], policy=permitted), "gpu_pods") == []
    assert len(found(scene(DRIVER, upgrades={}, pods=[bare()]), "gpu_pods")) == 1


def budget(name: str, labels: dict | None = None, namespace: str = "default", **status: int) -> dict:
    selector = {"matchLabels": labels} if labels is not None else None
    return {
        "metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector},
        "status": {"disruptionsAllowed": 0, "expectedPods": 2, "desiredHealthy": 2, **status},
    }  # fmt: skip


def labelled() -> dict:
    made = workload("train")
    made["metadata"]["labels"] = {"app": "train"}
    return made


def test_a_budget_that_never_lets_go_is_a_failure_and_one_that_does_later_a_warning() -> None:
    (item,) = found(scene(pods=[labelled()], budgets=[budget("b", {"app": "train"})]), "gpu_pods")
    assert "default/b always refuses" in item.message and "default/train on gpu-0000" in item.message
    later = scene(pods=[labelled()], budgets=[budget("b", {}, desiredHealthy=1)])
    assert found(later, "gpu_pods") == [] and "currently" in found(later, "gpu_pods", "warning")[0].message
    assert found(scene(pods=[labelled()], budgets=[budget("b", {}, disruptionsAllowed=1)]), "gpu_pods") == []


def test_budgets_of_other_pods_do_not_matter() -> None:
    others = [budget("a", {"app": "web"}), budget("b", {"app": "train"}, namespace="other"), budget("c")]
    assert found(scene(pods=[labelled()], budgets=others), "gpu_pods") == []


def test_two_budgets_of_one_pod_forbid_every_eviction() -> None:
    both = [budget("a", {}, disruptionsAllowed=1), budget("b", {"app": "train"}, disruptionsAllowed=1)]
    (item,) = found(scene(pods=[labelled()], budgets=both), "gpu_pods")
    assert "more than one PodDisruptionBudget" in item.message and "default/a, default/b" in item.remedy


def test_selectors_with_expressions_are_understood() -> None:
    made = budget("a")
    made["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["train"]}]}
    assert len(found(scene(pods=[labelled()], budgets=[made]), "gpu_pods")) == 1


def test_pods_that_tolerate_cordons_may_come_back() -> None:
    pod = workload("train")
    assert found(scene(pods=[pod]), "gpu_pods", "warning") == []
    pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    (item,) = found(scene(pods=[pod]), "gpu_pods", "warning")
    assert "default/train on gpu-0000" in item.message and "node.kubernetes.io/unschedulable" in item.remedy
    pod["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert found(scene(pods=[pod]), "gpu_pods", "warning") == []


# ---- nodes --------------------------------------------------------------------------------------------------------


def nodes_with(number: int, **changes: t.Any) -> list[dict]:
    """Return four nodes of which the first ones are changed."""
    listed = [node(count) for count in range(4)]
    for item in listed[:number]:
        item["metadata"]["labels"] |= changes.get("labels", {})
        item["metadata"]["annotations"] = changes.get("annotations", {})
        item["spec"] |= changes.get("spec", {})
        if changes.get("down"):
            item["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return listed


STATE = "nvidia.com/gpu-driver-upgrade-state"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"down": True}, "1 GPU node not Ready"),
        ({"spec": {"unschedulable": True}}, "cordoned by others"),
        ({"labels": {STATE: "upgrade-failed"}}, "in state upgrade-failed"),
        ({"labels": {"nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade"}}, "paused by an interrupted"),
    ],
)
def test_the_state_of_nodes_is_told(changes: dict, said: str) -> None:
    messages = [item.message for item in found(scene(listed=nodes_with(1, **changes)), "nodes", "warning")]
    assert any(said in message for message in messages), messages


def test_a_pause_of_a_mig_change_is_not_left_behind() -> None:
    labels = {"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change", "nvidia.com/mig.config.state": "pending"}
    messages = [item.message for item in found(scene(listed=nodes_with(1, labels=labels)), "nodes", "warning")]
    assert not any("paused by" in message for message in messages)


def test_nodes_that_are_out_use_up_the_places_of_others() -> None:
    assert found(scene(listed=nodes_with(1, down=True)), "limits") == []
    (item,) = found(scene(listed=nodes_with(2, down=True)), "limits")
    assert item.message == wording(
        "ClusterPolicy x: gpu-0000, gpu-0001 use up maxUnavailable: 50%, so no other node begins."
    )
    only = {**UPGRADES, "maxUnavailable": 1}
    assert len(found(scene(listed=nodes_with(1, labels={STATE: "upgrade-failed"}), upgrades=only), "limits")) == 1
    assert len(found(scene(listed=nodes_with(2, spec={"unschedulable": True})), "limits")) == 1
    assert found(scene(listed=nodes_with(4, spec={"unschedulable": True})), "limits") == [], "they need no place"
    manual = scene(listed=nodes_with(2, down=True), automatic=dict.fromkeys([f"gpu-000{n}" for n in range(4)], False))
    assert found(manual, "limits") == []
    assert len(found(scene(listed=nodes_with(1, down=True), upgrades=BLOCKS), "limits")) == 1, "25 % is the default"


def test_a_rollout_that_this_call_paces_needs_no_place() -> None:
    failed = nodes_with(1, labels={STATE: "upgrade-failed"})
    for listed in (nodes_with(4, down=True), nodes_with(1, spec={"unschedulable": True}), failed):
        only = {**UPGRADES, "maxUnavailable": 1}
        assert len(found(scene(listed=listed, upgrades=only), "limits")) == 1
        assert found(scene(listed=listed, upgrades=only, paced=True), "limits") == []


@pytest.mark.parametrize("paced", [False, True])
def test_what_becomes_of_cordoned_and_failed_nodes_depends_on_who_paces(paced: bool) -> None:
    cordoned = scene(listed=nodes_with(1, spec={"unschedulable": True}), paced=paced)
    failed = scene(listed=nodes_with(1, labels={STATE: "upgrade-failed"}), paced=paced)
    told = {(item.message, item.remedy) for made in (cordoned, failed) for item in found(made, "nodes", "warning")}
    expected = {
        True: wording(
            [
                (
                    "1 GPU node cordoned by others. They get the driver in their turn, and stay cordoned.",
                    "Uncordon them unless this is intended.",
                ),
                ("1 GPU node in state upgrade-failed. This call tries them again.", "Remove the cause first."),
            ]
        ),
        False: wording(
            [
                (
                    "1 GPU node cordoned by others. The operator upgrades them first, whatever its limits, and leaves them cordoned.",
                    "Uncordon them unless this is intended.",
                ),
                (
                    "1 GPU node in state upgrade-failed, each of which holds a slot.",
                    "Remove the cause, then call this module with state: recovered.",
                ),
            ]
        ),
    }
    assert sorted(told) == expected[paced]


def test_another_maintainer_is_named_and_the_drivers_own_upgrade_is_none() -> None:
    paused = {"nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade", STATE: "upgrade-failed"}
    messages = [item.message for item in found(scene(listed=nodes_with(1, labels=paused)), "nodes", "warning")]
    assert not any("maintainer" in message for message in messages), messages
    taint = {"taints": [{"key": "medik8s.io/drain", "effect": "NoSchedule"}]}
    messages = [item.message for item in found(scene(listed=nodes_with(1, spec=taint)), "nodes", "warning")]
    assert any("medik8s (taint medik8s.io/drain)" in message for message in messages), messages


# ---- operands -----------------------------------------------------------------------------------------------------


def daemonset(name: str, now: int) -> dict:
    return {"metadata": {"name": name}, "status": {"desiredNumberScheduled": 2, "currentNumberScheduled": now}}


def test_a_driver_without_all_its_pods_stops_every_upgrade() -> None:
    (item,) = found(scene(daemonsets=[daemonset("nvidia-driver-daemonset", 1)]), "operands")
    assert "DaemonSet nvidia-driver-daemonset has 1 of 2 pods" in item.message
    others = scene(daemonsets=[daemonset("nvidia-dcgm-exporter", 1), daemonset("of-a-user", 0)])
    assert found(others, "operands") == [] and len(found(others, "operands", "warning")) == 1


def test_a_pod_on_a_node_that_is_down_stops_every_upgrade() -> None:
    """The node's taint keeps it from being counted, and the operator compares the numbers of pods and nodes."""
    driver, other = daemonset("nvidia-driver-daemonset", 2), daemonset("nvidia-dcgm-exporter", 2)
    other["status"]["numberMisscheduled"] = 1
    assert found(scene(daemonsets=[driver, other]), "operands") == []
    driver["status"]["numberMisscheduled"] = 1
    (item,) = found(scene(daemonsets=[driver, other]), "operands")
    assert item.message == wording(
        "DaemonSet nvidia-driver-daemonset has pods on nodes that no longer admit it, such as a node that is down. The operator upgrades no node as long as it has."
    )


def test_nodes_without_a_validator_would_wait_for_ever() -> None:
    (item,) = found(scene(validated={"gpu-0001"}), "validators")
    assert item.nodes == ("gpu-0000",) and item.count == 1
    assert found(scene(validated=set(), automatic={} | {f"gpu-000{n}": False for n in range(2)}), "validators") == []
    assert len(found(scene(validated=None), "validators", "warning")) == 1
