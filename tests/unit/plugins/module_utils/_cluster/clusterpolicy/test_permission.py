# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPU pods a change interrupts, and whether that is allowed."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption, permission
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, DEPLOYMENTS, NODES, FakeApi, refusal
from tests.unit.fakes.stack import policy, workload

AUTO = {"autoUpgrade": True}


def assess(
    api: FakeApi, before: Json | None, after: Json, acting: str | None = None, image: str | None = None
) -> permission.Disruption:
    existing = None if before is None else policy(**before)
    after = policy(**after)["spec"]
    return permission.disruption_of(Cluster(api.connection), "gpu-operator", existing, after, acting, image)


def driver(version: str, **more: t.Any) -> Json:
    return {"driver": {"version": version, "upgradePolicy": AUTO, **more}}


def set_image(api: FakeApi, image: str, **labels: str) -> None:
    deployment = api.lists[DEPLOYMENTS][0]
    deployment["metadata"]["labels"] = labels
    deployment["spec"]["template"]["spec"] = {"containers": [{"name": "gpu-operator", "image": image}]}


def test_gpu_pods_on_the_nodes_concerned_are_named(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train-0", 1), workload("web", 0, gpus=0), workload("train-1", 1)]
    found = assess(api, driver("580"), driver("595"))
    assert found.as_result() == {
        "changes": [
            {
                "field": "driver.version",
                "before": "580",
                "after": "595",
                "effect": wording("the operator evicts GPU pods and replaces the driver, node by node"),
                "operand": "driver",
            }
        ],
        "pods": ["default/train-0", "default/train-1"],
        "pods_total": 2,
        "nodes": ["gpu-0001"],
        "nodes_total": 1,
    }
    with pytest.raises(GpuOpsError) as e:
        permission.permit(found, allowed=False, check_mode=False)
    facts = (
        "Changing driver.version interrupts 2 GPU pods (default/train-0, default/train-1) on 1 node (gpu-0001): "
        "the operator evicts GPU pods and replaces the driver, node by node."
    )
    remedy = "Drain the nodes first, or set allow_disruption: true (operator_allow_disruption in the role operator)."
    assert e.value.msg == f"{facts} {remedy}"
    assert e.value.reason == "Disruption" and e.value.details["disruption"]["pods_total"] == 2
    assert permission.permit(found, allowed=True, check_mode=False) == ""
    assert permission.permit(found, allowed=True, check_mode=True) == facts
    with pytest.raises(GpuOpsError):
        permission.permit(found, allowed=False, check_mode=True)
    warned = permission.permit(found, allowed=False, check_mode=True, warns=True)
    assert warned == f"{WOULD_STOP}{facts} {remedy}"


def test_changes_outside_of_the_clusterpolicy_count_with_those_inside(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train-0", 0), workload("train-1", 1)]
    for number, owner in enumerate(("default", "pool-b")):
        api.lists[NODES][number]["metadata"]["labels"]["nvidia.com/gpu-operator.driver.owner"] = owner
    own = disruption.Interruption("NVIDIADriver pool-b version", "580", "595", disruption.EVICTS, driver="pool-b")
    asked: list[disruption.Operator] = []

    def more(operator: disruption.Operator) -> list[disruption.Interruption]:
        asked.append(operator)
        return [own]

    spec = policy()["spec"]
    for existing in (policy(), None):
        found = permission.disruption_of(Cluster(api.connection), "gpu-operator", existing, spec, more=more)
        assert (found.changes, found.nodes) == ((own,), ["gpu-0001"])
    assert found.as_result()["changes"][0]["driver"] == "pool-b"
    worst = disruption.Operator(outdated=True, toolkit_outdated=True, managers_outdated=True)
    assert asked[:2] == [worst, disruption.Operator()], "Nothing is read for no change."


def test_the_same_change_counts_once(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train-0", 0)]
    version = disruption.Interruption("driver.version", "580", "595", disruption.EVICTS)
    before, after = policy(**driver("580")), policy(**driver("595"))["spec"]
    asked = (Cluster(api.connection), "gpu-operator", before, after)
    assert permission.disruption_of(*asked, more=lambda operator: [version]).changes == (version,)


def test_long_lists_are_cut(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload(f"train-{number:02}", number % 2) for number in range(30)]
    result = assess(api, driver("580"), driver("595")).as_result()
    assert len(result["pods"]) == 20 and result["pods_total"] == 30 and result["nodes"] == ["gpu-0000", "gpu-0001"]


def test_without_gpu_pods_no_permission_is_needed(api: FakeApi) -> None:
    found = assess(api, driver("580"), driver("595"))
    assert [change.field for change in found.changes] == ["driver.version"] and found.pods == ()
    assert found.message() == "" and permission.Disruption().message() == ""
    assert permission.permit(found, allowed=False, check_mode=False) == ""
    assert NODES not in [path for dummy, path, dummy in api.log]


def test_a_first_installation_needs_no_permission(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train-0")]
    assert assess(api, None, driver("595"), "v26.7.0") == permission.Disruption()
    assert api.log == []


def test_for_a_harmless_change_nothing_is_read(api: FakeApi) -> None:
    assert assess(api, driver("595"), {**driver("595"), "mig": {"strategy": "mixed"}}) == permission.Disruption()
    assert api.log == []


@pytest.mark.parametrize(
    ("labels", "is_hit"),
    [
        ({}, True),
        ({"nvidia.com/gpu.deploy.driver": "paused-for-driver-upgrade"}, True),
        ({"nvidia.com/gpu.deploy.driver": "pre-installed"}, False),
        ({"nvidia.com/gpu.deploy.driver": "false"}, False),
        ({"nvidia.com/gpu-driver-upgrade.skip": "true"}, False),
        ({"nvidia.com/gpu-driver-upgrade.skip": "false"}, True),
    ],
)
def test_a_node_without_the_operand_or_without_upgrades_is_not_concerned(
    api: FakeApi, labels: dict[str, str], is_hit: bool
) -> None:
    api.lists[ALL_PODS] = [workload("train-0", 0)]
    api.lists[NODES][0]["metadata"]["labels"].update(labels)
    assert bool(assess(api, driver("580"), driver("595")).pods) is is_hit


def test_a_node_that_no_upgrade_touches_still_loses_a_driver_that_is_removed(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train-0", 0)]
    api.lists[NODES][0]["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade.skip"] = "true"
    found = assess(api, driver("580"), driver("580", enabled=False))
    assert found.pods and "removes the driver" in found.message()


def test_of_a_held_node_only_what_reaches_it_is_named(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train", 0)]
    api.lists[NODES][0]["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade.skip"] = "true"
    both = {"toolkit": {"version": "v1"}, **driver("580")}, {"toolkit": {"version": "v2"}, **driver("595")}
    found = assess(api, *both)
    assert [change.field for change in found.changes] == ["toolkit.version"] and "evicts" not in found.message()
    api.lists[ALL_PODS].append(workload("other", 1))
    assert [change.field for change in assess(api, *both).changes] == ["driver.version", "toolkit.version"]


def test_a_node_with_its_own_toolkit_is_not_concerned_by_a_new_toolkit(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train-0", 0), workload("train-1", 1)]
    api.lists[NODES][0]["metadata"]["labels"]["nvidia.com/gpu.deploy.container-toolkit"] = "false"
    del api.lists[NODES][1]["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"]
    assert assess(api, {"toolkit": {"version": "v1"}}, {"toolkit": {"version": "v2"}}).nodes == ["gpu-0001"]


LABELS = {**driver("595"), "daemonsets": {"labels": {"helm.sh/chart": "new"}}}


@pytest.mark.parametrize(
    ("image", "labels", "acting", "fields"),
    [
        ("nvcr.io/nvidia/gpu-operator:v26.7.0", {}, None, []),
        ("nvcr.io/nvidia/gpu-operator:v26.3.3", {}, None, ["daemonsets.labels.helm.sh/chart"]),
        ("nvcr.io/nvidia/gpu-operator:v26.3.3", {}, "v26.7.0", ["operator", "daemonsets.labels.helm.sh/chart"]),
        ("registry:5000/gpu-operator@sha256:1", {"app.kubernetes.io/version": "v26.7.0"}, None, []),
        ("registry:5000/gpu-operator@sha256:1", {"helm.sh/chart": "gpu-operator-v26.7.0"}, None, []),
        ("registry:5000/gpu-operator@sha256:1", {}, None, ["daemonsets.labels.helm.sh/chart"]),
        ("registry:5000/gpu-operator", {}, "v26.7.0", ["daemonsets.labels.helm.sh/chart"]),
    ],
)
def test_the_operator_decides_what_a_new_template_means(
    api: FakeApi, image: str, labels: dict[str, str], acting: str | None, fields: list[str]
) -> None:
    set_image(api, image, **labels)
    found = assess(api, driver("595"), LABELS, acting)
    assert [change.field for change in found.changes] == fields


OLD, NEW = "nvcr.io/nvidia/gpu-operator:v26.3.3", "nvcr.io/nvidia/gpu-operator:v26.7.0"


@pytest.mark.parametrize(
    ("running", "image", "change"),
    [
        (OLD, NEW, ("operator", "v26.3", "v26.7")),
        (NEW, NEW, None),
        (OLD, f"{NEW}@sha256:1", ("operator", "v26.3", "v26.7")),
        (OLD, "10.1.0.1:5000/gpu-operator@sha256:1", ("operator image", OLD, "10.1.0.1:5000/gpu-operator@sha256:1")),
        (NEW, "registry/gpu-operator:main-latest", ("operator image", NEW, "registry/gpu-operator:main-latest")),
        ("registry/gpu-operator:main", NEW, ("operator image", "registry/gpu-operator:main", NEW)),
        ("registry/gpu-operator@sha256:1", "registry/gpu-operator@sha256:1", None),
    ],
)
def test_the_image_of_the_next_operator_tells_its_version(
    api: FakeApi, running: str, image: str, change: tuple[str, str, str] | None
) -> None:
    set_image(api, running)
    found = assess(api, driver("595"), driver("595"), image=image)
    assert [(one.field, one.before, one.after) for one in found.changes] == ([change] if change else [])


def test_an_image_that_stays_keeps_its_version(api: FakeApi) -> None:
    set_image(api, "registry/gpu-operator@sha256:1", **{"app.kubernetes.io/version": "v26.7.0"})
    assert assess(api, driver("595"), LABELS, image="registry/gpu-operator@sha256:1").changes == ()
    assert assess(api, driver("595"), LABELS, image="registry/gpu-operator@sha256:2").changes != ()


def test_without_an_operator_the_worst_is_assumed(api: FakeApi) -> None:
    api.lists[DEPLOYMENTS] = []
    found = assess(api, driver("595"), LABELS, image=NEW)
    assert [change.field for change in found.changes] == ["daemonsets.labels.helm.sh/chart"]


def test_driver_pods_that_wait_for_their_replacement_count(api: FakeApi) -> None:
    set_image(api, "nvcr.io/nvidia/gpu-operator:v26.7.0")
    manual = {"driver": {"version": "595", "upgradePolicy": {"autoUpgrade": False}}}
    assert assess(api, manual, driver("595")).changes == ()
    drivers = next(one for one in api.lists[DAEMONSETS] if one["metadata"]["name"] == "nvidia-driver-daemonset")
    drivers["status"]["updatedNumberScheduled"] = 0
    assert [change.field for change in assess(api, manual, driver("595")).changes] == [
        "driver.upgradePolicy.autoUpgrade"
    ]


def test_pods_that_may_not_be_listed_are_unknown_and_not_none(api: FakeApi) -> None:
    api.answer = lambda method, path: refusal(403, "pods is forbidden") if path == ALL_PODS else None
    found = assess(api, driver("580"), driver("595"))
    assert found.as_result()["pods_total"] is None
    message = "Changing driver.version may interrupt GPU pods, and this user may not list pods in all namespaces."
    assert found.message() == message
    with pytest.raises(GpuOpsError) as e:
        permission.permit(found, allowed=False, check_mode=False)
    remedy = "Grant that permission, or set allow_disruption: true (operator_allow_disruption in the role operator)."
    assert e.value.msg == f"{message} {remedy}"
    assert e.value.reason == "Forbidden"


def test_another_failure_is_not_hidden(api: FakeApi) -> None:
    api.answer = lambda method, path: refusal(500, "no") if path == ALL_PODS else None
    with pytest.raises(GpuOpsError) as e:
        assess(api, driver("580"), driver("595"))
    assert e.value.reason == "ServerError"


def test_secrets_in_a_change_are_hidden(api: FakeApi) -> None:
    env = [{"name": "RHSM_PASSWORD", "value": "hunter22"}]
    assert "hunter22" not in str(assess(api, driver("595"), driver("595", env=env)).as_result())


def test_a_removal_needs_permission_while_pods_use_gpus() -> None:
    pod = pods.GpuPod("team", "job", "gpu-0001", {})
    remedy = "or set allow_disruption: true (operator_allow_disruption in the role operator)."
    with pytest.raises(GpuOpsError) as e:
        permission.permit_removal([pod], allowed=False)
    one = "1 running pod uses a GPU (team/job) and would lose the driver. Drain the nodes first, "
    assert (e.value.msg, e.value.reason, e.value.details["gpu_pods"]) == (one + remedy, "Disruption", 1)
    with pytest.raises(GpuOpsError) as error:
        permission.permit_removal([pod, pod], allowed=False)
    assert error.value.reason == "Disruption"
    assert error.value.msg == wording(
        "2 running pods use a GPU (team/job, team/job) and would lose the driver. Drain the nodes first, or set allow_disruption: true (operator_allow_disruption in the role operator)."
    )
    with pytest.raises(GpuOpsError) as e:
        permission.permit_removal(None, allowed=False)
    unknown = "Pods that use GPUs would lose their driver, and this user may not list pods in all namespaces. "
    assert (e.value.msg, e.value.reason) == (unknown + "Grant that permission, " + remedy, "Forbidden")
    permission.permit_removal([], allowed=False)
    permission.permit_removal([pod], allowed=True)
    permission.permit_removal(None, allowed=True)


@pytest.mark.parametrize(("check_mode", "expected"), [(True, ["toolkit.version"]), (False, ["driver.version"])])
def test_a_check_may_assume_that_all_nodes_keep_their_driver(
    api: FakeApi, check_mode: bool, expected: list[str]
) -> None:
    api.lists[ALL_PODS] = [workload("train-0", 1)]
    before, after = (
        policy(**driver(version), toolkit={"version": toolkit})["spec"]
        for version, toolkit in (("580", "v1"), ("595", "v2"))
    )
    cluster = Cluster(api.connection, check_mode)
    found = permission.disruption_of(cluster, "gpu-operator", {"spec": before}, after, assume_held=True)
    assert [change.field for change in found.changes][: len(expected)] == expected
    assert ("driver.version" in [change.field for change in found.changes]) is not check_mode
