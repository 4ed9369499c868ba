# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from tests.unit.fakes.api import NODES, POLICIES, FakeApi, refusal

Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    return lambda **options: run_module("clusterpolicy_info", **{**api.connection, **options})


@pytest.mark.parametrize("wait", [True, False])
def test_a_ready_stack(api: FakeApi, module: Run, wait: bool) -> None:
    api.lists[POLICIES][0]["metadata"]["managedFields"] = [
        {"manager": "helm", "fieldsV1": {"f:spec": {"f:mig": {"f:strategy": {}}}}}
    ]
    run = module(wait=wait)
    assert (
        run.rc == 0
        and run.result["changed"] is False
        and run.result["exists"] is True
        and run.result["state"] == "ready"
    )
    assert run.result["owners"] == {"spec.mig.strategy": ["helm"]} and run.result["versions"]["driver"] == "1.0"
    assert [item["type"] for item in run.result["conditions"]] == ["Ready", "Error"] and run.result["verdict"][
        "state"
    ] == "ready"
    assert "managedFields" not in run.result["clusterpolicy"]["metadata"]
    assert run.result["operands"][0]["images"] == ["nvcr.io/nvidia/driver:1.0"]


def test_there_is_no_clusterpolicy(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES] = []
    run = module()
    assert (
        run.rc == 0
        and run.result["exists"] is False
        and run.result["clusterpolicy"] == {}
        and run.result["owners"] == {}
    )
    assert run.result["verdict"]["reasons"][0]["code"] == "NoClusterPolicy"


def test_a_wait_that_times_out_says_why(api: FakeApi, module: Run) -> None:
    api.lists[POLICIES] = []
    run = module(wait=True, wait_timeout=0)
    assert run.rc == 1 and run.result["reason"] == "TimedOut" and run.result["verdict"]["state"] == "progressing"
    assert not run.result.keys() & {"clusterpolicy", "operands"}
    assert module(wait=True, wait_timeout=0, _ansible_check_mode=True).rc == 0


def test_a_negative_timeout_is_refused(api: FakeApi, module: Run) -> None:
    assert module(wait_timeout=-5).result["msg"] == "wait_timeout is -5: give 0 or more." and api.log == []


def test_no_permission(api: FakeApi, module: Run) -> None:
    api.answer = lambda method, path: refusal(403, "nodes is forbidden") if path.endswith("/nodes") else None
    assert module().result["msg"].startswith("No permission: nodes is forbidden")


@pytest.mark.parametrize("wait", [True, False])
def test_a_node_that_is_down_may_be_left_out(api: FakeApi, module: Run, wait: bool) -> None:
    api.lists[NODES][1]["status"]["conditions"][0]["status"] = "Unknown"
    assert module(wait=wait, wait_timeout=0).result["verdict"]["state"] == "progressing"
    for tolerated in ({"exclude_nodes": ["gpu-0001"]}, {"max_unready": "1"}):
        run = module(wait=wait, wait_timeout=0, **tolerated)
        assert run.rc == 0 and run.result["verdict"]["state"] == "ready" and run.result["verdict"]["nodes_total"] == 1
