# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real ``main()`` against a small API server in this process."""

from __future__ import annotations

import copy
import typing as t

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, GPUCLUSTERS, NODES, POLICIES, FakeApi, Reply, refusal
from tests.unit.fakes.claimed import CLAIMS, CLASSES, GPUCLUSTER, SLICES, claim, claimed, separate_driver, slice_of
from tests.unit.fakes.stack import Json, policy, workload

DOMAINS = "/apis/resource.nvidia.com/v1beta1/computedomains"
Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    """Return what runs the module on a cluster with a GPUCluster that is ready."""
    stack = claimed(2)
    api.lists |= {POLICIES: [], NODES: stack.nodes, DAEMONSETS: list(stack.daemonsets.values())}
    api.lists |= {GPUCLUSTERS: [copy.deepcopy(GPUCLUSTER)], CLASSES: [], CLAIMS: [], DOMAINS: []}
    api.lists[SLICES] = [slice_of(0), slice_of(1)]
    return lambda **options: run_module("gpucluster", **{**api.connection, "wait": False, **options})


def writes(api: FakeApi) -> list[tuple[str, bool]]:
    """Every write as its method, and whether it was a dry run."""
    return [(method, query.get("dryRun") == "All") for method, dummy, query in api.log if method != "GET"]


def gates(**given: bool) -> Json:
    return {"dra_driver": {"feature_gates": given}}


def kubernetes_with(api: FakeApi, *on: str, reply: Reply | None = None) -> None:
    """Let the API server keep the fields of these gates of Kubernetes, and drop those of the others."""
    kept = {"DRADeviceTaints": "taints", "DRAPartitionableDevices": "sharedCounters"}
    fields: Json = {"devices": [{"name": "x"}]}
    if "DRADeviceTaints" in on:
        fields["devices"][0]["taints"] = [{"key": "example.com/x", "effect": "NoSchedule", "timeAdded": "now"}]
    if "DRAPartitionableDevices" in on:
        fields["sharedCounters"] = [{"name": "x", "counters": {"x": {"value": "1"}}}]
    assert set(on) <= kept.keys()
    answer: Reply = reply or (201, {"spec": fields})
    api.answer = lambda method, path: answer if (method, path) == ("POST", SLICES) else None


def test_a_driver_from_its_own_chart_must_go_first(api: FakeApi, module: Run) -> None:
    api.lists["/apis/apps/v1/daemonsets"] = [separate_driver()]
    kept = module(dra_driver={"version": "v0.5.0"})
    assert kept.rc == 0, "a GPUCluster that is there already keeps being managed"
    api.lists[GPUCLUSTERS] = []
    for check in (True, False):
        run = module(_ansible_check_mode=check)
        assert (run.rc, run.result["reason"]) == (1, "OwnedByOthers")
        assert "Helm's release nvidia-dra-driver-gpu/dra" in run.result["msg"]
        assert run.result["msg"].endswith("Then run: helm uninstall dra --namespace nvidia-dra-driver-gpu.")
    assert api.lists[GPUCLUSTERS] == []


@pytest.mark.parametrize("check", [True, False])
def test_a_second_run_after_creation_changes_nothing(api: FakeApi, module: Run, check: bool) -> None:
    api.lists[GPUCLUSTERS] = []
    run = module(dra_driver={"version": "v0.5.0"}, _ansible_check_mode=check, _ansible_diff=True)
    assert (run.rc, run.result["changed"], run.result["diff"]["before"]) == (0, True, {})
    assert run.result["gpucluster"]["spec"] == {"draDriver": {"version": "v0.5.0"}}
    assert writes(api) == [("PATCH", True), ("PATCH", False)][: 1 if check else 2]
    assert len(api.lists[GPUCLUSTERS]) == (0 if check else 1)
    if not check:
        again = module(dra_driver={"version": "v0.5.0"})
        assert again.result["changed"] is False and writes(api)[2:] == [("PATCH", True)]


def test_options_and_spec_are_one_object(api: FakeApi, module: Run) -> None:
    run = module(
        dra_driver={"compute_domains": {"enabled": False}},
        dcgm_exporter={"env": [{"name": "TOKEN", "value": "very-secret"}]},
        daemonsets={"priority_class_name": "high", "rolling_update": {"maxUnavailable": "1"}},
        spec={"hostPaths": {"kubeletRootDir": "/data/kubelet"}, "draDriver": {"imagePullPolicy": "Always"}},
        labels={"team": "ml"},
        annotations={"note": "x"},
    )
    made = api.lists[GPUCLUSTERS][0]
    assert run.rc == 0 and "very-secret" not in str(run.result)
    assert made["spec"]["draDriver"] == {"computeDomains": {"enabled": False}, "imagePullPolicy": "Always"}
    assert made["spec"]["daemonsets"] == {"priorityClassName": "high", "rollingUpdate": {"maxUnavailable": "1"}}
    assert made["spec"]["hostPaths"] == {"kubeletRootDir": "/data/kubelet"}
    assert (made["metadata"]["labels"], made["metadata"]["annotations"]) == ({"team": "ml"}, {"note": "x"})
    both = module(dra_driver={"version": "v1"}, spec={"draDriver": {"version": "v2"}})
    assert both.rc == 1 and "spec.draDriver.version" in both.result["msg"]


def test_a_field_stays_until_the_task_purges(api: FakeApi, module: Run) -> None:
    module(dra_driver={"version": "v0.5.0"})
    module(labels={"team": "ml"})
    assert api.lists[GPUCLUSTERS][0]["spec"]["draDriver"] == {"version": "v0.5.0"}
    assert module(labels={"team": "ml"}, purge=True).result["changed"] is True
    assert api.lists[GPUCLUSTERS][0]["spec"]["draDriver"] == {}


def test_a_null_gives_a_gate_up(api: FakeApi, module: Run) -> None:
    module(**gates(MPSSupport=True, TimeSlicingSettings=True))
    module(spec={"draDriver": {"featureGates": {"MPSSupport": None}}})
    assert api.lists[GPUCLUSTERS][0]["spec"]["draDriver"]["featureGates"] == {"TimeSlicingSettings": True}


def test_the_wait_reports_the_verdict(api: FakeApi, module: Run) -> None:
    run = module(wait=True, labels={"team": "ml"})
    assert (run.rc, run.result["verdict"]["state"]) == (0, "ready")
    wanted = [row["operand"] for row in run.result["operands"] if row["state"] != "disabled"]
    assert wanted == ["dra-driver", "dra-validator"]
    del api.lists[SLICES][1]
    run = module(wait=True, wait_timeout=0, labels={"team": "hpc"})
    assert (run.rc, run.result["reason"], run.result["changed"]) == (1, "TimedOut", True)
    assert run.result["verdict"]["reasons"][0]["code"] == "NoAllocatableGPUs"


def test_without_the_crd(api: FakeApi, module: Run) -> None:
    del api.lists[GPUCLUSTERS]
    run = module()
    assert (run.rc, run.result["reason"]) == (1, "CRDMissing") and "gpuops.nvidia.operator_crds" in run.result["msg"]
    run = module(**gates(DynamicMIG=True, MPSSupport=True), _ansible_check_mode=True)
    assert run.rc == 1 and "MPSSupport" in run.result["msg"], "what is wrong anyway is told before the installation"
    run = module(_ansible_check_mode=True)
    assert (run.rc, run.result["changed"], writes(api)) == (0, True, []) and "could not be checked" in run.warnings[0]


def test_a_clusterpolicy_beside_it_is_refused(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES] = [policy()]
    run = module()
    assert (run.rc, run.result["reason"], writes(api)) == (1, "ClusterPolicyPresent", [])


def test_a_cluster_without_claims_is_refused(api: FakeApi, module: Run) -> None:
    del api.lists[CLASSES]
    run = module()
    assert (run.rc, run.result["reason"], writes(api)) == (1, "KubernetesVersion", [])
    assert "Kubernetes v1.36.3" in run.result["msg"] and "1.34.2" in run.result["msg"]


@pytest.mark.parametrize("value", ["true", 1])
def test_a_gate_is_true_or_false(api: FakeApi, module: Run, value: t.Any) -> None:
    run = module(dra_driver={"feature_gates": {"DynamicMIG": value}})
    assert run.rc == 1 and "draDriver.featureGates.DynamicMIG" in run.result["msg"] and writes(api) == []


def test_gates_that_end_the_driver_are_refused_before_any_write(api: FakeApi, module: Run) -> None:
    run = module(**gates(PassthroughSupport=True, NVMLDeviceHealthCheck=True))
    assert (run.rc, run.result["reason"], writes(api)) == (1, "Invalid", [("PATCH", True)])
    assert run.result["msg"] == wording(
        "draDriver.featureGates: PassthroughSupport excludes NVMLDeviceHealthCheck. Set PassthroughSupport to false, or NVMLDeviceHealthCheck."
    )
    env = [{"name": "CONSUMABLE_SHARES", "value": "4"}]
    run = module(dra_driver={"gpus": {"kubeletPlugin": {"env": env}}})
    assert run.rc == 1 and "ConsumableShares" in run.result["msg"]


def test_a_gate_that_another_manager_has_set_counts(api: FakeApi, module: Run) -> None:
    api.lists[GPUCLUSTERS][0]["spec"] = {"draDriver": {"featureGates": {"MPSSupport": True}}}
    assert "MPSSupport" in module(**gates(DynamicMIG=True)).result["msg"]


def test_a_gate_that_kubernetes_lacks_is_refused(api: FakeApi, module: Run) -> None:
    kubernetes_with(api)
    run = module(**gates(NVMLDeviceHealthCheck=True))
    assert (run.rc, run.result["reason"], writes(api)) == (1, "Invalid", [("PATCH", True), ("POST", True)])
    assert run.result["msg"] == wording(
        "draDriver.featureGates.NVMLDeviceHealthCheck needs the feature gate DRADeviceTaints of Kubernetes, which is off. Set --feature-gates=DRADeviceTaints=true on the API servers, the schedulers, the controller managers and the kubelets, or set NVMLDeviceHealthCheck to false."
    )
    kubernetes_with(api, "DRADeviceTaints")
    assert module(**gates(NVMLDeviceHealthCheck=True)).result["changed"] is True


def test_a_gate_that_cannot_be_asked_for_is_unknown(api: FakeApi, module: Run) -> None:
    kubernetes_with(api, reply=refusal(403, "forbidden"))
    run = module(**gates(NVMLDeviceHealthCheck=True))
    assert run.result["changed"] is True and "DRADeviceTaints" in run.warnings[0] and "unknown" in run.warnings[0]


def test_dynamic_mig_needs_permission_while_pods_hold_gpus(api: FakeApi, module: Run) -> None:
    kubernetes_with(api, "DRAPartitionableDevices")
    holder = workload("train", gpus=0)
    holder["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "train"}]
    api.lists[ALL_PODS], api.lists[CLAIMS] = [holder], [claim("train", "gpu-0000", "gpu-0", pods=["train"])]
    run = module(**gates(DynamicMIG=True))
    assert (run.rc, run.result["reason"]) == (1, "Disruption") and ("PATCH", False) not in writes(api)
    assert run.result["disruption"]["pods"] == ["default/train"]
    check = module(**gates(DynamicMIG=True), check_refusal="warn", _ansible_check_mode=True)
    assert check.rc == 0 and "default/train" in check.warnings[0]
    assert module(**gates(DynamicMIG=True), allow_disruption=True).result["changed"] is True
    again = module(**gates(DynamicMIG=True))
    assert (again.rc, again.result["changed"]) == (0, False), "it is on already"


def test_domains_keep_their_controller(api: FakeApi, module: Run) -> None:
    api.lists[DOMAINS] = [{"metadata": {"namespace": "ml", "name": "nvl72"}}]
    off = {"dra_driver": {"compute_domains": {"enabled": False}}}
    run = module(**off)
    assert (run.rc, run.result["reason"]) == (1, "ComputeDomainsPresent") and "ml/nvl72" in run.result["msg"]
    run = module(state="absent", allow_disruption=True)
    assert (run.rc, run.result["reason"]) == (1, "ComputeDomainsPresent") and len(api.lists[GPUCLUSTERS]) == 1
    api.answer = lambda method, path: refusal(403, "forbidden") if path == DOMAINS else None
    assert module(**off).result["reason"] == "Forbidden", "unknown is not none"
    api.answer = lambda method, path: None
    api.lists[DOMAINS] = []
    assert module(**off).result["changed"] is True
    api.lists[DOMAINS] = [{"metadata": {"namespace": "ml", "name": "other"}}]
    assert module(**off, labels={"a": "b"}).rc == 0, "the controller is off already"


def test_a_gpucluster_without_the_block_has_no_controller(api: FakeApi, module: Run) -> None:
    assert module(dra_driver={"compute_domains": {"enabled": True}}).rc == 0
    api.lists[DOMAINS] = [{"metadata": {"namespace": "ml", "name": "nvl72"}}]
    run = module(labels={"a": "b"}, purge=True)
    assert (run.rc, run.result["reason"]) == (1, "ComputeDomainsPresent"), "the operator takes no block for off"
    api.lists[GPUCLUSTERS] = [copy.deepcopy(GPUCLUSTER)]
    assert module(labels={"a": "b"}).rc == 0, "it has had none before"


def test_a_field_of_helm_is_a_conflict(api: FakeApi, module: Run) -> None:
    cause = {"field": ".spec.draDriver.version", "message": 'conflict with "helm"'}
    api.answer = lambda method, path: (
        refusal(409, "conflict", "Conflict", causes=[cause]) if method == "PATCH" else None
    )
    run = module(dra_driver={"version": "v1"})
    assert run.rc == 1 and run.result["conflicts"] == [{"field": "spec.draDriver.version", "manager": "helm"}]


def test_an_unknown_field_is_named(api: FakeApi, module: Run) -> None:
    message = 'unknown field "spec.draDriver.featureGate"'
    api.answer = lambda method, path: refusal(400, message, "BadRequest") if method == "PATCH" else None
    run = module(spec={"draDriver": {"featureGate": {}}})
    assert run.rc == 1 and "spec.draDriver.featureGate" in run.result["msg"]


def test_removal(api: FakeApi, module: Run) -> None:
    check = module(state="absent", _ansible_check_mode=True)
    assert (check.result["changed"], check.result["gpu_pods"], len(api.lists[GPUCLUSTERS])) == (True, 0, 1)
    api.lists[ALL_PODS] = [workload("train")]
    refused = module(state="absent")
    assert (refused.rc, refused.result["reason"]) == (1, "Disruption")
    api.lists[DAEMONSETS] = []
    gone = module(state="absent", allow_disruption=True, wait=True)
    assert (gone.result["changed"], gone.result["gpu_pods"], api.lists[GPUCLUSTERS]) == (True, 1, [])
    assert module(state="absent").result["changed"] is False
