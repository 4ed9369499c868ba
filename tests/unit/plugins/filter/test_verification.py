# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.verification import FilterModule, verification
from inline_snapshot import snapshot as wording

READY = {"state": "ready", "message": "Ready.", "reasons": []}


def node(name: str = "gpu-0000", expected: int = 8, **allocatable: int) -> dict[str, t.Any]:
    """Return a row of the fleet whose whole GPUs should be this many."""
    offered = {f"nvidia.com/{key.replace('_', '-')}": value for key, value in allocatable.items()}
    slices = [part("nvidia.com/gpu", expected, offered.get("nvidia.com/gpu", 0))] if expected else []
    row = {"name": name, "allocatable": offered, "slices": slices}
    return {**row, "product": "NVIDIA-H100-80GB-HBM3", "left_out": None}


def part(resource: str, expected: int, allocatable: int, profile: str | None = None) -> dict[str, t.Any]:
    return {"resource": resource, "expected": expected, "allocatable": allocatable, "profile": profile}


def smoked(name: str, *, passed: bool = True, skipped: bool = False, reason: str = "") -> dict[str, t.Any]:
    return {"node": name, "passed": passed, "skipped": skipped, "reason": reason, "seconds": 1.5, "log": "the log"}


def metered(name: str, reason: str = "") -> dict[str, t.Any]:
    return {"node": name, "ok": not reason, "reason": reason}


def skips(stack: dict[str, t.Any], **other: t.Any) -> dict[str, str]:
    return {
        f"{check['classname']} {check['name']}": check["skipped"]
        for check in verification({"operands": [], **stack}, **other)
        if check["skipped"]
    }


def failures(stack: dict[str, t.Any], **other: t.Any) -> dict[str, str]:
    return {
        f"{check['classname']} {check['name']}": check["failure"]
        for check in verification({"operands": [], **stack}, **other)
        if check["failure"]
    }


def test_a_complete_stack_passes_with_one_check_of_each_kind_for_each_node() -> None:
    stack = {"verdict": READY, "operands": [], "nodes": [node(gpu=8), node("gpu-0001", gpu=8)]}
    names = ["gpu-0000", "gpu-0001"]
    smoke = {"results": [smoked(name) for name in names], "too_few_tested": ""}
    checks = verification(stack, smoke, {"reason": "", "results": [metered(name) for name in names]})
    assert [(check["classname"], check["name"]) for check in checks] == [
        ("stack", "operands"),
        ("stack", "nodes"),
        ("stack", "tested"),
        ("gpus", "gpu-0000"),
        ("gpus", "gpu-0001"),
        ("smoke", "gpu-0000"),
        ("smoke", "gpu-0001"),
        ("dcgm", "gpu-0000"),
        ("dcgm", "gpu-0001"),
    ]
    assert not any(check["failure"] or check["skipped"] for check in checks)
    assert (checks[5]["output"], checks[5]["time"]) == ("the log", 1.5)


def test_the_verdict_names_causes_with_remedies_and_leaves_out_notes() -> None:
    reasons = [
        {"level": "failed", "message": "The image cannot be pulled.", "remedy": "Check the tag."},
        {"level": "note", "message": "A node is cordoned.", "remedy": ""},
    ]
    stack = {"verdict": {"state": "failed", "message": "Not ready.", "reasons": reasons}, "nodes": [node(gpu=8)]}
    assert failures(stack) == {"stack operands": "The image cannot be pulled. Check the tag."}
    stack["verdict"] = {"state": "progressing", "message": "Not ready.", "reasons": []}
    assert failures(stack) == {"stack operands": "Not ready."}


def test_too_few_nodes_fail() -> None:
    assert failures({"verdict": READY, "nodes": []})["stack nodes"] == wording(
        "The cluster has 0 GPU nodes, but at least 1 are expected. Check that Node Feature Discovery runs and that the nodes have joined the cluster."
    )
    assert failures({"verdict": READY, "nodes": []}, min_nodes=0) == {}


MIG = "nvidia.com/mig-1g.10gb"
MIXED = {**node(gpu=4), "allocatable": {"nvidia.com/gpu": 4, MIG: 28}}


@pytest.mark.parametrize(
    ("found", "expected", "reason"),
    [
        (node(gpu=7), {}, "get 7 of 8 GPUs."),
        (node(), {}, "Pods can get 0 of 8 GPUs"),
        (node(expected=0), {}, "Pods can get 0 of 0 GPUs"),
        (node(expected=32, gpu=32), {}, ""),
        (node(gpu=8), {"gpu-0000": 4}, "Pods can get 8 GPUs, but 4 are expected."),
        (node(gpu=8), {"gpu-0000": 8}, ""),
        (node(gpu_shared=8), {"gpu-0000": 8}, ""),
        (node(gpu=8), {"gpu-0009": 4}, "The node is missing"),
        ({**MIXED, "slices": [part("nvidia.com/gpu", 4, 4), part(MIG, 28, 28, "1g.10gb")]}, {}, ""),
        ({**MIXED, "slices": [part("nvidia.com/gpu", 4, 3), part(MIG, 28, 28)]}, {}, "Pods can get 3 of 4 GPUs."),
        ({**MIXED, "slices": [part(MIG, 28, 27, "1g.10gb")]}, {}, "can get 27 of 28 nvidia.com/mig-1g.10gb."),
        ({**MIXED, "slices": [part("nvidia.com/gpu", 7, 6, "1g.10gb")]}, {}, "can get 6 of 7 MIG devices 1g.10gb."),
        (MIXED, {"gpu-0000": {MIG: 28, "nvidia.com/gpu": 4}}, ""),
        (MIXED, {"gpu-0000": {MIG: 27, "nvidia.com/gpu": 3}}, "can get 4 nvidia.com/gpu, but 3 are expected, 28 nvi"),
        (MIXED, {"gpu-0000": {"nvidia.com/mig-2g.20gb": 1}}, "get 0 nvidia.com/mig-2g.20gb, but 1 are expected."),
        (
            {**node(expected=0), "product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID"},
            {},
            "MIG strategy single.",
        ),
    ],
)
def test_allocatable_gpus_are_compared_with_the_expected_number(
    found: dict[str, t.Any], expected: dict[str, int], reason: str
) -> None:
    said = failures({"verdict": READY, "nodes": [found]}, expected_gpus=expected)
    assert reason in next(iter(said.values()), "")
    assert bool(said) == bool(reason)


def test_an_unhealthy_gpu_that_a_pod_holds_fails_beside_what_is_missing() -> None:
    sick = {"namespace": "ml", "pod": "train", "device": "GPU-0", "health": "Unhealthy", "message": "XID 79"}
    said = "Pods hold 1 unhealthy GPU (GPU-0 in ml/train: XID 79)."

    def failure(row: dict[str, t.Any], **other: t.Any) -> str:
        return failures({"verdict": READY, "nodes": [row]}, **other).get("gpus gpu-0000", "")

    assert failure({**node(gpu=8), "device_health": [sick]}).startswith(said)
    assert failure({**node(gpu=8), "device_health": [sick]}, expected_gpus={"gpu-0000": 8}).startswith(said)
    both = failure({**node(gpu=7), "device_health": [sick]})
    assert both.startswith("Pods can get 7 of 8 GPUs.") and said in both
    assert failure({**node(gpu=8), "device_health": [{**sick, "health": "Unknown"}]}) == ""
    assert failure({**node(gpu=8), "device_health": [sick], "left_out": "NodesExcluded"}) == ""


def test_gpus_that_pods_claim_are_counted_by_device_class() -> None:
    def part(resource: str, allocatable: int, expected: int, profile: str | None = None) -> dict[str, t.Any]:
        return {"resource": resource, "profile": profile, "expected": expected, "allocatable": allocatable}

    whole = {**node(expected=0), "slices": [part("gpu.nvidia.com", 8, 8)], "devices": [{}] * 8}
    stack = {"verdict": READY, "nodes": [whole]}
    assert failures(stack) == failures(stack, expected_gpus={"gpu-0000": 8}) == {}
    assert failures(stack, expected_gpus={"gpu-0000": 4}) == {
        "gpus gpu-0000": "Pods can get 8 GPUs, but 4 are expected."
    }
    divided = {**whole, "slices": [part("mig.nvidia.com", 6, 7, "1g.10gb"), part("mig.nvidia.com", 1, 1, "2g.20gb")]}
    stack = {"verdict": READY, "nodes": [divided]}
    assert failures(stack, expected_gpus={"gpu-0000": {"mig.nvidia.com": 7}}) == {}
    assert "6 of 7 MIG devices 1g.10gb. See the log of NVIDIA's DRA driver" in failures(stack)["gpus gpu-0000"]


def test_a_failed_workload_is_a_failure_and_a_skipped_one_is_not() -> None:
    failing = smoked("gpu-0000", passed=False, reason="Status 1.")
    stack = {"verdict": READY, "nodes": [node(gpu=8)]}
    assert failures(stack, smoke={"results": [failing]}) == {"smoke gpu-0000": "Status 1."}
    assert failures(stack, smoke={"results": [{**failing, "reason": ""}]}) == {
        "smoke gpu-0000": wording("The workload did not pass.")
    }
    busy = {"results": [{**failing, "skipped": True, "reason": "All GPUs are in use."}]}
    assert failures(stack, smoke=busy) == {} and skips(stack, smoke=busy) == {"smoke gpu-0000": "All GPUs are in use."}


def test_too_few_tested_nodes_are_a_failure() -> None:
    stack = {"verdict": READY, "nodes": [node(gpu=8)]}
    cordoned = smoked("gpu-0000", passed=False, skipped=True, reason="The node is cordoned.")
    smoke = {"results": [cordoned], "too_few_tested": "Only 0 of 1 nodes were tested."}
    assert failures(stack, smoke=smoke) == {"stack tested": "Only 0 of 1 nodes were tested."}


@pytest.mark.parametrize(
    ("code", "excuse"),
    [
        ("OperandsSwitchedOff", "The label nvidia.com/gpu.deploy.operands=false keeps the operands away"),
        ("VirtualMachineNodes", "The node's GPUs are for virtual machines."),
        ("NodesExcluded", "The node is excluded."),
        ("NodesNotSelected", "The node selector does not select the node."),
        ("AnotherCode", "The node is left out (AnotherCode)."),
        ("NodesTolerated", "The node is not ready, and as many unready nodes are tolerated."),
    ],
)
def test_a_node_that_is_left_out_is_skipped_with_the_reason(code: str, excuse: str) -> None:
    stack = {"verdict": READY, "nodes": [node(gpu=8), {**node("off", gpu=0), "left_out": code}]}
    broken = smoked("off", passed=False, reason="The node is not Ready.")
    smoke = {"results": [smoked("gpu-0000"), broken]}
    dcgm = {"results": [metered("gpu-0000"), metered("off", "No exporter.")]}
    assert failures(stack, smoke=smoke, dcgm=dcgm) == {}
    found = skips(stack, smoke=smoke, dcgm=dcgm)
    assert found.keys() == {"gpus off", "smoke off", "dcgm off"}
    assert all(reason.startswith(excuse) for reason in found.values())
    assert found["smoke off"].endswith("node is not Ready.") is (code == "NodesTolerated")
    without = skips(stack, smoke={"results": [smoked("gpu-0000")]}, dcgm={"results": [metered("gpu-0000")]})
    assert without.keys() == found.keys() and without["dcgm off"].startswith(excuse)


def test_a_node_that_is_left_out_and_works_has_passed() -> None:
    stack = {"verdict": READY, "nodes": [{**node(gpu=8), "left_out": "OperandsSwitchedOff"}]}
    smoke = {"results": [smoked("gpu-0000")]}
    assert skips(stack, smoke=smoke) == {} and failures(stack, smoke=smoke, min_nodes=0) == {}


def test_nodes_that_are_left_out_do_not_count_and_an_expectation_still_holds() -> None:
    stack = {"verdict": READY, "nodes": [{**node(gpu=0), "left_out": "OperandsSwitchedOff"}]}
    found = failures(stack, expected_gpus={"gpu-0000": 8})
    assert found["gpus gpu-0000"] == "Pods can get 0 GPUs, but 8 are expected."
    assert "has 0 GPU nodes" in found["stack nodes"]


def test_missing_metrics_fail() -> None:
    stack = {"verdict": READY, "nodes": [node(gpu=8)]}
    assert failures(stack, dcgm={"reason": "x", "results": [metered("gpu-0000", "7 of 8.")]}) == {
        "dcgm gpu-0000": "7 of 8."
    }
    nowhere = {"reason": "No exporter runs.", "results": []}
    assert failures(stack, dcgm=nowhere) == {"dcgm exporter": "No exporter runs."}
    assert skips(stack, dcgm=nowhere) == {"dcgm gpu-0000": wording("The test could not start.")}


def test_an_exporter_that_the_clusterpolicy_switches_off_is_not_missed() -> None:
    """The operator leaves its label on the nodes."""
    operands = [{"operand": "driver", "state": "ready"}, {"operand": "dcgm-exporter", "state": "disabled"}]
    stack = {"verdict": READY, "nodes": [node(gpu=8)], "operands": operands}
    for dcgm in ({"results": [metered("gpu-0000", "No exporter.")], "reason": "x"}, {"results": [], "reason": "x"}):
        assert failures(stack, dcgm=dcgm) == {}
        assert skips(stack, dcgm=dcgm)["dcgm gpu-0000"] == wording(
            "The ClusterPolicy switches the DCGM exporter off (dcgmExporter.enabled: false)."
        )
    operands[1]["state"] = "ready"
    assert failures(stack, dcgm={"results": [], "reason": "x"}) == {"dcgm exporter": "x"}


def test_a_node_without_an_exporter_has_an_entry() -> None:
    stack = {"verdict": READY, "nodes": [node(gpu=8), node("paused", gpu=8)]}
    assert skips(stack, dcgm={"reason": "", "results": [metered("gpu-0000")]}) == {
        "dcgm paused": wording(
            "The operator deploys no exporter to the node (label nvidia.com/gpu.deploy.dcgm-exporter)."
        )
    }


def test_a_test_that_could_not_start_is_a_failed_check() -> None:
    stack = {"verdict": READY, "nodes": [node(gpu=8)]}
    broken = {"smoke": {"msg": "No namespace."}, "dcgm": {"msg": "No permission."}}
    assert failures(stack, **broken) == {"smoke workload": "No namespace.", "dcgm exporter": "No permission."}
    assert skips(stack, **broken) == dict.fromkeys(
        ["smoke gpu-0000", "dcgm gpu-0000"], wording("The test could not start.")
    )


def test_in_check_mode_no_workload_has_run() -> None:
    stack = {"verdict": READY, "nodes": [node(gpu=8), node("down", gpu=8)]}
    smoke = {"results": [smoked("down", passed=False, reason="The node is not Ready.")]}
    assert skips(stack, smoke=smoke) == {"smoke gpu-0000": wording("Check mode runs no workload.")}
    assert failures(stack, smoke=smoke) == {"smoke down": wording("The node is not Ready.")}


def test_a_check_that_was_not_asked_for_has_no_entry() -> None:
    stack = {"verdict": READY, "operands": [], "nodes": [node(gpu=8)]}
    checks = verification(stack, smoke={"skipped": True}, dcgm={"skipped": True})
    assert [check["classname"] for check in checks] == ["stack", "stack", "gpus"]


def test_other_input_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="gpu_stack_info"):
        FilterModule().filters()["verification"]({"changed": False})
