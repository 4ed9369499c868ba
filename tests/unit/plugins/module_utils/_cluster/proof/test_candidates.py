# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_reader import Offered
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.candidates import (
    Selection,
    select,
    too_few_tested,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import WorkloadVerdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.claimed import gpu, mig, offered, slice_of, taint
from tests.unit.plugins.module_utils._cluster.proof.workloads import node, options


def codes(selection: Selection) -> dict[str, str]:
    assert all(verdict.skipped for verdict in selection.verdicts), selection.verdicts
    return {verdict.node: verdict.code for verdict in selection.verdicts}


def failed(selection: Selection) -> dict[str, str]:
    assert not any(verdict.skipped or verdict.passed for verdict in selection.verdicts), selection.verdicts
    return {verdict.node: verdict.reason for verdict in selection.verdicts}


# ---- which nodes --------------------------------------------------------------------------------------------------


def test_by_default_every_gpu_node_has_an_entry() -> None:
    nodes = [node("b"), node("cordoned", cordoned=True), node("cpu", {}, gpu=False), node("a")]
    selection = select(nodes, options())
    assert selection.names == ["a", "b", "cordoned"]
    assert selection.testable == {"a": "nvidia.com/gpu", "b": "nvidia.com/gpu"}
    assert codes(selection) == {"cordoned": "Cordoned"}


def test_a_node_that_offers_gpus_without_any_label_is_a_gpu_node() -> None:
    unlabelled = node("a", {"gpu": 8}, gpu=False)
    assert select([unlabelled], options()).testable == {"a": "nvidia.com/gpu"}
    other_vendor = node("b", {}, gpu=False)
    other_vendor["status"]["allocatable"] = {"amd.com/gpu": "8"}
    assert select([other_vendor], options(resource="amd.com/gpu")).testable == {"b": "amd.com/gpu"}


def test_named_nodes_are_tested_once_each_even_if_cordoned() -> None:
    selection = select([node("a", cordoned=True), node("b")], options(nodes=["a", "a"]))
    assert (selection.names, selection.testable) == (["a"], {"a": "nvidia.com/gpu"})


def test_a_selector_and_exclusions_narrow_the_fleet() -> None:
    nodes = [node("a", labels={"pool": "1"}), node("b", labels={"pool": "2"}), node("c", labels={"pool": "1"})]
    assert select(nodes, options(node_selector="pool=1")).names == ["a", "c"]
    assert select(nodes, options(node_selector="pool=1", exclude_nodes=["c"])).names == ["a"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {},
            wording(
                "Cannot test: the cluster has no GPU node. Check that Node Feature Discovery runs and that the nodes have joined the cluster; gpu_stack_info shows both."
            ),
        ),
        (
            {"node_selector": "a=b"},
            wording(
                "Cannot test: the cluster has no GPU node with the labels a=b. Check that Node Feature Discovery runs and that the nodes have joined the cluster; gpu_stack_info shows both."
            ),
        ),
    ],
)
def test_nothing_to_test_is_an_error(changes: dict, words: str) -> None:
    with pytest.raises(GpuOpsError) as e:
        select([node("cpu", {}, gpu=False)], options(**changes))
    assert e.value.msg == words
    assert e.value.reason == "NoGpuNodes"


# ---- which resource -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "count", "resource"),
    [
        ({"gpu": 8}, 1, "nvidia.com/gpu"),
        ({"gpu": 7, "mig-1g.10gb": 7}, 1, "nvidia.com/gpu"),
        ({"gpu": 0, "gpu.shared": 40}, 1, "nvidia.com/gpu.shared"),
        ({"gpu": 0, "gpu.shared": 4, "mig-1g.10gb.shared": 28}, 1, "nvidia.com/gpu.shared"),
        ({"gpu": 0, "mig-1g.10gb": 2, "mig-2g.20gb": 3, "mig-3g.40gb": 2}, 1, "nvidia.com/mig-2g.20gb"),
        ({"mig-3g.40gb": 2, "mig-1g.10gb": 2}, 1, "nvidia.com/mig-1g.10gb"),
        ({"gpu": 2, "gpu.shared": 9}, 2, "nvidia.com/gpu"),
        ({"gpu": 1, "mig-1g.10gb": 7}, 4, "nvidia.com/mig-1g.10gb"),
    ],
)
def test_the_resource_is_what_the_node_offers(offered: dict[str, int], count: int, resource: str) -> None:
    assert select([node("a", offered)], options(count=count)).testable == {"a": resource}


def test_a_thousand_shared_gpus_are_a_quantity_with_a_suffix() -> None:
    """The API server writes 1000 as 1k."""
    shared = [node("shared", {"gpu": "1k"})]
    assert select(shared, options(count=1000)).testable == {"shared": "nvidia.com/gpu"}
    assert failed(select(shared, options(count=1001)))["shared"].startswith(
        "The node offers 1000 nvidia.com/gpu, but the test needs 1001 of one resource."
    )


def test_a_given_resource_is_requested_where_it_is_offered() -> None:
    nodes = [node("mig", {"gpu": 0, "mig-1g.10gb": 7}), node("whole")]
    selection = select(nodes, options(resource="nvidia.com/mig-1g.10gb"))
    assert selection.testable == {"mig": "nvidia.com/mig-1g.10gb"}
    assert codes(selection) == {"whole": "OtherResource"}
    exactly = select(nodes, options(resource="nvidia.com/mig-1g.10gb", count=7, nodes=["mig"]))
    assert exactly.testable == {"mig": "nvidia.com/mig-1g.10gb"}
    assert selection.verdicts[0].reason == "The node offers 8 nvidia.com/gpu, and no nvidia.com/mig-1g.10gb."
    named = select(nodes, options(resource="nvidia.com/mig-1g.10gb", nodes=["whole"]))
    assert failed(named)["whole"] == (
        wording(
            "The node offers 8 nvidia.com/gpu, but the test needs 1 nvidia.com/mig-1g.10gb. Check the node's device plugin."
        )
    )


# ---- nodes that cannot be tested ----------------------------------------------------------------------------------


def test_a_node_that_should_run_a_workload_and_cannot_has_failed() -> None:
    unreported = node("new")
    unreported["status"]["conditions"] = []
    nodes = [node("down", ready="Unknown"), unreported, node("small", {"gpu": 2}), node("none", {"gpu": 0})]
    assert failed(select(nodes, options(nodes=["down", "new", "small", "none", "gone"], count=4))) == {
        "down": wording("The node is not Ready: container runtime is down."),
        "new": wording("The node is not Ready: its kubelet has not reported yet."),
        "small": wording(
            "The node offers 2 nvidia.com/gpu, but the test needs 4 of one resource. Check the node's device plugin."
        ),
        "none": wording(
            "The node offers no GPU, but the test needs 4 of one resource. Check the node's device plugin."
        ),
        "gone": wording("There is no such node."),
    }
    assert failed(select(nodes[3:], options())) == {
        "none": wording("The node offers no GPU, but the test needs 1 GPU. Check the node's device plugin.")
    }


OFF = {"nvidia.com/gpu.deploy.operands": "false"}
VM = {"nvidia.com/gpu.deploy.sandbox-validator": "true"}
DRA = {"nvidia.com/gpu.deploy.dra-driver": "true"}


@pytest.mark.parametrize(("labels", "code"), [(OFF, "OperandsSwitchedOff"), (VM, "VirtualMachineNodes")])
@pytest.mark.parametrize("ready", ["True", "Unknown"])
def test_a_node_that_gives_pods_no_gpu_on_purpose_is_skipped(labels: dict[str, str], code: str, ready: str) -> None:
    """Also if it is down: the kubelet of a node that was switched off no longer updates what it offers."""
    offered = {} if ready == "True" else {"gpu": 8}
    assert codes(select([node("a", offered, labels=labels, ready=ready)], options())) == {"a": code}


@pytest.mark.parametrize("labels", [OFF, VM, DRA])
def test_a_node_that_offers_gpus_all_the_same_is_tested(labels: dict[str, str]) -> None:
    assert select([node("a", labels=labels)], options()).testable == {"a": "nvidia.com/gpu"}


def test_a_node_with_a_device_plugin_is_not_taken_for_one_of_virtual_machines() -> None:
    """The operator removes the labels of the other kind only after it has set the new ones."""
    both = {**VM, "nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade"}
    assert failed(select([node("a", {}, labels=both)], options())).keys() == {"a"}


def test_a_cordoned_node_is_skipped_with_the_maintainer_that_wants_it_so() -> None:
    upgrading = {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}
    nodes = [node("by-hand", cordoned=True), node("upgrading", cordoned=True, labels=upgrading)]
    assert [verdict.reason for verdict in select(nodes, options()).verdicts] == [
        "The node is cordoned.",
        "The node is cordoned for gpu-operator (label nvidia.com/gpu-driver-upgrade-state=drain-required).",
    ]


def test_a_cordoned_node_that_is_down_is_out_of_service() -> None:
    assert codes(select([node("a", ready="False", cordoned=True)], options())) == {"a": "Cordoned"}


# ---- how many must be tested --------------------------------------------------------------------------------------

TESTED, BROKEN = WorkloadVerdict("t", passed=True), WorkloadVerdict("f", phase="Failed", reason="broken")
DOWN = WorkloadVerdict("d", reason="The node is not Ready: down.")
BUSY, CORDONED = (
    WorkloadVerdict("b", skipped=True, code="Busy", phase="Pending"),
    WorkloadVerdict("c", skipped=True, code="Cordoned"),
)
OFF_VERDICT = WorkloadVerdict("o", skipped=True, code="OperandsSwitchedOff")


@pytest.mark.parametrize(
    ("verdicts", "countable", "min_tested", "few"),
    [
        ([TESTED, BUSY], 2, "1", False),
        ([BROKEN, BUSY], 2, "1", False),
        ([BUSY, CORDONED], 2, "1", True),
        ([BUSY, CORDONED], 2, "0", False),
        ([BUSY, DOWN], 2, "1", True),
        ([TESTED, TESTED], 2, "5", False),
        ([TESTED, BUSY], 2, "5", True),
        ([TESTED, BUSY, BUSY], 3, "33%", False),
        ([TESTED, BUSY, BUSY], 3, "34%", True),
        ([TESTED], 1, "100%", False),
        ([], 0, "1", False),
    ],
)
def test_the_number_of_tested_nodes(
    verdicts: list[WorkloadVerdict], countable: int, min_tested: str, few: bool
) -> None:
    assert bool(too_few_tested(verdicts, countable, min_tested)) is few


def test_too_few_tested_nodes_are_named_with_the_reason() -> None:
    assert too_few_tested([BUSY, CORDONED, OFF_VERDICT, DOWN], 3, "100%") == (
        wording(
            "Only 0 of 3 nodes were tested, but at least 3 must be (b: Busy, c: Cordoned, d: NotTestable). "
            "Run the test when GPUs are free, or lower min_tested."
        )
    )


@pytest.mark.parametrize("value", ["-1", "101%", "half", ""])
def test_an_impossible_number_is_refused(value: str) -> None:
    with pytest.raises(GpuOpsError, match=r"^min_tested is "):
        too_few_tested([], 0, value)


def test_nodes_that_are_not_for_pods_do_not_count() -> None:
    nodes = [node("off", {}, labels=OFF), node("vm", {}, labels=VM), node("dra", {}, labels=DRA), node("a")]
    assert select(nodes, options()).countable == 2


LOST = {**gpu(0), "taints": [taint()]}
BY_CLAIM = offered(slice_of(0), slice_of(1, mig(0, 0)), slice_of(2, LOST), slice_of(3, total=2))


def claimed(number: int, **labels: str) -> dict:
    return node(f"gpu-{number:04}", {}, labels={**DRA, **labels})


def test_a_node_without_a_device_plugin_is_tested_by_claim() -> None:
    """A node is a GPU node if it has a ResourceSlice, whatever its labels are."""
    nodes = [node("gpu-0000", {}, labels={"nvidia.com/gpu.present": "false"}), claimed(1)]
    found = select(nodes, options(), BY_CLAIM)
    assert found.testable == {"gpu-0000": "gpu.nvidia.com", "gpu-0001": "mig.nvidia.com"}
    assert select([node("gpu-0000")], options(), BY_CLAIM).testable == {"gpu-0000": "nvidia.com/gpu"}


def test_a_class_can_be_named() -> None:
    nodes = [claimed(0), claimed(1)]
    assert select(nodes, options(resource="mig.nvidia.com"), BY_CLAIM).testable == {"gpu-0001": "mig.nvidia.com"}
    both = dict.fromkeys(("gpu-0000", "gpu-0001"), "team-gpu")
    assert select(nodes, options(resource="team-gpu"), BY_CLAIM).testable == both, (
        "only its owner knows what it selects"
    )


def test_what_claims_cannot_get_is_a_failure() -> None:
    nodes = [claimed(number) for number in range(5)]
    found = failed(select(nodes, options(), BY_CLAIM))
    assert found == {
        "gpu-0002": wording(
            "The node offers 0 devices to claims, but the test needs 1 GPU. gpu_stack_info shows its devices and their taints. See also the log of nvidia-dra-driver-kubelet-plugin on the node."
        ),
        "gpu-0003": wording(
            "The node offers 0 devices to claims, but the test needs 1 GPU. gpu_stack_info shows its devices and their taints. See also the log of nvidia-dra-driver-kubelet-plugin on the node."
        ),
        "gpu-0004": wording(
            "The node has no ResourceSlice, but the test needs 1 GPU. gpu_stack_info shows its devices and their taints. See also the log of nvidia-dra-driver-kubelet-plugin on the node."
        ),
    }
    assert failed(select(nodes[:1], options(count=3), BY_CLAIM)) == {
        "gpu-0000": wording(
            "The node offers 2 devices to claims, but the test needs 3 GPUs. gpu_stack_info shows its devices and their taints. See also the log of nvidia-dra-driver-kubelet-plugin on the node."
        )
    }
    assert failed(select(nodes[:1], options(resource="mig.nvidia.com"), BY_CLAIM)) == {
        "gpu-0000": wording(
            "The node offers 2 devices to claims, but the test needs 1 of mig.nvidia.com. gpu_stack_info shows its devices and their taints. See also the log of nvidia-dra-driver-kubelet-plugin on the node."
        )
    }
    assert failed(select(nodes[:1], options(), Offered(refusal="forbidden"))) == {
        "gpu-0000": wording("What the node offers to claims is unknown, because this user may not list ResourceSlices.")
    }
