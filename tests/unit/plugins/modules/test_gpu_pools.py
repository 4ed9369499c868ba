# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import os
import re
import signal
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from inline_snapshot import snapshot as wording

from tests.support.clock import LeapingClock
from tests.unit.fakes import node_kinds
from tests.unit.fakes.api import ALL_PODS, NODES, FakeApi, refusal
from tests.unit.fakes.node_kinds import LABEL
from tests.unit.fakes.pools import FOUR, PoolOperator
from tests.unit.fakes.stack import workload

Json = dict[str, t.Any]

FIRST, SECOND = "gpu-0000", "gpu-0001"
VM: Json = {"name": "desktops", "nodes": [FIRST], "kind": "vm-passthrough"}
WEB: Json = {"name": "web", "nodes": [SECOND], "sharing": FOUR}
BACK: Json = {"name": "desktops", "nodes": [FIRST], "sharing": FOUR}
HOLD = "gpuops.nvidia/maintenance."


@pytest.fixture
def operator(api: FakeApi) -> PoolOperator:
    """An operator with all operands of all kinds, whose nodes follow their labels at once."""
    return PoolOperator(api)


@pytest.fixture
def call(
    run_module: t.Callable, api: FakeApi, operator: PoolOperator, leaps: LeapingClock, monkeypatch: pytest.MonkeyPatch
) -> t.Callable:
    """The module with a clock that leaps over its waits, on two nodes with eight GPUs each."""
    monkeypatch.setattr(waiting, "POLL_S", 2.0)
    return functools.partial(run_module, "gpu_pools", **{"timeout": 60, "drain_timeout": 30, **api.connection})


def node(api: FakeApi, name: str = FIRST) -> Json:
    return next(item for item in api.lists[NODES] if item["metadata"]["name"] == name)


def offers(api: FakeApi, name: str = FIRST) -> Json:
    listed = node(api, name)["status"]["allocatable"]
    return {key: int(number) for key, number in listed.items() if key.startswith("nvidia.com/") and number != "0"}


def notes(api: FakeApi, name: str = FIRST) -> list[str]:
    """Return the annotations of a node, and whether it is cordoned."""
    found = sorted(node(api, name)["metadata"].get("annotations") or {})
    return [*found, *(["cordoned"] if node(api, name)["spec"].get("unschedulable") else [])]


def writes(api: FakeApi) -> list[str]:
    return [f"{method} {path}" for method, path, query in api.log if method != "GET" and "dryRun" not in query]


def row(run: t.Any, name: str = FIRST) -> Json:
    return next(item for item in run.result["nodes"] if item["node"] == name)


# ---- there, elsewhere and back --------------------------------------------------------------------------------------


def test_nodes_are_predicted_changed_proved_and_then_left_alone(call: t.Callable, api: FakeApi) -> None:
    predicted = call(pools=[VM, WEB], _ansible_check_mode=True, _ansible_diff=True)
    assert (predicted.rc, predicted.result["changed"], writes(api)) == (0, True, [])
    run = call(pools=[VM, WEB], _ansible_diff=True)
    assert (run.rc, run.result["changed"], run.warnings) == (0, True, [])
    assert run.result["diff"] == predicted.result["diff"]
    for made in (predicted, run):
        assert [(row(made, name)["changes"], row(made, name)["drained"]) for name in (FIRST, SECOND)] == [
            ({"kind": "container to vm-passthrough"}, True),
            ({"sharing": "web"}, False),
        ]
    assert [row(made, name)["state"] for made in (predicted, run) for name in (FIRST, SECOND)] == [
        "pending",
        "pending",
        "done",
        "done",
    ]
    assert (offers(api), offers(api, SECOND)) == ({node_kinds.A10: 8}, {"nvidia.com/gpu": 32})
    assert (notes(api), notes(api, SECOND)) == (["gpuops.nvidia/workload-kind"], ["gpuops.nvidia/sharing"])
    before = len(writes(api))
    for again in (call(pools=[VM, WEB], _ansible_check_mode=True), call(pools=[VM, WEB])):
        assert (again.rc, again.result["changed"], row(again)["state"]) == (0, False, "unchanged")
    assert len(writes(api)) == before


def test_another_declaration_takes_back_what_it_does_not_name(
    call: t.Callable, api: FakeApi, operator: PoolOperator
) -> None:
    call(pools=[VM, WEB])
    predicted = call(pools=[BACK], _ansible_check_mode=True)
    run = call(pools=[BACK])
    for made in (predicted, run):
        assert row(made)["changes"] == {"kind": "vm-passthrough to container", "sharing": "desktops"}
        assert (row(made, SECOND)["pool"], row(made, SECOND)["changes"]) == ("", {"sharing": "plain"})
        assert [key.rpartition("-")[0] for key in made.result["pruned"]] == ["web"]
    assert run.rc == 0 and [key.rpartition("-")[0] for key in operator.texts] == ["desktops"]
    assert (offers(api), offers(api, SECOND)) == ({"nvidia.com/gpu": 32}, {"nvidia.com/gpu": 8})
    assert call(pools=[BACK]).result["changed"] is False
    gone = call(pools=[])
    assert (gone.rc, offers(api), notes(api), operator.texts) == (0, {"nvidia.com/gpu": 8}, [], {})
    for again in (call(pools=[], _ansible_check_mode=True), call(pools=[])):
        assert (again.result["changed"], again.result["nodes"]) == (False, [])


def test_a_shared_node_goes_to_machines_in_one_drain(call: t.Callable, api: FakeApi) -> None:
    call(pools=[BACK])
    api.lists[ALL_PODS] = [workload("train")]
    run = call(pools=[VM], allow_disruption=True)
    assert (run.rc, row(run)["evicted"], row(run)["changes"]) == (
        0,
        ["default/train"],
        {"sharing": "plain", "kind": "container to vm-passthrough"},
    )
    assert offers(api) == {node_kinds.A10: 8}


# ---- who is in the way -----------------------------------------------------------------------------------------------


def test_pods_with_gpus_are_named_and_leave_only_with_permission(call: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("train"), workload("web", gpus=0)]
    for checks in (True, False):
        run = call(pools=[VM], _ansible_check_mode=checks)
        assert (run.rc, run.result["reason"], writes(api)) == (1, "PodsInTheWay", [])
        assert row(run)["pods"] == ["default/train"] and "default/train" in run.result["msg"]
    warned = call(pools=[VM], check_refusal="warn", _ansible_check_mode=True)
    assert warned.rc == 0 and warned.warnings[0].startswith(WOULD_STOP)
    predicted = call(pools=[VM], allow_disruption=True, _ansible_check_mode=True)
    assert row(predicted)["evicted"] == ["default/train"] and len(api.lists[ALL_PODS]) == 2
    assert row(call(pools=[VM], allow_disruption=True))["evicted"] == ["default/train"]


def test_a_label_of_somebody_else_is_refused_unless_replaced(call: t.Callable, api: FakeApi) -> None:
    node(api)["metadata"]["labels"][LABEL] = "vm-vgpu"
    run = call(pools=[VM, WEB])
    assert (run.rc, run.result["reason"], writes(api)) == (1, "Conflict", []) and FIRST in run.result["msg"]
    assert call(pools=[]).result["nodes"] == []
    assert call(pools=[VM, WEB], replace_labels=True).rc == 0


def test_a_declaration_that_cannot_work_is_refused_as_a_whole(call: t.Callable, api: FakeApi) -> None:
    mps = {"name": "mps", "nodes": [SECOND], "sharing": {"strategy": "mps", "replicas": 500}}
    for checks in (True, False):
        run = call(pools=[VM, mps], _ansible_check_mode=checks)
        assert (run.rc, run.result["reason"], writes(api)) == (1, "Invalid", [])
        assert "mps" in run.result["msg"]


# ---- failures ----------------------------------------------------------------------------------------------------------


def test_a_node_that_fails_stays_held_and_the_next_run_goes_on(
    call: t.Callable, api: FakeApi, operator: PoolOperator
) -> None:
    operator.unready[FIRST] = "nvidia-sandbox-validator"
    run = call(pools=[VM, WEB], max_failed=1)
    assert run.rc == 0 and row(run)["failed"] and row(run, SECOND)["state"] == "done"
    assert [re.sub(r"for \d+ s", "for 60 s", said) for said in run.warnings] == wording(
        [
            "Node gpu-0000: pod nvidia-sandbox-validator-gpu-0000 is not Ready for 60 s; pod nvidia-sandbox-validator-gpu-0000: container main: vfio-pci-validation failed. It stays cordoned for the purpose pool."
        ]
    )
    assert {"cordoned", "gpuops.nvidia/failed.pool", f"{HOLD}pool", f"{HOLD}workload-kind"} <= set(notes(api))
    operator.unready.clear()
    predicted = call(pools=[VM, WEB], _ansible_check_mode=True)
    assert row(predicted)["resumed"] and row(predicted)["changed"]
    again = call(pools=[VM, WEB])
    assert (again.rc, notes(api), offers(api)) == (0, ["gpuops.nvidia/workload-kind"], {node_kinds.A10: 8})


def test_too_many_failures_end_the_call(call: t.Callable, api: FakeApi, operator: PoolOperator) -> None:
    operator.unready[FIRST] = "nvidia-sandbox-validator"
    both = {**VM, "nodes": [FIRST, SECOND]}
    run = call(pools=[both])
    assert (run.rc, run.result["reason"]) == (1, "NodesFailed")
    assert [(row(run, name)["failed"], row(run, name)["state"]) for name in (FIRST, SECOND)] == [
        (True, "failed"),
        (False, "pending"),
    ]
    assert notes(api, SECOND) == []


def test_a_signal_in_the_middle_is_said_and_the_next_run_goes_on(
    call: t.Callable, api: FakeApi, operator: PoolOperator
) -> None:
    def after_the_label(method: str, path: str) -> None:
        if method == "GET" and path == NODES and LABEL in node(api)["metadata"]["labels"]:
            operator.sees = lambda method, path: None
            os.kill(os.getpid(), signal.SIGTERM)

    operator.sees = after_the_label
    run = call(pools=[VM])
    assert (run.rc, run.result["reason"]) == (1, "Interrupted") and "cordoned" in notes(api)
    assert call(pools=[VM]).rc == 0 and notes(api) == ["gpuops.nvidia/workload-kind"]


def test_the_api_server_fails_before_the_first_change(call: t.Callable, api: FakeApi, operator: PoolOperator) -> None:
    operator.sees = lambda method, path: refusal(403, "no") if path == NODES else None
    run = call(pools=[VM])
    assert (run.rc, run.result["reason"], writes(api)) == (1, "Forbidden", [])


def test_nodes_wait_for_a_window(call: t.Callable, api: FakeApi, operator: PoolOperator) -> None:
    closed = {"windows": ["00:00-00:01"], "time_zone": "UTC"}
    for checks in (True, False):
        run = call(pools=[VM, WEB], _ansible_check_mode=checks, **closed)
        assert (run.rc, run.result["changed"], run.result["finished"], writes(api)) == (0, False, False, [])
        assert "maintenance window" in row(run)["waits_for"]
