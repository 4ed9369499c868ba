# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

import pytest

from tests.unit.fakes.api import FakeApi, refusal

QUOTAS, CLASSES = "/api/v1/resourcequotas", "/apis/scheduling.k8s.io/v1/priorityclasses"
RESEARCH = "/api/v1/namespaces/research/resourcequotas"
LABELS = {"app.kubernetes.io/name": "gpu-access", "app.kubernetes.io/managed-by": "gpuops.nvidia"}
QUOTA = {"namespace": "research", "gpus": {"nvidia.com/gpu": 4}}
CLASS = {"name": "train", "value": 100}


@pytest.fixture
def keep(run_module: t.Callable, api: FakeApi) -> t.Callable:
    """The module, in a cluster whose only namespace is research."""
    api.lists |= {RESEARCH: [], CLASSES: []}

    def answer(method: str, path: str) -> t.Any:
        return (200, {"items": api.lists[RESEARCH], "metadata": {}}) if path == QUOTAS else None

    api.answer = answer
    return functools.partial(run_module, "gpu_access", **api.connection)


def writes(api: FakeApi) -> list[tuple[str, str]]:
    return [(method, query.get("dryRun", "real")) for method, dummy, query in api.log if method != "GET"]


def test_objects_come_stay_and_go(api: FakeApi, keep: t.Callable) -> None:
    dry = keep(quotas=[QUOTA], priority_classes=[CLASS], _ansible_check_mode=True).result
    assert dry["changed"] and api.lists[RESEARCH] == [] and writes(api) == [("PATCH", "All")] * 2
    assert dry["diff"]["after"]["ResourceQuota research/gpus"] == {"spec": {"hard": {"requests.nvidia.com/gpu": "4"}}}
    assert dry["diff"]["before"] == {}
    done = keep(quotas=[QUOTA], priority_classes=[CLASS]).result
    assert [row["object"] for row in done["objects"]] == ["PriorityClass train", "ResourceQuota research/gpus"]
    assert api.lists[RESEARCH][0]["spec"] == {"hard": {"requests.nvidia.com/gpu": "4"}}
    assert not keep(quotas=[QUOTA], priority_classes=[CLASS]).result["changed"]
    less = keep(quotas=[{**QUOTA, "gpus": {"nvidia.com/gpu": 2}}]).result
    assert less["changed"] and less["diff"]["before"]["ResourceQuota research/gpus"]["spec"]["hard"] == {
        "requests.nvidia.com/gpu": "4"
    }
    assert len(api.lists[CLASSES]) == 1  # the option was not given
    gone = keep(quotas=[], priority_classes=[]).result
    assert gone["removed"] == ["PriorityClass train", "ResourceQuota research/gpus"]
    assert api.lists[RESEARCH] == api.lists[CLASSES] == []
    nothing = keep(quotas=[], priority_classes=[]).result
    assert (nothing["changed"], nothing["removed"], nothing["objects"]) == (False, [], [])


def test_check_mode_removes_nothing(api: FakeApi, keep: t.Callable) -> None:
    keep(quotas=[QUOTA])
    assert keep(quotas=[], _ansible_check_mode=True).result["removed"] == ["ResourceQuota research/gpus"]
    assert len(api.lists[RESEARCH]) == 1


def test_another_value_makes_the_class_again(api: FakeApi, keep: t.Callable) -> None:
    keep(priority_classes=[CLASS])
    api.log.clear()
    dry = keep(priority_classes=[{**CLASS, "value": 200}], _ansible_check_mode=True)
    assert dry.result["changed"] and writes(api) == [("DELETE", "All")] and "made again" in dry.warnings[0]
    api.log.clear()
    assert keep(priority_classes=[{**CLASS, "value": 200}]).result["changed"]
    assert [method for method, how in writes(api) if how == "real"] == ["DELETE", "PATCH"]
    assert api.lists[CLASSES][0]["value"] == 200


def test_objects_of_others_are_respected(api: FakeApi, keep: t.Callable) -> None:
    api.lists[RESEARCH].append({"metadata": {"name": "gpus", "namespace": "research"}, "spec": {}})
    failed = keep(quotas=[QUOTA], priority_classes=[CLASS])
    assert failed.result["reason"] == "Conflict" and writes(api) == []
    assert keep(quotas=[]).result["removed"] == []


def test_more_use_than_permitted_is_said(api: FakeApi, keep: t.Callable) -> None:
    keep(quotas=[QUOTA])
    api.lists[RESEARCH][0]["status"] = {"used": {"requests.nvidia.com/gpu": "4"}}
    warned = keep(quotas=[{**QUOTA, "gpus": {"nvidia.com/gpu": 1}}]).warnings
    assert warned[0].startswith("ResourceQuota research/gpus: 4 of nvidia.com/gpu in use, 1 permitted")


NOWHERE = {"namespace": "nowhere", "gpus": {"nvidia.com/gpu": 1}}


@pytest.mark.parametrize("names", [["nowhere"], ["elsewhere", "nowhere"]])
def test_a_missing_namespace_is_named_before_anything_is_written(
    api: FakeApi, keep: t.Callable, names: list[str]
) -> None:
    missing = [{**NOWHERE, "namespace": name} for name in names]
    failed = keep(quotas=[QUOTA, *missing], priority_classes=[CLASS]).result
    assert (failed["reason"], failed["namespaces"]) == ("NotFound", names)
    assert "create_namespaces" in failed["msg"] and api.lists[RESEARCH] == api.lists[CLASSES] == []
    assert {how for dummy, how in writes(api)} == {"All"}


def test_a_missing_namespace_is_made_on_request(api: FakeApi, keep: t.Callable) -> None:
    dry = keep(quotas=[NOWHERE], create_namespaces=True, _ansible_check_mode=True).result
    assert dry["changed"] and dry["namespaces"] == ["nowhere"]
    assert dry["diff"]["after"] == {
        "Namespace nowhere": {},
        "ResourceQuota nowhere/gpus": {"spec": {"hard": {"requests.nvidia.com/gpu": "1"}}},
    }
    research = api.answer

    def answer(method: str, path: str) -> t.Any:
        if (method, path) == ("POST", "/api/v1/namespaces"):
            api.lists["/api/v1/namespaces/nowhere/resourcequotas"] = []
            return 201, {}
        return research(method, path)

    api.answer = answer
    done = keep(quotas=[NOWHERE], create_namespaces=True).result
    assert (done["namespaces"], done["diff"]["after"]) == (dry["namespaces"], dry["diff"]["after"])
    assert [item["metadata"]["name"] for item in api.lists["/api/v1/namespaces/nowhere/resourcequotas"]] == ["gpus"]


def test_what_is_as_wanted_is_asked_once_and_not_written(api: FakeApi, keep: t.Callable) -> None:
    keep(quotas=[QUOTA], priority_classes=[CLASS])
    api.log.clear()
    assert not keep(quotas=[QUOTA], priority_classes=[CLASS]).result["changed"]
    assert writes(api) == [("PATCH", "All")] * 2


def test_a_refusal_of_the_api_is_passed_on(api: FakeApi, keep: t.Callable) -> None:
    def answer(method: str, path: str) -> t.Any:
        return refusal(403, "priorityclasses is forbidden", "Forbidden") if method == "PATCH" else None

    api.answer = answer
    assert keep(priority_classes=[CLASS]).result["reason"] == "Forbidden"
