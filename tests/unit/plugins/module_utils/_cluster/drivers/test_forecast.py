# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import forecast
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DECLARATION,
    declaration_of,
)

from tests.unit.fakes.api import ALL_PODS, POLICIES, FakeApi
from tests.unit.fakes.stack import workload

SPEC = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}
BLOCKS: dict[str, t.Any] = {"waitForCompletion": {}, "podDeletion": {}, "drain": {}}


@pytest.fixture
def plan(api: FakeApi) -> t.Callable[..., forecast.Outlook]:
    api.lists["/apis/nvidia.com/v1alpha1/nvidiadrivers"] = []
    api.lists["/apis/policy/v1/poddisruptionbudgets"] = []
    api.lists[POLICIES][0]["spec"]["driver"] = {**SPEC, "upgradePolicy": {"autoUpgrade": True, **BLOCKS}}
    plain = {name: spec.get("default") for name, spec in DECLARATION.options.items()}
    registry = {
        "mode": "offline", "mirrors": {}, "insecure": [],
        "username": None, "password": None, "ca_path": None, "timeout": 1,
    }  # fmt: skip
    return lambda **chosen: forecast.of(
        Cluster(api.connection), declaration_of({**plain, "registry": registry, **chosen})
    )


def test_nothing_is_checked_if_there_is_nothing_to_do(plan: t.Callable, api: FakeApi) -> None:
    made = plan()
    assert made.is_due is False and made.findings == [] and made.asked == {}
    result = made.as_result()
    assert (
        result["changed"] is False
        and result["pools"][0]["images"] == []
        and result["diff"] == {"before": {}, "after": {}}
    )
    assert not any(path.endswith("/pods") for method, path, query in api.log)


def test_a_change_is_told_with_its_pods_and_each_cause_once(plan: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("a"), workload("b", number=1)]
    made = plan(version="610.57.04", args=["--x"])
    assert [change.field for change in made.disruption.changes] == ["driver.args", "driver.version"]
    assert made.disruption.changes[0].after == "VALUE_HIDDEN", "arguments are nobody's business"
    assert made.disruption.nodes == ["gpu-0000", "gpu-0001"]
    rows = made.as_result()["plan"]
    assert [(row["node"], row["action"], row["pods"]) for row in rows] == [
        ("gpu-0000", "replace", ["default/a"]), ("gpu-0001", "replace", ["default/b"]),
    ]  # fmt: skip


def test_checks_can_be_left_out_and_failures_come_first(plan: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("a", controller="")]
    levels = [finding.level for finding in plan(version="610.57.04").findings]
    assert levels == sorted(levels, key=("failure", "warning", "ok").index) and levels[0] == "failure"
    found = plan(version="610.57.04", skip=["gpu_pods", "validators"]).findings
    assert {"gpu_pods", "validators"} & {finding.check for finding in found} == set()
    assert all(finding.level != "failure" for finding in found)


def test_the_drivers_that_a_move_makes_count_at_once(plan: t.Callable) -> None:
    made = plan(pools=[{"name": "a", "default": True}])
    assert made.after.delegates is True and [str(pool.source) for pool in made.pools] == ["NVIDIADriver a"]
    assert made.as_result()["move"] == "to NVIDIADriver" and all(effect.action == "replace" for effect in made.effects)


def test_what_an_earlier_rollout_has_left_interrupts_pods_and_is_not_checked_anew(
    plan: t.Callable, api: FakeApi
) -> None:
    api.lists[ALL_PODS] = [workload("a"), workload("b", number=1)]
    unchanged = plan()
    assert forecast.resuming(Cluster(api.connection), unchanged, ()) is unchanged
    made = forecast.resuming(Cluster(api.connection), unchanged, ["gpu-0001"])
    assert made.is_due is False and made.findings == [] and made.changing("replace") == set()
    assert made.disruption.nodes == ["gpu-0001"] and [change.before for change in made.disruption.changes] == [None]
    rows = {row["node"]: (row["action"], row["pods"]) for row in made.as_result()["plan"]}
    assert rows == {"gpu-0000": ("nothing", []), "gpu-0001": ("replace", ["default/b"])}
    changed = forecast.resuming(Cluster(api.connection), plan(version="610.57.04"), ["gpu-0001"])
    assert changed.is_due and changed.changing("replace") == {"gpu-0000"}
