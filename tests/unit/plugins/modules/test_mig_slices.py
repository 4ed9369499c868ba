# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real ``main()`` against a small API server in this process, where the test plays the driver."""

from __future__ import annotations

import copy
import functools
import typing as t

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, FakeApi, refusal
from tests.unit.fakes.claimed import CLAIMS, SLICES, claim, gpu, mig, slice_of
from tests.unit.fakes.stack import Json, workload

Run = t.Callable[..., t.Any]

STACK = "/api/v1/namespaces/gpu-operator/pods"
HOST: list[Json] = [
    {"uuid": "GPU-0", "mig": {"mode": False, "pending": False, "instances": []}},
    {
        "uuid": "GPU-1",
        "mig": {"mode": True, "pending": True, "instances": [{"uuid": "MIG-1-0", "profile": "1g.10gb"}]},
    },
]
NODES = [{"name": "gpu-0000", "gpus": HOST}]
DIVIDED = slice_of(0, gpu(0), mig(1, 0), generation=2)


def pod(name: str, app: str, uid: str = "1", owner: str = "DaemonSet", number: int = 0, **metadata: str) -> Json:
    made = workload(name, number, gpus=0, controller=owner, **metadata)
    made["metadata"] |= {"namespace": "gpu-operator", "uid": f"uid-{uid}", "labels": {"app": app}}
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


PLUGIN = functools.partial(pod, "plugin-0", "nvidia-dra-driver-kubelet-plugin")


class Driver:
    """The driver's pod on a node: its successor offers what the host has."""

    def __init__(self, api: FakeApi) -> None:
        self.api, self.offers = api, copy.deepcopy(DIVIDED)
        exporter = pod("exporter-0", "nvidia-dcgm-exporter-dra", "3")
        watched = claim("exporter-0-gpu", "gpu-0000", "gpu-0", "gpu-1", pods=["exporter-0"], admin=True)
        watched["metadata"]["namespace"] = "gpu-operator"
        api.lists |= {SLICES: [slice_of(0)], CLAIMS: [watched], STACK: [PLUGIN(), exporter]}
        api.lists[ALL_PODS] = api.lists[STACK]
        api.answer = self._answer

    def _answer(self, method: str, path: str) -> tuple[int, Json] | None:
        """Bring up a new pod once the old one is away."""
        if method == "GET" and path == SLICES and "plugin-0" not in self.names:
            self.api.lists[STACK].append(PLUGIN("2"))
            self.api.lists[SLICES] = [self.offers]
        return None

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.api.lists[STACK]]

    @property
    def deleted(self) -> list[str]:
        return [
            path.rpartition("/")[2]
            for method, path, query in self.api.log
            if method == "DELETE" and "dryRun" not in query
        ]


@pytest.fixture
def driver(api: FakeApi) -> Driver:
    return Driver(api)


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    return functools.partial(run_module, "mig_slices", **{**api.connection, "nodes": NODES, "timeout": 0})


def test_check_and_run_say_the_same_and_a_second_run_changes_nothing(driver: Driver, module: Run) -> None:
    dry = module(_ansible_check_mode=True)
    assert (dry.rc, dry.result["changed"], driver.deleted) == (0, True, [])
    done = module()
    assert (done.rc, done.result) == (0, {**done.result, **{key: dry.result[key] for key in ("nodes", "diff")}})
    (row,) = done.result["nodes"]
    assert (row["before"], row["after"]) == ({"gpu": 2}, {"1g.10gb": 1, "gpu": 1})
    assert row["restarts"] == ["gpu-operator/plugin-0", "gpu-operator/exporter-0"]
    assert driver.deleted == ["plugin-0", "exporter-0"]
    again = module()
    assert (again.result["changed"], again.result["nodes"][0]["restarts"]) == (False, [])
    assert again.result["diff"] == {"before": {}, "after": {}} and len(driver.deleted) == 2


def test_claims_must_go_first(driver: Driver, module: Run) -> None:
    held = claim("train-gpu", "gpu-0000", "gpu-1", pods=["train"])
    driver.api.lists[CLAIMS].append(held)
    run = module()
    assert (run.rc, run.result["reason"], run.result["users"]) == (1, "InUse", ["default/train on gpu-0000"])
    assert module(_ansible_check_mode=True).result["msg"] == run.result["msg"]
    drained = module(_ansible_check_mode=True, after_drain=True)
    assert (drained.rc, drained.result["nodes"][0]["users"]) == (0, ["default/train"])
    assert drained.warnings == [run.result["msg"]]
    assert module(after_drain=True).rc == 1 and driver.deleted == []
    held["status"]["reservedFor"] = []
    assert module().result["users"] == ["default/train-gpu on gpu-0000"]
    held["status"]["allocation"]["devices"]["results"][0]["pool"] = "gpu-0001"
    assert module().rc == 0


def test_claims_of_a_node_that_offers_what_it_has_are_no_obstacle(driver: Driver, module: Run) -> None:
    driver.api.lists[SLICES] = [DIVIDED]
    driver.api.lists[CLAIMS] = [claim("train-gpu", "gpu-0000", "gpu-0", pods=["train"])]
    run = module()
    assert (run.rc, run.result["changed"], driver.deleted) == (0, False, [])


def test_a_run_that_ended_before_the_watchers_goes_on(driver: Driver, module: Run) -> None:
    driver.api.lists[SLICES] = [DIVIDED]
    dry = module(_ansible_check_mode=True)
    run = module()
    assert dry.result["nodes"] == run.result["nodes"] and run.result["changed"] is True
    assert driver.deleted == ["exporter-0"]
    driver.api.lists[STACK].append(pod("exporter-0", "nvidia-dcgm-exporter-dra", "3", deletionTimestamp="now"))
    assert module().result["changed"] is False, "a pod that is being deleted has its successor before it"


def test_pods_of_others_that_watch_stay(driver: Driver, module: Run) -> None:
    other = claim("agent-gpu", "gpu-0000", "gpu-0", pods=["agent"], admin=True)
    driver.api.lists |= {"/api/v1/namespaces/default/pods": [workload("agent", controller="DaemonSet")]}
    driver.api.lists[CLAIMS] = [other]
    assert module().result["nodes"][0]["restarts"] == ["gpu-operator/plugin-0"]
    single = pod("debug", "debug", "4", owner="")
    driver.api.lists[STACK].append(single)
    mine = claim("debug-gpu", "gpu-0000", "gone", pods=["debug", "gone"], admin=True)
    mine["metadata"]["namespace"] = "gpu-operator"
    driver.api.lists[CLAIMS] = [mine]
    assert module().result["nodes"][0]["restarts"] == []


def test_slices_that_stay_wrong_fail_with_what_they_lack(driver: Driver, module: Run) -> None:
    driver.offers = slice_of(0, gpu(0), generation=2)
    run = module()
    assert (run.rc, run.result["reason"], run.result["changed"]) == (1, "TimedOut", True)
    assert "gpu-0000 (lacks 1 x 1g.10gb)" in run.result["msg"] and driver.deleted == ["plugin-0"]


def test_the_right_slices_of_a_pod_that_is_not_ready_are_no_proof(driver: Driver, module: Run) -> None:
    driver.api.answer = lambda method, path: None
    starting = PLUGIN("2", number=0)
    starting["status"]["conditions"] = []
    driver.api.lists[STACK].append({**starting, "metadata": {**starting["metadata"], "name": "plugin-1"}})
    driver.api.lists[SLICES] = [slice_of(0, gpu(0), mig(1, 0), mig(1, 1), generation=1)]
    run = module()
    assert (run.rc, run.result["reason"]) == (1, "TimedOut") and "offers 1 x 1g.10gb" in run.result["msg"]


def test_a_pod_that_was_replaced_since_is_not_deleted(driver: Driver, module: Run) -> None:
    def replaced(method: str, path: str) -> tuple[int, Json] | None:
        if method == "DELETE" and path.endswith("plugin-0"):
            driver.api.lists[STACK][0]["metadata"]["uid"] = "uid-2"
            driver.api.lists[SLICES] = [DIVIDED]
        return None

    driver.api.answer = replaced
    run = module()
    assert (run.rc, run.result["changed"]) == (0, True) and "plugin-0" in driver.names


def test_other_refusals_of_a_deletion_are_told(driver: Driver, module: Run) -> None:
    driver.api.answer = lambda method, path: refusal(403, "no", "Forbidden") if method == "DELETE" else None
    run = module()
    assert (run.rc, run.result["reason"]) == (1, "Forbidden")


@pytest.mark.parametrize("owner", ["", "ReplicaSet"])
def test_a_node_without_a_plugin_that_comes_back(driver: Driver, module: Run, owner: str) -> None:
    driver.api.lists[STACK][:] = [PLUGIN(owner=owner)]
    run = module()
    assert (run.rc, run.result["reason"], driver.deleted) == (1, "NotReady", [])


def test_the_driver_makes_dynamic_instances_itself(driver: Driver, module: Run) -> None:
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "1"}}}]
    driver.api.lists[SLICES][0]["spec"]["sharedCounters"] = counters
    run = module()
    assert (run.result["reason"], run.result["msg"]) == (
        "Unsupported",
        wording(
            "gpu-0000: NVIDIA's driver makes the MIG instances of this node itself (feature gate DynamicMIG), and removes others. Leave them to it, or switch the gate off."
        ),
    )


def test_what_cannot_be_read_is_no_proof(driver: Driver, module: Run) -> None:
    driver.api.answer = lambda method, path: refusal(403, "may not list", "Forbidden") if path == SLICES else None
    run = module()
    assert (run.rc, run.result["reason"], driver.deleted) == (1, "Forbidden", [])


def test_a_node_is_named_once(driver: Driver, module: Run) -> None:
    assert module(nodes=NODES * 2).result["reason"] == "Invalid"
    assert module(nodes=[]).result["changed"] is False
