# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes MIG managers divide that a change of the ClusterPolicy starts again, and the permission for that."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import mig_managers, permission
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, DEPLOYMENTS, NODES, FakeApi, refusal
from tests.unit.fakes.mig_nodes import CONFIG, DIVIDED, LAYOUT, STATE
from tests.unit.fakes.stack import NAMESPACE, policy, workload

CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
DEFAULT, OWN, MINE, OTHER = "default-mig-parted-config", "gpu-0000-mig-config", "mine", "other"
NEW_ENV: Json = {"env": [{"name": "WITH_REBOOT", "value": "true"}]}


def config_map(name: str, **profiles: int) -> Json:
    """Return a ConfigMap with one layout for all GPUs: how many devices of each profile. Without any, it is invalid."""
    layout = {"devices": "all", "mig-enabled": True, "mig-devices": profiles}
    return {
        "metadata": {"name": name},
        "data": {"config.yaml": yaml.safe_dump({"version": "v1", "mig-configs": {LAYOUT: [layout]}})},
    }


SEVEN, TWO = {"1g.10gb": 7}, {"3g.40gb": 2}


@pytest.fixture
def labelled(api: FakeApi) -> FakeApi:
    """An API server with a GPU pod on a node whose layout failed, and a ready node."""
    api.lists[NODES][0]["metadata"]["labels"] |= {CONFIG: LAYOUT, STATE: "failed"}
    api.lists[NODES][1]["metadata"]["labels"] |= {CONFIG: LAYOUT, STATE: "success"}
    api.lists[ALL_PODS] = [workload("train-0", 0), workload("train-1", 1)]
    api.lists[CONFIG_MAPS] = [config_map(OWN, **SEVEN)]
    return api


def assess(api: FakeApi, before: Json, after: Json, **more: t.Any) -> permission.Disruption:
    existing, wanted = policy(**before), policy(**after)["spec"]
    return permission.disruption_of(Cluster(api.connection), NAMESPACE, existing, wanted, **more)


def manager(api: FakeApi, before: Json | None = None, after: Json | None = None) -> list[str]:
    """Return the nodes that a change of the block ``migManager`` interrupts."""
    return assess(api, {"migManager": before or {}}, {"migManager": NEW_ENV if after is None else after}).nodes


def test_a_gpu_pod_on_a_node_that_the_manager_would_divide_needs_permission(labelled: FakeApi) -> None:
    found = assess(labelled, {}, {"migManager": NEW_ENV, "daemonsets": {"annotations": {"a": "b"}}})
    effect = wording("the MIG managers start again, and divide the GPUs of gpu-0000 (all-1g.10gb, state failed)")
    changes = found.as_result()["changes"]
    assert [(each["field"], each["operand"]) for each in changes] == [
        ("migManager.env", "mig-manager"),
        ("daemonsets.annotations.a", "mig-manager"),
    ]
    assert [each["effect"] for each in changes] == [effect, effect]
    assert set(changes[0]) == {"field", "before", "after", "effect", "operand"}
    assert (found.as_result()["pods"], found.nodes) == (["default/train-0"], ["gpu-0000"])
    with pytest.raises(GpuOpsError) as error:
        permission.permit(found, allowed=False, check_mode=True)
    assert error.value.reason == "Disruption"
    assert error.value.msg == wording(
        "Changing migManager.env, daemonsets.annotations.a interrupts 1 GPU pod (default/train-0) on 1 node (gpu-0000): the MIG managers start again, and divide the GPUs of gpu-0000 (all-1g.10gb, state failed). Drain the nodes first, or set allow_disruption: true (operator_allow_disruption in the role operator)."
    )
    assert permission.permit(found, allowed=True, check_mode=False) == ""
    assert permission.permit(found, allowed=True, check_mode=True) in error.value.msg


def test_nodes_whose_last_run_was_successful_are_not_interrupted(labelled: FakeApi) -> None:
    labelled.lists[NODES][0]["metadata"]["labels"][STATE] = "success"
    assert assess(labelled, {}, {"migManager": NEW_ENV}) == permission.Disruption()
    assert not [path for dummy, path, dummy in labelled.log if path.startswith(CONFIG_MAPS)]


def test_only_nodes_whose_last_run_failed_are_read(labelled: FakeApi) -> None:
    manager(labelled)
    asked = [
        query["labelSelector"] for dummy, path, query in labelled.log if path == NODES and "labelSelector" in query
    ]
    assert asked == [f"{CONFIG},{STATE}!=success"]


def test_without_gpu_pods_nothing_is_read_and_nothing_reported(labelled: FakeApi) -> None:
    labelled.lists[ALL_PODS] = []
    assert assess(labelled, {}, {"migManager": NEW_ENV}) == permission.Disruption()
    assert NODES not in [path for dummy, path, dummy in labelled.log]


def test_a_gpu_pod_elsewhere_is_not_interrupted(labelled: FakeApi) -> None:
    labelled.lists[ALL_PODS] = [workload("train-1", 1)]
    assert assess(labelled, {}, {"migManager": NEW_ENV}) == permission.Disruption()


@pytest.mark.parametrize(("deployed", "is_hit"), [(None, False), ("false", False), ("paused-for-mig-change", True)])
def test_a_node_without_a_manager_is_not_divided(labelled: FakeApi, deployed: str | None, is_hit: bool) -> None:
    labels = labelled.lists[NODES][0]["metadata"]["labels"]
    labels.pop("nvidia.com/gpu.deploy.mig-manager")
    labels |= {"nvidia.com/gpu.deploy.mig-manager": deployed} if deployed else {}
    assert bool(manager(labelled)) is is_hit


def test_a_layout_that_the_node_offers_already_interrupts_nothing(labelled: FakeApi) -> None:
    node = labelled.lists[NODES][0]
    node["metadata"]["labels"] |= {"nvidia.com/mig.strategy": "mixed", **DIVIDED}
    assert manager(labelled) == ["gpu-0000"]
    node["status"]["allocatable"] = {"nvidia.com/mig-1g.10gb": "56"}
    assert manager(labelled) == []


def test_what_other_changes_interrupt_is_reported_beside_it(labelled: FakeApi) -> None:
    before, after = {"toolkit": {"version": "v1"}}, {"toolkit": {"version": "v2"}, "migManager": NEW_ENV}
    found = assess(labelled, before, after)
    assert [change.field for change in found.changes] == ["toolkit.version", "migManager.env"]
    assert found.nodes == ["gpu-0000", "gpu-0001"]
    labelled.lists[NODES][0]["metadata"]["labels"][STATE] = "success"
    assert [change.field for change in assess(labelled, before, after).changes] == ["toolkit.version"]


def test_unknown_pods_count_as_interrupted_on_nodes_that_would_be_divided(labelled: FakeApi) -> None:
    labelled.answer = lambda method, path: refusal(403, "pods is forbidden") if path == ALL_PODS else None
    found = assess(labelled, {}, {"migManager": NEW_ENV})
    assert found.pods is None and [change.field for change in found.changes] == ["migManager.env"]
    labelled.lists[NODES][0]["metadata"]["labels"][STATE] = "success"
    assert assess(labelled, {}, {"migManager": NEW_ENV}) == permission.Disruption()


# ---- the file of the manager ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("maps", "is_hit"),
    [
        pytest.param([config_map(OWN, **SEVEN)], True, id="its own file has the layout"),
        pytest.param([{"metadata": {"name": OWN}, "data": {"config.yaml": "version: v1"}}], False, id="is invalid"),
        pytest.param([{"metadata": {"name": OWN}}], False, id="its own file is empty"),
        pytest.param([config_map(DEFAULT, **SEVEN)], True, id="the common file has the layout"),
        pytest.param([], True, id="it has no file yet"),
    ],
)
def test_a_layout_that_the_manager_refuses_is_not_applied(labelled: FakeApi, maps: list[Json], is_hit: bool) -> None:
    labelled.lists[CONFIG_MAPS] = maps
    assert bool(manager(labelled)) is is_hit


def test_a_layout_that_no_file_has_yet_may_be_generated(labelled: FakeApi) -> None:
    labelled.lists[NODES][0]["metadata"]["labels"][CONFIG] = "all-of-tomorrow"
    assert manager(labelled) == []
    labelled.lists[CONFIG_MAPS] = [config_map(DEFAULT, **SEVEN)]
    assert manager(labelled) == ["gpu-0000"]


def test_the_file_that_the_clusterpolicy_names_counts(labelled: FakeApi) -> None:
    named: Json = {"config": {"name": MINE}}
    labelled.lists[CONFIG_MAPS].append(config_map(MINE, **SEVEN))
    assert manager(labelled, named, {**named, **NEW_ENV}) == ["gpu-0000"]
    labelled.lists[NODES][0]["metadata"]["labels"][CONFIG] = "unknown"
    assert manager(labelled, named, {**named, **NEW_ENV}) == []


@pytest.mark.parametrize(
    ("now", "then", "nodes"),
    [
        (SEVEN, SEVEN, ["gpu-0000"]),
        (SEVEN, TWO, ["gpu-0000", "gpu-0001"]),
        (SEVEN, None, ["gpu-0000", "gpu-0001"]),
        (None, SEVEN, ["gpu-0000", "gpu-0001"]),
    ],
)
def test_in_another_file_a_layout_may_mean_something_else(
    labelled: FakeApi, now: dict[str, int] | None, then: dict[str, int] | None, nodes: list[str]
) -> None:
    wanted = ((MINE, now), (OTHER, then))
    labelled.lists[CONFIG_MAPS] += [config_map(name, **profiles) for name, profiles in wanted if profiles]
    assert manager(labelled, {"config": {"name": MINE}}, {"config": {"name": OTHER}}) == nodes
    asked = [
        query["labelSelector"] for dummy, path, query in labelled.log if path == NODES and "labelSelector" in query
    ]
    assert asked == [CONFIG]
    assert len([path for dummy, path, dummy in labelled.log if path == f"{CONFIG_MAPS}/{OTHER}"]) == 1


def test_a_layout_that_is_gone_in_the_other_file_is_refused_by_the_manager(labelled: FakeApi) -> None:
    for node in labelled.lists[NODES]:
        node["metadata"]["labels"][CONFIG] = "all-3g.40gb"
    labelled.lists[CONFIG_MAPS].append(config_map(OTHER, **TWO))
    assert manager(labelled, {}, {"config": {"name": OTHER}}) == []


def test_managers_that_have_not_run_may_find_another_label_than_the_last_one(labelled: FakeApi) -> None:
    labelled.lists[CONFIG_MAPS].append(config_map("gpu-0001-mig-config", **SEVEN))
    assert manager(labelled, {"enabled": False}, {"enabled": True}) == ["gpu-0000", "gpu-0001"]
    other = labelled.lists[NODES][1]
    other["metadata"]["labels"] |= {"nvidia.com/mig.strategy": "mixed", **DIVIDED}
    other["status"]["allocatable"] = {"nvidia.com/mig-1g.10gb": "56"}
    assert manager(labelled, {"enabled": False}, {"enabled": True}) == ["gpu-0000"]


def test_a_file_that_may_not_be_read_is_unknown(labelled: FakeApi) -> None:
    labelled.answer = lambda method, path: refusal(403, "no") if path.startswith(CONFIG_MAPS) else None
    assert manager(labelled) == ["gpu-0000"]
    assert manager(labelled, {}, {"config": {"name": MINE}}) == ["gpu-0000", "gpu-0001"]
    labelled.answer = lambda method, path: refusal(500, "no") if path.startswith(CONFIG_MAPS) else None
    with pytest.raises(GpuOpsError) as error:
        manager(labelled)
    assert error.value.reason == "ServerError"


# ---- the operator ---------------------------------------------------------------------------------------------------


def test_another_operator_starts_the_managers(labelled: FakeApi) -> None:
    deployment = labelled.lists[DEPLOYMENTS][0]
    image = "nvcr.io/nvidia/gpu-operator:v26.7.0"
    deployment["spec"]["template"]["spec"] = {"containers": [{"name": "gpu-operator", "image": image}]}
    for asked in ({"acting": "v26.11.0"}, {"image": image.replace("26.7", "26.11")}):
        found = assess(labelled, {}, {}, **asked)
        assert [(each.field, each.after, each.operand) for each in found.changes] == [
            ("operator", "v26.11", "mig-manager")
        ]
        assert found.nodes == ["gpu-0000"]
    assert assess(labelled, {}, {}, acting="v26.7.1") == permission.Disruption()


def test_managers_that_wait_for_their_replacement_start_with_the_next_update(labelled: FakeApi) -> None:
    waits = {"daemonsets": {"updateStrategy": "OnDelete"}}
    assert assess(labelled, waits, {}) == permission.Disruption()
    managers = next(one for one in labelled.lists[DAEMONSETS] if one["metadata"]["name"] == "nvidia-mig-manager")
    managers["status"]["updatedNumberScheduled"] = 0
    assert [change.field for change in assess(labelled, waits, {}).changes] == ["daemonsets.updateStrategy"]


def test_all_nodes_that_would_be_divided_are_found_without_a_look_at_pods(labelled: FakeApi) -> None:
    found = mig_managers.divided(Cluster(labelled.connection), NAMESPACE, ({}, {}))
    assert [host.name for host in found] == ["gpu-0000"]
