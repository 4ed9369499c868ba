# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import removal_view

from tests.unit.plugins.module_utils._cluster.chart.removal.conftest import MARKS, NS, OTHERS, daemonset
from tests.unit.plugins.module_utils._cluster.chart.removal.store import Store

SCOPE = removal_view.ReleaseScope(NS, NS)


@pytest.mark.parametrize(
    ("marks", "has", "is_others"), [(MARKS, True, False), (OTHERS, False, True), ({}, False, False)]
)
def test_helms_marks_say_whose_an_object_is(marks: dict, has: bool, is_others: bool) -> None:
    item = {"metadata": {"name": "x", "annotations": marks}}
    assert (SCOPE.has(item), SCOPE.is_others(item)) == (has, is_others)


def test_a_release_of_the_same_name_elsewhere_is_another(stack: Store) -> None:
    item = {"metadata": {"name": "x", "annotations": {**MARKS, "meta.helm.sh/release-namespace": "other"}}}
    assert SCOPE.is_others(item) and not SCOPE.has(item) and str(SCOPE) == "gpu-operator/gpu-operator"


def test_operands_belong_to_a_custom_resource_or_have_an_operands_name(stack: Store) -> None:
    policy = stack.objects["/apis/nvidia.com/v1/clusterpolicies/cluster-policy"]
    assert removal_view.is_operand(daemonset(stack, "any", policy))
    assert removal_view.is_operand(daemonset(stack, "nvidia-driver-daemonset", None))
    assert not removal_view.is_operand(daemonset(stack, "own", None))
    foreign = {"kind": "Something", "metadata": {"name": "x", "uid": "u"}}
    assert not removal_view.is_operand(daemonset(stack, "nvidia-dcgm", foreign))


def test_what_is_read(stack: Store) -> None:
    found = removal_view.read(stack, SCOPE)
    assert [item["metadata"]["name"] for item in found.custom["NVIDIADriver"]] == ["default"]
    assert [revision.number for revision in found.revisions] == [1] and len(found.crds) == 3
    assert {pod["metadata"]["namespace"] for pod in found.pods} == {NS} and found.refusals == []
    assert sorted(item["metadata"]["name"] for item in found.operand_daemonsets) == [
        "nvidia-device-plugin-daemonset",
        "nvidia-gpu-driver-ubuntu24.04-1",
    ]
    assert found.workers == [] and found.other_operators == []
    elsewhere = removal_view.read(stack, removal_view.ReleaseScope("x", "nowhere"))
    assert (elsewhere.namespace, elsewhere.pods, elsewhere.revisions) == (None, [], [])
    assert [str(worker) for worker in elsewhere.workers] == ["gpu-operator/nfd-worker"]
