# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real ``main()`` against a small API server in this process."""

from __future__ import annotations

import copy
import typing as t

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, GPUCLUSTERS, NODES, POLICIES, FakeApi, refusal
from tests.unit.fakes.stack import Json, policy

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com"
SPEC = {"dcgmExporter": {"env": [{"name": "NGC_API_KEY", "value": "nvapi-very-secret"}]}}
Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    return lambda **options: run_module("clusterpolicy", **{**api.connection, **options})


def writes(api: FakeApi) -> list[tuple[str, bool]]:
    """Every write as its method, and whether it was a dry run."""
    return [(method, query.get("dryRun") == "All") for method, dummy, query in api.log if method != "GET"]


def say(api: FakeApi, method: str, status: int, message: str, causes: list[Json] | None = None) -> None:
    api.answer = lambda used, path: refusal(status, message, causes=causes) if used == method else None


# Present


@pytest.mark.parametrize("check", [True, False])
def test_a_second_run_after_creation_changes_nothing(api: FakeApi, module: Run, check: bool) -> None:
    api.lists[POLICIES] = []
    run = module(spec=SPEC, wait=False, _ansible_check_mode=check, _ansible_diff=True)
    assert run.rc == 0 and run.result["changed"] is True and run.result["diff"]["before"] == {}
    assert "spec.mig" not in str(run.result["diff"]) and "nvapi" not in str(run.result)
    assert (
        len(api.lists[POLICIES]) == (0 if check else 1)
        and writes(api) == [("PATCH", True), ("PATCH", False)][: 1 if check else 2]
    )
    assert ("verdict" in run.result) is not check
    if not check:
        again = module(spec=SPEC, wait=False)
        assert again.result["changed"] is False and writes(api)[2:] == [("PATCH", True)]


def test_the_diff_of_an_edit_has_no_status(api: FakeApi, module: Run) -> None:
    run = module(mig={"strategy": "mixed"}, labels={"team": "ml"}, wait=False, _ansible_diff=True)
    before, after = run.result["diff"]["before"], run.result["diff"]["after"]
    assert (
        "mig" not in before["spec"]
        and after["spec"]["mig"] == {"strategy": "mixed"}
        and after["metadata"]["labels"] == {"team": "ml"}
    )
    assert "status" not in after
    assert "managedFields" not in run.result["clusterpolicy"]["metadata"]


def test_every_write_is_strict_and_has_one_field_manager(api: FakeApi, module: Run) -> None:
    module(mig={"strategy": "mixed"}, wait=False, force=True)
    queries = [query for method, dummy, query in api.log if method == "PATCH"]
    assert {(query["fieldManager"], query["fieldValidation"], query["force"]) for query in queries} == {
        ("gpuops.nvidia", "Strict", "true")
    }


def test_the_wait_reports_the_verdict(module: Run) -> None:
    run = module(mig={"strategy": "single"})
    assert (
        run.rc == 0 and run.result["verdict"]["state"] == "ready" and run.result["operands"][0]["operand"] == "driver"
    )


def test_a_failed_wait_keeps_the_change(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES][0]["status"]["state"] = "notReady"
    run = module(mig={"strategy": "single"}, wait_timeout=0)
    assert run.rc == 1 and run.result["reason"] == "TimedOut" and "not ready after 0 s" in run.result["msg"]
    assert run.result["changed"] is True and api.lists[POLICIES][0]["spec"]["mig"] == {"strategy": "single"}
    assert run.result["verdict"]["reasons"][0]["code"] == "StateNotReady"
    # Ansible prints a failed result as a whole, and a warning in it is a deprecated way to warn.
    assert not run.result.keys() & {"clusterpolicy", "operands", "diff", "warnings"}
    assert len(str({key: value for key, value in run.result.items() if key != "invocation"})) < 1500


def test_without_the_crd(api: FakeApi, module: Run) -> None:
    del api.lists[POLICIES]
    run = module(spec={}, wait=False)
    assert run.rc == 1 and run.result["reason"] == "CRDMissing" and "gpuops.nvidia.operator_crds" in run.result["msg"]
    run = module(mig={"strategy": "single"}, _ansible_check_mode=True)
    assert run.rc == 0 and run.result["changed"] is True and "could not be checked" in run.warnings[0]
    assert run.result["clusterpolicy"]["spec"]["mig"] == {"strategy": "single"} and writes(api) == []


def test_a_second_clusterpolicy_is_refused(api: FakeApi, module: Run) -> None:
    run = module(name="another", spec={})
    assert run.rc == 1 and "ClusterPolicy cluster-policy already exists" in run.result["msg"] and writes(api) == []


def test_a_gpucluster_beside_it_is_refused(api: FakeApi, module: Run) -> None:
    api.lists[GPUCLUSTERS] = [{"metadata": {"name": "gpu-cluster"}}]
    run = module(spec={})
    assert run.rc == 1 and "GPUCluster (gpu-cluster) exists" in run.result["msg"] and writes(api) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (
            {"driver": {"upgrade_policy": {"auto_upgrade": True}}},
            wording(
                "driver.upgradePolicy.waitForCompletion, driver.upgradePolicy.podDeletion, driver.upgradePolicy.drain must be given when autoUpgrade is true (an empty {} takes the defaults): otherwise a driver upgrade stops with a node cordoned."
            ),
        ),
        (
            {"cdi": {"nri_plugin_enabled": True, "enabled": False}},
            wording("cdi.nriPluginEnabled needs cdi.enabled: true."),
        ),
        (
            {"driver": {"use_precompiled": True}, "gds": {"enabled": True}},
            wording(
                "gds.enabled does not work with driver.usePrecompiled: GPUDirect Storage has no precompiled modules. Set one of the two to false."
            ),
        ),
        (
            {"spec": {"driver": {"kernelModuleType": "precompiled"}}},
            wording(
                "driver.kernelModuleType is 'precompiled', which is not a valid value: use auto, open or proprietary. For precompiled drivers set driver.usePrecompiled: true."
            ),
        ),
        (
            {"driver": {"kernel_module_type": "precompiled"}},
            wording(
                "driver.kernelModuleType is 'precompiled', which is not a valid value: use auto, open or proprietary. For precompiled drivers set driver.usePrecompiled: true."
            ),
        ),
        (
            {"mig": {"strategy": "single"}, "spec": {"mig": {"strategy": "mixed"}}},
            wording("spec.mig.strategy is 'mixed', but its own option says 'single'. Set it in one place."),
        ),
        ({"spec": {"mig": "mixed"}}, wording("spec.mig must be a mapping, not str.")),
    ],
)
def test_mistakes_are_not_written(api: FakeApi, module: Run, options: Json, named: str) -> None:
    run = module(**options)
    assert run.rc == 1 and run.result["msg"] == named and ("PATCH", False) not in writes(api)


def test_contradictions_with_fields_of_other_managers_are_found(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES] = [policy(driver={"usePrecompiled": True})]
    assert module(gds={"enabled": True}).result["msg"] == wording(
        "gds.enabled does not work with driver.usePrecompiled: GPUDirect Storage has no precompiled modules. Set one of the two to false."
    )


def test_an_image_may_be_completed_by_fields_of_other_managers(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES] = [policy(driver={"repository": "nvcr.io/nvidia", "image": "driver", "version": "580"})]
    assert module(driver={"version": "595"}, wait=False).result["changed"] is True


def test_a_number_of_nodes_is_sent_as_a_number(api: FakeApi, module: Run) -> None:
    upgrades: Json = {
        "auto_upgrade": True,
        "max_unavailable": "2",
        "wait_for_completion": {},
        "pod_deletion": {},
        "drain": {},
    }
    assert (
        module(driver={"upgrade_policy": upgrades}, wait=False).result["clusterpolicy"]["spec"]["driver"][
            "upgradePolicy"
        ]["maxUnavailable"]
        == 2
    )
    upgrades["max_unavailable"] = "25%"
    assert (
        module(driver={"upgrade_policy": upgrades}, wait=False).result["clusterpolicy"]["spec"]["driver"][
            "upgradePolicy"
        ]["maxUnavailable"]
        == "25%"
    )


def test_an_unknown_field_is_an_error_with_a_suggestion(api: FakeApi, module: Run) -> None:
    schema = {"properties": {"spec": {"properties": {"migManager": {}}}}}
    api.lists[CRD.rpartition("/")[0]] = [
        {
            "metadata": {"name": "clusterpolicies.nvidia.com"},
            "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]},
        }
    ]
    say(api, "PATCH", 400, 'strict decoding error: unknown field "spec.migManger"')
    run = module(spec={"migManger": {}})
    assert (
        run.rc == 1
        and run.result["msg"] == "The ClusterPolicy CRD has no field spec.migManger. Did you mean spec.migManager?"
    )


def test_without_permission_to_read_the_crd_there_is_no_suggestion(api: FakeApi, module: Run) -> None:
    api.answer = lambda method, path: (
        refusal(400, 'unknown field "spec.x"')
        if method == "PATCH"
        else refusal(403, "crds are forbidden")
        if path == CRD
        else None
    )
    assert module(spec={"x": {}}).result["msg"] == "The ClusterPolicy CRD has no field spec.x."


def test_a_conflict(api: FakeApi, module: Run) -> None:
    say(
        api,
        "PATCH",
        409,
        "Apply failed",
        [{"field": ".spec.mig.strategy", "message": 'conflict with "kubectl-edit" using nvidia.com/v1'}],
    )
    run = module(mig={"strategy": "single"})
    assert run.rc == 1 and run.result["conflicts"] == [{"field": "spec.mig.strategy", "manager": "kubectl-edit"}]


@pytest.mark.parametrize("force", [False, True])
def test_what_upgrade_driver_has_declared_stays_and_is_no_conflict(api: FakeApi, module: Run, force: bool) -> None:
    live = api.lists[POLICIES][0]
    image = {"repository": "nvcr.io/nvidia", "image": "driver"}
    live["spec"]["driver"] = {**image, "version": "600.10.01"}
    fields = {"f:spec": {"f:driver": {"f:version": {}}}}
    live["metadata"]["managedFields"] = [
        {"manager": "gpuops.nvidia-driver", "operation": "Apply", "fieldsV1": fields},
    ]
    wanted = {"driver": {**image, "version": "595.91.07"}, "mig": {"strategy": "mixed"}}
    run = module(spec=wanted, purge=True, force=force, wait=False)
    assert run.rc == 0 and api.lists[POLICIES][0]["spec"]["driver"]["version"] == "600.10.01", run.result
    assert api.lists[POLICIES][0]["spec"]["mig"] == {"strategy": "mixed"}
    assert any("spec.driver.version" in each and "gpuops.nvidia.upgrade_driver" in each for each in run.warnings)
    again = module(spec=wanted, purge=True, force=force, wait=False)
    assert again.result["changed"] is False


@pytest.mark.parametrize(
    ("status", "words"), [(401, "refused the credentials"), (403, "No permission: clusterpolicies is forbidden")]
)
def test_no_access(api: FakeApi, module: Run, status: int, words: str) -> None:
    say(api, "GET", status, "clusterpolicies is forbidden")
    run = module(spec={})
    assert run.rc == 1 and words in run.result["msg"] and "token-of-a-test" not in str(run.result)


def test_unreachable(run_module: Run) -> None:
    run = run_module("clusterpolicy", host="http://127.0.0.1:1", api_key="x", spec={})
    assert run.rc == 1 and run.result["reason"] == "Unreachable" and "127.0.0.1" in run.result["msg"]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_negative_timeout_is_refused(api: FakeApi, module: Run, state: str) -> None:
    run = module(state=state, wait_timeout=-1)
    assert run.rc == 1 and run.result["msg"] == "wait_timeout is -1: give 0 or more." and api.log == []


def test_credentials_of_a_proxy_are_in_no_result(api: FakeApi, module: Run) -> None:
    env = [{"name": "HTTPS_PROXY", "value": "http://ann:hunter22@proxy:3128"}]
    run = module(toolkit={"env": env}, wait=False, _ansible_diff=True)
    assert run.rc == 0 and "hunter22" not in str(run.result)
    assert api.lists[POLICIES][0]["spec"]["toolkit"]["env"] == env
    say(api, "PATCH", 400, "spec.toolkit.env: Invalid value: http://ann:hunter22@proxy:3128")
    assert "hunter22" not in str(module(toolkit={"env": env}).result)


# Ownership


def own(api: FakeApi, *managers: str, **blocks: Json) -> None:
    """Let managers have set these blocks."""
    fields = {f"f:{block}": {f"f:{key}": {} for key in value} for block, value in blocks.items()}
    entries = [{"manager": name, "operation": "Apply", "fieldsV1": {"f:spec": fields}} for name in managers]
    api.lists[POLICIES] = [policy(**blocks)]
    api.lists[POLICIES][0]["metadata"]["managedFields"] = entries


def applied(api: FakeApi) -> list[str]:
    """The fields that the last apply owns."""
    entries = api.lists[POLICIES][0]["metadata"]["managedFields"]
    fields = next(entry for entry in entries if entry["manager"] == "gpuops.nvidia")["fieldsV1"]["f:spec"]
    return sorted(f"{block[2:]}.{key[2:]}" for block, keys in fields.items() for key in keys)


def test_without_purge_a_task_sets_its_fields_and_keeps_those_of_earlier_tasks(api: FakeApi, module: Run) -> None:
    own(api, "gpuops.nvidia", mig={"strategy": "mixed"}, driver={"image": "x/y"})
    assert module(gfd={"enabled": True}, wait=False).result["changed"] is True
    assert applied(api) == ["driver.image", "gfd.enabled", "mig.strategy"]


def test_with_purge_a_task_owns_only_its_fields(api: FakeApi, module: Run) -> None:
    own(api, "gpuops.nvidia", mig={"strategy": "mixed"}, driver={"image": "x/y"})
    module(gfd={"enabled": True}, purge=True, wait=False, allow_disruption=True)
    assert applied(api) == ["driver.enabled", "gfd.enabled"]


def test_a_field_that_another_manager_keeps_is_a_warning(api: FakeApi, module: Run) -> None:
    own(api, "gpuops.nvidia", "argocd-controller", mig={"strategy": "mixed"})
    run = module(gfd={"enabled": True}, purge=True, wait=False)
    assert run.warnings == [
        wording("spec.mig.strategy is no longer given, but it stays as it is, because argocd-controller also owns it.")
    ]


# Disruption


AUTO = {
    "repository": "nvcr.io/nvidia",
    "image": "driver",
    "version": "580",
    "upgradePolicy": {"autoUpgrade": True, "waitForCompletion": {}, "podDeletion": {}, "drain": {}},
}


def test_a_new_driver_under_gpu_pods_needs_permission(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES] = [policy(driver=AUTO)]
    api.lists[ALL_PODS] = [gpu_pod()]
    run = module(driver={"version": "595"}, wait=False)
    assert run.rc == 1 and run.result["reason"] == "Disruption" and "driver.version" in run.result["msg"]
    assert "1 GPU pod (ml/train-0) on 1 node (gpu-0000)" in run.result["msg"]
    assert run.result["disruption"]["pods"] == ["ml/train-0"] and ("PATCH", False) not in writes(api)
    run = module(driver={"version": "595"}, wait=False, allow_disruption=True)
    assert run.result["changed"] is True and run.result["disruption"]["pods_total"] == 1 and run.warnings == []


@pytest.mark.parametrize("allowed", [False, True])
def test_check_mode_predicts_a_disruption(api: FakeApi, module: Run, allowed: bool) -> None:
    api.lists[POLICIES] = [policy(driver=AUTO)]
    api.lists[ALL_PODS] = [gpu_pod()]
    asked: dict[str, t.Any] = {"driver": {"version": "595"}, "allow_disruption": allowed, "_ansible_check_mode": True}
    failed = module(**asked)
    assert (failed.rc, failed.result.get("reason")) == ((0, None) if allowed else (1, "Disruption"))
    run = module(**asked, check_refusal="warn")
    assert run.rc == 0 and run.result["disruption"]["changes"][0]["field"] == "driver.version"
    stops = "" if allowed else "A run would stop here: "
    assert run.warnings[0].startswith(f"{stops}Changing driver.version interrupts 1 GPU pod (ml/train-0)")
    remedy = "Drain the nodes first, or set allow_disruption: true (operator_allow_disruption in the role operator)."
    assert run.warnings[0].endswith(remedy) is not allowed


def test_a_check_fails_or_warns_if_nobody_knows_what_a_change_interrupts(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES] = [policy(driver=AUTO)]
    api.answer = lambda method, path: refusal(403, "pods is forbidden") if path == ALL_PODS else None
    assert module(driver={"version": "595"}, _ansible_check_mode=True).result["reason"] == "Forbidden"
    run = module(driver={"version": "595"}, check_refusal="warn", _ansible_check_mode=True)
    assert run.rc == 0 and "may interrupt GPU pods" in run.warnings[0]
    assert module(driver={"version": "595"}, wait=False).result["reason"] == "Forbidden"
    assert module(driver={"version": "595"}, wait=False, allow_disruption=True).rc == 0


def test_a_new_driver_without_gpu_pods_needs_none(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES] = [policy(driver=AUTO)]
    run = module(driver={"version": "595"}, wait=False)
    assert run.rc == 0 and run.result["disruption"]["pods_total"] == 0 and run.warnings == []


# The schema of the next CRD


def test_the_next_schema_counts_in_check_mode_only(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES] = []
    blocks: Json = {block: {} for block in ("fresh", *policy()["spec"])}
    schema = {"properties": {"spec": {"properties": blocks}}}
    run = module(spec={"fresh": {}}, schema=schema, _ansible_check_mode=True)
    assert run.rc == 1 and "has no field spec.daemonsets, spec.nodeStatusExporter, spec.operator" in run.result["msg"]
    blocks.update(daemonsets={}, nodeStatusExporter={}, operator={})
    run = module(spec={"fresh": {}}, schema=schema, _ansible_check_mode=True)
    assert run.rc == 0 and run.result["clusterpolicy"]["spec"]["fresh"] == {} and run.warnings == []
    assert module(spec={"stale": {}}, schema=schema, wait=False).rc == 0


# Absent


def gpu_pod() -> Json:
    return {
        "metadata": {"name": "train-0", "namespace": "ml"},
        "spec": {"nodeName": "gpu-0000", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    }


@pytest.mark.parametrize("check", [True, False])
def test_a_second_run_after_deletion_changes_nothing(api: FakeApi, module: Run, check: bool) -> None:
    api.lists[DAEMONSETS] = []
    run = module(state="absent", _ansible_check_mode=check, _ansible_diff=True)
    assert (
        run.rc == 0
        and run.result["changed"] is True
        and run.result["gpu_pods"] == 0
        and run.result["diff"]["after"] == {}
    )
    assert writes(api) == [("DELETE", check)] and len(api.lists[POLICIES]) == int(check)
    if not check:
        assert module(state="absent").result["changed"] is False


def test_pods_that_would_lose_their_driver_need_permission(api: FakeApi, module: Run) -> None:
    api.lists[DAEMONSETS] = []
    api.lists[ALL_PODS] = [gpu_pod(), {**gpu_pod(), "spec": {"containers": []}}]
    run = module(state="absent")
    assert run.rc == 1 and run.result["gpu_pods"] == 1 and "1 running pod uses a GPU (ml/train-0)" in run.result["msg"]
    assert "allow_disruption: true" in run.result["msg"] and writes(api) == []
    selector = next(query["fieldSelector"] for dummy, path, query in api.log if path == ALL_PODS)
    assert selector == "metadata.namespace!=gpu-operator,status.phase!=Succeeded,status.phase!=Failed"
    assert module(state="absent", allow_disruption=True).result["gpu_pods"] == 1 and writes(api) == [("DELETE", False)]


def test_a_removal_is_refused_if_nobody_knows_whether_pods_use_gpus(api: FakeApi, module: Run) -> None:
    api.lists[DAEMONSETS] = []
    api.answer = lambda method, path: refusal(403, "pods is forbidden") if path == ALL_PODS else None
    run = module(state="absent")
    assert run.result["reason"] == "Forbidden" and "may not list pods" in run.result["msg"] and writes(api) == []
    assert module(state="absent", allow_disruption=True).result["gpu_pods"] is None
    api.lists[POLICIES] = [policy()]
    api.answer = lambda method, path: None
    second = gpu_pod()
    second["metadata"]["name"] = "train-1"
    api.lists[ALL_PODS] = [gpu_pod(), second]
    assert "2 running pods use a GPU" in module(state="absent").result["msg"]


def test_operands_that_stay_are_named(api: FakeApi, module: Run) -> None:
    run = module(state="absent", wait_timeout=0)
    assert run.rc == 1 and run.result["reason"] == "TimedOut" and "nvidia-driver-daemonset" in run.result["msg"]


def test_a_finalizer_that_holds_it_is_named(api: FakeApi, module: Run) -> None:
    api.lists[DAEMONSETS] = []
    held = copy.deepcopy(api.lists[POLICIES][0])
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.answer = lambda method, path: (200, held) if path == f"{POLICIES}/cluster-policy" else None
    assert "example.com/hold" in module(state="absent", wait_timeout=0).result["msg"]


def test_a_tolerance_without_a_meaning_is_refused_before_anything_is_written(api: FakeApi, module: Run) -> None:
    run = module(mig={"strategy": "mixed"}, node_selector="pool=a,")
    assert (
        run.rc == 1
        and run.result["reason"] == "Invalid"
        and run.result["msg"]
        == wording(
            "node_selector 'pool=a,' is not a label selector of Kubernetes: the part 'pool=a,' cannot be read. Write for example pool=a,zone in (x,y),!spot."
        )
    )
    assert writes(api) == []


def test_the_wait_after_an_edit_tolerates_what_it_may(api: FakeApi, module: Run) -> None:
    api.lists[NODES][1]["status"]["conditions"][0]["status"] = "Unknown"
    assert module(wait=False).result["verdict"]["reasons"][0]["code"] == "NodesNotReady"
    assert module(wait=False, max_unready="1").result["verdict"]["reasons"][0]["code"] != "NodesNotReady"
