# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import removal_plan, uninstall
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._cluster.chart.removal.conftest import (
    KEPT,
    MARKS,
    NS,
    daemonset,
    deployment,
    gpu_pod,
)
from tests.unit.plugins.module_utils._cluster.chart.removal.store import Json, KilledError, Store

ALL = list(removal_plan.LEFTOVERS)


def remove(store: Store, *leftovers: str, **options: t.Any) -> Json:
    defaults = {"release_name": NS, "release_namespace": NS, "remove": list(leftovers), "allow_disruption": False}
    defaults |= {"check_refusal": "fail"}
    return uninstall.remove(
        store, {**defaults, "helm_timeout": "5m0s", "break_lock": False, "wait_timeout": 20, **options}
    )


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
    assert node["metadata"]["annotations"] == {"example.com/note": "mine"}
    assert node["spec"] == {}
    assert left(result) == {
        wording("labels of users on nodes"): (
            ["nvidia.com/gpu.deploy.dcgm"],
            "Users have set them.",
        ),
        "divided GPUs on nodes": (
            ["gpu-0000"],
            wording("The MIG manager, which could make them whole, goes with the release."),
        ),
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
    assert any("labels of the stack (gpu-0000)" in line for line in result["report"])
    stayed = left(result)
    assert stayed["divided GPUs on nodes"][0] == ["gpu-0000"]
    assert stayed["labels of the stack"] == (["gpu-0000"], wording("Their removal was not asked for (labels)."))
    assert stayed[wording("labels of Node Feature Discovery")][0] == ["gpu-0000"]
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
    with pytest.raises(GpuOpsError) as in_check:
        remove(stack)
    assert in_check.value.msg == e.value.msg
    predicted = remove(stack, check_refusal="warn")
    assert predicted["changed"] and predicted["warnings"] == [WOULD_STOP + e.value.msg]
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
    assert stayed["ClusterRole"] == (["gpu-operator"], wording("It belongs to the release gpu-operator/other now."))
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


OPERATOR = f"/apis/apps/v1/namespaces/{NS}/deployments/gpu-operator"
KUBECTL = {"annotations": {}, "managedFields": [{"manager": "kubectl-client-side-apply", "operation": "Update"}]}
ARGO = {"annotations": {"argocd.argoproj.io/tracking-id": f"gpus:apps/Deployment:{NS}/gpu-operator"}}
FLUX = {"labels": {"helm.toolkit.fluxcd.io/name": "gpus", "helm.toolkit.fluxcd.io/namespace": "flux-system"}}


def without_record(store: Store) -> None:
    for path in [path for path in store.objects if "sh.helm.release" in path]:
        del store.objects[path]


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    ("metadata", "has_record", "reason", "who"),
    [
        ({"labels": {"olm.owner": "x"}}, True, "OperatorOfOLM", "ClusterServiceVersion x"),
        (ARGO, False, "OperatorOfOthers", "Argo CD (Application gpus)"),
        (ARGO, True, "OperatorOfOthers", "Argo CD (Application gpus)"),
        (FLUX, True, "OperatorOfOthers", "Flux (HelmRelease flux-system/gpus)"),
        (KUBECTL, False, "OperatorOfOthers", "kubectl"),
        # A take-over by Helm that failed has left its record.
        (KUBECTL, True, "OperatorOfOthers", "kubectl"),
        ({"annotations": {}}, False, "OperatorOfOthers", "somebody else"),
        ({"annotations": {**MARKS, "meta.helm.sh/release-name": "gpu-operator-1"}}, False, "OperatorOfOthers", f"{NS}/gpu-operator-1"),
        ({}, False, "NotFound", "Helm has no record"),
    ],
)  # fmt: skip
def test_another_s_installation_is_refused_before_anything_is_deleted(
    stack: Store, metadata: dict, has_record: bool, reason: str, who: str, check_mode: bool
) -> None:
    stack.objects[OPERATOR]["metadata"] |= metadata
    stack.check_mode = check_mode
    if not has_record:
        without_record(stack)
    with pytest.raises(GpuOpsError) as e:
        remove(stack, *ALL)
    assert e.value.reason == reason and who in e.value.msg and stack.writes == []


def test_a_clusterpolicy_that_argo_cd_keeps_is_refused_before_anything_is_deleted(stack: Store) -> None:
    tracked = {"argocd.argoproj.io/tracking-id": "gpus:nvidia.com/ClusterPolicy:gpu-operator/cluster-policy"}
    stack.objects["/apis/nvidia.com/v1/clusterpolicies/cluster-policy"]["metadata"]["annotations"] = tracked
    with pytest.raises(GpuOpsError) as e:
        remove(stack)
    assert e.value.reason == "OperatorOfOthers" and "ClusterPolicy cluster-policy" in e.value.msg
    assert stack.writes == []


def test_a_subscription_of_olm_is_refused(stack: Store) -> None:
    stack.add("Subscription", "gpus", NS, spec={"name": "gpu-operator-certified"})
    with pytest.raises(GpuOpsError) as e:
        remove(stack)
    assert e.value.reason == "OperatorOfOLM" and stack.writes == []


def test_an_operator_that_helm_was_asked_to_keep_needs_no_record(stack: Store) -> None:
    stack.objects[OPERATOR]["metadata"]["annotations"] = {**MARKS, "helm.sh/resource-policy": "keep"}
    remove(stack)
    assert remove(stack)["changed"] is False and stack.named("Deployment") == ["gpu-operator"]


def test_an_operator_of_argo_cd_in_another_namespace_stays_and_is_named(stack: Store) -> None:
    stack.add("Namespace", "second")
    deployment(stack, "second", {"argocd.argoproj.io/tracking-id": "gpus:apps/Deployment:second/gpu-operator"})
    assert left(remove(stack))["GPU Operator"] == (
        ["second/gpu-operator"],
        wording("It belongs to Argo CD (Application gpus)."),
    )


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
    assert left(result)["namespace"][1] == wording("It also has persistentvolumeclaims that this user may not list.")


# ---- a driver upgrade that has not ended ------------------------------------------------------------------------


UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
NODE = "/api/v1/nodes/gpu-0000"


def cut_upgrade(store: Store, note: str | None = "turn 2026-01-01T00:00:00Z") -> Json:
    """Put the node into the middle of an upgrade: cordoned, with the operator's label and perhaps our note."""
    item = store.objects[NODE]
    item["spec"]["unschedulable"] = True
    item["metadata"]["labels"][UPGRADE] = "wait-for-jobs-required"
    if note:
        item["metadata"]["annotations"]["gpuops.nvidia/driver-rollout"] = note
    return item


def forget_states(store: Store) -> None:
    """Do what the operator does when its ClusterPolicy is deleted."""
    store.on_delete["clusterpolicies"] = lambda: store.objects[NODE]["metadata"]["labels"].pop(UPGRADE, None)


@pytest.mark.parametrize("note", ["turn 2026-01-01T00:00:00Z", None])
@pytest.mark.parametrize("leftovers", [(), ("labels",), ALL])
def test_the_cordon_of_an_upgrade_is_lifted_without_a_request(
    stack: Store, note: str | None, leftovers: t.Sequence[str]
) -> None:
    cut_upgrade(stack, note)
    forget_states(stack)
    checked = copy.deepcopy(stack)
    checked.check_mode = True
    predicted = remove(checked, *leftovers, allow_disruption=True)
    assert checked.writes == []
    result = remove(stack, *leftovers, allow_disruption=True)
    for each in (result, predicted):
        assert [line for line in each["removed"] if "cordon" in line and line.endswith("gpu-0000")]
    assert leftovers or predicted["removed"] == result["removed"]
    assert (
        predicted["warnings"]
        == result["warnings"]
        == [
            wording(
                "The driver of gpu-0000 (wait-for-jobs-required) is being upgraded, and the removal cuts that off. In the end, it lifts the cordons of the upgrade."
            )
        ]
    )
    item = stack.objects[NODE]
    assert "unschedulable" not in item["spec"] and "gpuops.nvidia/uninstall" not in item["metadata"]["annotations"]
    assert remove(stack, *leftovers)["changed"] is False


@pytest.mark.parametrize("note", ["turn 2026-01-01T00:00:00Z", None])
def test_a_removal_that_is_killed_anywhere_still_lifts_the_cordon_in_the_end(stack: Store, note: str | None) -> None:
    cut_upgrade(stack, note)
    forget_states(stack)
    whole = copy.deepcopy(stack)
    forget_states(whole)
    remove(whole, allow_disruption=True)
    for lives in range(len(whole.writes)):
        store = copy.deepcopy(stack)
        forget_states(store)
        store.lives = lives
        with pytest.raises(KilledError):
            remove(store, allow_disruption=True)
        store.lives = 10_000
        remove(store, allow_disruption=True)
        assert "unschedulable" not in store.objects[NODE]["spec"], f"killed after {lives} writes"


def test_an_upgrade_is_cut_off_with_permission_only_and_check_mode_says_so(stack: Store) -> None:
    cut_upgrade(stack)
    with pytest.raises(GpuOpsError) as e:
        remove(stack)
    assert e.value.reason == "NodesBusy" and "gpu-0000 (wait-for-jobs-required)" in e.value.msg and stack.writes == []
    gpu_pod(stack)
    stack.check_mode = True
    warnings = remove(stack, check_refusal="warn")["warnings"]
    assert warnings[0] == WOULD_STOP + e.value.msg and "team/job" in warnings[1]


def test_a_person_s_cordon_and_one_of_a_maintenance_stay(stack: Store) -> None:
    item = stack.objects[NODE]
    item["spec"]["unschedulable"] = True
    assert not [line for line in remove(copy.deepcopy(stack), *ALL)["removed"] if "cordon" in line]
    item["metadata"]["annotations"]["gpuops.nvidia/maintenance.change"] = "2026-01-01T00:00:00Z host 1"
    assert left(remove(stack, *ALL))["cordoned nodes"] == (
        ["gpu-0000"],
        wording("They are held for maintenance (change)."),
    )
    assert item["spec"]["unschedulable"] is True


def test_a_node_that_may_not_be_patched_ends_the_removal_before_it_deletes(
    stack: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_upgrade(stack)

    def refuse(path: str, body: Json) -> Json:
        raise GpuOpsError("No permission: patch nodes.", reason="Forbidden")

    monkeypatch.setattr(stack, "merge", refuse)
    with pytest.raises(GpuOpsError, match="patch nodes"):
        remove(stack, allow_disruption=True)
    assert stack.writes == []


def test_another_operator_s_nodes_stay_as_they_are(stack: Store) -> None:
    cut_upgrade(stack, None)
    stack.add("Namespace", "second")
    deployment(stack, "second", {"meta.helm.sh/release-name": "gpu", "meta.helm.sh/release-namespace": "second"})
    before = copy.deepcopy(stack.objects[NODE])
    remove(stack, allow_disruption=True)
    assert stack.objects[NODE] == before
