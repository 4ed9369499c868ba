# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.verification import FilterModule, verification

READY = {"state": "ready", "message": "Ready.", "reasons": []}


def node(name: str = "gpu-0000", gpus: int | None = 8, capacity: int = 8, **allocatable: int) -> dict[str, t.Any]:
    offered = {f"nvidia.com/{key.replace('_', '-')}": value for key, value in allocatable.items()}
    return {"name": name, "gpus": gpus, "capacity": {"nvidia.com/gpu": capacity}, "allocatable": offered}


def failures(stack: dict[str, t.Any], **other: t.Any) -> dict[str, str]:
    return {
        f"{check['classname']} {check['name']}": check["failure"]
        for check in verification(stack, **other)
        if check["failure"]
    }


def test_a_complete_stack_passes() -> None:
    stack = {"verdict": READY, "nodes": [node(gpu=8), node("gpu-0001", gpu=8)]}
    smoke = {
        "results": [
            {"node": "gpu-0000", "passed": True, "skipped": False, "reason": "", "seconds": 1.5, "log": "PASSED"}
        ]
    }
    dcgm = {"reason": "", "results": [{"node": "gpu-0000", "ok": True, "reason": ""}]}
    checks = verification(stack, smoke, dcgm)
    assert [(check["classname"], check["name"]) for check in checks] == [
        ("stack", "operands"),
        ("stack", "nodes"),
        ("gpus", "gpu-0000"),
        ("gpus", "gpu-0001"),
        ("smoke", "gpu-0000"),
        ("dcgm", "gpu-0000"),
    ]
    assert not any(check["failure"] for check in checks)
    assert checks[4]["output"] == "PASSED"


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
    assert "has 0 GPU nodes, but at least 1 are expected" in failures({"verdict": READY, "nodes": []})["stack nodes"]
    assert failures({"verdict": READY, "nodes": []}, min_nodes=0) == {}


@pytest.mark.parametrize(
    ("found", "expected", "reason"),
    [
        (node(gpu=7), {}, "Pods can get 7 of 8 GPUs"),
        (node(capacity=0), {}, "Pods can get 0 of 8 GPUs"),
        (node(gpus=None, capacity=0, gpu=0), {}, "Pods can get 0 of 0 GPUs"),
        (node(gpus=None, gpu=8), {}, ""),
        (node(capacity=32, gpu=32), {}, ""),
        (node(capacity=32, gpu=28), {}, "Pods can get 28 of 32 GPUs"),
        (node(gpu=8), {"gpu-0000": 4}, "Pods can get 8 GPUs, but 4 are expected."),
        (node(gpu=8), {"gpu-0000": 8}, ""),
        (node(gpu=8), {"gpu-0009": 4}, "The node is missing"),
        (node(capacity=0, gpu=0, mig_1g_10gb=56), {}, ""),
        (node(capacity=0, gpu=0, mig_1g_10gb=0), {}, "Pods can get 0 of 8 GPUs"),
    ],
)
def test_allocatable_gpus_are_compared_with_the_expected_number(
    found: dict[str, t.Any], expected: dict[str, int], reason: str
) -> None:
    said = failures({"verdict": READY, "nodes": [found]}, expected_gpus=expected)
    assert reason in next(iter(said.values()), "")
    assert bool(said) == bool(reason)


def test_a_failed_workload_is_a_failure_and_a_skipped_one_is_not() -> None:
    row = {"node": "gpu-0000", "passed": False, "skipped": False, "reason": "Status 1.", "seconds": 2.0, "log": "boom"}
    stack = {"verdict": READY, "nodes": [node(gpu=8)]}
    assert failures(stack, smoke={"results": [row]}) == {"smoke gpu-0000": "Status 1."}
    skipped = verification(stack, {"results": [{**row, "skipped": True, "reason": "All GPUs are in use."}]})[-1]
    assert (skipped["failure"], skipped["skipped"]) == ("", "All GPUs are in use.")


def test_missing_metrics_fail() -> None:
    stack = {"verdict": READY, "nodes": [node(gpu=8)]}
    assert failures(
        stack, dcgm={"reason": "x", "results": [{"node": "gpu-0000", "ok": False, "reason": "7 of 8."}]}
    ) == {"dcgm gpu-0000": "7 of 8."}
    assert failures(stack, dcgm={"reason": "No exporter runs.", "results": []}) == {
        "dcgm exporter": "No exporter runs."
    }


def test_a_test_that_could_not_start_is_a_failed_check() -> None:
    stack = {"verdict": READY, "nodes": [node(gpu=8)]}
    assert failures(stack, smoke={"msg": "Nothing to test."}, dcgm={"msg": "No permission."}) == {
        "smoke workload": "Nothing to test.",
        "dcgm exporter": "No permission.",
    }


def test_a_check_that_did_not_run_has_no_results() -> None:
    assert failures({"verdict": READY, "nodes": [node(gpu=8)]}, smoke={"skipped": True}, dcgm={"skipped": True}) == {}


def test_other_input_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="gpu_stack_info"):
        FilterModule().filters()["verification"]({"changed": False})
