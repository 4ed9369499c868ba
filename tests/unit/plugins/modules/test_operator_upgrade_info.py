# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import NODES, POLICIES, FakeApi
from tests.unit.fakes.upgrades.upgrading import SECRETS, install, release


@pytest.fixture
def look(run_module: t.Callable, api: FakeApi) -> t.Callable:
    install(api)
    api.lists[POLICIES][0]["spec"]["driver"] = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580"}
    return functools.partial(run_module, "operator_upgrade_info", app_version="v26.7.0", **api.connection)


def test_a_known_step(api: FakeApi, look: t.Callable) -> None:
    found = look().result
    assert found["installed"] == {"app_version": "v26.3.3", "chart_version": "v26.3.3"}
    assert (found["direction"], found["verdict"], found["driver"]) == ("up", "manual", "evicts")
    assert found["steps"] == ["v26.3 to v26.7"] and found["restarts"] == ["operator", "operands", "runtime"]
    assert found["driver_pin"] == {"driver": {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580"}}
    assert found["summary"]["failures"] == 0 and found["sources"][0].startswith("https://docs.nvidia.com/")
    assert not found["changed"] and {method for method, dummy, dummy2 in api.log} == {"GET"}


def test_the_same_release(look: t.Callable) -> None:
    found = look(app_version="v26.3.3").result
    assert (found["direction"], found["driver"], found["steps"], found["findings"]) == ("none", "none", [], [])


def test_the_way_back(api: FakeApi, look: t.Callable) -> None:
    api.lists[SECRETS][:] = [release(1, "v26.7.0")]
    found = look(app_version="v26.3.3").result
    assert found["direction"] == "back" and [item["check"] for item in found["findings"]] == ["way_back"]


def test_failures_come_first_and_can_be_accepted(look: t.Callable) -> None:
    values = {"kataManager": {"enabled": True}}
    found = look(values=values).result
    assert [item["level"] for item in found["findings"]] == ["failure"] and found["summary"]["failures"] == 1
    assert look(values=values, accept=["kata-manager-ignored"]).result["summary"]["failures"] == 0
    assert look(values=values, force=True).result["summary"] == {"failures": 0, "warnings": 1, "ok": 0}


def test_nodes_that_the_mig_managers_would_divide_are_a_warning(api: FakeApi, look: t.Callable) -> None:
    labels = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "failed"}
    api.lists[NODES][0]["metadata"]["labels"] |= labels
    [found] = look().result["findings"]
    assert (found["check"], found["level"], found["nodes"]) == ("mig_layouts", "warning", ["gpu-0000"])


def test_without_a_release_there_is_nothing_to_upgrade(api: FakeApi, look: t.Callable) -> None:
    api.lists[SECRETS].clear()
    failed = look()
    assert failed.rc == 1 and failed.result["reason"] == "NotFound" and "gpuops.nvidia.site" in failed.result["msg"]


def test_a_chart_that_is_no_release(look: t.Callable) -> None:
    failed = look(app_version="main-latest")
    assert failed.rc == 1 and failed.result["msg"] == wording(
        "'main-latest' is not a release of the operator, so its upgrade cannot be checked. Use a released chart, whose version is like v26.7.0."
    )


def test_an_installed_chart_that_is_no_release(api: FakeApi, look: t.Callable) -> None:
    api.lists[SECRETS][:] = [release(1, "main-latest")]
    assert look().result["msg"] == wording(
        "'main-latest' is not a release of the operator, so its upgrade cannot be checked. Use a released chart, whose version is like v26.7.0."
    )


def test_a_table_that_is_wrong(look: t.Callable) -> None:
    failed = look(transitions=[{"from": "v26.3"}])
    assert failed.rc == 1 and "is incomplete" in failed.result["msg"]


def test_secrets_in_values_are_hidden(look: t.Callable) -> None:
    values = {"driver": {"env": [{"name": "TOKEN", "value": "hush-hush"}]}}
    assert "hush-hush" not in str(look(values=values).result)
