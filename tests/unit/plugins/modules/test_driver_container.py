# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import functools
import typing as t

import pytest

from tests.unit.fakes import registry as fake_registry
from tests.unit.fakes.api import ALL_PODS, DEPLOYMENTS, POLICIES, FakeApi
from tests.unit.fakes.stack import workload

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
    run = declare(version=NEW, _ansible_check_mode=True, _ansible_diff=True)
    assert run.rc == 0 and run.result["changed"] is True and writes(api) == []
    rows = {row["node"]: row for row in run.result["plan"]}
    assert rows["gpu-0000"]["pods"] == ["default/train"] and rows["gpu-0001"]["pods"] == []
    assert rows["gpu-0000"]["why"] == "driver.version changes" and rows["gpu-0000"]["image"].endswith(
        f"{NEW}-ubuntu24.04"
    )
    assert "allow_disruption" in run.warnings[-1] and run.result["disruption"]["pods"] == ["default/train"]
    assert run.result["diff"]["after"]["ClusterPolicy cluster-policy"]["spec"]["driver"]["version"] == NEW


def test_gpu_pods_need_a_permission(declare: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    run = declare(version=NEW)
    assert run.rc == 1 and run.result["reason"] == "Disruption" and "default/train" in run.result["msg"]
    assert writes(api) == []
    assert declare(version=NEW, allow_disruption=True).rc == 0 and driver_of(api)["version"] == NEW
