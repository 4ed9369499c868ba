# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import plan, run
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.plugins.module_utils._cluster.chart.removal.conftest import (
    KEPT,
    MARKS,
    NS,
    daemonset,
    deployment,
    gpu_pod,
)
from tests.unit.plugins.module_utils._cluster.chart.removal.store import Json, KilledError, Store

ALL = list(plan.LEFTOVERS)


def remove(store: Store, *leftovers: str, **options: t.Any) -> Json:
    defaults = {"release_name": NS, "release_namespace": NS, "remove": list(leftovers), "allow_disruption": False}
    return run.remove(store, {**defaults, "helm_timeout": "5m0s", "break_lock": False, "wait_timeout": 20, **options})


def left(result: Json) -> dict[str, tuple[list[str], str]]:
    return {item["what"]: (item["names"], item["reason"]) for item in result["left"]}


def test_everything_goes_in_the_order_in_which_only_the_operator_is_left_last(stack: Store) -> None:
    result = remove(stack, *ALL)
    wanted = [
        "delete ClusterPolicy cluster-policy",
        "delete NVIDIADriver default",
        "delete Deployment gpu-operator/gpu-operator",
        "delete DaemonSet gpu-operator/nfd-worker",
        "delete ServiceAccount gpu-operator/gpu-operator",
        "delete ClusterRole gpu-operator",
        "delete release gpu-operator/gpu-operator",
    ]
    assert result["removed"][: len(wanted)] == wanted and result["removed"][-1] == "delete Namespace gpu-operator"
    assert result["changed"] and result["gpu_pods"] == 0 and result["warnings"] == []
    assert stack.named("CustomResourceDefinition") == [] and NS not in stack.named("Namespace")
    node = stack.get("/api/v1/nodes/gpu-0000") or {}
    assert node["metadata"]["labels"] == KEPT
    assert node["metadata"]["annotations"] == {"example.com/note": "mine"} and node["spec"] == {}
    assert left(result) == {
        "labels of users on nodes": (["nvidia.com/gpu.deploy.dcgm", "nvidia.com/mig.config"], "Users have set them.")
    }


def test_a_second_run_changes_nothing(stack: Store) -> None:
    remove(stack, *ALL)
    stack.writes.clear()
    again = remove(stack, *ALL)
    assert (again["changed"], again["removed"], stack.writes) == (False, [], [])


def test_check_mode_predicts_the_run_and_writes_nothing(stack: Store) -> None:
    for leftovers in ([], ALL, ["labels", "crds"]):
        before, one = copy.deepcopy(stack.objects), copy.deepcopy(stack)
        one.check_mode = True
        predicted = remove(one, *leftovers)
        assert one.objects == before and one.writes == []
        another = copy.deepcopy(stack)
        assert predicted == remove(another, *leftovers), leftovers


def test_what_was_not_asked_for_stays_and_is_named(stack: Store) -> None:
    result = remove(stack)
    assert (
        "labels of the stack (gpu-0000): Their removal was not asked for (labels). "
        "Add labels to remove (uninstall_remove in the role uninstall)."
    ) in result["report"]
    stayed = left(result)
    assert stayed["labels of the stack"] == (["gpu-0000"], "Their removal was not asked for (labels).")
    assert stayed["labels of Node Feature Discovery"][0] == ["gpu-0000"]
    assert stayed["taints of this collection"][0] == ["gpu-0000"]
    assert stayed["namespace"][0] == ["gpu-operator"]
    assert {name for item in remove(stack)["left"] if item["what"] == "CRDs" for name in item["names"]} == {
        "clusterpolicies.nvidia.com",
        "nvidiadrivers.nvidia.com",
        "nodefeaturerules.nfd.k8s-sigs.io",
    }


def test_a_run_that_is_killed_before_any_write_is_completed_by_the_next(stack: Store) -> None:
    whole = copy.deepcopy(stack)
    remove(whole, *ALL)
    assert len(whole.writes) > 10
    for lives in range(len(whole.writes)):
        store = copy.deepcopy(stack)
        store.lives = lives
        with pytest.raises(KilledError):
            remove(store, *ALL)
        store.lives = 10_000
        remove(store, *ALL)
        assert store.objects == whole.objects, f"killed after {lives} writes: {whole.writes[lives]}"


def test_pods_with_gpus_need_permission_and_nothing_is_written_before(stack: Store) -> None:
    gpu_pod(stack)
    with pytest.raises(GpuOpsError, match=r"^1 running pod uses a GPU \(team/job\)") as e:
        remove(stack)
    assert (e.value.reason, e.value.details["gpu_pods"], stack.writes) == ("Disruption", 1, [])
    stack.check_mode = True
    predicted = remove(stack)
    assert predicted["changed"] and predicted["warnings"] == [e.value.msg]
    stack.check_mode = False
    assert remove(stack, allow_disruption=True)["gpu_pods"] == 1


def test_pods_with_gpus_are_no_reason_to_stop_once_their_driver_is_gone(stack: Store) -> None:
    gpu_pod(stack)
    stack.lives = 8
    with pytest.raises(KilledError):
        remove(stack, *ALL, allow_disruption=True)
    stack.lives = 10_000
    assert remove(stack, *ALL)["changed"]


def test_a_removal_of_helm_that_was_cut_off_is_completed(stack: Store) -> None:
    secret = next(item for item in stack.objects.values() if item["metadata"].get("labels", {}).get("owner") == "helm")
    secret["metadata"]["labels"]["status"] = "uninstalling"
    stack.delete(f"/apis/apps/v1/namespaces/{NS}/deployments/gpu-operator")
    result = remove(stack)
    assert "delete release gpu-operator/gpu-operator" in result["removed"] and stack.named("ClusterRole") == []


def test_the_lock_of_a_helm_at_work_is_respected(stack: Store) -> None:
    secret = next(item for item in stack.objects.values() if item["metadata"].get("labels", {}).get("owner") == "helm")
    secret["metadata"]["labels"] |= {"status": "pending-upgrade", "modifiedAt": "999990"}
    with pytest.raises(GpuOpsError) as e:
        remove(stack)
    assert e.value.reason == "ReleaseLocked" and stack.writes == []
    secret["metadata"]["labels"]["modifiedAt"] = "1"
    with pytest.raises(GpuOpsError, match="break_lock"):
        remove(stack)
    assert remove(stack, break_lock=True)["changed"]


def test_objects_of_another_release_and_kept_ones_stay(stack: Store) -> None:
    role = stack.objects["/apis/rbac.authorization.k8s.io/v1/clusterroles/gpu-operator"]
    role["metadata"]["annotations"] = {**MARKS, "meta.helm.sh/release-name": "other"}
    account = stack.objects[f"/api/v1/namespaces/{NS}/serviceaccounts/gpu-operator"]
    account["metadata"]["annotations"] = {**MARKS, "helm.sh/resource-policy": "keep"}
    stayed = left(remove(stack))
    assert stayed["ClusterRole"] == (["gpu-operator"], "It belongs to the release gpu-operator/other now.")
    assert "helm.sh/resource-policy" in stayed["ServiceAccount"][1]
    assert stack.named("ClusterRole") == ["gpu-operator"] and "gpu-operator" in stack.named("ServiceAccount")


def test_another_operator_keeps_what_it_may_serve(stack: Store) -> None:
    stack.add("Namespace", "second")
    deployment(stack, "second", {"meta.helm.sh/release-name": "gpu", "meta.helm.sh/release-namespace": "second"})
    result = remove(stack, *ALL)
    stayed = left(result)
    assert stack.named("ClusterPolicy") == ["cluster-policy"] and stack.named("NVIDIADriver") == ["default"]
    assert "second/gpu-operator" in stayed["ClusterPolicy"][1] and "second/gpu-operator" in stayed["CRDs"][1]
    assert "nvidia.com/gpu.present" in stack.objects["/api/v1/nodes/gpu-0000"]["metadata"]["labels"]
    assert [item["metadata"]["namespace"] for item in stack.objects.values() if item["kind"] == "Deployment"] == [
        "second"
    ]


def test_an_operator_of_olm_is_refused(stack: Store) -> None:
    deployment = stack.objects[f"/apis/apps/v1/namespaces/{NS}/deployments/gpu-operator"]
    deployment["metadata"]["labels"] = {"olm.owner": "x"}
    with pytest.raises(GpuOpsError) as e:
        remove(stack)
    assert e.value.reason == "OperatorOfOLM" and stack.writes == []


def test_what_does_not_go_is_named(stack: Store) -> None:
    stack.stuck = {"nvidia-gpu-driver-ubuntu24.04-1-0"}
    with pytest.raises(GpuOpsError, match=r"Pod nvidia-gpu-driver-ubuntu24\.04-1-0") as e:
        remove(stack)
    assert e.value.reason == "TimedOut" and stack.named("Deployment") == ["gpu-operator"]
    stack.stuck = set()
    assert remove(stack)["changed"] and stack.named("Deployment") == []


def test_a_driver_without_an_owner_goes_after_the_operands(stack: Store) -> None:
    daemonset(stack, "nvidia-driver-daemonset", None)
    stack.add("Pod", "orphan", NS, metadata={"labels": {"app": "nvidia-driver-daemonset"}}, spec={"containers": []})
    result = remove(stack)
    assert result["removed"][2:4] == [
        "delete DaemonSet nvidia-driver-daemonset, which belongs to nothing",
        "delete Pod orphan, which belongs to nothing",
    ]
    assert stack.named("DaemonSet") == [] and stack.named("Pod") == []


def test_a_gpucluster_without_its_operator_is_released_after_its_claims(stack: Store) -> None:
    finalizers = ["gpucluster.nvidia.com/dra-resourceclaim"]
    item = stack.add("GPUCluster", "gpu-cluster", metadata={"finalizers": finalizers}, spec={})
    consumer = daemonset(stack, "nvidia-dra-validator", item)
    consumer["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu"}]
    with pytest.raises(GpuOpsError, match=r"GPUCluster gpu-cluster \(finalizers: gpucluster"):
        remove(copy.deepcopy(stack))
    stack.delete(f"/apis/apps/v1/namespaces/{NS}/deployments/gpu-operator")
    stack.writes.clear()
    assert remove(stack)["removed"][0] == "delete GPUCluster gpu-cluster"
    order = [line for line in stack.writes if "gpuclusters" in line or "nvidia-dra-validator" in line]
    assert [line.split()[0] for line in order] == ["delete", "delete", "merge"] and stack.named("GPUCluster") == []


def test_a_consumer_of_claims_that_does_not_go_keeps_the_finalizer(stack: Store) -> None:
    item = stack.add("GPUCluster", "gpu-cluster", metadata={"finalizers": ["x"]}, spec={})
    consumer = daemonset(stack, "nvidia-dra-validator", item)
    consumer["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu"}]
    stack.delete(f"/apis/apps/v1/namespaces/{NS}/deployments/gpu-operator")
    stack.stuck = {"nvidia-dra-validator"}
    with pytest.raises(GpuOpsError, match="DaemonSet nvidia-dra-validator"):
        remove(stack)
    assert stack.objects["/apis/nvidia.com/v1alpha1/gpuclusters/gpu-cluster"]["metadata"]["finalizers"] == ["x"]


def test_what_may_not_be_read_is_a_warning(stack: Store) -> None:
    stack.refused = {"gpuclusters", "customresourcedefinitions", "persistentvolumeclaims"}
    result = remove(stack, "namespace")
    assert result["warnings"] == [
        "Not everything is known. No permission: list gpuclusters.",
        "Not everything is known. No permission: list customresourcedefinitions.",
    ]
    assert left(result)["namespace"][1] == "It also has persistentvolumeclaims that this user may not list."
