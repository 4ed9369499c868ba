# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import taints
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node

OURS = "gpuops.nvidia/taints"
GPU = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
FOREIGN = {"key": "team", "value": "a", "effect": "NoSchedule"}


def tainted(*listed: dict, ours: str | None = None) -> dict:
    made = node()
    made["spec"]["taints"] = list(listed)
    made["metadata"] |= {"resourceVersion": "7", "annotations": {} if ours is None else {OURS: ours}}
    return made


def wish(**changes: t.Any) -> dict:
    return {"key": "nvidia.com/gpu", "value": "", "effect": "NoSchedule", "nodes": None, "node_selector": {}} | changes


# ---- what is wanted ----


def test_each_node_gets_the_taints_of_its_entries() -> None:
    second = node(1)
    second["metadata"]["labels"]["pool"] = "true"
    wishes = [wish(), wish(key="pool", value="x", effect="NoExecute", node_selector={"pool": True})]
    wanted = taints.wanted_by_node(wishes, [node(), second])
    assert wanted == {
        "gpu-0000": {("nvidia.com/gpu", "NoSchedule"): ""},
        "gpu-0001": {("nvidia.com/gpu", "NoSchedule"): "", ("pool", "NoExecute"): "x"},
    }
    assert taints.wanted_by_node([], [node()]) == {"gpu-0000": {}}


@pytest.mark.parametrize(
    ("wishes", "words", "reason"),
    [
        (
            [wish(nodes=["gpu-0009"])],
            wording("The cluster has no node gpu-0009. Correct nodes of the taint nvidia.com/gpu."),
            "NotFound",
        ),
        (
            [wish(node_selector={"pool": "none"})],
            wording("No node has the labels {'pool': 'none'}. Correct node_selector of the taint nvidia.com/gpu."),
            "NotFound",
        ),
        (
            [wish(value="a"), wish(value="b")],
            wording(
                "Two entries of taints give node gpu-0000 the values 'a' and 'b' for nvidia.com/gpu:NoSchedule, and a node can have one. Choose their nodes so that they do not overlap."
            ),
            "Invalid",
        ),
        (
            [wish(key="nvidia.com/gpu=present")],
            wording(
                "'nvidia.com/gpu=present' with value '' is no taint of Kubernetes. Write the key like a label's, such as nvidia.com/gpu, and the value with letters, digits, dashes, dots and underscores."
            ),
            "Invalid",
        ),
        (
            [wish(value="a b")],
            wording(
                "'nvidia.com/gpu' with value 'a b' is no taint of Kubernetes. Write the key like a label's, such as nvidia.com/gpu, and the value with letters, digits, dashes, dots and underscores."
            ),
            "Invalid",
        ),
        (
            [wish(key="node.kubernetes.io/unschedulable")],
            wording(
                "The taint node.kubernetes.io/unschedulable belongs to Kubernetes or to node_maintenance, which set and remove it. Use another key."
            ),
            "Invalid",
        ),
        (
            [wish(key="gpuops.nvidia/failed.change")],
            wording(
                "The taint gpuops.nvidia/failed.change belongs to Kubernetes or to node_maintenance, which set and remove it. Use another key."
            ),
            "Invalid",
        ),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(wishes: list[dict], words: str, reason: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        taints.wanted_by_node(wishes, [node()])
    assert error.value.msg == words and error.value.reason == reason


# ---- what changes on a node ----

WANTED = {("nvidia.com/gpu", "NoSchedule"): ""}


def test_a_taint_is_added_beside_those_of_others_and_recorded() -> None:
    change = taints.change(tainted(FOREIGN), WANTED)
    assert (change.name, change.added, change.removed) == ("gpu-0000", [GPU], [])
    assert change.patch == {
        "metadata": {"annotations": {OURS: '["nvidia.com/gpu:NoSchedule"]'}, "resourceVersion": "7"},
        "spec": {"taints": [FOREIGN, GPU]},
    }


def test_nothing_changes_on_a_node_that_has_the_taint() -> None:
    assert taints.change(tainted(GPU, ours='["nvidia.com/gpu:NoSchedule"]'), WANTED).patch is None


def test_the_same_taint_of_somebody_else_stays_theirs() -> None:
    assert taints.change(tainted(GPU), WANTED).patch is None
    assert taints.change(tainted(GPU), {}).patch is None


def test_our_taint_goes_when_nobody_wants_it_and_the_annotation_with_it() -> None:
    change = taints.change(tainted(FOREIGN, GPU, ours='["nvidia.com/gpu:NoSchedule"]'), {})
    assert change.removed == [GPU]
    assert change.patch == {
        "metadata": {"annotations": {OURS: None}, "resourceVersion": "7"},
        "spec": {"taints": [FOREIGN]},
    }
    last = taints.change(tainted(GPU, ours='["nvidia.com/gpu:NoSchedule"]'), {})
    assert last.patch and last.patch["spec"] == {"taints": None}


def test_our_taint_gets_another_value() -> None:
    old = {"key": "nvidia.com/gpu", "value": "a", "effect": "NoSchedule"}
    change = taints.change(
        tainted(old, ours='["nvidia.com/gpu=a:NoSchedule"]'), {("nvidia.com/gpu", "NoSchedule"): "b"}
    )
    new = {"key": "nvidia.com/gpu", "value": "b", "effect": "NoSchedule"}
    assert (change.added, change.removed, change.taints) == ([new], [old], [new])
    assert change.ours == {"nvidia.com/gpu=b:NoSchedule"}


def test_a_taint_that_somebody_removed_comes_back_or_is_forgotten() -> None:
    recorded = '["nvidia.com/gpu:NoSchedule"]'
    assert taints.change(tainted(ours=recorded), WANTED).added == [GPU]
    forgotten = taints.change(tainted(ours=recorded), {}).patch
    assert forgotten and forgotten["metadata"]["annotations"] == {OURS: None}


@pytest.mark.parametrize("recorded", ["no JSON", "7", '[["x"]]'])
def test_an_annotation_that_somebody_has_overwritten_records_nothing(recorded: str) -> None:
    assert taints.change(tainted(GPU, ours=recorded), {}).removed == []


def test_a_taint_of_somebody_else_with_another_value_is_in_the_way() -> None:
    with pytest.raises(GpuOpsError) as error:
        taints.change(tainted(FOREIGN), {("team", "NoSchedule"): "b"})
    assert error.value.reason == "Conflict"
    assert error.value.msg == wording(
        "Node gpu-0000 already has the taint team=a:NoSchedule, which somebody else has set, and the value 'b' is wanted. Remove it with `kubectl taint node gpu-0000 team:NoSchedule-`, or want its value."
    )
