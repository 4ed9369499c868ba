# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which changes of a release's NVIDIADrivers interrupt GPU workloads."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import driver_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release.driver_objects import Drivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.disruption import Operator
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OLD = Operator((26, 3), (26, 3))
NEW = Operator((26, 7), (26, 7))
DELEGATES: Json = {"driver": {"useNvidiaDriverCRD": True}}
EVICTS = "the operator evicts GPU pods and replaces the driver, node by node"
REMOVES = "the operator removes the driver from under GPU pods"


def driver(name: str = "default", **spec: t.Any) -> Json:
    return {"kind": "NVIDIADriver", "metadata": {"name": name}, "spec": {"default": True, "version": "580", **spec}}


def found(before: Json, after: Json | None, operator: Operator = NEW, **policy: Json | None) -> list[tuple[str, str]]:
    """Return the fields and effects if a chart replaces one driver by another, or by none. The policy delegates."""
    asked = Drivers([before], [before], [after] if after else [])
    changes = driver_objects.changes(asked, policy.get("policy", DELEGATES), operator)
    return [(change.field, change.effect) for change in changes]


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ({}, {"version": "595"}, ["version"]),
        ({}, {"kernelModuleType": "open"}, ["kernelModuleType"]),
        ({"env": [{"name": "A", "value": "1"}]}, {}, ["env"]),
        ({"gds": {"enabled": False}}, {"gds": {"enabled": True}}, ["gds.enabled"]),
        ({"manager": {"version": "v1"}}, {"manager": {"version": "v2"}}, ["manager.version"]),
        ({}, {"aFieldOfTomorrow": 1}, ["aFieldOfTomorrow"]),
        ({}, {"upgradePolicy": {"maxParallelUpgrades": 2}}, []),
        ({}, {"default": False}, []),
        ({"rdma": {"enabled": False}}, {"rdma": {"enabled": False}}, []),
    ],
)
@pytest.mark.parametrize("operator", [OLD, NEW])
def test_a_field_of_the_driver(before: Json, after: Json, fields: list[str], operator: Operator) -> None:
    expected = [(f"NVIDIADriver default {field}", EVICTS) for field in fields]
    assert found(driver(**before), driver(**after), operator=operator) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("labels", {"a": "b"}),
        ("imagePullPolicy", "Always"),
        ("manager", {"imagePullPolicy": "Always"}),
        ("resources", {"a": 1}),
    ],
)
def test_a_field_that_only_restarts_pods_evicts_with_old_operators_only(field: str, value: t.Any) -> None:
    assert found(driver(), driver(**{field: value})) == []
    assert [effect for dummy, effect in found(driver(), driver(**{field: value}), operator=OLD)] == [EVICTS]
    assert found(driver(), driver(**{field: value}), operator=Operator(outdated=True)) != []


def test_nodes_that_a_driver_no_longer_selects_lose_it() -> None:
    before, after = driver(nodeSelector={"pool": "a"}), driver(nodeSelector={"pool": "b"})
    held = {"upgradePolicy": {"autoUpgrade": False}}
    assert found(before, after) == [("NVIDIADriver default nodeSelector.pool", REMOVES)]
    assert found(driver(**held, nodeSelector={"pool": "a"}), driver(**held)) != [], "Whatever replaces pods."


def test_a_driver_that_the_chart_no_longer_contains_is_deleted() -> None:
    assert found(driver(), None) == [("NVIDIADriver default", REMOVES)]
    other = Drivers([driver("mine")], [driver()], [])
    assert driver_objects.changes(other, DELEGATES, NEW) == [], "One that is not of the release stays."


def test_a_driver_that_is_new_interrupts_nothing() -> None:
    assert driver_objects.changes(Drivers([], [], [driver()]), DELEGATES, NEW) == []


def test_fields_that_no_chart_mentions_stay_and_those_of_the_former_chart_leave() -> None:
    present = driver(
        version="595", args=["x"], env=[{"name": "A", "value": "1"}], manager={"image": "m", "version": "1"}
    )
    released = driver(env=[{"name": "A", "value": "1"}], manager={"version": "1"})
    asked = Drivers([present], [released], [driver(manager={"version": "1"})])
    changed = {change.field: (change.before, change.after) for change in driver_objects.changes(asked, DELEGATES, NEW)}
    assert changed == {
        "NVIDIADriver default env": ([{"name": "A", "value": "1"}], None),
        "NVIDIADriver default version": ("595", "580"),
    }


@pytest.mark.parametrize(
    ("policy", "own", "is_replaced"),
    [
        (DELEGATES, {}, True),
        (DELEGATES, {"upgradePolicy": {"autoUpgrade": False}}, False),
        ({**DELEGATES, "sandboxWorkloads": {"enabled": True}}, {}, False),
        ({"driver": {"useNvidiaDriverCRD": False}}, {}, False),
        (None, {}, True),
    ],
)
def test_pods_that_nobody_replaces_are_not_interrupted(policy: Json | None, own: Json, is_replaced: bool) -> None:
    assert bool(found(driver(**own), driver(**own, version="595"), policy=policy)) == is_replaced


def test_before_v26_7_the_clusterpolicy_says_whether_pods_are_replaced() -> None:
    before, after = driver(), driver(version="595")
    del before["spec"]["default"], after["spec"]["default"]
    automatic = {"driver": {"useNvidiaDriverCRD": True, "upgradePolicy": {"autoUpgrade": True}}}
    assert found(before, after, OLD) == []
    assert found(before, after, OLD, policy=automatic) == [("NVIDIADriver default version", EVICTS)]


def test_another_operator_renders_the_pods_anew() -> None:
    upgrade = Operator((26, 3), (26, 7))
    assert found(driver(), driver(), operator=upgrade) == [("operator", EVICTS)]
    assert found(driver(), driver(), operator=Operator((26, 7), (27, 1))) == []
    assert driver_objects.changes(Drivers([], [], [driver()]), DELEGATES, upgrade) == []


def test_each_change_names_its_driver() -> None:
    asked = Drivers([driver(), driver("b")], [], [driver("b", version="595")])
    assert [change.driver for change in driver_objects.changes(asked, DELEGATES, NEW)] == ["b"]
    gone = driver_objects.changes(Drivers([driver()], [driver()], []), DELEGATES, NEW)
    assert [(change.driver, change.before, change.after) for change in gone] == [("default", "present", None)]
