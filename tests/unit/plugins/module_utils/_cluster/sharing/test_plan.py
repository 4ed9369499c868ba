# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config, plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.stack import node

GPU = "nvidia.com/gpu"
FOUR = config.of_document("x", {"sharing": {"timeSlicing": {"resources": [{"name": GPU, "replicas": 4}]}}})
MPS = config.of_document("x", {"sharing": {"mps": {"resources": [{"name": GPU, "replicas": 4}]}}})


def changes(wanted: config.Configuration | None = FOUR, key: str | None = "k", **annotations: str) -> list[plan.Change]:
    found = node()
    found["metadata"]["annotations"] = {name.replace("_", "/", 1): text for name, text in annotations.items()}
    return plan.changes_of({"gpu-0000": (key, wanted)}, {"gpu-0000": found})


def test_a_node_that_is_right_is_unchanged() -> None:
    (change,) = changes(config.PLAIN, None)
    assert (change.state, change.relabels, change.missing, change.before) == ("unchanged", False, "", {GPU: 8})


@pytest.mark.parametrize("arguments", [(FOUR, "k"), (FOUR, None), (config.PLAIN, "k"), (None, "k")])
def test_a_node_with_another_label_or_sharing_is_pending(arguments: tuple) -> None:
    assert changes(*arguments)[0].state == "pending"


def test_a_node_that_is_still_held_is_pending() -> None:
    (change,) = changes(config.PLAIN, None, **{"gpuops.nvidia_maintenance.sharing": "2026-01-01T00:00:00Z a b"})
    assert (change.state, change.is_held) == ("pending", True)


def test_pods_are_summed_by_node_and_only_where_the_label_changes() -> None:
    found = changes(MPS)
    pods = [
        GpuPod("a", "p", "gpu-0000", {GPU: 1}),
        GpuPod("a", "q", "gpu-0000", {GPU: 1}),
        GpuPod("a", "r", "other", {GPU: 1}),
    ]
    plan.find_interruptions(found, {"gpu-0000": node()}, pods)
    assert [pod.name for pod in found[0].pods] == ["p", "q"] and found[0].interrupts.startswith(
        "the MPS control daemon"
    )
    assert found[0].as_result()["pods"] == ["a/p", "a/q"]
    same = changes(config.PLAIN, None)
    plan.find_interruptions(same, {"gpu-0000": node()}, pods)
    assert same[0].pods == [] and same[0].interrupts == ""


def test_permission_is_for_interruptions_only() -> None:
    found = changes(MPS)
    plan.find_interruptions(found, {"gpu-0000": node()}, [GpuPod("a", "p", "gpu-0000", {GPU: 1})])
    assert plan.permit(found, True, False) == []
    assert "interrupts 1 GPU pod (a/p) on gpu-0000: the MPS control daemon takes" in plan.permit(found, False, True)[0]
    with pytest.raises(GpuOpsError) as refused:
        plan.permit(found, False, False)
    assert refused.value.reason == "Disruption" and refused.value.details["nodes"][0]["pods"] == ["a/p"]
    quiet = changes(FOUR)
    two = [GpuPod("a", name, "gpu-0000", {GPU: 1}) for name in "pq"]
    plan.find_interruptions(quiet, {"gpu-0000": node()}, two)
    assert plan.permit(quiet, False, False) == [
        "2 GPU pods on gpu-0000 (a/p, a/q) keep their devices. Until they have ended, other pods can get the same GPUs."
    ]


def test_the_report_counts_and_the_failure_names() -> None:
    found = changes() + changes()
    found[0].changed, found[0].evicted = True, ["a/p"]
    found[1].state, found[1].reason, found[1].name = "failed", "it is bad.", "gpu-0001"
    assert plan.report(found)["summary"] == {"nodes": 2, "changed": 1, "failed": 1, "evicted": 1}
    assert plan.failure(found, "").msg == (
        "gpu-0001: it is bad. Not begun: gpu-0000. Run it again; it does not repeat what is done."
    )
    assert plan.failure(found, "Too many failed.").msg.startswith("Too many failed. Not begun: gpu-0000.")


def test_a_result_names_the_configuration_that_a_node_gets() -> None:
    shared, plain, removed = (changes(*wanted)[0].as_result() for wanted in ((FOUR, "k"), (FOUR, None), (None, None)))
    assert (shared["configuration"], shared["key"], shared["strategy"]) == ("x", "k", "time-slicing")
    assert (plain["configuration"], plain["strategy"]) == ("", "time-slicing")
    assert (removed["configuration"], removed["strategy"]) == ("", "")


def test_one_pod_keeps_its_devices() -> None:
    quiet = changes(FOUR)
    plan.find_interruptions(quiet, {"gpu-0000": node()}, [GpuPod("a", "p", "gpu-0000", {GPU: 1})])
    assert plan.permit(quiet, False, False)[0].startswith("1 GPU pod on gpu-0000 (a/p) keeps its devices.")
