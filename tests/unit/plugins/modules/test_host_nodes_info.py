# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from tests.unit.fakes.api import NODES, FakeApi, refusal


def test_the_nodes_of_two_hosts_in_one_call(run_module: t.Callable, api: FakeApi) -> None:
    api.lists[NODES][1]["status"]["nodeInfo"]["machineID"] = "m1"
    hosts = [{"name": "GPU-0000.example.com", "names": ["GPU-0000.example.com"]}, {"name": "b", "machine_id": "M1"}]
    run = run_module("host_nodes_info", **api.connection, hosts=hosts)
    assert (run.rc, run.result["changed"]) == (0, False)
    rows = run.result["nodes"]
    assert [rows[host["name"]]["node"] for host in hosts] == ["gpu-0000", "gpu-0001"]
    assert [rows[host["name"]]["by"] for host in hosts] == [["name"], ["machine ID"]]
    assert [path for method, path, query in api.log if path == NODES] == [NODES]


def test_a_refused_list_fails_the_module(run_module: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: refusal(403, "nodes is forbidden", "Forbidden") if path == NODES else None
    run = run_module("host_nodes_info", **api.connection, hosts=[{"name": "gpu1"}])
    assert run.rc == 1 and run.result["reason"] == "Forbidden"
    assert run.result["msg"].startswith("Cannot tell whether gpu1 is a node: No permission: nodes is forbidden.")


def test_a_negative_wait_is_refused(run_module: t.Callable, api: FakeApi) -> None:
    run = run_module("host_nodes_info", **api.connection, hosts=[], wait_timeout=-1)
    assert run.rc == 1 and "wait_timeout" in run.result["msg"]
