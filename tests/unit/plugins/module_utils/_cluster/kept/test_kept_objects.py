# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept import kept_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept.kept_objects import KeptKind
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

LABELS = {"app.kubernetes.io/name": "gpu-tests", "app.kubernetes.io/managed-by": "gpuops.nvidia"}
KIND = KeptKind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", "gpu-tests", ("value", "note"), ("value",))
QUOTA = KeptKind("ResourceQuota", "v1", "resourcequotas", "gpu-tests", ("spec",))


def test_a_manifest_has_the_mark_and_only_its_own_content_counts() -> None:
    made = KIND.manifest("train", value=5)
    assert made == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "train", "labels": LABELS},
        "value": 5,
    }
    assert KIND.content({**made, "note": None, "other": 1}) == {"value": 5}
    assert QUOTA.manifest("gpus", "research")["metadata"]["namespace"] == "research"
    assert KIND.selector == "app.kubernetes.io/name=gpu-tests,app.kubernetes.io/managed-by=gpuops.nvidia"


def test_an_object_with_one_label_only_is_not_ours() -> None:
    assert KIND.is_ours({"metadata": {"name": "a", "labels": {**LABELS, "more": "x"}}})
    for one in LABELS.items():
        assert not KIND.is_ours({"metadata": {"name": "a", "labels": dict([one])}})
    assert not KIND.is_ours({"metadata": {"name": "a"}})


def test_each_object_is_applied_or_removed_and_those_of_others_stay() -> None:
    old = {"metadata": {"name": "old", "labels": LABELS, "uid": "uid-1", "resourceVersion": "7"}}
    foreign = {"metadata": {"name": "foreign"}}
    found = kept_objects.steps(KIND, [KIND.manifest("train", value=5)], [old, foreign])
    assert [(step.title, step.existing, step.wanted is None, step.uid, step.version) for step in found] == [
        ("PriorityClass train", None, False, None, None),
        ("PriorityClass old", old, True, "uid-1", None),
    ]
    assert found[0].path == "/apis/scheduling.k8s.io/v1/priorityclasses/train"
    immutable = dataclasses.replace(KIND, is_immutable=True)
    assert kept_objects.steps(immutable, [], [old])[0].version == "7"
    assert kept_objects.steps(KIND, None, [old]) == []


def test_an_object_of_somebody_else_is_in_the_way() -> None:
    with pytest.raises(GpuOpsError) as error:
        kept_objects.steps(
            QUOTA, [QUOTA.manifest("gpus", "research")], [{"metadata": {"name": "gpus", "namespace": "research"}}]
        )
    assert error.value.reason == "Conflict"
    assert error.value.msg == wording(
        "ResourceQuota research/gpus exists, and somebody else has made it. Choose another name, or remove it."
    )


def test_an_object_whose_fixed_field_differs_is_made_again() -> None:
    wanted = [KIND.manifest("train", value=5, note="new words")]
    same = {**wanted[0], "note": "older words"}
    assert not kept_objects.steps(KIND, wanted, [same])[0].is_replaced
    assert kept_objects.steps(KIND, wanted, [{**same, "value": 6}])[0].is_replaced
    assert not kept_objects.steps(KIND, wanted, [])[0].is_replaced
    assert not kept_objects.steps(KIND, [], [same])[0].is_replaced


def test_an_object_that_the_api_server_refuses_to_change_is_made_again() -> None:
    wanted = KIND.manifest("train", value=5)
    assert kept_objects.KeptStep(KIND, wanted, wanted, made_again=wanted).is_replaced
    assert not kept_objects.KeptStep(KIND, wanted, None, made_again=wanted).is_replaced


def test_two_objects_of_one_name_are_refused() -> None:
    one = QUOTA.manifest("gpus", "research")
    assert kept_objects.unique("quotas", [one]) == [one]
    with pytest.raises(GpuOpsError, match="quotas has research/gpus twice"):
        kept_objects.unique("quotas", [one, one])
