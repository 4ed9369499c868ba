# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics import gpu_usage
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_past import NO_PAST, GpuPast
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_readings import GpuReading
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_series import GpuHolder, GpuKey
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_usage import (
    IdleRule,
    UsedGpu,
    used,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from inline_snapshot import snapshot as wording

TRAIN, SERVE = GpuHolder("ml", "train-0", "main"), GpuHolder("web", "serve-0", "main")
H100 = "NVIDIA H100 80GB HBM3"
NOW, PRICED = IdleRule(1), IdleRule(1, 2.5)
RANGE, PRICED_RANGE = IdleRule(1, None, has_range=True), IdleRule(1, 2.5, has_range=True)
KNOWN = GpuReading(
    key=GpuKey("n", "0", "GPU-a"),
    model=H100,
    profile=None,
    pods=(TRAIN,),
    jobs=("4711",),
    utilisation=0.0,
    utilisation_from="X",
    memory_used_mib=10,
    memory_total_mib=100,
    power_w=70.5,
    temperature_c=30.0,
    last_xid=0,
    throttling=(),
    throttling_from="Y",
)


def reading(number: int = 0, **fields: t.Any) -> GpuReading:
    return dataclasses.replace(KNOWN, key=GpuKey("n", str(number), f"GPU-{number}"), **fields)


def instance(number: int = 0, profile: str | None = "1g.10gb", **fields: t.Any) -> GpuReading:
    key = GpuKey("n", "0", "GPU-0", str(number))
    return dataclasses.replace(KNOWN, key=key, profile=profile, **fields)


def gpu(given: GpuReading, past: GpuPast = NO_PAST, is_idle: bool | None = False) -> UsedGpu:
    return UsedGpu(given, past, is_idle)


# ---- what is idle -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "is_idle"),
    [
        ({"utilisation": 0.0}, True),
        ({"utilisation": 1.0}, True),
        ({"utilisation": 1.01}, False),
        ({"utilisation": None}, None),
        ({"pods": ()}, False),
        ({"pods": (), "utilisation": None}, False),
        ({"pods": None}, None),
    ],
)
def test_a_held_gpu_with_little_use_is_idle_now(fields: dict[str, t.Any], is_idle: bool | None) -> None:
    assert used(reading(**fields), NO_PAST, NOW).is_idle is is_idle


@pytest.mark.parametrize(
    ("past", "is_idle"),
    [
        (GpuPast(0.1, 1.0, 24.0), True),
        (GpuPast(0.1, 1.1, 24.0), False),
        (GpuPast(0.0, 0.0, 0.0), False),
        (NO_PAST, None),
        (GpuPast(None, 0.0, 0.08), True),
    ],
)
def test_a_held_gpu_is_idle_if_it_was_all_the_time(past: GpuPast, is_idle: bool | None) -> None:
    found = used(reading(utilisation=99.0), past, RANGE)
    assert found.is_idle is is_idle and found.past == past


def test_a_gpu_that_nobody_holds_is_not_idle_over_a_time_range() -> None:
    assert used(reading(pods=()), GpuPast(0.0, 0.0, None), RANGE).is_idle is False
    assert used(reading(pods=()), NO_PAST, RANGE).is_idle is False


# ---- what it costs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "share"),
    [
        (reading(), 1.0),
        (reading(model=None), 1.0),
        (instance(), 1 / 7),
        (instance(profile="3g.40gb"), 3 / 7),
        (instance(profile="2g.12gb", model="NVIDIA A30"), 2 / 4),
        (instance(profile="1g.10gb+me"), 1 / 7),
        (instance(profile=None), None),
        (instance(profile="odd"), None),
        (instance(model=None), None),
        (instance(model="NVIDIA T4"), None),
    ],
)
def test_an_instance_is_a_share_of_its_gpu(given: GpuReading, share: float | None) -> None:
    assert gpu(given).share == share


def test_costs_need_a_price_and_hours_and_a_share() -> None:
    assert gpu(reading()).cost(PRICED, 4) == 10
    assert gpu(instance()).cost(PRICED, 7) == 2.5
    assert gpu(reading()).cost(IdleRule(1, 0.0), 4) == 0
    assert [gpu(reading()).cost(NOW, 4), gpu(reading()).cost(PRICED, None), gpu(instance(0, "x")).cost(PRICED, 4)] == [
        None
    ] * 3


def test_the_costs_of_idle_gpus_are_known_over_a_time_range_only() -> None:
    idle, busy = gpu(reading(), GpuPast(0, 0, 4.0), True), gpu(reading(1), GpuPast(9, 9, 4.0))
    assert gpu_usage.idle_cost([idle, busy, idle], PRICED_RANGE) == 20
    assert gpu_usage.idle_cost([busy], PRICED_RANGE) == 0
    assert gpu_usage.idle_cost([idle], RANGE) is None
    assert gpu_usage.idle_cost([gpu(reading(), NO_PAST, True)], PRICED) is None
    assert gpu_usage.idle_cost([], PRICED) is None
    assert gpu_usage.idle_cost([idle, gpu(instance(0, "x"), GpuPast(0, 0, 4.0), True)], PRICED_RANGE) is None


# ---- pods that no series names ------------------------------------------------------------------------------------


def pod(name: str, node: str = "n", namespace: str = "ml") -> GpuPod:
    return GpuPod(namespace, name, node, {"nvidia.com/gpu": 1})


def test_pods_that_the_api_server_knows_and_no_series_names() -> None:
    found = gpu_usage.unnamed(
        [reading(pods=(TRAIN,)), reading(pods=()), reading(pods=None)],
        [pod("train-0"), pod("train-1"), pod("train-0", namespace="web")],
    )
    assert [(each.namespace, each.name) for each in found] == [("ml", "train-1"), ("web", "train-0")]


def test_a_gpu_is_not_free_while_a_pod_without_a_name_is_on_its_node() -> None:
    elsewhere = dataclasses.replace(reading(pods=()), key=GpuKey("m", "0", "GPU-m"))
    rows = [reading(0, pods=(TRAIN,)), reading(1, pods=()), reading(2, pods=None), elsewhere]
    assert [each.pods for each in gpu_usage.without_guesses(rows, [pod("serve-0")])] == [(TRAIN,), None, None, ()]
    assert gpu_usage.without_guesses(rows, []) == rows


# ---- rows ---------------------------------------------------------------------------------------------------------


def test_the_row_of_a_gpu() -> None:
    assert gpu_usage.gpu_row(gpu(reading(3), GpuPast(1.5, 2.5, 4.0), True)) == {
        "node": "n",
        "gpu": 3,
        "uuid": "GPU-3",
        "mig_profile": None,
        "mig_instance": None,
        "model": H100,
        "jobs": ["4711"],
        "utilisation": 0.0,
        "utilisation_from": "X",
        "memory_used_mib": 10,
        "memory_total_mib": 100,
        "power_w": 70.5,
        "temperature_c": 30.0,
        "last_xid": 0,
        "throttling": [],
        "throttling_from": "Y",
        "pods": [{"namespace": "ml", "pod": "train-0", "container": "main"}],
        "mean_utilisation": 1.5,
        "highest_utilisation": 2.5,
        "held_hours": 4.0,
        "idle": True,
    }


def test_the_row_of_an_instance_of_which_little_is_known() -> None:
    odd = dataclasses.replace(instance(7, pods=None), key=GpuKey("n", "x", "", "7"))
    row = gpu_usage.gpu_row(gpu(odd, is_idle=None))
    known = ("gpu", "uuid", "mig_profile", "mig_instance", "pods", "idle", "held_hours")
    assert [row[name] for name in known] == [None, None, "1g.10gb", 7, None, None, None]


def test_idle_holders_begin_with_the_longest() -> None:
    found = [
        gpu(reading(0), GpuPast(0.1, 0.5, 1.0), True),
        gpu(reading(1), GpuPast(0.1, 0.4, 9.0), True),
        gpu(reading(2), GpuPast(50, 60, 9.0), False),
        gpu(reading(3), NO_PAST, None),
    ]
    rows = gpu_usage.idle_rows(found, PRICED_RANGE)
    assert [(row["gpu"], row["utilisation"], row["hours"], row["cost"]) for row in rows] == [
        (1, 0.4, 9.0, 22.5),
        (0, 0.5, 1.0, 2.5),
    ]
    assert {row["cost_per_hour"] for row in rows} == {2.5} and rows[0]["pods"][0]["pod"] == "train-0"


def test_idle_holders_of_now_have_a_rate_and_no_hours() -> None:
    (row,) = gpu_usage.idle_rows([gpu(reading(), NO_PAST, True)], PRICED)
    assert (row["utilisation"], row["hours"], row["cost_per_hour"], row["cost"]) == (0.0, None, 2.5, None)


def test_what_namespaces_hold() -> None:
    found = [
        gpu(reading(0, utilisation=50.0)),
        gpu(reading(1, utilisation=None), is_idle=None),
        gpu(reading(2, pods=(TRAIN, SERVE), utilisation=0.0), is_idle=True),
        gpu(instance(pods=(SERVE,), utilisation=100.0)),
        gpu(reading(4, pods=())),
        gpu(reading(5, pods=None), is_idle=None),
    ]
    rows = gpu_usage.namespace_rows(found, [pod("x"), pod("y", namespace="lab")], NOW)
    fields = ("namespace", "gpus", "mig_instances", "idle", "mean_utilisation", "unnamed_pods", "idle_cost")
    assert [tuple(row[field] for field in fields) for row in rows] == [
        ("lab", 0, 0, 0, None, 1, None),
        ("ml", 3, 0, 1, 25.0, 1, None),
        ("web", 1, 1, 1, 50.0, 0, None),
    ]


def test_the_mean_of_a_time_range_is_better_than_that_of_now() -> None:
    found = [gpu(reading(utilisation=100.0), GpuPast(10.0, 100.0, 1.0)), gpu(reading(1, utilisation=30.0))]
    assert gpu_usage.mean_utilisation(found) == 20.0
    assert gpu_usage.mean_utilisation([]) is None


def test_what_is_unknown_has_a_reason() -> None:
    found = [
        gpu(reading(0, throttling=None)),
        gpu(reading(1, throttling=None, power_w=None)),
        gpu(reading(2, pods=None), is_idle=None),
    ]
    rows = gpu_usage.unknown_rows(found)
    assert [(row["field"], row["gpus"]) for row in rows] == [("power_w", 1), ("throttling", 2), ("pods", 1)]
    assert rows[1]["reason"] == wording(
        "The exporters serve neither DCGM_FI_DEV_CLOCKS_EVENT_REASONS nor DCGM_EXP_CLOCK_EVENTS_COUNT for these GPUs. Add one to the metrics of dcgmExporter.config."
    )
    assert rows[2]["reason"] == wording(
        "These GPUs are on nodes with pods that hold GPUs and that no series names. Set DCGM_EXPORTER_KUBERNETES, and with time-slicing KUBERNETES_VIRTUAL_GPUS, with claims KUBERNETES_ENABLE_DRA, in dcgmExporter.env. If labels of pods are served, none of them may be called pod, namespace or container."
    )
    assert gpu_usage.unknown_rows([gpu(reading())]) == []


def test_the_numbers_of_the_fleet() -> None:
    found = [
        gpu(reading(1, last_xid=79), is_idle=True),
        gpu(reading(2, pods=(), throttling=("sw_thermal",))),
        gpu(reading(3, pods=None, power_w=None, last_xid=None, throttling=None), is_idle=None),
        gpu(instance(1)),
        gpu(instance(2, pods=())),
    ]
    assert gpu_usage.summary(found, NOW) == {
        "gpus": 4,
        "mig_instances": 2,
        "held": 2,
        "free": 2,
        "idle": 1,
        "mean_utilisation": 0.0,
        # An instance has the power of its GPU, which counts once.
        "power_w": 211.5,
        "memory_used_mib": 50,
        "memory_total_mib": 500,
        "throttled": 1,
        "with_xid": 1,
        "idle_cost": None,
    }


def test_sums_of_nothing_are_unknown() -> None:
    unknown = reading(power_w=None, last_xid=None, throttling=None, memory_used_mib=None, memory_total_mib=None)
    row = gpu_usage.summary([gpu(unknown)], NOW)
    for name in ("power_w", "memory_used_mib", "memory_total_mib", "throttled", "with_xid", "idle_cost"):
        assert row[name] is None
