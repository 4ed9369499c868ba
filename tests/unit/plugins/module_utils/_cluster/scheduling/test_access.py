# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import access
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

LABELS = {"app.kubernetes.io/name": "gpu-access", "app.kubernetes.io/managed-by": "gpuops.nvidia"}


def priority(**changes: t.Any) -> dict:
    return {"name": "train", "value": 100, "preemption_policy": "Never", "description": ""} | changes


def test_a_quota_names_resources_in_the_only_form_that_counts() -> None:
    gpus = {"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb.me": "7", "requests.nvidia.com/gpu.shared": 0}
    made = access.quotas([{"namespace": "research", "name": "gpus", "gpus": gpus}])
    assert made == [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpus", "namespace": "research", "labels": LABELS},
            "spec": {
                "hard": {
                    "requests.nvidia.com/gpu": "4",
                    "requests.nvidia.com/mig-1g.10gb.me": "7",
                    "requests.nvidia.com/gpu.shared": "0",
                }
            },
        }
    ]
    assert access.quotas([]) == []


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ("limits.nvidia.com/gpu", "Write nvidia.com/gpu."),
        ("gpu", "Write nvidia.com/gpu."),
        ("mig-1g.10gb+me", "Write nvidia.com/mig-1g.10gb.me."),
        ("cpu", "Write nvidia.com/gpu, nvidia.com/gpu.shared or nvidia.com/mig-1g.10gb."),
        ("nvidia.com/mig-1g10gb", "names no MIG profile. Write nvidia.com/gpu, nvidia.com/gpu.shared or"),
        ("nvidia.com/mig-1g.10g", "names no MIG profile. The profile is 1g.10gb"),
    ],
)
def test_a_quota_that_would_never_count_anything_is_refused(resource: str, words: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        access.quotas([{"namespace": "research", "name": "gpus", "gpus": {resource: 1}}])
    assert words in error.value.msg and error.value.reason == "Invalid"


def test_shared_mig_devices_have_a_quota_too() -> None:
    gpus = {"nvidia.com/mig-1g.10gb.shared": 4}
    assert access.quotas([{"namespace": "a", "name": "b", "gpus": gpus}])[0]["spec"]["hard"] == {
        "requests.nvidia.com/mig-1g.10gb.shared": "4"
    }


@pytest.mark.parametrize("number", [-1, "1.5", "many", True])
def test_a_quota_is_a_whole_number(number: t.Any) -> None:
    with pytest.raises(GpuOpsError, match="give a whole number"):
        access.quotas([{"namespace": "a", "name": "b", "gpus": {"nvidia.com/gpu": number}}])


def test_a_quota_without_resources_and_two_of_one_name_are_refused() -> None:
    with pytest.raises(GpuOpsError) as error:
        access.quotas([{"namespace": "research", "name": "gpus", "gpus": {}}])
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "The quota of namespace research has no limit. Give gpus, for example {nvidia.com/gpu: 4}."
    )
    one = {"namespace": "research", "name": "gpus", "gpus": {"nvidia.com/gpu": 1}}
    with pytest.raises(GpuOpsError, match="quotas has research/gpus twice"):
        access.quotas([one, one])


def test_a_priority_class() -> None:
    assert access.priorities([priority(description="Training")]) == [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "train", "labels": LABELS},
            "value": 100,
            "preemptionPolicy": "Never",
            "description": "Training",
        }
    ]


@pytest.mark.parametrize("changes", [{"value": 1_000_000_001}, {"name": "system-gpu"}])
def test_what_belongs_to_kubernetes_is_no_priority_class_of_ours(changes: dict) -> None:
    with pytest.raises(GpuOpsError, match="are Kubernetes' own"):
        access.priorities([priority(**changes)])


def test_what_a_namespace_uses_beyond_its_quota() -> None:
    wanted = access.quotas([{"namespace": "a", "name": "b", "gpus": {"nvidia.com/gpu": 2, "nvidia.com/gpu.shared": 9}}])
    used = {"requests.nvidia.com/gpu": "6", "requests.nvidia.com/gpu.shared": "9"}
    assert access.exceeded(wanted[0], {"status": {"used": used}}) == ["6 of nvidia.com/gpu in use, 2 permitted"]
    assert access.exceeded(wanted[0], None) == []


def test_the_highest_value_is_possible_and_the_next_one_is_not() -> None:
    assert access.priorities([priority(value=access.HIGHEST)])[0]["value"] == access.HIGHEST
    with pytest.raises(GpuOpsError, match="is not possible"):
        access.priorities([priority(value=access.HIGHEST + 1)])
