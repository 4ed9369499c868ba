# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import copy
import functools
import json
import typing as t

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, DEPLOYMENTS, NODES, POLICIES, FakeApi, refusal
from tests.unit.fakes.stack import node as gpu_node
from tests.unit.fakes.stack import workload
from tests.unit.fakes.upgrades import registry as fake_registry

DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
SECRETS = "/api/v1/namespaces/gpu-operator/secrets"
OLD, NEW = "580.126.20", "595.91.07"
BLOCKS: dict[str, dict] = {"waitForCompletion": {}, "podDeletion": {}, "drain": {}}
OS_ID = "feature.node.kubernetes.io/system-os_release.ID"
OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"


@pytest.fixture
def registry() -> t.Iterator[fake_registry.FakeRegistry]:
    with fake_registry.serving() as made:
        yield made


@pytest.fixture
def declare(run_module: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry) -> t.Callable[..., t.Any]:
    """The module against a stack of v26.7 whose driver is `OLD`, from a registry that has both drivers."""
    for version in (OLD, NEW):
        registry.push("nvidia/driver", f"{version}-ubuntu24.04")
    api.lists[DRIVERS] = []
    api.lists[BUDGETS] = []
    api.lists[SECRETS] = []
    policy = api.lists[POLICIES][0]
    policy["spec"] |= {
        "driver": {
            "repository": f"{registry.host}/nvidia",
            "image": "driver",
            "version": OLD,
            "upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "25%", **BLOCKS},
        },
        "daemonsets": {"tolerations": [{"operator": "Exists"}], "priorityClassName": "system-node-critical"},
    }
    run_operator(api, "v26.7.0")
    api.table = [
        [f"nvidia-operator-validator-{number}", "1/1", "Running", 0, "1d", "", f"gpu-{number:04}"]
        for number in range(4)
    ]
    return functools.partial(
        run_module, "driver_container", wait=False, registry={"insecure": [registry.host]}, **api.connection
    )


def run_operator(api: FakeApi, version: str) -> None:
    containers = [{"name": "gpu-operator", "image": f"nvcr.io/nvidia/gpu-operator:{version}"}]
    api.lists[DEPLOYMENTS][0]["spec"]["template"]["spec"] = {"containers": containers}


def delegate(api: FakeApi, *drivers: dict) -> None:
    """Leave the driver to NVIDIADrivers."""
    api.lists[POLICIES][0]["spec"]["driver"]["useNvidiaDriverCRD"] = True
    api.lists[DRIVERS] = list(drivers)


def nvidiadriver(name: str, registry: fake_registry.FakeRegistry, **spec: t.Any) -> dict:
    own = {"driverType": "gpu", "default": False, "repository": f"{registry.host}/nvidia", "image": "driver"}
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "NVIDIADriver",
        "metadata": {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {**own, "version": OLD, **spec},
    }


def driver_of(api: FakeApi) -> dict:
    return t.cast(dict, api.lists[POLICIES][0]["spec"]["driver"])


def writes(api: FakeApi) -> list[str]:
    return [
        f"{method} {path.rpartition('/')[2]}"
        for method, path, query in api.log
        if method != "GET" and "dryRun" not in query
    ]


def finding(run: t.Any, check: str, level: str = "failure") -> dict:
    return t.cast(
        dict, next(item for item in run.result["findings"] if (item["check"], item["level"]) == (check, level))
    )


def actions(run: t.Any) -> dict[str, str]:
    return {row["node"]: row["action"] for row in run.result["plan"]}


# ---- the ClusterPolicy --------------------------------------------------------------------------------------------


def test_only_the_fields_that_are_given_are_written(declare: t.Callable, api: FakeApi) -> None:
    before = copy.deepcopy(api.lists[POLICIES][0]["spec"])
    run = declare(version=NEW)
    assert run.rc == 0 and run.result["changed"] is True, run.result
    assert api.lists[POLICIES][0]["spec"] == {**before, "driver": {**before["driver"], "version": NEW}}
    assert writes(api) == ["PATCH cluster-policy"] and run.result["resource"] == "ClusterPolicy"
    assert run.result["objects"] == [
        {"kind": "ClusterPolicy", "name": "cluster-policy", "action": "change", "taken_from": []}
    ]
    assert actions(run) == {"gpu-0000": "replace", "gpu-0001": "replace"}
    assert run.result["checks"]["failures"] == 0
    api.log.clear()
    again = declare(version=NEW)
    assert again.result["changed"] is False and writes(api) == [] and again.result["findings"] == []
    assert actions(again) == {"gpu-0000": "nothing", "gpu-0001": "nothing"}


def test_check_mode_says_which_nodes_and_pods_would_go_and_writes_nothing(declare: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train"), workload("web", gpus=0)]
    run = declare(version=NEW, allow_disruption=True, _ansible_check_mode=True, _ansible_diff=True)
    assert run.rc == 0 and run.result["changed"] is True and writes(api) == []
    rows = {row["node"]: row for row in run.result["plan"]}
    assert rows["gpu-0000"]["pods"] == ["default/train"] and rows["gpu-0001"]["pods"] == []
    assert rows["gpu-0000"]["why"] == "driver.version changes" and rows["gpu-0000"]["image"].endswith(
        f"{NEW}-ubuntu24.04"
    )
    assert "interrupts 1 GPU pod (default/train)" in run.warnings[-1] and run.result["disruption"]["pods"] == [
        "default/train"
    ]
    assert run.result["diff"]["after"]["ClusterPolicy cluster-policy"]["spec"]["driver"]["version"] == NEW


def test_gpu_pods_need_a_permission(declare: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    run = declare(version=NEW)
    assert run.rc == 1 and run.result["reason"] == "Disruption" and "default/train" in run.result["msg"]
    assert writes(api) == []
    assert declare(version=NEW, allow_disruption=True).rc == 0 and driver_of(api)["version"] == NEW


def test_a_user_who_may_not_list_pods_learns_that_the_pods_are_unknown(declare: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: refusal(403, "no", "Forbidden") if path in (ALL_PODS, BUDGETS) else None
    run = declare(version=NEW)
    assert run.rc == 1 and run.result["reason"] == "Forbidden" and "may not list pods" in run.result["msg"]
    run = declare(version=NEW, allow_disruption=True)
    assert run.rc == 0 and run.result["disruption"]["pods_total"] is None
    assert "may not list pods" in finding(run, "gpu_pods", "warning")["message"]


def test_a_field_of_the_role_operator_is_taken_over_and_one_of_others_is_not(declare: t.Callable, api: FakeApi) -> None:
    owner = {"manager": "gpuops.nvidia"}
    taken: list[str] = []

    def answer(method: str, path: str) -> t.Any:
        query = api.log[-1][2]
        if method == "PATCH" and path.endswith("/cluster-policy"):
            if query["force"] == "false":
                message = f'conflict with "{owner["manager"]}" using nvidia.com/v1'
                causes = [{"reason": "FieldManagerConflict", "message": message, "field": ".spec.driver.version"}]
                return refusal(409, "Apply failed with 1 conflict", "Conflict", causes)
            taken.append(query["fieldManager"])
        return None

    api.answer = answer
    run = declare(version=NEW)
    assert run.rc == 0 and driver_of(api)["version"] == NEW and set(taken) == {"gpuops.nvidia-driver"}
    assert run.result["objects"][0]["taken_from"] == ["spec.driver.version (gpuops.nvidia)"]
    assert not any("declared here" in warning for warning in run.warnings)
    owner["manager"] = "helm"
    run = declare(version=OLD)
    assert run.rc == 1 and run.result["reason"] == "Conflict" and "force_conflicts" in run.result["msg"]
    assert run.result["conflicts"] == [{"field": "spec.driver.version", "manager": "helm"}]
    assert declare(version=OLD, force_conflicts=True).rc == 0 and driver_of(api)["version"] == OLD


def test_a_cosmetic_change_only_starts_pods_again_from_v26_7_on(declare: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    run = declare(image_pull_policy="Always")
    assert run.rc == 0 and actions(run) == {"gpu-0000": "restart", "gpu-0001": "restart"}
    assert run.result["disruption"]["pods"] == []
    run_operator(api, "v26.3.3")
    assert declare(image_pull_policy="IfNotPresent").result["reason"] == "Disruption"


# ---- images and registries ----------------------------------------------------------------------------------------


def three_systems(api: FakeApi) -> None:
    """Give the cluster a third and a fourth node, and three systems."""
    api.lists[NODES] += [gpu_node(2), gpu_node(3)]
    for number, system, version in ((1, "ubuntu", "22.04"), (2, "rhel", "9.4"), (3, "rhel", "9.6")):
        api.lists[NODES][number]["metadata"]["labels"] |= {OS_ID: system, OS_VERSION: version}


def test_an_image_that_is_missing_for_one_pool_of_three_stops_the_run(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    three_systems(api)
    delegate(api, nvidiadriver("default", registry, default=True))
    for system in ("ubuntu22.04", "ubuntu24.04"):
        registry.push("nvidia/driver", f"{NEW}-{system}")
    run = declare(version=NEW)
    assert run.rc == 1 and run.result["reason"] == "ChecksFailed" and writes(api) == []
    missing = f"{registry.host}/nvidia/driver:{NEW}-rhel9"
    assert f"{missing} does not exist" in run.result["msg"] and run.result["changed"] is False
    assert finding(run, "image")["nodes"] == ["gpu-0002", "gpu-0003"]
    states = {pool["system"]: [image["state"] for image in pool["images"]] for pool in run.result["pools"]}
    assert states == {"rhel9": ["missing"], "ubuntu22.04": ["exists"], "ubuntu24.04": ["exists"]}
    registry.push("nvidia/driver", f"{NEW}-rhel9")
    assert declare(version=NEW).rc == 0 and writes(api) == ["PATCH default"]


def test_a_clusterpolicy_has_one_image_for_all_systems(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    three_systems(api)
    run = declare(version=NEW)
    found = finding(run, "operating_system")
    assert run.rc == 1 and found["nodes"] == ["gpu-0001", "gpu-0002", "gpu-0003"]
    assert "one image for ubuntu24.04" in found["message"] and "pools" in found["remedy"]


def test_a_registry_that_is_down_stops_the_run_unless_it_may_be_unknown(declare: t.Callable, api: FakeApi) -> None:
    with fake_registry.serving() as other:
        host = other.host
    run = declare(version=NEW, repository=f"{host}/nvidia", registry={"insecure": [host], "timeout": 2})
    assert run.rc == 1 and f"{host} cannot be reached" in run.result["msg"] and writes(api) == []
    run = declare(version=NEW, repository=f"{host}/nvidia", registry={"insecure": [host], "mode": "lenient"})
    assert run.rc == 0 and any(f"{host} cannot be reached" in text for text in run.warnings)
    run = declare(version=OLD, repository=f"{host}/nvidia", registry={"mode": "offline"})
    assert run.rc == 0 and finding(run, "image", "warning")["message"].endswith("(offline).")


def test_the_pull_secret_of_the_cluster_opens_a_private_registry(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    registry.auth = "token"
    run = declare(version=NEW)
    assert run.rc == 1 and "only to known users" in run.result["msg"]
    auths = {registry.host: {"auth": base64.b64encode(f"{registry.user}:{registry.password}".encode()).decode()}}
    content = base64.b64encode(json.dumps({"auths": auths}).encode()).decode()
    api.lists[SECRETS] = [{"metadata": {"name": "ngc"}, "data": {".dockerconfigjson": content}}]
    run = declare(version=NEW, image_pull_secrets=["ngc"])
    assert run.rc == 0, run.result
    assert registry.password not in json.dumps(run.result) and registry.token not in json.dumps(run.result)


def test_wrong_credentials_stop_the_run_and_stay_hidden(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    registry.auth = "token"
    given = {"insecure": [registry.host], "username": "$oauthtoken", "password": "wrong-one-of-a-test"}
    run = declare(version=NEW, registry=given)
    assert run.rc == 1 and "refuses the credentials" in run.result["msg"] and writes(api) == []
    assert "wrong-one-of-a-test" not in json.dumps(run.result)
    run = declare(version=NEW, registry={**given, "mode": "lenient", "password": registry.password})
    assert run.rc == 0 and registry.password not in json.dumps(run.result)


def test_a_mirror_is_asked_in_the_place_of_its_registry(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    registry.push("mirror/driver", f"{NEW}-ubuntu24.04")
    mirrors = {"nvcr.io/nvidia": f"{registry.host}/mirror"}
    asked = {"insecure": [registry.host], "mirrors": mirrors}
    run = declare(version=NEW, repository="nvcr.io/nvidia", registry=asked)
    assert run.rc == 0, run.result
    (pool,) = run.result["pools"]
    assert pool["image"] == f"nvcr.io/nvidia/driver:{NEW}-ubuntu24.04"
    assert pool["images"][0]["asked"] == f"{registry.host}/mirror/driver:{NEW}-ubuntu24.04"


def test_an_image_for_another_architecture_stops_the_run(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    api.lists[NODES][1]["status"]["nodeInfo"]["architecture"] = "arm64"
    registry.push("nvidia/driver", f"{NEW}-ubuntu24.04", "amd64")
    run = declare(version=NEW)
    assert run.rc == 1 and "is not published for arm64" in run.result["msg"]
    registry.push("nvidia/driver", f"{NEW}-ubuntu24.04", "amd64", "arm64")
    assert declare(version=NEW).rc == 0


# ---- versions, branches and module types --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"version": NEW, "branch": "595"}, "are both given"),
        ({"version": NEW, "use_precompiled": True}, "Set branch: '595'"),
        ({"version": "sha256:abc", "use_precompiled": True}, "version is a digest"),
        ({"version": "595", "use_precompiled": False}, "Set the whole version"),
        ({"branch": "595", "use_precompiled": False}, "branch is for precompiled"),
        ({"branch": "595.91", "use_precompiled": True}, "alone, for example 595"),
        ({"version": "595"}, "which is a branch"),
        ({"branch": "595"}, "which is a branch"),
        ({"use_precompiled": True}, "published for branches"),
    ],
)
def test_versions_and_branches_are_not_mixed_up(declare: t.Callable, api: FakeApi, options: dict, said: str) -> None:
    run = declare(**options)
    assert run.rc == 1 and said in run.result["msg"] and writes(api) == []


def test_precompiled_drivers_have_an_image_for_each_kernel(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    api.lists[NODES][1]["status"]["nodeInfo"]["kernelVersion"] = "6.8.0-60-generic"
    registry.push("nvidia/driver", "595-6.8.0-31-generic-ubuntu24.04")
    run = declare(use_precompiled=True, branch="595")
    assert run.rc == 1 and "595-6.8.0-60-generic-ubuntu24.04 does not exist" in run.result["msg"]
    registry.push("nvidia/driver", "595-6.8.0-60-generic-ubuntu24.04")
    run = declare(use_precompiled=True, branch="595")
    assert run.rc == 0 and [pool["kernel"] for pool in run.result["pools"]] == ["6.8.0-31-generic", "6.8.0-60-generic"]


def test_proprietary_modules_are_refused_where_the_gpu_needs_open_ones(declare: t.Callable, api: FakeApi) -> None:
    api.lists[NODES][1]["metadata"]["labels"] |= {
        "nvidia.com/gpu.product": "NVIDIA-B200",
        "nvidia.com/gpu.compute.major": "10",
        "nvidia.com/gpu.compute.minor": "0",
    }
    run = declare(kernel_module_type="proprietary")
    assert run.rc == 1 and run.result["msg"] == wording(
        "ClusterPolicy cluster-policy: the proprietary modules do not support NVIDIA-B200. Set kernel_module_type: open or auto. To continue anyway, leave these checks out (skip: gpus)."
    )
    assert finding(run, "gpus")["nodes"] == ["gpu-0001"]
    run = declare(kernel_module_type="proprietary", skip=["gpus"])
    assert run.rc == 0 and driver_of(api)["kernelModuleType"] == "proprietary"


def test_a_module_type_that_does_not_exist_is_refused_with_the_right_field(declare: t.Callable) -> None:
    run = declare(kernel_module_type="precompiled")
    assert run.rc == 1 and "use_precompiled: true" in run.result["msg"]


# ---- NVIDIADrivers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        ([{"name": "a", "default": True}, {"name": "b", "default": True}], "all have default: true"),
        ([{"name": "a", "default": True, "node_selector": {"x": "y"}}], "default: true and a node_selector"),
        ([{"name": "a"}, {"name": "a"}], "is given twice"),
        ([{"name": "A_b"}], "cannot be the name of an object"),
        ([{"name": "a"}, {"name": "b"}], "all select node gpu-0000"),
        ([{"name": "a", "node_selector": {OS_VERSION: "24.04"}}, {"name": "b"}], "all select node gpu-0000"),
        ([{"name": "a", "node_selector": {"kubernetes.io/hostname": "none"}}], "they get no driver"),
        ([{"name": "a", "node_selector": {"nvidia.com/gpu-operator.driver.owner": "a"}}], "which is reserved"),
        ([{"name": "a", "default": True, "version": NEW, "branch": "595"}], "pools: a: version"),
    ],
)
def test_every_node_must_belong_to_one_pool(declare: t.Callable, api: FakeApi, pools: list, said: str) -> None:
    run = declare(pools=pools)
    told = [run.result["msg"], *(finding["message"] for finding in run.result.get("findings", []))]
    assert run.rc == 1 and any(said in text for text in told) and writes(api) == []


def test_a_second_default_beside_an_existing_one_is_refused(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    delegate(api, nvidiadriver("first", registry, default=True))
    run = declare(pools=[{"name": "second", "default": True, "version": OLD, "repository": f"{registry.host}/nvidia"}])
    assert run.rc == 1 and "NVIDIADrivers first, second all have default: true" in run.result["msg"]


def test_the_driver_moves_to_pools_with_all_of_its_settings(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    driver_of(api).update({"repoConfig": {"configMapName": "repos"}, "licensingConfig": {"secretName": "licence"}})
    pools = [{"name": "default", "default": True}, {"name": "new", "version": NEW, "node_selector": {"pool": "new"}}]
    api.lists[NODES][1]["metadata"]["labels"]["pool"] = "new"
    check = declare(pools=pools, _ansible_check_mode=True)
    assert check.rc == 0 and check.result["changed"] is True and writes(api) == []
    assert check.result["move"] == "to NVIDIADriver" and actions(check) == {
        "gpu-0000": "replace",
        "gpu-0001": "replace",
    }
    run = declare(pools=pools)
    assert run.rc == 0, run.result
    assert writes(api) == ["PATCH default", "PATCH new", "PATCH cluster-policy"]
    made = {item["metadata"]["name"]: item["spec"] for item in api.lists[DRIVERS]}
    assert made["default"] == {
        "driverType": "gpu", "default": True,
        "repository": f"{registry.host}/nvidia", "image": "driver", "version": OLD,
        "upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "25%", **BLOCKS},
        "repoConfig": {"name": "repos"}, "licensingConfig": {"secretName": "licence", "nlsEnabled": False},
        "tolerations": [{"operator": "Exists"}], "priorityClassName": "system-node-critical",
    }  # fmt: skip
    assert made["new"]["version"] == NEW and made["new"]["nodeSelector"] == {"pool": "new"}
    assert driver_of(api)["useNvidiaDriverCRD"] is True and driver_of(api)["version"] == OLD
    for again in (declare(pools=pools, _ansible_check_mode=True), declare(pools=pools)):
        assert again.result["changed"] is False and again.result["move"] == ""


def test_a_move_needs_an_operator_that_lets_the_old_pods_stay(declare: t.Callable, api: FakeApi) -> None:
    run_operator(api, "v26.3.3")
    run = declare(resource="NVIDIADriver")
    assert run.rc == 1 and "Before v26.7" in run.result["msg"] and writes(api) == []


def test_the_way_back_leaves_the_old_pods_to_the_rollout(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    delegate(api, nvidiadriver("default", registry, default=True, version=NEW, kernelModuleType="open"))
    pool = copy.deepcopy(api.lists[DAEMONSETS][0])
    pool["metadata"] |= {
        "name": "nvidia-gpu-driver-ubuntu24.04-abc", "labels": {"app.kubernetes.io/component": "nvidia-driver"},
        "ownerReferences": [{"kind": "NVIDIADriver", "name": "default"}],
    }  # fmt: skip
    api.lists[DAEMONSETS] = [pool, *api.lists[DAEMONSETS][1:]]
    check = declare(resource="ClusterPolicy", _ansible_check_mode=True)
    assert check.rc == 0 and check.result["changed"] is True and writes(api) == []
    run = declare(resource="ClusterPolicy")
    assert run.rc == 0 and run.result["move"] == "to ClusterPolicy", run.result
    assert writes(api) == ["PATCH cluster-policy", "DELETE default", "DELETE nvidia-gpu-driver-ubuntu24.04-abc"]
    assert driver_of(api)["useNvidiaDriverCRD"] is False and driver_of(api)["version"] == NEW
    assert driver_of(api)["kernelModuleType"] == "open" and api.lists[DRIVERS] == []
    again = declare(resource="ClusterPolicy")
    assert again.rc == 0 and again.result["changed"] is False, again.result


def test_a_way_back_that_was_cut_off_goes_on(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    """The ClusterPolicy has its driver again, and an NVIDIADriver with its DaemonSet is still there."""
    pool = copy.deepcopy(api.lists[DAEMONSETS][0])
    pool["metadata"] |= {
        "name": "nvidia-gpu-driver-ubuntu24.04-abc", "labels": {"app.kubernetes.io/component": "nvidia-driver"},
        "ownerReferences": [{"kind": "NVIDIADriver", "name": "default"}],
    }  # fmt: skip
    api.lists[DAEMONSETS].append(pool)
    api.lists[DRIVERS] = [nvidiadriver("default", registry, default=True), nvidiadriver("ready-made", registry)]
    assert declare().result["changed"] is False, "nobody has asked for the way back"
    run = declare(resource="ClusterPolicy")
    assert run.rc == 0 and writes(api) == ["DELETE default", "DELETE nvidia-gpu-driver-ubuntu24.04-abc"]
    assert [item["metadata"]["name"] for item in api.lists[DRIVERS]] == ["ready-made"]


def test_nodes_that_change_their_nvidiadriver_must_be_empty(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    """The operator deletes their driver pods at once, and evicts nothing; the new driver cannot start then."""
    delegate(api, nvidiadriver("default", registry, default=True))
    api.lists[NODES][1]["metadata"]["labels"]["pool"] = "new"
    api.lists[ALL_PODS] = [workload("train", number=1)]
    new = {"name": "new", "node_selector": {"pool": "new"}, "version": NEW, "repository": f"{registry.host}/nvidia"}
    run = declare(pools=[{"name": "default"}, new], allow_disruption=True)
    assert run.rc == 1 and "default/train" in finding(run, "move")["message"] and writes(api) == []
    assert finding(run, "move")["nodes"] == ["gpu-0001"]
    api.lists[ALL_PODS] = []
    assert declare(pools=[{"name": "default"}, new]).rc == 0


def test_what_cannot_be_changed_needs_a_new_pool(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    delegate(api, nvidiadriver("default", registry, default=True, usePrecompiled=False))
    run = declare(use_precompiled=True, branch="595")
    assert run.rc == 1 and run.result["msg"] == wording(
        "usePrecompiled of NVIDIADriver default cannot be changed once it exists. Give the pool another name, and set purge: true to delete the old one."
    )


def test_purge_deletes_only_what_pools_does_not_name(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    delegate(
        api, nvidiadriver("default", registry, default=True), nvidiadriver("old", registry, nodeSelector={"a": "b"})
    )
    assert declare(pools=[{"name": "default"}]).result["changed"] is False
    run = declare(pools=[{"name": "default"}], purge=True)
    assert run.rc == 0 and writes(api) == ["DELETE old"]
    assert declare(purge=True).result["msg"] == wording(
        "purge deletes the NVIDIADrivers that pools does not name: give pools."
    )


def test_several_nvidiadrivers_must_be_named(
    declare: t.Callable, api: FakeApi, registry: fake_registry.FakeRegistry
) -> None:
    delegate(api, nvidiadriver("a", registry, default=True), nvidiadriver("b", registry, nodeSelector={"a": "b"}))
    run = declare(version=NEW)
    assert run.rc == 1 and run.result["msg"] == wording(
        "There are several NVIDIADrivers (a, b): name those that you mean in pools."
    )


# ---- what stands in the way ---------------------------------------------------------------------------------------


def test_a_bare_pod_stops_the_run_unless_the_policy_permits_its_end(declare: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("alone", controller="")]
    run = declare(version=NEW, allow_disruption=True)
    assert run.rc == 1 and "default/alone on gpu-0000" in finding(run, "gpu_pods")["message"]
    assert "upgrade_policy.pod_deletion.force" in finding(run, "gpu_pods")["remedy"]
    assert declare(version=NEW, allow_disruption=True, upgrade_policy={"pod_deletion": {"force": True}}).rc == 0


def test_budgets_that_block_for_ever_stop_the_run(declare: t.Callable, api: FakeApi) -> None:
    pod = workload("train")
    pod["metadata"]["labels"] = {"app": "train"}
    api.lists[ALL_PODS] = [pod]
    budget = {
        "metadata": {"namespace": "default", "name": "never"},
        "spec": {"selector": {"matchLabels": {"app": "train"}}, "maxUnavailable": 0},
        "status": {"disruptionsAllowed": 0, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1},
    }
    api.lists[BUDGETS] = [budget]
    run = declare(version=NEW, allow_disruption=True)
    assert run.rc == 1 and "default/never always refuses" in finding(run, "gpu_pods")["message"]
    budget["status"] = {"disruptionsAllowed": 1, "expectedPods": 1, "desiredHealthy": 0}
    assert declare(version=NEW, allow_disruption=True).rc == 0


def test_a_node_that_is_down_uses_up_the_only_place(declare: t.Callable, api: FakeApi) -> None:
    api.lists[NODES][1]["status"]["conditions"][0]["status"] = "Unknown"
    run = declare(version=NEW, wait=False)
    assert run.rc == 1 and "no other node begins" in run.result["msg"]
    assert declare(version=NEW, upgrade_policy={"max_unavailable": "2"}).rc == 0


def test_missing_pods_of_operands_are_named(declare: t.Callable, api: FakeApi) -> None:
    driver = next(item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == "nvidia-driver-daemonset")
    driver["status"]["currentNumberScheduled"] = 1
    api.table = api.table[:1]
    run = declare(version=NEW)
    assert run.rc == 1 and "nvidia-driver-daemonset has 1 of 2 pods" in finding(run, "operands")["message"]
    assert finding(run, "validators")["nodes"] == ["gpu-0001"]


def test_an_incomplete_policy_of_upgrades_stops_the_run(declare: t.Callable, api: FakeApi) -> None:
    del driver_of(api)["upgradePolicy"]["podDeletion"]
    run = declare(version=NEW)
    assert run.rc == 1 and "upgrade_policy.pod_deletion" in finding(run, "upgrade_policy")["remedy"]
    assert declare(version=NEW, upgrade_policy={"pod_deletion": {}}).rc == 0


def test_a_check_that_is_to_warn_goes_on_after_a_finding(declare: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("alone", controller="")]
    assert declare(version=NEW, _ansible_check_mode=True).result["reason"] == "ChecksFailed"
    run = declare(version=NEW, check_refusal="warn", _ansible_check_mode=True)
    assert run.rc == 0 and run.result["changed"] is True and run.result["checks"]["failures"] == 1
    assert any(text.startswith("A run would stop") for text in run.warnings)


# ---- what is not there --------------------------------------------------------------------------------------------


def test_without_the_crd_or_a_clusterpolicy_the_next_step_is_named(declare: t.Callable, api: FakeApi) -> None:
    assert declare(policy_name="other").result["reason"] == "NotFound"
    policies = api.lists[POLICIES]
    api.lists[POLICIES] = []
    assert declare().result["msg"] == wording(
        "The cluster has no ClusterPolicy and no GPUCluster. Install the GPU Operator first, or correct policy_name."
    )
    del api.lists[POLICIES]
    assert declare().result["reason"] == "CRDMissing"
    api.lists[POLICIES] = [*policies, {**copy.deepcopy(policies[0]), "metadata": {"name": "second"}}]
    assert declare().result["reason"] == "SecondClusterPolicy"
