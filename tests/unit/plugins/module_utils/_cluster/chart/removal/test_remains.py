# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import time
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import (
    remains,
    removal_plan,
    removal_view,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason

from tests.unit.plugins.module_utils._cluster.chart.removal.conftest import MARKS, NS, OTHERS, crd, deployment, node
from tests.unit.plugins.module_utils._cluster.chart.removal.store import Json, Store

SCOPE = removal_view.ReleaseScope(NS, NS)


def remove(store: Store, *wanted: str) -> tuple[list[str], dict[str, str]]:
    found = removal_view.read(store, SCOPE)
    after = removal_plan.after_release(found, removal_plan.custom_resources(found)[0])
    steps, left = remains.remove(store, {"remove": wanted, "wait_timeout": 20}, after)
    return steps, {item.what: item.reason for item in left}


def test_what_many_nodes_have_in_common_is_one_line(stack: Store) -> None:
    for number in range(1, 6):
        node(stack, f"gpu-000{number}")
    listed = "gpu-0000, gpu-0001, gpu-0002, gpu-0003, gpu-0004, and 1 more"
    assert remove(stack, "taints")[0] == [f"take taint nvidia.com/gpu:NoSchedule off 6 nodes ({listed})"]
    stack.objects["/api/v1/nodes/gpu-0003"]["metadata"]["labels"] = {"nvidia.com/gpu.present": "true"}
    assert (
        "take label nvidia.com/gpu.product off 5 nodes (gpu-0000, gpu-0001, gpu-0002, gpu-0004, gpu-0005)"
        in (remove(stack, "labels")[0])
    )


def test_one_node_is_called_by_its_name(stack: Store) -> None:
    assert remove(stack, "taints")[0] == ["take taint nvidia.com/gpu:NoSchedule off Node gpu-0000"]


def test_rules_of_a_user_keep_their_crd_and_those_of_the_chart_do_not(stack: Store) -> None:
    stack.add("NodeFeatureRule", "of-the-chart", metadata={"annotations": MARKS})
    steps, left = remove(stack, "nfd")
    assert "delete CustomResourceDefinition nodefeaturerules.nfd.k8s-sigs.io" in steps
    crd(stack, "nodefeaturerules.nfd.k8s-sigs.io", "NodeFeatureRule")
    stack.add("NodeFeatureRule", "mine")
    steps, left = remove(stack, "nfd")
    assert not [line for line in steps if "nodefeaturerules" in line] and "1 object" in left["CRDs"]


def test_features_that_the_workers_write_keep_no_crd(stack: Store) -> None:
    crd(stack, "nodefeatures.nfd.k8s-sigs.io", "NodeFeature")
    assert "delete CustomResourceDefinition nodefeatures.nfd.k8s-sigs.io" in remove(stack, "nfd")[0]


def test_objects_that_may_not_be_read_keep_their_crd(stack: Store) -> None:
    stack.refused = {"nodefeaturerules"}
    steps, left = remove(stack, "nfd")
    assert not [line for line in steps if "nodefeaturerules" in line] and "1 object" in left["CRDs"]


def test_another_release_in_the_namespace_keeps_it(stack: Store) -> None:
    stack.record("prometheus", NS, [])
    stack.add("Secret", "token", NS, metadata={"annotations": {"kubernetes.io/service-account.name": "x"}})
    steps, left = remove(stack, "namespace")
    assert (steps, left["namespace"]) == ([], "It also has release prometheus.")


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment", "Pod"])
def test_work_of_others_in_the_namespace_keeps_it(stack: Store, kind: str) -> None:
    stack.add(kind, "theirs", NS)
    assert remove(stack, "namespace")[1]["namespace"] == f"It also has {kind} theirs."


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Deployment"])
def test_any_object_of_another_release_in_the_namespace_keeps_it(stack: Store, kind: str) -> None:
    stack.add(kind, "theirs", NS, metadata={"annotations": OTHERS})
    assert remove(stack, "namespace")[1]["namespace"] == f"It also has nfd's {kind} theirs."


@pytest.mark.parametrize("reason", ["Conflict", "ServerError"])
def test_a_node_is_patched_by_its_newest_version_also_after_a_short_outage(
    stack: Store, monkeypatch: pytest.MonkeyPatch, reason: Reason
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    merge, conflicts = stack.merge, [2]

    def refuse_twice(path: str, body: Json) -> Json:
        if conflicts[0]:
            conflicts[0] -= 1
            raise GpuOpsError("The object has been modified.", reason=reason)
        return merge(path, body)

    monkeypatch.setattr(stack, "merge", refuse_twice)
    assert remove(stack, "labels")[0] and conflicts == [0]
    assert "nvidia.com/gpu.present" not in stack.objects["/api/v1/nodes/gpu-0000"]["metadata"]["labels"]


@pytest.mark.parametrize("reason", ["Conflict", "Forbidden"])
def test_a_node_that_cannot_be_patched_is_an_error(
    stack: Store, monkeypatch: pytest.MonkeyPatch, reason: t.Literal["Conflict", "Forbidden"]
) -> None:
    def refuse(path: str, body: Json) -> Json:
        raise GpuOpsError("No.", reason=reason)

    monkeypatch.setattr(stack, "merge", refuse)
    with pytest.raises(GpuOpsError, match="gpu-0000 changes faster" if reason == "Conflict" else "No"):
        remove(stack, "labels")


def test_a_namespace_that_does_not_go_is_an_error(stack: Store) -> None:
    stack.stuck = {NS}
    with pytest.raises(GpuOpsError, match="not gone after 20 s: gpu-operator") as e:
        remove(stack, "namespace")
    assert e.value.reason == "TimedOut"


def test_the_label_of_the_namespace_goes(stack: Store) -> None:
    assert "take label resource.kubernetes.io/admin-access off Namespace gpu-operator" in remove(stack, "labels")[0]
    assert stack.objects[f"/api/v1/namespaces/{NS}"]["metadata"]["labels"] == {}


# ---- fields in CRDs that stay -----------------------------------------------------------------------------------


APPLIED = {"manager": "gpuops.nvidia", "operation": "Apply", "fieldsV1": {"f:spec": {"f:versions": {}}}}
SERVED = {"manager": "kube-apiserver", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}}
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com"


def applied_crd(store: Store, *entries: Json) -> None:
    store.objects[CRD]["metadata"] |= {"resourceVersion": "7", "managedFields": list(entries)}


def released(store: Store, *wanted: str) -> list[str]:
    """Remove the leftovers, and return the CRDs in which our fields are given up."""
    return [line.rpartition(" ")[2] for line in remove(store, *wanted)[0] if line.startswith("release ")]


def test_the_fields_of_crds_that_stay_are_given_up(stack: Store) -> None:
    applied_crd(stack, APPLIED, SERVED)
    assert released(stack) == ["clusterpolicies.nvidia.com"]
    assert stack.objects[CRD]["metadata"]["managedFields"] == [SERVED] and released(stack) == []


def test_fields_without_any_other_manager_become_helm_s(stack: Store) -> None:
    applied_crd(stack, APPLIED)
    remove(stack)
    assert [entry["manager"] for entry in stack.objects[CRD]["metadata"]["managedFields"]] == ["helm"]


def test_check_mode_predicts_that_fields_are_given_up(stack: Store) -> None:
    applied_crd(stack, APPLIED, SERVED)
    stack.check_mode = True
    assert released(stack) == ["clusterpolicies.nvidia.com"]
    assert stack.objects[CRD]["metadata"]["managedFields"] == [APPLIED, SERVED]


def test_a_crd_that_goes_or_serves_another_operator_is_left_alone(stack: Store) -> None:
    applied_crd(stack, APPLIED, SERVED)
    gone = copy.deepcopy(stack)
    assert released(gone, "crds") == []
    deployment(stack, "other", OTHERS)
    assert released(stack) == []


def test_fields_that_this_user_may_not_give_up_are_named_with_the_command(
    stack: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied_crd(stack, APPLIED, SERVED)

    def refuse(path: str, operations: list[Json]) -> Json:
        raise GpuOpsError("No permission: patch customresourcedefinitions.", reason="Forbidden")

    monkeypatch.setattr(stack, "_patch_metadata", refuse)
    assert "may not patch CRDs" in remove(stack)[1]["field manager of CRDs"]


def test_all_is_the_word_for_every_leftover(stack: Store) -> None:
    one, other = copy.deepcopy(stack), copy.deepcopy(stack)
    assert remove(one, "all") == remove(other, *removal_plan.LEFTOVERS)
    assert one.objects == other.objects
