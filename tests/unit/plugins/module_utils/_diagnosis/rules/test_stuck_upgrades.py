# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import upgrade_leftovers
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.stuck_upgrades import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

from tests.unit import diagnosed

PODS = "nvidia.com/gpu-driver-upgrade-state=pod-deletion-required"


def operator(text: str) -> TextLine:
    """Return a line of the operator's log. Its pod runs on another node than the one that the line is about."""
    return diagnosed.log(text, "gpu-operator-6996bfc8df-82c66", "gpu-operator", node="cpu-0")


def about_node(text: str, node: str = "gpu-0003") -> TextLine:
    return TextLine(f"GPUDriverUpgrade: {text}", "event", f"event of node {node}", node, f"node {node}")


WORDS = {
    "UpgradeNeedsForce": operator(
        '{"level":"error","logger":"controllers.Upgrade","msg":"Error reported by drain helper","node":"gpu-0003",'
        '"error":"cannot delete Pods that declare no controller (use --force to override): team-a/notebook"}'
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/454, in a pod's log; here as the event of the upgrade library
    "UpgradeKeepsLocalData": about_node(
        "Failed to delete workload pods on the node for the driver upgrade, cannot delete Pods with local storage (use "
        "--delete-emptydir-data to override): hogehoge-5f965449c6-hlfcw, hogehoge2-5b4b45f78c-7257c"
    ),
    "UpgradeHeldByBudget": about_node(
        "Failed to delete workload pods on the node for the driver upgrade, error when evicting "
        'pods/"train-0" -n "team-a": global timeout reached: 5m0s'
    ),
    "UpgradeDrainFailed": about_node(
        "Failed to drain the node, error when waiting for pod x in namespace y to terminate: timed out"
    ),
    "UpgradeSpecMissing": operator(
        '{"level":"error","logger":"controllers.Upgrade","msg":"Failed to schedule pod deletion","error":"pod deletion '
        'spec should not be empty"}'
    ),
    "UpgradeBlockedByUnscheduled": operator(
        '{"level":"error","logger":"controllers.Upgrade","msg":"Failed to build cluster upgrade state","error":"driver '
        'DaemonSet should not have Unscheduled pods"}'
    ),
    "UpgradeValidationTimeout": operator(
        '{"level":"info","logger":"controllers.Upgrade","msg":"Timeout exceeded for validation, updated the node state"'
        ',"node":"gpu-0003","state":"upgrade-failed"}'
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/2509
    "DriverStillInUse": diagnosed.log(
        "Could not unload NVIDIA driver kernel modules, driver is in use",
        "nvidia-driver-daemonset-x7k2p",
        "k8s-driver-manager",
        node="gpu-0003",
    ),
}


@pytest.mark.parametrize("code", WORDS)
def test_published_words_give_the_code(code: str) -> None:
    found = diagnosed.found(RULES, WORDS[code])
    assert list(found) == [code]
    fleet = code in ("UpgradeSpecMissing", "UpgradeBlockedByUnscheduled")
    assert found[code].nodes == (() if fleet else ("gpu-0003",))


@pytest.mark.parametrize(
    "text",
    [
        "Successfully drained the node",
        "Deleted workload pods on the node for the driver upgrade",
        "Scheduling drain of the node",
        "Pod deletion failed but drain is enabled in spec. Will attempt a node drain",
        "ignoring DaemonSet-managed Pods: gpu-operator/nvidia-dcgm-x",
        "deleting Pods that declare no controller: team-a/notebook",
        "evicting pod team-a/train-0",
        "Successfully updated node state label to upgrade-done",
        "Successfully uninstalled nvidia driver components",
    ],
)
def test_an_upgrade_that_goes_on_gives_nothing(text: str) -> None:
    assert diagnosed.found(RULES, about_node(text)) == {}


@pytest.mark.parametrize("code", ["UpgradeNeedsForce", "UpgradeKeepsLocalData", "UpgradeValidationTimeout"])
def test_what_held_up_an_upgrade_that_has_ended_is_over(code: str) -> None:
    held = diagnosed.row("gpu-0003", upgrade_state="upgrade-failed", cordoned=True)
    assert code in diagnosed.found(RULES, WORDS[code], stack=diagnosed.stack(held))
    assert diagnosed.found(RULES, WORDS[code], stack=diagnosed.stack(diagnosed.row("gpu-0003"))) == {}


def found_in(
    *rows: Json, policy: Json | None = None, labels: t.Mapping[str, t.Mapping[str, str]] | None = None
) -> t.Any:
    nodes = [
        {"metadata": {"name": row["name"], "labels": dict((labels or {}).get(row["name"], {}))}, "spec": {}}
        for row in rows
    ]
    spec = {"driver": {"upgradePolicy": policy}} if policy is not None else {}
    return diagnosed.found(RULES, stack=diagnosed.stack(*rows), spec=spec, objects={"nodes": nodes})


FULL: Json = {"autoUpgrade": True, "podDeletion": {}, "maxParallelUpgrades": 1, "maxUnavailable": "25%"}


def test_a_policy_without_pod_deletion_is_named_where_it_stops_a_node() -> None:
    row = diagnosed.row(upgrade_state="pod-deletion-required", cordoned=True)
    assert list(found_in(row, policy={"autoUpgrade": True})) == ["UpgradeSpecMissing"]
    assert found_in(row, policy=FULL) == {}
    assert found_in(diagnosed.row(), policy={"autoUpgrade": True}) == {}


def test_a_wait_for_jobs_names_their_selector() -> None:
    row = diagnosed.row(upgrade_state="wait-for-jobs-required")
    policy = FULL | {"waitForCompletion": {"podSelector": "app=train"}}
    assert found_in(row, policy=policy)["UpgradeWaitsForJobs"].cause == wording(
        "The upgrade waits for the pods on this node that have the labels app=train, and it waits without a limit."
    )
    policy["waitForCompletion"]["timeoutSeconds"] = 600
    assert "after 600 s" in found_in(row, policy=policy)["UpgradeWaitsForJobs"].cause


def test_a_failed_upgrade_with_a_new_driver_and_no_validator_was_not_validated_in_time() -> None:
    failed = {"upgrade_state": "upgrade-failed", "cordoned": True}
    row = diagnosed.row(**failed, waiting_for={"operator-validator": "Init:1/4"})
    found = found_in(row, policy=FULL)["UpgradeValidationTimeout"]
    assert (found.nodes, found.certainty) == ((row["name"],), "likely")
    both = diagnosed.row(**failed, waiting_for={"operator-validator": "Init:0/4", "driver": "CrashLoopBackOff"})
    for other in (both, diagnosed.row(**failed), diagnosed.row(waiting_for={"operator-validator": "Init:1/4"})):
        assert "UpgradeValidationTimeout" not in found_in(other, policy=FULL)


def test_a_validator_that_a_label_keeps_away_is_named() -> None:
    row, label = diagnosed.row(upgrade_state="validation-required"), "nvidia.com/gpu.deploy.operator-validator"
    found = found_in(row, policy=FULL, labels={row["name"]: {label: "false"}})
    assert list(found) == ["UpgradeWithoutValidator"]
    assert found_in(row, policy=FULL, labels={row["name"]: {label: "true"}}) == {}


def fleet(**first: t.Any) -> list[Json]:
    """Return four nodes: the first as given, and the others waiting for their turn."""
    waiting = [diagnosed.row(f"gpu-{number}", upgrade_state="upgrade-required") for number in (1, 2, 3)]
    return [diagnosed.row("gpu-0", **first), *waiting]


def test_a_failed_node_that_holds_the_only_turn_stops_the_fleet() -> None:
    found = found_in(*fleet(upgrade_state="upgrade-failed", cordoned=True), policy=FULL)["UpgradeFleetStopped"]
    assert found.nodes == ("gpu-1", "gpu-2", "gpu-3")
    assert "gpu-0 uses up maxParallelUpgrades: 1" in found.cause


def test_a_node_that_is_down_uses_up_max_unavailable() -> None:
    found = found_in(*fleet(ready=False), policy=FULL)["UpgradeFleetStopped"]
    assert "gpu-0 uses up maxUnavailable: 25%" in found.cause


@pytest.mark.parametrize(
    "first, policy",
    [
        ({"upgrade_state": "upgrade-failed"}, {**FULL, "maxParallelUpgrades": 2}),
        ({"upgrade_state": "upgrade-failed"}, {**FULL, "maxParallelUpgrades": 0}),
        ({"ready": False}, {**FULL, "maxUnavailable": "50%"}),
        ({"upgrade_state": "pod-restart-required", "cordoned": True}, FULL),
        ({"upgrade_state": "upgrade-done"}, FULL),
        ({"upgrade_state": "upgrade-failed"}, {**FULL, "autoUpgrade": False}),
    ],
)
def test_a_fleet_that_goes_on_gives_nothing(first: Json, policy: Json) -> None:
    assert found_in(*fleet(**first), policy=policy) == {}


def test_every_rule_has_a_case() -> None:
    by_state = {
        "UpgradeWaitsForJobs",
        "UpgradeWithoutValidator",
        "UpgradeFleetStopped",
    }
    assert {rule.code for rule in RULES} == {*WORDS, *by_state}


@pytest.mark.parametrize(
    "code", ["DriverStillInUse", "UpgradeDrainFailed", "UpgradeNeedsForce", "UpgradeKeepsLocalData"]
)
def test_paused_operands_and_a_change_that_is_held_up_say_how_to_tell_them_apart(code: str) -> None:
    held = WORDS[code]
    paused = TextLine("  nvidia.com/gpu.deploy.dcgm=paused-for-driver-upgrade", node="gpu-0003")
    found = diagnosed.found((*RULES, *upgrade_leftovers.RULES), held, paused)
    assert {*found} == {code, "OperandsLeftPaused"}
    for each in found.values():
        (text,) = each.tell_apart
        assert "kubectl get nodes -L nvidia.com/gpu-driver-upgrade-state" in text
    alone = diagnosed.found((*RULES, *upgrade_leftovers.RULES), held)[code]
    assert alone.tell_apart == ()


def _failed(policy: Json, pods: list[Json], **evidence: t.Any) -> t.Any:
    """Return what is found on a node whose upgrade failed so long ago that the operator's log says nothing of it."""
    row = diagnosed.row(upgrade_state="upgrade-failed", cordoned=True)
    owner = {"nvidia.com/gpu-operator.driver.owner": "default"}
    objects = {"nodes": [{"metadata": {"name": row["name"], "labels": owner}, "spec": {}}], "gpupods": pods}
    return diagnosed.found(RULES, stack=diagnosed.stack(row), spec=policy, objects={**objects, **evidence})


def _pod(node: str = diagnosed.NODE, **traits: bool) -> Json:
    return {"namespace": "team-a", "name": "notebook", "node": node, "gpus": {"nvidia.com/gpu": 1}, **traits}


@pytest.mark.parametrize(
    "code, trait, permission",
    [("UpgradeNeedsForce", "is_bare", "force"), ("UpgradeKeepsLocalData", "keeps_data", "deleteEmptyDir")],
)
def test_a_pod_that_still_stands_in_the_way_is_named_without_the_operators_log(
    code: str, trait: str, permission: str
) -> None:
    spec = {"driver": {"upgradePolicy": {**FULL, "podDeletion": {permission: False}}}}
    found = _failed(spec, [_pod(**{trait: True})])
    assert list(found) == [code] and found[code].certainty == "likely"
    assert "team-a/notebook" in found[code].cause
    assert _failed(spec, [_pod(**{trait: False})]) == {}
    assert _failed(spec, [_pod("gpu-0009", **{trait: True})]) == {}
    permitted = {"driver": {"upgradePolicy": {**FULL, "podDeletion": {permission: True}}}}
    assert _failed(permitted, [_pod(**{trait: True})]) == {}


def test_the_policy_of_the_nodes_own_nvidiadriver_counts() -> None:
    spec = {"driver": {"useNvidiaDriverCRD": True}}
    for force, expected in ((False, ["UpgradeNeedsForce"]), (True, [])):
        driver = {
            "metadata": {"name": "default"}, "spec": {"upgradePolicy": {"podDeletion": {"force": force}}},
        }  # fmt: skip
        assert list(_failed(spec, [_pod(is_bare=True)], nvidiadrivers=[driver])) == expected
    assert list(_failed(spec, [_pod(is_bare=True)])) == ["UpgradeNeedsForce"]


def test_what_the_operator_said_is_not_repeated() -> None:
    row = diagnosed.row("gpu-0003", upgrade_state="upgrade-failed", cordoned=True)
    evidence = {"stack": diagnosed.stack(row), "objects": {"gpupods": [_pod("gpu-0003", is_bare=True)]}}
    found = diagnosed.found(RULES, WORDS["UpgradeNeedsForce"], **evidence)["UpgradeNeedsForce"]
    assert found.certainty == "certain" and len(found.quotes) == 1


@pytest.mark.parametrize(
    "status, expected",
    [
        ({"desiredNumberScheduled": 4, "currentNumberScheduled": 3}, ["UpgradeBlockedByUnscheduled"]),
        (
            {"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberMisscheduled": 1},
            ["UpgradeBlockedByUnscheduled"],
        ),
        ({"desiredNumberScheduled": 4, "currentNumberScheduled": 4}, []),
    ],
)
def test_pods_that_were_missing_during_the_installation_stop_no_upgrade(status: Json, expected: list[str]) -> None:
    """NVIDIA's operator v26.7.0 wrote this line again and again while it installed a healthy stack."""
    driver = {"metadata": {"name": "nvidia-driver-daemonset", "labels": {"app": "nvidia-driver-daemonset"}}}
    objects = {"daemonsets": [{**driver, "status": status}]}
    words = WORDS["UpgradeBlockedByUnscheduled"]
    assert list(diagnosed.found(RULES, words, stack=diagnosed.stack(diagnosed.row()), objects=objects)) == expected
