# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import record
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import release
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.removal_view import ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._cluster.chart.removal.conftest import MARKS, NS
from tests.unit.plugins.module_utils._cluster.chart.removal.store import Store

SCOPE = ReleaseScope(NS, NS)


def remove(store: Store) -> tuple[list[str], list[str]]:
    steps, left = release.remove(store, SCOPE, record.revisions(store, NS, NS), 20)
    return steps, [f"{item.what} {item.names[0]}: {item.reason}" for item in left]


def test_objects_of_every_revision_go(stack: Store) -> None:
    newer = stack.add("ConfigMap", "newer", NS, metadata={"annotations": MARKS})
    stack.record("gpu-operator", NS, [newer], "pending-upgrade", 2)
    steps, left = remove(stack)
    assert "delete ConfigMap gpu-operator/newer" in steps and left == []
    assert not [name for name in stack.named("Secret") if name.startswith("sh.helm")]


def test_programs_go_before_the_rights_that_they_use(stack: Store) -> None:
    remove(stack)
    kinds = [line.split("/")[-2] for line in stack.writes]
    assert kinds == ["deployments", "daemonsets", "serviceaccounts", "clusterroles", "secrets"]


def test_custom_resources_and_kinds_that_nobody_serves_are_left_to_others(stack: Store) -> None:
    policy = stack.objects["/apis/nvidia.com/v1/clusterpolicies/cluster-policy"]
    policy["metadata"]["annotations"] = MARKS
    unknown = {"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "x"}}
    stack.record("gpu-operator", NS, [policy, unknown], number=2)
    steps, left = remove(stack)
    assert stack.named("ClusterPolicy") == ["cluster-policy"] and left == []
    assert not [line for line in steps if "Unknown" in line or "ClusterPolicy" in line]


def test_an_object_without_marks_is_somebody_elses(stack: Store) -> None:
    own = stack.add("ConfigMap", "own", NS)
    stack.record("gpu-operator", NS, [own], number=2)
    assert remove(stack)[1] == [
        wording("ConfigMap gpu-operator/own: It does not have Helm's marks, so somebody else has made it.")
    ]
    assert "own" in stack.named("ConfigMap")


def test_programs_that_do_not_end_keep_the_rest(stack: Store) -> None:
    stack.stuck = {"gpu-operator"}
    with pytest.raises(GpuOpsError, match="Deployment gpu-operator/gpu-operator") as e:
        remove(stack)
    assert e.value.reason == "TimedOut" and "gpu-operator" in stack.named("ServiceAccount")


def test_without_records_there_is_nothing_to_do(bare: Store) -> None:
    assert (remove(bare), bare.writes) == (([], []), [])
