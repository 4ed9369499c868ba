# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import functools
import os
import re
import signal
import socket
import threading
import typing as t
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api as _cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import held_nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.support.clock import LeapingClock
from tests.support.measured import measured
from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, FAULTS, NODES, POLICIES, FakeApi, fault, refusal
from tests.unit.fakes.stack import workload

CONFIG_MAPS = "/api/v1/namespaces/gpu-operator/configmaps"
LABEL = "nvidia.com/device-plugin.config"
MARK = "gpuops.nvidia/sharing"
FOUR = {"name": "t4", "nodes": ["gpu-0000"], "strategy": "time-slicing", "replicas": 4}
BOTH = {**FOUR, "nodes": None, "node_selector": {}}
KEY = "t4-0a3a0ca6"
TEXT = """\
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
version: v1
"""


@pytest.fixture
def share(run_module: t.Callable, api: FakeApi, leaps: LeapingClock, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    """The module with a clock that leaps over its waits, on two nodes with eight GPUs each, which follow at once."""
    monkeypatch.setattr(waiting, "POLL_S", 2.0)
    api.lists[CONFIG_MAPS] = []
    api.answer = functools.partial(play, api)
    return functools.partial(run_module, "gpu_sharing", **{"timeout": 30, **api.connection})


def play(api: FakeApi, method: str, path: str) -> None:
    """Let the device plugin and GPU Feature Discovery of each node follow the node's label."""
    if method == "GET" and path == NODES:
        for item in api.lists[NODES]:
            act(api, item)


def act(api: FakeApi, item: dict) -> None:
    labels, status = item["metadata"]["labels"], item["status"]
    text = data(api).get(labels.get(LABEL, ""), "")
    found = re.search(r"replicas: (\d+)", text)
    replicas = int(found[1]) if found else 1
    strategy = "mps" if "mps:" in text else "time-slicing" if found else "none"
    name = "nvidia.com/gpu.shared" if "renameByDefault: true" in text else "nvidia.com/gpu"
    labels["nvidia.com/gpu.replicas"], labels["nvidia.com/gpu.sharing-strategy"] = str(replicas), strategy
    shared = found and name == "nvidia.com/gpu"
    labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3" + ("-SHARED" if shared else "")
    offered = {"nvidia.com/gpu": "0", name: str(8 * replicas)}
    status["capacity"], status["allocatable"] = {"cpu": "64", **offered}, {"cpu": "64", **offered}


def data(api: FakeApi) -> dict[str, str]:
    return api.lists[CONFIG_MAPS][0]["data"] if api.lists[CONFIG_MAPS] else {}


def node(api: FakeApi, number: int = 0) -> dict:
    return next(item for item in api.lists[NODES] if item["metadata"]["name"] == f"gpu-{number:04}")


def labelled(api: FakeApi, number: int = 0) -> str | None:
    return node(api, number)["metadata"]["labels"].get(LABEL)


def notes(api: FakeApi, number: int = 0) -> dict[str, str]:
    """Return the annotations of a node, without the mark of its label."""
    annotations = node(api, number)["metadata"].get("annotations") or {}
    return {key: text for key, text in annotations.items() if key != MARK}


def referenced(api: FakeApi) -> str | None:
    return ((api.lists[POLICIES][0]["spec"].get("devicePlugin") or {}).get("config") or {}).get("name")


def writes(api: FakeApi) -> list[str]:
    return [f"{method} {path}" for method, path, query in api.log if method != "GET" and "dryRun" not in query]


def row(run: t.Any, number: int = 0) -> dict:
    return next(item for item in run.result["nodes"] if item["node"] == f"gpu-{number:04}")


# ---- create, change, remove ----------------------------------------------------------------------------------------


def test_a_configuration_is_predicted_published_proven_and_then_left_alone(share: t.Callable, api: FakeApi) -> None:
    predicted = share(configs=[FOUR], _ansible_check_mode=True, _ansible_diff=True)
    assert (predicted.rc, predicted.result["changed"], writes(api)) == (0, True, [])
    assert (row(predicted)["state"], row(predicted)["changed"]) == ("pending", True)
    run = share(configs=[FOUR], _ansible_diff=True)
    assert (run.rc, run.result["changed"], run.warnings) == (0, True, [])
    assert data(api) == {KEY: TEXT} and referenced(api) == "gpuops-sharing"
    assert (labelled(api), labelled(api, 1)) == (KEY, None)
    expected = {
        "before": {"keys": [], "labels": {"gpu-0000": None}, "devicePlugin.config.name": ""},
        "after": {"keys": [KEY], "labels": {"gpu-0000": KEY}, "devicePlugin.config.name": "gpuops-sharing"},
    }
    assert run.result["diff"] == predicted.result["diff"] == expected
    assert {key: run.result[key] for key in ("published", "pruned", "reference", "config_map")} == {
        "published": [KEY],
        "pruned": [],
        "reference": "gpuops-sharing",
        "config_map": "gpu-operator/gpuops-sharing",
    }
    assert [row(run)[key] for key in ("key", "strategy", "state", "configuration")] == [
        KEY,
        "time-slicing",
        "done",
        "t4",
    ]
    assert row(run)["resources_before"] == {"nvidia.com/gpu": 8}
    assert row(run)["resources_after"] == {"nvidia.com/gpu": 32}
    before = len(writes(api))
    for again in (share(configs=[FOUR], _ansible_check_mode=True), share(configs=[FOUR])):
        assert (again.rc, again.result["changed"], row(again)["state"]) == (0, False, "unchanged")
    assert len(writes(api)) == before


def test_a_changed_text_gets_another_key_and_the_old_one_goes(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    eight = {**FOUR, "replicas": 8}
    run = share(configs=[eight])
    (key,) = data(api)
    assert key != KEY and labelled(api) == key and run.result["pruned"] == [KEY]
    assert row(run)["resources_after"] == {"nvidia.com/gpu": 64}
    assert share(configs=[eight]).result["changed"] is False


def test_a_node_that_is_no_longer_chosen_gets_plain_gpus(share: t.Callable, api: FakeApi) -> None:
    share(configs=[BOTH])
    assert [labelled(api, number) for number in (0, 1)] == [KEY, KEY]
    run = share(configs=[FOUR])
    assert (labelled(api), labelled(api, 1)) == (KEY, None)
    assert (row(run, 1)["key"], row(run, 1)["strategy"], row(run, 1)["state"]) == ("", "none", "done")
    assert row(run, 1)["resources_after"] == {"nvidia.com/gpu": 8}


def test_the_removal_of_everything_restores_plain_gpus_and_leaves_no_trace(share: t.Callable, api: FakeApi) -> None:
    plain = {key: dict(item["metadata"]["labels"]) for key, item in enumerate(api.lists[NODES])}
    share(configs=[BOTH])
    predicted = share(state="absent", _ansible_check_mode=True)
    assert predicted.result["changed"] is True and data(api)
    run = share(state="absent")
    assert (run.rc, run.result["changed"], run.result["pruned"]) == (0, True, [KEY])
    assert api.lists[CONFIG_MAPS] == [] and not referenced(api)
    assert [labelled(api, number) for number in plain] == [None, None]
    assert node(api)["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    for again in (share(state="absent", _ansible_check_mode=True), share(state="absent")):
        assert again.result["changed"] is False


def test_one_configuration_can_be_removed_by_its_name(share: t.Callable, api: FakeApi) -> None:
    other = {"name": "other", "nodes": ["gpu-0001"], "strategy": "time-slicing", "replicas": 2}
    share(configs=[FOUR, other])
    run = share(state="absent", configs=[{"name": "t4"}])
    assert run.result["pruned"] == [KEY] and labelled(api) is None
    assert [key.startswith("other-") for key in data(api)] == [True] and labelled(api, 1) in data(api)


def test_only_purge_removes_configurations_that_are_not_named(share: t.Callable, api: FakeApi) -> None:
    other = {"name": "other", "nodes": ["gpu-0001"], "strategy": "time-slicing", "replicas": 2}
    share(configs=[other])
    share(configs=[FOUR])
    assert labelled(api, 1) and len(data(api)) == 2
    share(configs=[FOUR], purge=True)
    assert labelled(api, 1) is None and list(data(api)) == [KEY]
    assert share(configs=[], purge=True).result["changed"] is True
    assert api.lists[CONFIG_MAPS] == []


def test_the_strategy_none_keeps_a_node_plain_with_a_label(share: t.Callable, api: FakeApi) -> None:
    run = share(configs=[{"name": "plain", "nodes": ["gpu-0000"], "strategy": "none"}])
    assert run.rc == 0 and data(api) == {labelled(api): "version: v1\n"}


def test_a_change_that_no_label_shows_is_given_time(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    run = share(configs=[{**FOUR, "fail_requests_greater_than_one": True}])
    assert row(run)["state"] == "done" and row(run)["seconds"] >= 0.0 and run.result["pruned"] == [KEY]


def test_without_wait_the_labels_are_set_and_nothing_is_proven(share: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: None
    run = share(configs=[FOUR], wait=False)
    assert (run.rc, labelled(api), row(run)["changed"]) == (0, KEY, True)


# ---- others --------------------------------------------------------------------------------------------------------


def test_a_config_map_of_somebody_else_is_only_added_to(share: t.Callable, api: FakeApi) -> None:
    api.lists[POLICIES][0]["spec"]["devicePlugin"] = {"config": {"name": "theirs"}}
    api.lists[CONFIG_MAPS] = [{"metadata": {"name": "theirs"}, "data": {"any": "version: v1\n"}}]
    run = share(configs=[FOUR])
    assert run.rc == 1 and run.result["reason"] == "Conflict" and "Set config_map: theirs" in run.result["msg"]
    assert writes(api) == []
    run = share(configs=[FOUR], config_map="theirs")
    assert (run.rc, run.result["reference"], sorted(data(api))) == (0, "", ["any", KEY])
    assert share(state="absent", config_map="theirs").rc == 0
    assert data(api) == {"any": "version: v1\n"} and referenced(api) == "theirs"


def test_the_last_key_stays_where_somebody_else_refers_to_the_config_map(share: t.Callable, api: FakeApi) -> None:
    api.lists[POLICIES][0]["spec"]["devicePlugin"] = {"config": {"name": "gpuops-sharing"}}
    share(configs=[FOUR])
    run = share(state="absent")
    assert run.rc == 0 and labelled(api) is None and list(data(api)) == [KEY]
    assert "keeps its last keys" in run.warnings[0]


def test_a_label_of_somebody_else_is_left_alone_without_permission(share: t.Callable, api: FakeApi) -> None:
    node(api)["metadata"]["labels"][LABEL] = "mine"
    api.lists[CONFIG_MAPS] = [{"metadata": {"name": "gpuops-sharing"}, "data": {"mine": "version: v1\n"}}]
    run = share(configs=[FOUR])
    assert run.rc == 1 and run.result["msg"] == wording(
        "Somebody else has set the label nvidia.com/device-plugin.config of gpu-0000 (mine). Remove the label, or set replace_labels: true."
    )
    assert share(configs=[FOUR], replace_labels=True).rc == 0 and labelled(api) == KEY
    assert "mine" in data(api)


def test_a_default_of_the_policy_decides_about_nodes_that_lose_their_label(share: t.Callable, api: FakeApi) -> None:
    share(configs=[BOTH])
    api.lists[POLICIES][0]["spec"]["devicePlugin"]["config"]["default"] = KEY
    run = share(configs=[FOUR])
    assert (row(run, 1)["strategy"], row(run, 1)["key"], row(run, 1)["state"]) == ("", "", "done")


# ---- pods on the GPUs ----------------------------------------------------------------------------------------------


def test_pods_that_keep_their_gpus_are_named_and_left_alone(share: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    run = share(configs=[FOUR])
    assert run.rc == 0 and [pod["metadata"]["name"] for pod in api.lists[ALL_PODS]] == ["train"]
    assert run.warnings == [
        wording(
            "1 GPU pod on gpu-0000 (default/train) keeps its devices. Until they have ended, other pods can get the same "
            "GPUs."
        )
    ]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (None, {"strategy": "mps", "replicas": 4}, "the MPS control daemon"),
        ({"strategy": "mps", "replicas": 4}, {"strategy": "mps", "replicas": 8}, "the MPS control daemon,"),
        (
            {"strategy": "time-slicing", "replicas": 4},
            {"strategy": "none"},
            "hold 12 of nvidia.com/gpu,",
        ),
        (
            None,
            {"strategy": "time-slicing", "replicas": 4, "rename_by_default": True},
            "hold 12 of nvidia.com/gpu,",
        ),
    ],
)
def test_a_change_that_interrupts_pods_needs_permission(
    share: t.Callable, api: FakeApi, before: dict | None, after: dict, why: str
) -> None:
    first = {"name": "x", "nodes": ["gpu-0000"]}
    if before:
        share(configs=[{**first, **before}])
    api.lists[ALL_PODS] = [workload("train", gpus=12)]
    api.end = api.lists[ALL_PODS].remove
    count = len(writes(api))
    run = share(configs=[{**first, **after}])
    assert run.rc == 1 and run.result["reason"] == "Disruption" and why in run.result["msg"]
    assert "interrupts 1 GPU pod (default/train) on gpu-0000" in run.result["msg"]
    assert row(run)["pods"] == ["default/train"] and len(writes(api)) == count
    assert share(configs=[{**first, **after}], _ansible_check_mode=True).result["msg"] == run.result["msg"]
    predicted = share(configs=[{**first, **after}], check_refusal="warn", _ansible_check_mode=True)
    assert predicted.rc == 0 and predicted.warnings[0] == WOULD_STOP + run.result["msg"]
    assert len(writes(api)) == count
    allowed = share(configs=[{**first, **after}], allow_disruption=True)
    assert allowed.rc == 0 and row(allowed)["evicted"] == ["default/train"] and api.lists[ALL_PODS] == []
    assert row(allowed)["state"] == "done"
    assert not node(api)["spec"].get("unschedulable") and not notes(api)


MPS = {**FOUR, "strategy": "mps"}


def forbids(*names: str) -> t.Callable[[str, str], t.Any]:
    """Return an answer that refuses the evictions of these pods because of a budget."""
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
    }
    no = refusal(429, "Cannot evict pod", "TooManyRequests", [cause])
    return lambda method, path: no if path.endswith("/eviction") and path.split("/")[-2] in names else None


def is_plain(api: FakeApi, number: int = 0) -> bool:
    """Return whether a node is in service, without a label and without a hold."""
    item = node(api, number)
    is_held = bool(item["metadata"].get("annotations", {}).keys() - {MARK})
    return labelled(api, number) is None and not item["spec"].get("unschedulable") and not is_held


def test_a_pod_that_must_not_be_evicted_is_named_before_anything_is_written(share: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train", controller="")]
    for check_mode in (True, False):
        run = share(configs=[MPS], allow_disruption=True, _ansible_check_mode=check_mode)
        assert run.rc == 1 and run.result["reason"] == "PodsInTheWay" and "force permits it" in run.result["msg"]
    assert writes(api) == [] and data(api) == {} and is_plain(api)


def test_a_drain_that_fails_leaves_the_node_in_service_and_plain(
    share: t.Callable, api: FakeApi, tmp_path: Path
) -> None:
    api.lists[ALL_PODS] = [workload("web")]
    progress = tmp_path / "progress"
    refuse = forbids("web")
    api.answer = lambda method, path: refuse(method, path) or play(api, method, path)
    run = share(configs=[MPS], allow_disruption=True, drain_timeout=20, progress_path=str(progress))
    assert run.rc == 1 and run.result["reason"] == "NodesFailed" and "gpu-0000" in run.result["msg"]
    assert "PodDisruptionBudget default/web forbids its eviction" in row(run)["reason"] and is_plain(api)
    assert "gpu-0000: 1 pod to leave (default/web: the PodDisruptionBudget" in progress.read_text()


def test_a_node_that_takes_long_to_empty_holds_up_no_other(share: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("slow"), workload("quick", 1)]
    api.end = api.lists[ALL_PODS].remove
    refuse = forbids("slow")
    seen: list[bool] = []

    def answer(method: str, path: str) -> t.Any:
        play(api, method, path)
        is_done = labelled(api, 1) is not None and not notes(api, 1)
        seen.append(is_done and labelled(api) is None)
        return None if is_done else refuse(method, path)

    api.answer = answer
    run = share(configs=[{**BOTH, "strategy": "mps"}], allow_disruption=True, max_unavailable="2")
    assert run.rc == 0 and [row(run, number)["state"] for number in (0, 1)] == ["done", "done"]
    assert True in seen, "the second node was in service again before the first one was empty"


def test_a_node_on_which_another_maintainer_works_waits_for_it(share: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    upgrade = "nvidia.com/gpu-driver-upgrade-state"
    node(api)["metadata"]["labels"][upgrade] = "drain-required"
    predicted = share(configs=[MPS], allow_disruption=True, _ansible_check_mode=True)
    assert predicted.rc == 0 and predicted.warnings[0] == wording(
        "Node gpu-0000 is not begun before others have finished their work on it: gpu-operator (label nvidia.com/gpu-driver-upgrade-state=drain-required)."
    )
    run = share(configs=[MPS], allow_disruption=True, timeout=1)
    assert run.rc == 1 and is_plain(api)
    assert measured(row(run)["reason"]) == wording(
        "gpu-operator (label nvidia.com/gpu-driver-upgrade-state=drain-required) was still working on it after N s."
    )
    looks = 0

    def finish(method: str, path: str) -> None:
        nonlocal looks
        looks += method == "GET" and path == NODES
        if looks == 5:
            node(api)["metadata"]["labels"][upgrade] = "upgrade-done"
        play(api, method, path)

    api.answer = finish
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 0 and row(run)["state"] == "done" and row(run)["evicted"] == ["default/train"]


def in_the_middle(api: FakeApi, do: t.Callable[[dict], None]) -> None:
    """Let somebody do something to a node once, after it got its label and before it follows."""
    done: list[bool] = []

    def answer(method: str, path: str) -> None:
        if labelled(api) and not done:
            done.append(True)
            do(node(api))
        else:
            play(api, method, path)

    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    api.answer = answer


def test_a_node_that_was_cordoned_before_stays_cordoned(share: t.Callable, api: FakeApi) -> None:
    in_the_middle(api, lambda item: None)
    node(api)["spec"]["unschedulable"] = True
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 0 and row(run)["state"] == "done"
    assert node(api)["spec"]["unschedulable"] is True and not notes(api)


def test_a_node_that_another_tool_quarantines_in_the_middle_stays_cordoned(share: t.Callable, api: FakeApi) -> None:
    mark = "quarantineHealthEventIsCordoned"
    in_the_middle(api, lambda item: item["metadata"]["annotations"].update({mark: "True"}))
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 0 and row(run)["state"] == "done" and node(api)["spec"]["unschedulable"] is True
    assert "gpuops.nvidia/maintenance.sharing" not in node(api)["metadata"]["annotations"]
    assert any("nvsentinel" in note for note in (*row(run)["notes"], *run.warnings)), run.result


def test_a_node_that_somebody_uncordons_in_the_middle_is_cordoned_again(share: t.Callable, api: FakeApi) -> None:
    in_the_middle(api, lambda item: item["spec"].pop("unschedulable"))
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 0 and row(run)["state"] == "done"
    assert not node(api)["spec"].get("unschedulable") and not notes(api)
    assert row(run)["notes"] == [
        wording("Somebody else uncordoned it in the middle of its change. It is cordoned again.")
    ]


def test_without_an_operator_nothing_begins(share: t.Callable, api: FakeApi) -> None:
    api.lists[POLICIES] = []
    run = share(configs=[FOUR])
    assert run.rc == 1 and "ClusterPolicy" in run.result["msg"] and writes(api) == []
    del api.lists[POLICIES]
    run = share(configs=[FOUR])
    assert run.rc == 1 and run.result["reason"] == "CRDMissing" and writes(api) == []


def test_a_write_whose_answer_is_lost_is_repeated(share: t.Callable, api: FakeApi) -> None:
    """Every other PATCH of a node is answered with an error."""
    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    away = refusal(503, "the server is currently unable to handle the request")
    refused: set[int] = set()
    count = 0

    def answer(method: str, path: str) -> t.Any:
        nonlocal count
        play(api, method, path)
        if method == "PATCH" and path.startswith(NODES):
            count += 1
            if count % 2:
                refused.add(count)
                return away
        return None

    api.answer = answer
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 0 and row(run)["state"] == "done" and len(refused) >= 3
    assert labelled(api) is not None and not notes(api)


def test_a_hold_whose_answer_was_lost_is_undone(
    share: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    real = _cluster.Cluster.merge
    cordoned: list[bool] = []

    def merge(self: t.Any, path: str, body: dict) -> dict:
        made = real(self, path, body)
        if not cordoned and path == f"{NODES}/gpu-0000":
            cordoned.append(node(api)["spec"]["unschedulable"])
            raise GpuOpsError("The answer was lost.", reason="Forbidden")
        return made

    monkeypatch.setattr(_cluster.Cluster, "merge", merge)
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 1 and cordoned == [True] and is_plain(api)


def stays_held(api: FakeApi, number: int = 0) -> str:
    """Return why a node says that it stays held. It must be cordoned and have our mark."""
    item = node(api, number)
    assert item["spec"]["unschedulable"] is True
    assert "gpuops.nvidia/maintenance.sharing" in item["metadata"]["annotations"]
    return str(item["metadata"]["annotations"]["gpuops.nvidia/failed.sharing"])


def test_a_signal_in_the_middle_of_a_change_leaves_the_node_held_and_a_rerun_ends_it(
    share: t.Callable, api: FakeApi
) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    sent: list[bool] = []

    def answer(method: str, path: str) -> None:
        if labelled(api) and not sent:  # the device plugin does not act
            sent.append(bool(node(api)["spec"].get("unschedulable")))
            os.kill(os.getpid(), signal.SIGTERM)

    api.answer = answer
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 1 and run.result["reason"] == "Interrupted" and sent == [True]
    assert row(run)["state"] == "failed" and row(run)["purposes"] == ["sharing"]
    assert "(watch)" in stays_held(api) and "gpu-0000 stays cordoned." in run.result["msg"]
    api.answer = functools.partial(play, api)
    assert share(configs=[MPS], allow_disruption=True).rc == 0
    assert not node(api)["spec"].get("unschedulable") and not notes(api)


def test_a_node_whose_change_failed_stays_held_until_it_is_proved(share: t.Callable, api: FakeApi) -> None:
    """The label is written and nothing follows: what the GPUs do now is unknown, and that is no proof."""
    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    api.answer = lambda method, path: None
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 1 and run.result["reason"] == "NodesFailed" and "gpu-0000 stays cordoned." in run.result["msg"]
    assert (labelled(api) and "sharing-strategy" in stays_held(api)) or "the strategy none" in stays_held(api)
    assert (row(run)["unschedulable"], row(run)["purposes"]) == (True, ["sharing"])
    predicted = share(configs=[MPS], _ansible_check_mode=True)
    assert predicted.rc == 0 and (row(predicted)["state"], row(predicted)["changed"]) == ("pending", True)
    assert row(predicted)["unschedulable"] is True and stays_held(api)
    again = share(configs=[MPS])
    assert again.rc == 1 and stays_held(api), "another failure does not put it back either"
    api.answer = functools.partial(play, api)
    healed = share(configs=[MPS])
    assert healed.rc == 0 and row(healed)["state"] == "done" and healed.result["changed"] is True
    assert not node(api)["spec"].get("unschedulable") and not notes(api)


def test_a_node_that_an_earlier_failure_left_held_stays_so_when_its_drain_fails(
    share: t.Callable, api: FakeApi
) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    api.answer = lambda method, path: None
    assert share(configs=[MPS], allow_disruption=True).rc == 1 and stays_held(api)
    api.lists[ALL_PODS] = [workload("web")]  # a pod that tolerates the cordon
    api.answer = forbids("web")
    other = {**MPS, "replicas": 8}
    run = share(configs=[other], allow_disruption=True, drain_timeout=1)
    assert run.rc == 1 and "forbids its eviction" in stays_held(api) and "forbids its eviction" in row(run)["reason"]


def test_a_change_that_interrupts_nobody_and_failed_leaves_the_node_in_service(share: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: None
    run = share(configs=[FOUR])
    assert run.rc == 1 and row(run)["failed"] and row(run)["purposes"] == []
    assert labelled(api) == KEY and not node(api)["spec"].get("unschedulable")


def test_failures_within_the_budget_are_warnings_and_no_key_is_removed(share: t.Callable, api: FakeApi) -> None:
    share(configs=[BOTH])

    def answer(method: str, path: str) -> None:
        if method == "GET" and path == NODES:
            act(api, node(api, 1))

    api.answer = answer
    run = share(configs=[{**BOTH, "replicas": 8}], max_failed="1")
    assert run.rc == 0 and run.result["summary"]["failed"] == 1 and run.warnings[0].startswith("Node gpu-0000: ")
    assert run.result["pruned"] == [] and len(data(api)) == 2


# ---- waves and windows ---------------------------------------------------------------------------------------------

DONE = "gpuops.nvidia/rollout-done.sharing"
CLOSED = {"windows": ["mon 00:00-00:01"], "time_zone": "UTC"}


@pytest.fixture
def tuesday(leaps: LeapingClock) -> None:
    """The API server's clock shows a Tuesday."""
    leaps.leapt_s += (datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp()) - leaps.time()


def test_a_wave_waits_until_the_canary_has_been_well_for_its_soak(
    share: t.Callable, api: FakeApi, leaps: LeapingClock, tmp_path: Path
) -> None:
    began: dict[int, float] = {}

    def answer(method: str, path: str) -> None:
        play(api, method, path)
        for number in (0, 1):
            if labelled(api, number):
                began.setdefault(number, leaps.monotonic())

    api.answer = answer
    progress = tmp_path / "progress"
    run = share(configs=[BOTH], canary=1, soak=300, progress_path=str(progress))
    assert run.rc == 0 and run.result["finished"] is True and [row(run, each)["wave"] for each in (0, 1)] == [1, 2]
    assert began[1] - began[0] >= 300 and "stage 1 of 2 to be well for 300 s" in progress.read_text()
    assert not notes(api), "the note for the next wave is removed in the end"


def test_a_killed_rollout_goes_on_with_its_canary_done(share: t.Callable, api: FakeApi, leaps: LeapingClock) -> None:
    def answer(method: str, path: str) -> None:
        play(api, method, path)
        if DONE in node(api)["metadata"].get("annotations", {}):
            os.kill(os.getpid(), signal.SIGTERM)

    api.answer = answer
    assert share(configs=[BOTH], canary=1, soak=300).result["reason"] == "Interrupted" and labelled(api, 1) is None
    api.answer = functools.partial(play, api)
    before = leaps.leapt_s
    run = share(configs=[BOTH], canary=1, soak=300)
    assert run.rc == 0 and [row(run, each)["state"] for each in (0, 1)] == ["unchanged", "done"]
    assert 200 < leaps.leapt_s - before < 330, "the soak counts from the canary's end in the former run"
    assert not notes(api)


@pytest.mark.usefixtures("tuesday")
def test_outside_its_windows_a_call_writes_nothing_and_says_so_as_check_mode_does(
    share: t.Callable, api: FakeApi
) -> None:
    for check_mode in (True, False):
        run = share(configs=[FOUR], **CLOSED, _ansible_check_mode=check_mode)
        assert run.rc == 0 and (run.result["changed"], run.result["finished"]) == (False, False)
        assert row(run)["waits_for"] == "the next maintenance window (mon 00:00-00:01 (UTC))"
        assert (
            run.warnings[-1]
            == wording("No maintenance window is open now (mon 00:00-00:01 (UTC)). The next one opens in 5 days.")
            and run.result["diff"]["before"]["labels"] == {}
        )
    assert writes(api) == [] and is_plain(api)
    assert share(configs=[FOUR], windows=["tue 11:00-14:00"]).result["finished"] is True


@pytest.mark.usefixtures("tuesday")
def test_a_node_that_is_out_of_service_is_finished_outside_the_windows(share: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    api.end = api.lists[ALL_PODS].remove
    api.answer = lambda method, path: None
    assert share(configs=[MPS], allow_disruption=True).rc == 1 and stays_held(api)
    api.answer = functools.partial(play, api)
    run = share(configs=[{**MPS, "nodes": None, "node_selector": {}}], **CLOSED)
    assert [row(run, each)["state"] for each in (0, 1)] == ["done", "pending"] and run.result["finished"] is False
    assert not node(api)["spec"].get("unschedulable") and labelled(api, 1) is None


def test_a_kill_after_any_write_and_a_rerun_lead_to_the_configuration(share: t.Callable, api: FakeApi) -> None:
    """Every write to the cluster is the last one of a run once. The rerun must find its way from there."""
    last = -1
    while True:
        last += 1
        share(state="absent", allow_disruption=True)
        api.lists[ALL_PODS][:] = [workload("train")]
        count = 0

        def refuse(method: str, path: str, last: int = last) -> t.Any:
            nonlocal count
            play(api, method, path)
            count += method != "GET"
            return refusal(401, "Unauthorized") if method != "GET" and count > last else None

        api.answer = refuse
        first = share(configs=[MPS], allow_disruption=True)
        api.answer = functools.partial(play, api)
        if first.rc == 0:
            break
        again = share(configs=[MPS], allow_disruption=True)
        assert again.rc == 0 and row(again)["state"] in ("done", "unchanged"), last
        assert not node(api)["spec"].get("unschedulable") and not notes(api), last
    assert last >= 6, "publish, refer, hold, evict, label, release"


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_at_any_request_leaves_no_node_out_of_service_unsaid(
    share: t.Callable, api: FakeApi, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request from the first write on fails once, and a rerun ends the change."""
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.2 if kind == "down" else 30.0)
    assert share(configs=[MPS]).rc == 0
    api.lists[ALL_PODS][:] = [workload("train")]
    wanted, start, number = {**MPS, "replicas": 8}, copy.deepcopy(api.lists), 0
    while True:
        number += 1
        api.lists = copy.deepcopy(start)
        api.end = api.lists[ALL_PODS].remove
        with fault(api, kind, number) as hit:
            first = share(configs=[wanted], allow_disruption=True)
        if not hit:
            break
        said = row(first)["reason"] if "nodes" in first.result else ""
        is_out = node(api)["spec"].get("unschedulable")
        assert not is_out or "It stays cordoned for" in said, (number, hit[0], first.result)
        again = share(configs=[wanted], allow_disruption=True)
        assert again.rc == 0 and row(again)["state"] in ("done", "unchanged"), (number, hit[0], again.result)
        assert not node(api)["spec"].get("unschedulable") and not notes(api), hit[0]
    assert number > 10 and first.rc == 0


def test_a_signal_during_the_release_does_not_lose_the_node(
    share: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.lists[ALL_PODS][:] = [workload("train")]
    real = held_nodes.release
    held: list[bool] = []

    def release(*arguments: t.Any) -> t.Any:
        held.append(bool(node(api)["spec"].get("unschedulable")))
        if len(held) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    monkeypatch.setattr(held_nodes, "release", release)
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 1 and run.result["reason"] == "Interrupted" and held == [True, True]
    assert row(run)["state"] == "done" and not node(api)["spec"].get("unschedulable")


def test_a_cordon_without_an_answer_is_undone_if_no_further_node_is_begun(
    share: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node is gone while another's cordon gets no answer. After the failure, nobody takes the other again."""
    api.lists[ALL_PODS] = [workload("train"), workload("web", 1)]
    real = _cluster.Cluster.merge
    cordoned: list[bool] = []
    is_gone = threading.Event()

    def miss(method: str, path: str) -> t.Any:
        if path != f"{NODES}/gpu-0001":
            return None
        is_gone.set()
        return refusal(404, "not found")

    api.answer = miss

    def merge(self: t.Any, path: str, body: dict) -> dict:
        made = real(self, path, body)
        if not cordoned and path == f"{NODES}/gpu-0000":
            cordoned.append(node(api)["spec"]["unschedulable"])
            # Both nodes are taken at the same time. The failure of the other one comes first.
            assert is_gone.wait(10)
            threading.Event().wait(0.3)
            raise GpuOpsError("The answer was lost.", reason="ServerError")
        return made

    monkeypatch.setattr(_cluster.Cluster, "merge", merge)
    run = share(configs=[{**BOTH, "strategy": "mps"}], allow_disruption=True, max_unavailable="2")
    assert run.rc == 1 and cordoned == [True] and is_plain(api)
    assert (row(run)["state"], row(run, 1)["state"]) == ("pending", "failed")


def test_a_node_whose_label_a_killed_run_has_removed_is_put_back(share: t.Callable, api: FakeApi) -> None:
    """The node has no label any more that says that a call is about it."""
    share(configs=[BOTH])
    for options in ({"configs": [FOUR]}, {"configs": [FOUR], "purge": True}, {"state": "absent"}):
        item = node(api, 1)
        item["metadata"]["labels"].pop(LABEL, None)
        item["spec"]["unschedulable"] = True
        item["metadata"]["annotations"] = {
            "gpuops.nvidia/maintenance.sharing": f"2026-01-01T00:00:00Z {socket.gethostname()} 1",
            "gpuops.nvidia/initial-state.unschedulable": "false",
        }
        run = share(**options)
        assert run.rc == 0 and run.result["changed"] is True and is_plain(api, 1), options
        assert share(**options).result["changed"] is False


def test_a_node_that_another_machine_holds_is_left_to_it(share: t.Callable, api: FakeApi) -> None:
    moment = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    item = node(api, 1)
    item["spec"]["unschedulable"] = True
    item["metadata"]["annotations"] = {"gpuops.nvidia/maintenance.sharing": f"{moment} elsewhere 1"}
    run = share(configs=[FOUR])
    assert run.rc == 0 and [each["node"] for each in run.result["nodes"]] == ["gpu-0000"]
    assert node(api, 1)["spec"]["unschedulable"] is True


def test_a_killed_run_is_taken_up_and_the_node_is_put_back(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    item = node(api)
    item["spec"]["unschedulable"] = True
    item["metadata"]["annotations"] = {
        "gpuops.nvidia/maintenance.sharing": "2026-01-01T00:00:00Z elsewhere 1",
        "gpuops.nvidia/initial-state.unschedulable": "false",
    }
    run = share(configs=[FOUR])
    assert run.rc == 0 and run.result["changed"] is True and not node(api)["spec"].get("unschedulable")
    assert share(configs=[FOUR]).result["changed"] is False


# ---- trouble -------------------------------------------------------------------------------------------------------


def test_a_node_that_does_not_follow_fails_with_the_cause(share: t.Callable, api: FakeApi, tmp_path: Path) -> None:
    api.answer = lambda method, path: None
    progress = tmp_path / "progress"
    run = share(configs=[FOUR], timeout=1, progress_path=str(progress))
    assert run.rc == 1 and run.result["reason"] == "NodesFailed"
    assert re.search(r"gpu-0000: .*sharing-strategy|gpu-0000: GPU Feature Discovery shows", run.result["msg"])
    assert row(run)["failed"] is True and KEY in data(api)
    assert "gpu-0000: GPU Feature Discovery" in progress.read_text()


def test_a_node_that_is_gone_or_not_ready_fails_with_that_cause(share: t.Callable, api: FakeApi) -> None:
    def leave(method: str, path: str) -> None:
        play(api, method, path)
        if labelled(api):
            api.lists[NODES] = api.lists[NODES][1:]

    node(api, 1)["status"]["conditions"][0]["status"] = "False"
    api.answer = lambda method, path: None
    run = share(configs=[{**FOUR, "nodes": ["gpu-0001"]}], timeout=1)
    assert run.rc == 1 and measured(run.result["msg"]) == wording(
        "1 of 1 nodes failed, and max_failed allows 0. gpu-0001: GPU Feature Discovery shows the strategy none instead of time-slicing for N s; the node is not Ready. Run it again; it does not repeat what is done."
    )
    api.answer = lambda method, path: leave(method, path) if method == "GET" and path == NODES else None
    run = share(configs=[FOUR])
    assert run.rc == 1 and run.result["msg"] == wording(
        "1 of 2 nodes failed, and max_failed allows 0. gpu-0000: The node was deleted in the meantime. Run it again; it does not repeat what is done."
    )


def test_a_node_that_is_deleted_before_its_label_fails_alone(share: t.Callable, api: FakeApi) -> None:
    def answer(method: str, path: str) -> t.Any:
        play(api, method, path)
        is_label = method == "PATCH" and path == f"{NODES}/gpu-0000"
        return refusal(404, "nodes gpu-0000 not found", "NotFound") if is_label else None

    api.answer = answer
    run = share(configs=[BOTH], max_failed="1")
    assert row(run)["reason"] == wording("The node was deleted in the meantime.") and row(run, 1)["state"] == "done"


def test_after_a_canary_failed_no_other_node_is_begun(share: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: None
    run = share(configs=[BOTH], timeout=1, canary=["gpu-0001"])
    assert (
        run.rc == 1 and "The canary gpu-0001 failed" in run.result["msg"] and "Not begun: gpu-0000" in run.result["msg"]
    )
    assert (labelled(api), labelled(api, 1)) == (None, KEY)


def test_a_config_manager_that_a_new_pod_cures_gets_one(share: t.Callable, api: FakeApi) -> None:
    pods = "/api/v1/namespaces/gpu-operator/pods"
    name = "nvidia-device-plugin-daemonset-abcde"
    waiting_for = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    status = {"containerStatuses": [{"name": "nvidia-device-plugin", "state": {"running": {}}, "ready": True}]}
    status["containerStatuses"].append({"name": "config-manager", "ready": False, **waiting_for})
    pod = {"metadata": {"name": name, "namespace": "gpu-operator", "uid": "1"}, "spec": {}, "status": status}
    api.lists[pods].append(pod)
    api.table = [[name, "1/2", "CrashLoopBackOff", 3, "5m", "", "gpu-0000"]]
    log = f"E1122 10:00:00.000000       1 main.go:178] specified config {KEY} does not exist"

    def answer(method: str, path: str) -> t.Any:
        if path.endswith("/log"):
            return 200, log
        if method == "DELETE" and path == f"{pods}/{name}":
            api.answer = functools.partial(play, api)
            api.table = []
        return None

    api.answer = answer
    run = share(configs=[FOUR], timeout=20)
    assert run.rc == 0 and row(run)["repaired"] == [name] and row(run)["state"] == "done"


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, wording("Give configs, or purge: true to end all sharing of this collection.")),
        ({"configs": [FOUR, FOUR]}, wording("configs has two configurations with the name t4. Rename one of them.")),
        (
            {"configs": [{"name": "t4", "strategy": "none"}]},
            wording("Configuration t4: give either nodes or node_selector."),
        ),
        (
            {"configs": [{**FOUR, "replicas": 1}]},
            wording(
                "Configuration t4: sharing.timeSlicing.resources[0].replicas is 1, and the device plugin would not start with less than 2. To end the sharing, use the strategy none."
            ),
        ),
        (
            {"configs": [{**FOUR, "nodes": ["gpu-9999"]}]},
            wording("Configuration t4: the cluster has no node gpu-9999. Correct nodes."),
        ),
        (
            {"configs": [{**BOTH, "node_selector": {"pool": "a"}}]},
            wording("Configuration t4: no node has the labels {'pool': 'a'}. Correct node_selector."),
        ),
        (
            {"configs": [FOUR, {**BOTH, "name": "all"}]},
            wording("Configurations t4 and all both choose node gpu-0000. Let only one of them choose it."),
        ),
        (
            {"configs": [{**FOUR, "strategy": "mps", "replicas": 49}]},
            wording(
                "Configuration t4 cannot work on gpu-0000: MPS serves at most 48 pods on a GPU, and replicas is 49. Give 48 or less."
            ),
        ),
        ({"configs": [FOUR], "timeout": 0}, wording("timeout is 0: give 1 or more.")),
        (
            {"configs": [FOUR], "max_unavailable": "all"},
            wording("max_unavailable is 'all'. Give a number or a percentage, such as 1 or 10%."),
        ),
        (
            {"configs": [FOUR], "canary": ["gpu-0001"]},
            wording("canary names gpu-0001, which this call does not change. Name nodes that configs chooses."),
        ),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    share: t.Callable, api: FakeApi, options: dict, said: str
) -> None:
    run = share(**options)
    assert run.rc == 1 and run.result["msg"] == said, run.result["msg"]
    assert writes(api) == []


def test_nodes_that_must_be_drained_need_a_wait(share: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    run = share(configs=[{**FOUR, "strategy": "mps"}], allow_disruption=True, wait=False)
    assert run.rc == 1 and "Set wait: true" in run.result["msg"]


def test_a_config_map_that_cannot_change_is_named(share: t.Callable, api: FakeApi) -> None:
    api.lists[CONFIG_MAPS] = [{"metadata": {"name": "gpuops-sharing"}, "data": {"any": "x"}, "immutable": True}]

    def answer(method: str, path: str) -> t.Any:
        return refusal(422, "field is immutable when `immutable` is set", "Invalid") if method == "PATCH" else None

    api.answer = answer
    run = share(configs=[FOUR])
    assert run.rc == 1 and "The ConfigMap gpu-operator/gpuops-sharing cannot be changed" in run.result["msg"]


def test_the_config_map_is_deleted_only_when_no_operand_uses_it(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    plugin = next(
        item for item in api.lists[DAEMONSETS] if item["metadata"]["name"] == "nvidia-device-plugin-daemonset"
    )
    plugin["spec"]["template"]["spec"]["volumes"] = [{"name": "x", "configMap": {"name": "gpuops-sharing"}}]
    run = share(state="absent", timeout=1)
    assert run.rc == 1 and run.result["reason"] == "TimedOut" and data(api) == {KEY: TEXT}
    plugin["spec"]["template"]["spec"]["volumes"] = []
    assert share(state="absent").rc == 0 and api.lists[CONFIG_MAPS] == []


# ---- whose label it is ---------------------------------------------------------------------------------------------


def marks(api: FakeApi) -> list[str | None]:
    found = [item["metadata"].get("annotations", {}).get(MARK) for item in api.lists[NODES]]
    return [text and text.partition(" ")[0] for text in found]


@pytest.mark.parametrize("options", [{"state": "absent"}, {"configs": [], "purge": True}])
@pytest.mark.parametrize("policy_names", ["team-plugin-config", ""])
def test_the_sharing_of_another_team_stays_whatever_its_keys_look_like(
    share: t.Callable, api: FakeApi, options: dict, policy_names: str
) -> None:
    for number in (0, 1):
        node(api, number)["metadata"]["labels"][LABEL] = "t4-20240115"
    theirs = {"metadata": {"name": "team-plugin-config"}, "data": {"t4-20240115": TEXT}}
    api.lists[CONFIG_MAPS] = [theirs]
    api.lists[POLICIES][0]["spec"]["devicePlugin"] = {"config": {"name": policy_names}}
    run = share(**options)
    assert (run.rc, run.result["changed"], run.result["nodes"]) == (0, False, [])
    assert [labelled(api), labelled(api, 1)] == ["t4-20240115"] * 2 and api.lists[CONFIG_MAPS] == [theirs]


def test_a_marked_label_that_names_a_key_of_a_foreign_config_map_stays(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    api.lists[CONFIG_MAPS].append({"metadata": {"name": "theirs"}, "data": {KEY: TEXT}})
    api.lists[POLICIES][0]["spec"]["devicePlugin"] = {"config": {"name": "theirs"}}
    assert share(state="absent").rc == 0 and labelled(api) == KEY


def test_a_label_that_somebody_changed_after_us_is_theirs(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    node(api)["metadata"]["labels"][LABEL] = "t4-20240115"
    run = share(configs=[FOUR])
    assert run.result["reason"] == "Conflict" and labelled(api) == "t4-20240115"
    assert share(state="absent").rc == 0 and labelled(api) == "t4-20240115"


def test_labels_of_a_version_without_marks_are_ours_and_get_the_mark(share: t.Callable, api: FakeApi) -> None:
    share(configs=[BOTH])
    for item in api.lists[NODES]:
        del item["metadata"]["annotations"]
    predicted, run = share(configs=[BOTH], _ansible_check_mode=True), share(configs=[BOTH])
    assert predicted.result["changed"] is run.result["changed"] is True and marks(api) == [KEY, KEY]
    assert share(configs=[BOTH]).result["changed"] is False
    for item in api.lists[NODES]:
        del item["metadata"]["annotations"]
    share(state="absent")
    assert [labelled(api), labelled(api, 1)] == [None, None] and marks(api) == [None, None]


def test_an_unmarked_label_with_our_key_in_a_foreign_config_map_stays_and_is_named(
    share: t.Callable, api: FakeApi
) -> None:
    api.lists[CONFIG_MAPS] = [{"metadata": {"name": "theirs"}, "data": {KEY: TEXT, "other": "version: v1"}}]
    api.lists[POLICIES][0]["spec"]["devicePlugin"] = {"config": {"name": "theirs"}}
    node(api)["metadata"]["labels"][LABEL] = KEY
    run = share(state="absent", config_map="theirs")
    assert (run.rc, labelled(api), data(api)) == (0, KEY, {KEY: TEXT, "other": "version: v1"})
    assert run.warnings == wording(
        [
            "Somebody else has given gpu-0000 the label nvidia.com/device-plugin.config with t4-0a3a0ca6, so the label stays, and the key too. Remove the label where it was set."
        ]
    )


# ---- what somebody else does in the meantime -----------------------------------------------------------------------


def at_the_first_label(api: FakeApi, act_once: t.Callable[[], None]) -> None:
    """Let somebody else act when the module has begun with its first node."""
    before, acted = api.answer, []

    def answer(method: str, path: str) -> t.Any:
        if method == "PATCH" and path.startswith(NODES) and not acted:
            acted.append(path)
            act_once()
        return before(method, path)

    api.answer = answer


def test_a_key_that_a_node_gets_during_the_rollout_stays(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    at_the_first_label(api, lambda: node(api, 1)["metadata"]["labels"].update({LABEL: KEY}))
    run = share(configs=[{**FOUR, "replicas": 8}])
    assert (run.rc, run.result["pruned"], KEY in data(api)) == (0, [], True)


def test_a_key_that_somebody_adds_during_the_rollout_keeps_the_config_map(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    at_the_first_label(api, lambda: data(api).update({"theirs": "version: v1"}))
    run = share(state="absent")
    assert (run.rc, run.result["pruned"], data(api)) == (0, [KEY], {"theirs": "version: v1"})


@pytest.mark.parametrize("rest", [{}, {"theirs": "version: v1"}])
def test_a_config_map_that_changes_at_the_last_moment_keeps_its_keys(
    share: t.Callable, api: FakeApi, rest: dict[str, str]
) -> None:
    share(configs=[FOUR])
    data(api).update(rest)
    follow = api.answer

    def answer(method: str, path: str) -> t.Any:
        if method in ("PATCH", "DELETE") and path.startswith(CONFIG_MAPS):
            data(api)["later"] = "version: v1"
            return refusal(409, "the object has been modified", "Conflict")
        return follow(method, path)

    api.answer = answer
    run = share(state="absent")
    assert (run.rc, run.result["pruned"], KEY in data(api)) == (0, [], True)
    assert run.warnings[-1] == wording(
        "Somebody else has changed the ConfigMap gpuops-sharing just now, so its unused keys stay until the next call."
    )


def test_keys_without_a_node_can_stay_for_nodes_to_come(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    run = share(configs=[{**FOUR, "replicas": 8}], keep_unused=True)
    assert run.result["pruned"] == [] and len(data(api)) == 2
    assert share(configs=[{**FOUR, "replicas": 8}]).result["pruned"] == [KEY]


def test_a_label_that_somebody_sets_in_the_meantime_is_not_overwritten(share: t.Callable, api: FakeApi) -> None:
    share(configs=[BOTH])
    at_the_first_label(api, lambda: node(api, 1)["metadata"]["labels"].update({LABEL: "theirs"}))
    run = share(configs=[{**BOTH, "replicas": 8}], canary=1)
    assert labelled(api, 1) == "theirs" and row(run, 1)["reason"] == wording(
        "Somebody else has changed its label nvidia.com/device-plugin.config to theirs in the meantime."
    )


# ---- degraded nodes ------------------------------------------------------------------------------------------------


def unhealthy(api: FakeApi, name: str, number: str) -> None:
    """Let a node offer fewer GPUs than its configuration says, whatever happens."""
    before = api.answer

    def answer(method: str, path: str) -> t.Any:
        reply = before(method, path)
        item = next(item for item in api.lists[NODES] if item["metadata"]["name"] == name)
        if labels := item["metadata"]["labels"]:
            labels["nvidia.com/gpu.count"] = "8"
            item["status"]["allocatable"]["nvidia.com/gpu"] = number
        return reply

    api.answer = answer


def grow_old(api: FakeApi) -> None:
    for item in api.lists[NODES]:
        item["metadata"].get("annotations", {}).update(
            {MARK: f"{item['metadata']['labels'].get(LABEL)} 2026-01-01T00:00:00Z"}
        )


@pytest.mark.parametrize("canary", ["1", "0"])
def test_a_degraded_node_is_named_at_once_and_stops_nobody(share: t.Callable, api: FakeApi, canary: str) -> None:
    share(configs=[FOUR])
    grow_old(api)
    unhealthy(api, "gpu-0000", "28")
    predicted, run = (
        share(configs=[BOTH], canary=canary, _ansible_check_mode=True),
        share(configs=[BOTH], canary=canary),
    )
    assert run.rc == 0 and row(run, 1)["state"] == "done"
    assert (row(run)["state"], row(run)["failed"], row(run)["wave"]) == ("degraded", False, 0)
    assert (
        predicted.warnings
        == run.warnings
        == wording(
            [
                "Degraded, which stops no other node: gpu-0000: the device plugin offers 28 of nvidia.com/gpu instead of 32."
            ]
        )
    )
    again = share(configs=[BOTH])
    assert (again.rc, again.result["changed"], row(again)["seconds"]) == (0, False, 0.0)


def test_a_label_of_a_run_that_was_killed_is_still_proved(share: t.Callable, api: FakeApi) -> None:
    share(configs=[FOUR])
    unhealthy(api, "gpu-0000", "28")
    run = share(configs=[BOTH], canary="1")
    assert (run.rc, row(run)["state"], row(run, 1)["state"]) == (0, "degraded", "done")
    assert "28 of nvidia.com/gpu instead of 32" in row(run)["degraded"] and row(run)["wave"] == 0
    assert ["gpu-0000" in said for said in run.warnings] == [True]


def test_a_node_with_two_models_is_judged_by_all_of_its_gpus(share: t.Callable, api: FakeApi) -> None:
    follow = api.answer

    def answer(method: str, path: str) -> t.Any:
        reply = follow(method, path)
        node(api)["metadata"]["labels"]["nvidia.com/gpu.count"] = "4"  # of one model: four others are there too
        return reply

    api.answer = answer
    run = share(configs=[FOUR])
    assert (run.rc, row(run)["state"], row(run)["resources_after"]) == (0, "done", {"nvidia.com/gpu": 32})
    assert share(configs=[FOUR]).result["changed"] is False
