# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import os
import re
import signal
import typing as t
from datetime import UTC, datetime

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from inline_snapshot import snapshot as wording

from tests.support.clock import LeapingClock
from tests.unit.fakes import node_kinds
from tests.unit.fakes.api import ALL_PODS, GPUCLUSTERS, NODES, POLICIES, FakeApi, refusal
from tests.unit.fakes.node_kinds import DEPLOY, INSTANCES, LABEL, MARK, Operator, instance, kata, launcher
from tests.unit.fakes.stack import workload

Json = dict[str, t.Any]

VM = {"kind": "vm-passthrough", "nodes": ["gpu-0000"]}
REST = {"kind": "container", "nodes": ["gpu-0001"]}
BACK = {"kind": "container", "nodes": ["gpu-0000"]}
BOTH_VM = {**VM, "nodes": ["gpu-0000", "gpu-0001"]}


@pytest.fixture
def operator(api: FakeApi) -> Operator:
    """An operator with all operands of all kinds, and a KubeVirt."""
    return Operator(api)


@pytest.fixture
def call(
    run_module: t.Callable, api: FakeApi, operator: Operator, leaps: LeapingClock, monkeypatch: pytest.MonkeyPatch
) -> t.Callable:
    """The module with a clock that leaps over its waits, on two nodes with eight GPUs each, which follow at once."""
    monkeypatch.setattr(waiting, "POLL_S", 2.0)
    return functools.partial(run_module, "workload_kind", **{"timeout": 60, "drain_timeout": 30, **api.connection})


def node(api: FakeApi, number: int = 0) -> Json:
    return next(item for item in api.lists[NODES] if item["metadata"]["name"] == f"gpu-{number:04}")


def label(api: FakeApi, number: int = 0) -> str | None:
    return node(api, number)["metadata"]["labels"].get(LABEL)


def mark(api: FakeApi, number: int = 0) -> str:
    return (node(api, number)["metadata"].get("annotations") or {}).get(MARK, "").partition(" ")[0]


def notes(api: FakeApi, number: int = 0) -> list[str]:
    """Return the annotations of a node beside the mark, and whether it is cordoned."""
    found = [key for key in node(api, number)["metadata"].get("annotations") or {} if key != MARK]
    return [*found, *(["cordoned"] if node(api, number)["spec"].get("unschedulable") else [])]


def writes(api: FakeApi) -> list[str]:
    """Return the writes. An eviction has its dry run in its body, so what it did is seen by the pods."""
    return [f"{method} {path}" for method, path, query in api.log if method != "GET" and "dryRun" not in query]


def row(run: t.Any, number: int = 0) -> Json:
    return next(item for item in run.result["nodes"] if item["node"] == f"gpu-{number:04}")


# ---- there and back ------------------------------------------------------------------------------------------------


def test_a_node_is_predicted_changed_proved_and_then_left_alone(call: t.Callable, api: FakeApi) -> None:
    predicted = call(kinds=[VM, REST], _ansible_check_mode=True, _ansible_diff=True)
    assert (predicted.rc, predicted.result["changed"], writes(api)) == (0, True, [])
    assert [row(predicted, number)["state"] for number in (0, 1)] == ["pending", "pending"]
    run = call(kinds=[VM, REST], _ansible_diff=True)
    assert (run.rc, run.result["changed"], run.warnings) == (0, True, [])
    expected = {
        "before": {"gpu-0000": None, "gpu-0001": None},
        "after": {"gpu-0000": "vm-passthrough", "gpu-0001": "container"},
    }
    assert run.result["diff"] == predicted.result["diff"] == expected
    assert [(label(api, number), mark(api, number)) for number in (0, 1)] == [
        ("vm-passthrough", "vm-passthrough"),
        ("container", "container"),
    ]
    assert notes(api) == notes(api, 1) == []
    assert row(run)["resources_before"] == {"nvidia.com/gpu": 8}
    assert row(run)["resources_after"] == {node_kinds.A10: 8}
    assert [row(run, number)["state"] for number in (0, 1)] == ["done", "done"]
    before = len(writes(api))
    for again in (call(kinds=[VM, REST], _ansible_check_mode=True), call(kinds=[VM, REST])):
        assert (again.rc, again.result["changed"], row(again)["state"]) == (0, False, "unchanged")
    assert len(writes(api)) == before


def test_a_label_that_changes_nothing_is_written_without_a_hold(call: t.Callable, api: FakeApi) -> None:
    run = call(kinds=[BACK])
    assert (run.rc, writes(api)) == (0, ["PATCH /api/v1/nodes/gpu-0000"]) and row(run)["state"] == "done"


def test_a_node_goes_to_vgpus_and_back_by_the_default(call: t.Callable, api: FakeApi) -> None:
    run = call(kinds=[{**VM, "kind": "vm-vgpu"}, REST])
    assert run.rc == 0 and row(run)["resources_after"] == {node_kinds.VGPU: 16}
    assert "6.0" in run.warnings[0]
    named = call(state="absent", kinds=[{"kind": "vm-passthrough"}])
    assert named.result["changed"] is False
    predicted = call(state="absent", _ansible_check_mode=True)
    assert [(row(predicted, number)["kind"], row(predicted, number)["label"]) for number in (0, 1)] == [
        ("container", ""),
        ("container", ""),
    ]
    run = call(state="absent")
    assert (run.rc, label(api), label(api, 1), mark(api), notes(api)) == (0, None, None, "", [])
    assert row(run)["resources_after"] == {"nvidia.com/gpu": 8}
    for again in (call(state="absent", _ansible_check_mode=True), call(state="absent")):
        assert (again.rc, again.result["changed"], again.result["nodes"]) == (0, False, [])


# ---- who is in the way ---------------------------------------------------------------------------------------------


def test_pods_with_gpus_are_named_and_leave_only_with_permission(call: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train"), workload("web", gpus=0)]
    for checks in (True, False):
        run = call(kinds=[VM], _ansible_check_mode=checks)
        assert (run.rc, run.result["reason"], writes(api)) == (1, "PodsInTheWay", [])
        assert row(run)["pods"] == ["default/train"] and "default/train" in run.result["msg"]
    warned = call(kinds=[VM], check_refusal="warn", _ansible_check_mode=True)
    assert warned.rc == 0 and warned.warnings[0].startswith(WOULD_STOP)
    predicted = call(kinds=[VM], allow_disruption=True, _ansible_check_mode=True)
    assert row(predicted)["evicted"] == ["default/train"] and len(api.lists[ALL_PODS]) == 2
    run = call(kinds=[VM], allow_disruption=True)
    assert run.rc == 0 and row(run)["evicted"] == ["default/train"]
    assert [pod["metadata"]["name"] for pod in api.lists[ALL_PODS]] == ["web"]
    # The node is emptied before its label changes.
    evict, change = "POST /api/v1/namespaces/default/pods/train/eviction", "PATCH /api/v1/nodes/gpu-0000"
    assert writes(api)[2:] == [change, evict, change, change]


def machines(api: FakeApi, *made: Json) -> None:
    """Let these machines run on the first node, which gives its GPUs to them."""
    api.lists[INSTANCES] = list(made)
    api.lists[ALL_PODS] = [launcher(item["metadata"]["name"]) for item in made]


def test_a_machine_that_cannot_move_is_named_and_stopped_only_with_permission(call: t.Callable, api: FakeApi) -> None:
    assert call(kinds=[VM, REST]).rc == 0
    machines(api, instance("windows", "LiveMigrate"), instance("linux", "LiveMigrateIfPossible"))
    before = len(writes(api))
    refused = call(kinds=[BACK], allow_disruption=True)
    assert refused.rc == 1 and refused.result["msg"] == wording(
        "Pods are in the way: virtual machine research/windows on gpu-0000 cannot move with its GPU, although its evictionStrategy is LiveMigrate, and would be stopped (stop_machines permits it). Set these options, or delete the pods yourself."
    )
    assert [(each["name"], each["way"]) for each in row(refused)["machines"]] == [
        ("research/windows", "stop"),
        ("research/linux", "evict"),
    ]
    both = call(kinds=[BACK], stop_machines=True)
    assert both.rc == 1 and "research/linux on gpu-0000 would be stopped (allow_disruption" in both.result["msg"]
    permitted = {"kinds": [BACK], "allow_disruption": True, "stop_machines": True}
    predicted = call(**permitted, _ansible_check_mode=True)
    assert predicted.rc == 0 and [text for text in predicted.warnings if "research/windows" in text] == [
        wording(
            "Node gpu-0000: virtual machine research/windows (evictionStrategy LiveMigrate) would be stopped, since it cannot move with its GPU."
        )
    ]
    assert [each for each in writes(api)[before:] if "/eviction" not in each] == []
    assert len(api.lists[INSTANCES]) == len(api.lists[ALL_PODS]) == 2
    run = call(**permitted)
    assert run.rc == 0 and f"DELETE {INSTANCES}/windows" in writes(api)
    assert "POST /api/v1/namespaces/research/pods/virt-launcher-linux/eviction" in writes(api)
    assert row(run)["evicted"] == ["research/virt-launcher-linux", "research/virt-launcher-windows"]


def test_the_strategy_of_the_cluster_counts_for_a_machine_without_one(call: t.Callable, api: FakeApi) -> None:
    assert call(kinds=[VM, REST]).rc == 0
    machines(api, instance("windows"))
    assert row(call(kinds=[BACK], _ansible_check_mode=True))["machines"][0]["strategy"] == "None"
    kubevirt = {"metadata": {"name": "kubevirt"}, "spec": {"configuration": {"evictionStrategy": "LiveMigrate"}}}
    api.lists["/apis/kubevirt.io/v1/kubevirts"] = [kubevirt]
    refused = call(kinds=[BACK], allow_disruption=True, _ansible_check_mode=True)
    assert "although its evictionStrategy is LiveMigrate" in refused.result["msg"]


def test_a_machine_that_can_move_is_moved_by_kubevirt(call: t.Callable, api: FakeApi, operator: Operator) -> None:
    assert call(kinds=[VM, REST]).rc == 0
    machines(api, instance("moving", "LiveMigrate", can_move=True))

    def evacuates(method: str, path: str) -> t.Any:
        if path.endswith("/eviction"):
            api.lists[ALL_PODS] = []
            return refusal(429, 'Eviction triggered evacuation of VMI "research/moving"', "TooManyRequests")
        return None

    operator.sees = evacuates
    run = call(kinds=[BACK], allow_disruption=True)
    assert run.rc == 0 and row(run)["machines"][0]["way"] == "move" and api.lists[INSTANCES]


def test_a_kata_container_with_gpus_leaves_as_a_pod(call: t.Callable, api: FakeApi) -> None:
    assert call(kinds=[VM, REST]).rc == 0
    api.lists[ALL_PODS] = [kata("enclave")]
    assert "research/enclave" in call(kinds=[BACK]).result["msg"]
    assert row(call(kinds=[BACK], allow_disruption=True))["evicted"] == ["research/enclave"]


def test_a_machine_that_comes_late_is_stopped_only_with_permission(
    call: t.Callable, api: FakeApi, operator: Operator
) -> None:
    assert call(kinds=[VM, REST]).rc == 0

    def arrives(method: str, path: str) -> None:
        if method == "PATCH":
            machines(api, instance("late", "LiveMigrate"))

    operator.sees = arrives
    run = call(kinds=[BACK], allow_disruption=True)
    assert run.rc == 1 and "research/late on gpu-0000 cannot move" in row(run)["reason"]
    assert (label(api), notes(api), len(api.lists[INSTANCES])) == ("vm-passthrough", [], 1)


# ---- proof and failure ---------------------------------------------------------------------------------------------


def test_a_node_that_is_not_proved_stays_held_and_the_next_run_goes_on(
    call: t.Callable, api: FakeApi, operator: Operator
) -> None:
    """vfio-manager is Ready, although it has bound nothing: only the validator and the resources tell."""
    operator.unready["gpu-0000"], operator.fewer["gpu-0000"] = "nvidia-sandbox-validator", {}
    run = call(kinds=[VM, REST], allow_disruption=True)
    assert run.rc == 1 and re.sub(r"\d\d s", "60 s", row(run)["reason"]) == wording(
        "the node offers no GPUs to virtual machines for 60 s; pod nvidia-sandbox-validator-gpu-0000: container main: vfio-pci-validation failed. It stays cordoned for the purpose workload-kind."
    )
    assert "cordoned" in notes(api) and label(api) == "vm-passthrough"
    operator.fewer.clear()
    still = call(kinds=[VM, REST])
    assert still.rc == 1 and "pod nvidia-sandbox-validator-gpu-0000 is not Ready" in row(still)["reason"]
    operator.unready.clear()
    predicted = call(kinds=[VM, REST], _ansible_check_mode=True)
    assert (predicted.result["changed"], row(predicted)["resumed"]) == (True, True)
    assert [text for text in predicted.warnings if "left it held" in text]
    run = call(kinds=[VM, REST])
    assert (run.rc, row(run)["state"], notes(api)) == (0, "done", [])
    assert call(kinds=[VM, REST]).result["changed"] is False


@pytest.mark.parametrize(
    ("stays", "fewer", "reason"),
    [
        ("nvidia-driver-daemonset", None, "pod nvidia-driver-daemonset-gpu-0000 of its former kind is still there"),
        ("", {node_kinds.A10: "8", "nvidia.com/gpu": "8"}, "the node still offers 8 of nvidia.com/gpu"),
        ("", {node_kinds.A10: "7"}, "the node offers 7 of nvidia.com/GA102GL_A10, and has 8 GPUs"),
        ("", {"nvidia.com/hostdev": "8"}, "the node offers no GPUs to virtual machines"),
    ],
)
def test_what_proves_nothing(
    call: t.Callable, operator: Operator, stays: str, fewer: dict[str, str] | None, reason: str
) -> None:
    operator.stays |= {"gpu-0000": stays} if stays else {}
    operator.fewer |= {"gpu-0000": fewer} if fewer is not None else {}
    run = call(kinds=[VM, REST])
    assert run.rc == 1 and row(run)["reason"].startswith(reason)


def test_a_node_whose_pods_do_not_leave_is_put_back_as_it_was(call: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS], api.end = [workload("train")], lambda pod: None
    run = call(kinds=[VM], allow_disruption=True)
    assert run.rc == 1 and "default/train" in row(run)["reason"]
    assert (label(api), notes(api)) == (None, [])


def test_somebody_who_changes_the_label_meanwhile_wins(call: t.Callable, api: FakeApi, operator: Operator) -> None:
    def other(method: str, path: str) -> None:
        if method == "GET" and path == NODES and label(api):
            node(api)["metadata"]["labels"][LABEL] = "vm-vgpu"

    operator.sees = other
    run = call(kinds=[VM])
    assert run.rc == 1 and f"{LABEL} to vm-vgpu" in row(run)["reason"] and "cordoned" in notes(api)


def test_a_node_that_lost_its_gpus_is_degraded_and_no_failure(
    call: t.Callable, operator: Operator, leaps: LeapingClock
) -> None:
    assert call(kinds=[VM, REST]).rc == 0
    operator.fewer["gpu-0000"] = {}
    leaps.sleep(3600)
    run = call(kinds=[VM, REST])
    assert (run.rc, run.result["changed"], row(run)["state"]) == (0, False, "degraded")
    assert run.warnings == wording(
        ["Degraded, which stops no other node: gpu-0000: the node offers no GPUs to virtual machines."]
    )


def test_a_closed_window_leaves_the_nodes_and_says_so(call: t.Callable, api: FakeApi) -> None:
    run = call(kinds=[VM], windows=["mon 03:00-03:01"])
    assert (run.rc, run.result["finished"], label(api)) == (0, False, None)
    assert "mon 03:00-03:01" in run.warnings[-1]


def test_a_signal_in_the_middle_leaves_the_node_held_and_a_rerun_ends_the_change(
    call: t.Callable, api: FakeApi, operator: Operator
) -> None:
    operator.fewer["gpu-0000"] = {}
    sent: list[bool] = []

    def ends(method: str, path: str) -> None:
        if label(api) and not sent:
            sent.append(bool(node(api)["spec"].get("unschedulable")))
            os.kill(os.getpid(), signal.SIGTERM)

    operator.sees = ends
    run = call(kinds=[VM, REST])
    assert (run.rc, run.result["reason"], sent, row(run)["purposes"]) == (1, "Interrupted", [True], ["workload-kind"])
    operator.sees = lambda method, path: None
    operator.fewer.clear()
    # A pod of the new kind that runs there by now is in nobody's way.
    machines(api, instance("windows", "LiveMigrate"))
    run = call(kinds=[VM, REST])
    assert (run.rc, row(run)["state"], notes(api), len(api.lists[INSTANCES])) == (0, "done", [], 1)


def test_one_node_may_fail_if_that_is_permitted(call: t.Callable, api: FakeApi, operator: Operator) -> None:
    operator.unready["gpu-0000"] = "nvidia-sandbox-validator"
    run = call(kinds=[BOTH_VM], max_failed=1, max_unavailable=2)
    assert run.rc == 0 and [row(run, number)["state"] for number in (0, 1)] == ["failed", "done"]
    assert run.warnings[-1].startswith("Node gpu-0000: pod nvidia-sandbox-validator-gpu-0000 is not Ready for")


def test_a_node_that_was_proved_and_falls_ill_has_failed(call: t.Callable, operator: Operator, api: FakeApi) -> None:
    operator.unready["gpu-0001"] = "nvidia-sandbox-validator"

    def loses(method: str, path: str) -> None:
        if label(api) and not node(api)["spec"].get("unschedulable"):  # it has been put back
            operator.fewer["gpu-0000"] = {}

    operator.sees = loses
    run = call(kinds=[BOTH_VM], max_failed=2, max_unavailable=2)
    assert "not well any more" in row(run)["reason"]


def test_the_default_may_be_virtual_machines(call: t.Callable, api: FakeApi) -> None:
    assert call(kinds=[BACK]).rc == 0
    api.lists[POLICIES][0]["spec"]["sandboxWorkloads"]["defaultWorkload"] = "vm-passthrough"
    run = call(state="absent")
    assert (run.rc, row(run)["kind"], label(api), notes(api)) == (0, "vm-passthrough", None, [])
    assert call(kinds=[BACK]).rc == 0
    api.lists[POLICIES][0]["spec"]["vfioManager"] = {"enabled": False}
    refused = call(state="absent")
    assert (refused.rc, label(api)) == (1, "container") and "vfioManager.enabled" in refused.result["msg"]


def test_a_node_that_another_maintainer_works_on_is_not_begun(call: t.Callable, api: FakeApi) -> None:
    node(api)["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = "drain-required"
    predicted = call(kinds=[VM], _ansible_check_mode=True)
    assert [text for text in predicted.warnings if "gpu-operator (label" in text]
    run = call(kinds=[VM])
    assert (run.rc, label(api), notes(api)) == (1, None, []) and "gpu-operator (label" in row(run)["reason"]


def test_a_node_that_another_run_holds_is_left_to_it(call: t.Callable, api: FakeApi) -> None:
    moment = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    node(api)["metadata"]["annotations"] = {"gpuops.nvidia/maintenance.workload-kind": f"{moment} elsewhere 1"}
    run = call(kinds=[VM])
    assert (run.rc, run.result["reason"], writes(api)) == (1, "HeldElsewhere", [])


def test_somebody_who_changes_the_label_during_the_drain_wins(
    call: t.Callable, api: FakeApi, operator: Operator
) -> None:
    def other(method: str, path: str) -> None:
        if method == "GET" and path == NODES and node(api)["spec"].get("unschedulable"):
            node(api)["metadata"]["labels"][LABEL] = "vm-vgpu"

    operator.sees = other
    run = call(kinds=[VM])
    assert run.rc == 1 and f"{LABEL} to vm-vgpu" in row(run)["reason"]
    assert (label(api), notes(api)) == ("vm-vgpu", []), "nothing on it was changed by this call"


@pytest.mark.parametrize(("answer", "rc"), [("Conflict", 0), ("Forbidden", 1)])
def test_a_label_that_the_api_server_refuses(
    call: t.Callable, api: FakeApi, operator: Operator, answer: str, rc: int
) -> None:
    refused: list[str] = []

    def refuses(method: str, path: str) -> t.Any:
        is_label = method == "PATCH" and node(api)["spec"].get("unschedulable") and not refused
        if not is_label:
            return None
        refused.append(path)
        return refusal(409 if answer == "Conflict" else 403, "no", answer)

    operator.sees = refuses
    run = call(kinds=[VM, REST])
    assert run.rc == rc and refused == ["/api/v1/nodes/gpu-0000"]
    assert (label(api), notes(api)) == (("vm-passthrough", []) if rc == 0 else (None, []))


# ---- labels of others, and paused ones -----------------------------------------------------------------------------


def test_a_label_of_somebody_else_is_a_conflict_and_an_equal_one_stays_theirs(call: t.Callable, api: FakeApi) -> None:
    node(api)["metadata"]["labels"][LABEL] = "container"
    run = call(kinds=[VM])
    assert run.rc == 1 and run.result["msg"] == wording(
        "Somebody else has set the label nvidia.com/gpu.workload.config of gpu-0000 (container). Remove the label, or set replace_labels: true."
    )
    assert call(kinds=[BACK]).result["changed"] is False and mark(api) == ""
    assert call(state="absent").result["nodes"] == [] and label(api) == "container"
    assert call(kinds=[VM], replace_labels=True).rc == 0 and mark(api) == label(api) == "vm-passthrough"
    node(api)["metadata"]["labels"][LABEL] = "vm-vgpu"
    assert call(state="absent").result["nodes"] == [] and label(api) == "vm-vgpu"


def paused(api: FakeApi) -> str:
    return node(api)["metadata"]["labels"][f"{DEPLOY}sandbox-device-plugin"]


def test_a_label_that_a_killed_manager_has_left_paused_is_set_back(call: t.Callable, api: FakeApi) -> None:
    assert call(kinds=[VM, REST]).rc == 0
    node(api)["metadata"]["labels"][f"{DEPLOY}sandbox-device-plugin"] = "paused-for-vgpu-change"
    predicted = call(kinds=[VM, REST], _ansible_check_mode=True)
    assert (predicted.result["changed"], row(predicted)["repaired"]) == (True, [f"{DEPLOY}sandbox-device-plugin"])
    assert f"{DEPLOY}sandbox-device-plugin" in predicted.warnings[0] and paused(api).startswith("paused")
    run = call(kinds=[VM, REST])
    assert (run.rc, run.result["changed"], row(run)["state"], paused(api)) == (0, True, "done", "true")
    assert row(run)["repaired"] == [f"{DEPLOY}sandbox-device-plugin"] and notes(api) == []
    assert call(kinds=[VM, REST]).result["changed"] is False


def test_a_label_stays_paused_while_its_manager_runs(call: t.Callable, api: FakeApi) -> None:
    vgpus = [{**VM, "kind": "vm-vgpu"}, REST]
    assert call(kinds=vgpus).rc == 0
    node(api)["metadata"]["labels"][f"{DEPLOY}sandbox-device-plugin"] = "paused-for-vgpu-change"
    run = call(kinds=vgpus)
    assert (run.result["changed"], paused(api)) == (False, "paused-for-vgpu-change")
    assert [text for text in run.warnings if f"{DEPLOY}sandbox-device-plugin" in text]


def test_a_change_brings_paused_operands_of_its_kind_back(call: t.Callable, api: FakeApi) -> None:
    assert call(kinds=[VM, REST]).rc == 0
    node(api)["metadata"]["labels"][f"{DEPLOY}sandbox-device-plugin"] = "paused-for-cc-mode-change"
    run = call(kinds=[{**VM, "kind": "vm-vgpu"}, REST])
    assert (run.rc, paused(api), row(run)["repaired"]) == (0, "true", [f"{DEPLOY}sandbox-device-plugin"])


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason", "part"),
    [
        ({"kinds": []}, "Invalid", "Give kinds"),
        ({"kinds": [{"kind": "container"}]}, "Invalid", "give the nodes"),
        ({"kinds": [{**VM, "node_selector": {}}]}, "Invalid", "either"),
        ({"kinds": [{**VM, "nodes": ["x"]}]}, "NotFound", "node x"),
        ({"kinds": [{"kind": "container", "node_selector": {"a": "b"}}]}, "NotFound", "Correct node_selector"),
        ({"kinds": [{"kind": "container", "node_selector": {LABEL: "b"}}]}, "Invalid", "changes with the kind"),
        ({"kinds": [VM, BACK]}, "Invalid", "gives node gpu-0000 to vm-passthrough and to container"),
        ({"kinds": [VM], "canary": ["gpu-0001"]}, "Invalid", "canary names gpu-0001"),
        ({"kinds": [VM], "timeout": 0}, "Invalid", "timeout"),
    ],
)
def test_wishes_that_cannot_be_meant(call: t.Callable, api: FakeApi, options: Json, reason: str, part: str) -> None:
    run = call(**options)
    assert (run.rc, run.result["reason"], writes(api)) == (1, reason, []) and part in run.result["msg"]


def test_a_cluster_that_cannot_have_the_kind(call: t.Callable, api: FakeApi) -> None:
    api.lists[POLICIES][0]["spec"]["sandboxWorkloads"] = {"enabled": False}
    assert "sandboxWorkloads off" in call(kinds=[VM]).result["msg"]
    assert call(kinds=[BACK]).rc == 0 and label(api) == "container"
    api.lists[GPUCLUSTERS] = [{"metadata": {"name": "gpu-cluster"}}]
    assert "GPUCluster gpu-cluster" in call(kinds=[BACK]).result["msg"]


def test_gpu_nodes_without_a_kind_beside_others_are_named(call: t.Callable) -> None:
    run = call(kinds=[VM])
    assert run.warnings == wording(
        [
            "gpu-0001 has no label nvidia.com/gpu.workload.config, so the operator decides by sandboxWorkloads.defaultWorkload (container), and after a restart may take container for it. Give each GPU node its kind."
        ]
    )
