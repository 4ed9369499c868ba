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
import typing as t
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api as _cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import drain
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import rollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, FAULTS, NODES, POLICIES, FakeApi, fault, refusal
from tests.unit.fakes.stack import workload

CONFIG_MAPS = "/api/v1/namespaces/gpu-operator/configmaps"
LABEL = "nvidia.com/device-plugin.config"
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
def share(run_module: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    """The module with quick waits, on two nodes with eight GPUs each whose device plugin acts at once."""
    for name, seconds in {"LATE_PODS_S": 0.02, "EVICTION_RETRY_S": 0.02}.items():
        monkeypatch.setattr(drain, name, seconds)
    for name in ("ROLLOUT_PERIOD_S", "POLL_S"):
        monkeypatch.setattr(waiting, name, 0.01)
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.5)
    for name in ("DOCTOR_S", "SETTLE_S"):
        monkeypatch.setattr(rollout, name, 0.05)
    api.lists[CONFIG_MAPS] = []
    api.answer = functools.partial(play, api)
    return functools.partial(run_module, "gpu_sharing", **{"timeout": 3, **api.connection})


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
    assert (
        run.rc == 1
        and "Somebody else has set the label nvidia.com/device-plugin.config of gpu-0000 (mine)" in (run.result["msg"])
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
        "1 GPU pod on gpu-0000 (default/train) keeps its devices. Until they have ended, other pods can get the same "
        "GPUs."
    ]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (None, {"strategy": "mps", "replicas": 4}, "the MPS control daemon takes the GPUs that these pods use"),
        ({"strategy": "mps", "replicas": 4}, {"strategy": "mps", "replicas": 8}, "the MPS control daemon, on which"),
        (
            {"strategy": "time-slicing", "replicas": 4},
            {"strategy": "none"},
            "these pods hold 12 of nvidia.com/gpu, and the node would offer 8",
        ),
        (
            None,
            {"strategy": "time-slicing", "replicas": 4, "rename_by_default": True},
            "these pods hold 12 of nvidia.com/gpu, and the node would offer 0",
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
    predicted = share(configs=[{**first, **after}], _ansible_check_mode=True)
    assert predicted.rc == 0 and why in predicted.warnings[0] and len(writes(api)) == count
    allowed = share(configs=[{**first, **after}], allow_disruption=True)
    assert allowed.rc == 0 and row(allowed)["evicted"] == ["default/train"] and api.lists[ALL_PODS] == []
    assert row(allowed)["state"] == "done"
    assert not node(api)["spec"].get("unschedulable") and not node(api)["metadata"].get("annotations")


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
    is_held = bool(item["metadata"].get("annotations"))
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
    run = share(configs=[MPS], allow_disruption=True, drain_timeout=1, progress_path=str(progress))
    assert run.rc == 1 and run.result["reason"] == "NodesFailed" and "gpu-0000" in run.result["msg"]
    assert "PodDisruptionBudget default/web forbids its eviction" in row(run)["reason"] and is_plain(api)
    assert "gpu-0000: it waits for 1 pod to leave (default/web: the PodDisruptionBudget" in progress.read_text()


def test_a_node_that_takes_long_to_empty_holds_up_no_other(share: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("slow"), workload("quick", 1)]
    api.end = api.lists[ALL_PODS].remove
    refuse = forbids("slow")
    seen: list[bool] = []

    def answer(method: str, path: str) -> t.Any:
        play(api, method, path)
        is_done = labelled(api, 1) is not None and not node(api, 1)["metadata"].get("annotations")
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
    assert predicted.rc == 0 and "others have finished their work on it: gpu-operator" in predicted.warnings[0]
    run = share(configs=[MPS], allow_disruption=True, timeout=1)
    assert run.rc == 1 and "was still at work on it after" in row(run)["reason"] and is_plain(api)
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
    assert node(api)["spec"]["unschedulable"] is True and not node(api)["metadata"].get("annotations")


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
    assert not node(api)["spec"].get("unschedulable") and not node(api)["metadata"].get("annotations")
    assert row(run)["notes"] == ["Somebody else uncordoned it in the middle of its change. It is cordoned again."]


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
    assert labelled(api) is not None and not node(api)["metadata"].get("annotations")


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


def test_a_signal_puts_back_the_nodes_in_the_middle_of_their_change(share: t.Callable, api: FakeApi) -> None:
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
    assert row(run)["state"] == "changing" and not node(api)["spec"].get("unschedulable")
    api.answer = functools.partial(play, api)
    assert share(configs=[MPS], allow_disruption=True).rc == 0


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
        assert not node(api)["spec"].get("unschedulable") and not node(api)["metadata"].get("annotations"), last
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
        assert not is_out or "It stays in maintenance" in said, (number, hit[0], first.result)
        again = share(configs=[wanted], allow_disruption=True)
        assert again.rc == 0 and row(again)["state"] in ("done", "unchanged"), (number, hit[0], again.result)
        assert not node(api)["spec"].get("unschedulable") and not node(api)["metadata"].get("annotations"), hit[0]
    assert number > 10 and first.rc == 0


def test_a_signal_during_the_release_does_not_lose_the_node(
    share: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.lists[ALL_PODS][:] = [workload("train")]
    real = rollout.release
    held: list[bool] = []

    def release(*arguments: t.Any) -> t.Any:
        held.append(bool(node(api)["spec"].get("unschedulable")))
        if len(held) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    monkeypatch.setattr(rollout, "release", release)
    run = share(configs=[MPS], allow_disruption=True)
    assert run.rc == 1 and run.result["reason"] == "Interrupted" and held == [True, True]
    assert row(run)["state"] == "done" and not node(api)["spec"].get("unschedulable")


def test_a_cordon_without_an_answer_is_undone_if_no_further_node_is_begun(
    share: t.Callable, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node is gone while another's cordon gets no answer. After the failure, nobody takes the other again."""
    api.lists[ALL_PODS] = [workload("train"), workload("web", 1)]
    api.answer = lambda method, path: refusal(404, "not found") if path == f"{NODES}/gpu-0001" else None
    real = _cluster.Cluster.merge
    cordoned: list[bool] = []

    def merge(self: t.Any, path: str, body: dict) -> dict:
        made = real(self, path, body)
        if not cordoned and path == f"{NODES}/gpu-0000":
            cordoned.append(node(api)["spec"]["unschedulable"])
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
    assert "0/1 nodes share their GPUs as asked; gpu-0000: GPU Feature Discovery shows" in progress.read_text()


def test_a_node_that_is_gone_or_not_ready_fails_with_that_cause(share: t.Callable, api: FakeApi) -> None:
    def leave(method: str, path: str) -> None:
        play(api, method, path)
        if labelled(api):
            api.lists[NODES] = api.lists[NODES][1:]

    node(api, 1)["status"]["conditions"][0]["status"] = "False"
    api.answer = lambda method, path: None
    run = share(configs=[{**FOUR, "nodes": ["gpu-0001"]}], timeout=1)
    assert run.rc == 1 and "the node is not Ready" in run.result["msg"]
    api.answer = lambda method, path: leave(method, path) if method == "GET" and path == NODES else None
    run = share(configs=[FOUR])
    assert run.rc == 1 and "gpu-0000: The node was deleted in the meantime" in run.result["msg"]


def test_a_node_that_is_deleted_before_its_label_fails_alone(share: t.Callable, api: FakeApi) -> None:
    def answer(method: str, path: str) -> t.Any:
        play(api, method, path)
        is_label = method == "PATCH" and path == f"{NODES}/gpu-0000"
        return refusal(404, "nodes gpu-0000 not found", "NotFound") if is_label else None

    api.answer = answer
    run = share(configs=[BOTH], max_failed="1")
    assert row(run)["reason"] == "The node was deleted in the meantime." and row(run, 1)["state"] == "done"


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
    run = share(configs=[FOUR], timeout=5)
    assert run.rc == 0 and row(run)["repaired"] == [name] and row(run)["state"] == "done"


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Give configs, or purge: true"),
        ({"configs": [FOUR, FOUR]}, "two configurations with the name t4"),
        ({"configs": [{"name": "t4", "strategy": "none"}]}, "give either nodes or node_selector"),
        (
            {"configs": [{**FOUR, "replicas": 1}]},
            "replicas is 1, and the device plugin would not start with less than 2",
        ),
        ({"configs": [{**FOUR, "nodes": ["gpu-9999"]}]}, "the cluster has no node gpu-9999"),
        ({"configs": [{**BOTH, "node_selector": {"pool": "a"}}]}, "no node has the labels {'pool': 'a'}"),
        ({"configs": [FOUR, {**BOTH, "name": "all"}]}, "Configurations t4 and all both choose node gpu-0000"),
        ({"configs": [{**FOUR, "strategy": "mps", "replicas": 49}]}, "MPS serves at most 48 pods on a GPU"),
        ({"configs": [FOUR], "timeout": 0}, "timeout is 0: give 1 or more"),
        ({"configs": [FOUR], "max_unavailable": "all"}, "max_unavailable is 'all'"),
        ({"configs": [FOUR], "canary": ["gpu-0001"]}, "canary names gpu-0001, which this call does not change"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    share: t.Callable, api: FakeApi, options: dict, said: str
) -> None:
    run = share(**options)
    assert run.rc == 1 and said in run.result["msg"], run.result["msg"]
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
