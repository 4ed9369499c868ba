# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import node_work, rollout_call
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config, sharing_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node

GPU = "nvidia.com/gpu"
FOUR = config.of_document("x", {"sharing": {"timeSlicing": {"resources": [{"name": GPU, "replicas": 4}]}}})
MPS = config.of_document("x", {"sharing": {"mps": {"resources": [{"name": GPU, "replicas": 4}]}}})


def changes(
    wanted: config.Configuration | None = FOUR, key: str | None = "k", **annotations: str
) -> list[sharing_plan.Change]:
    found = node()
    found["metadata"]["annotations"] = {name.replace("_", "/", 1): text for name, text in annotations.items()}
    return sharing_plan.changes_of({"gpu-0000": (key, wanted)}, {"gpu-0000": found})


def test_a_node_that_is_right_is_unchanged() -> None:
    (change,) = changes(config.PLAIN, None)
    assert (change.state, change.relabels, change.waits_for, change.before) == ("unchanged", False, "", {GPU: 8})


@pytest.mark.parametrize("arguments", [(FOUR, "k"), (config.PLAIN, "k"), (None, "k")])
def test_a_node_with_another_label_is_pending(arguments: tuple) -> None:
    assert changes(*arguments)[0].state == "pending"


def test_a_node_without_a_change_that_lacks_something_is_degraded_unless_its_label_is_young() -> None:
    (change,) = changes(FOUR, None)
    assert (change.state, change.step, change.waits_for) == ("degraded", "nothing", "")
    assert sharing_plan.degraded([change, *changes(config.PLAIN, None)]) == wording(
        [
            "Degraded, which stops no other node: gpu-0000: GPU Feature Discovery shows the strategy none instead of time-slicing."
        ]
    )
    (young,) = sharing_plan.changes_of({"gpu-0000": (None, FOUR)}, {"gpu-0000": node()}, lambda found: True)
    assert (young.state, young.proves, young.degraded) == ("pending", True, "")
    assert (change.devices, young.devices) == ({GPU: 8}, {}), "what is in the middle of a change is not counted"


def test_a_label_without_its_mark_is_marked_and_interrupts_nobody() -> None:
    found = node()
    found["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "k"
    (change,) = sharing_plan.changes_of({"gpu-0000": ("k", config.PLAIN)}, {"gpu-0000": found})
    assert (change.writes, change.relabels, change.state) == (True, False, "pending")
    found["metadata"]["annotations"] = {"gpuops.nvidia/sharing": "k 2026-01-01T00:00:00Z"}
    (marked,) = sharing_plan.changes_of({"gpu-0000": ("k", config.PLAIN)}, {"gpu-0000": found})
    assert (marked.writes, marked.state) == (False, "unchanged")


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
    sharing_plan.find_interruptions(found, {"gpu-0000": node()}, pods)
    assert [pod.name for pod in found[0].pods] == ["p", "q"] and found[0].interrupts.startswith(
        "the MPS control daemon"
    )
    assert found[0].as_result()["pods"] == ["a/p", "a/q"]
    same = changes(config.PLAIN, None)
    sharing_plan.find_interruptions(same, {"gpu-0000": node()}, pods)
    assert same[0].pods == [] and same[0].interrupts == ""


def test_permission_is_for_interruptions_only() -> None:
    found = changes(MPS)
    sharing_plan.find_interruptions(found, {"gpu-0000": node()}, [GpuPod("a", "p", "gpu-0000", {GPU: 1})])
    assert sharing_plan.permit(found, True, False) == []
    assert sharing_plan.permit(found, False, True)[0] == wording(
        "A run would stop here: This change interrupts 1 GPU pod (a/p) on gpu-0000: the MPS control daemon takes the GPUs that these pods use. Drain the nodes first, or set allow_disruption: true, with which the pods are evicted."
    )
    with pytest.raises(GpuOpsError) as refused:
        sharing_plan.permit(found, False, False)
    assert refused.value.reason == "Disruption" and refused.value.details["nodes"][0]["pods"] == ["a/p"]
    quiet = changes(FOUR)
    two = [GpuPod("a", name, "gpu-0000", {GPU: 1}) for name in "pq"]
    sharing_plan.find_interruptions(quiet, {"gpu-0000": node()}, two)
    assert sharing_plan.permit(quiet, False, False) == [
        wording(
            "2 GPU pods on gpu-0000 (a/p, a/q) keep their devices. Until they have ended, other pods can get the same GPUs."
        )
    ]


def test_the_report_counts_and_the_failure_names() -> None:
    found = changes() + changes()
    found[0].changed, found[0].held.evicted = True, ["a/p"]
    found[1].fail("it is bad.")
    found[1].name = "gpu-0001"
    assert rollout_call.report(found)["summary"] == {"nodes": 2, "changed": 1, "failed": 1, "evicted": 1}
    assert node_work.failure(found, "").msg == (
        wording("gpu-0001: it is bad. Not begun: gpu-0000. Run it again; it does not repeat what is done.")
    )
    assert node_work.failure(found, "Too many failed.").msg.startswith("Too many failed. Not begun: gpu-0000.")


def test_a_result_names_the_configuration_that_a_node_gets() -> None:
    shared, plain, removed = (changes(*wanted)[0].as_result() for wanted in ((FOUR, "k"), (FOUR, None), (None, None)))
    assert (shared["configuration"], shared["key"], shared["strategy"]) == ("x", "k", "time-slicing")
    assert (plain["configuration"], plain["strategy"]) == ("", "time-slicing")
    assert (removed["configuration"], removed["strategy"]) == ("", "")


def test_one_pod_keeps_its_devices() -> None:
    quiet = changes(FOUR)
    sharing_plan.find_interruptions(quiet, {"gpu-0000": node()}, [GpuPod("a", "p", "gpu-0000", {GPU: 1})])
    assert sharing_plan.permit(quiet, False, False)[0].startswith("1 GPU pod on gpu-0000 (a/p) keeps its devices.")
