# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_past import StepSeries, TimeRange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_readings import readings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_series import GpuHolder, GpuKey
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.prometheus_api import QueryResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.prometheus_fleet import (
    ExporterPods,
    FleetSeries,
    PrometheusFleet,
)

DAY = TimeRange(end=1_000_000, length_s=86_400)
EXPORTERS = ExporterPods(
    "gpu-operator",
    [
        {"name": "nvidia-dcgm-exporter-x7b2k", "node": "gpu-0000"},
        {"name": "metrics-of-gpus-2mvq9", "node": "gpu-0001"},
        {"name": "odd", "node": "gpu-0001"},
    ],
)
GPU = {"gpu": "0", "UUID": "GPU-a"}


class FakeApi:
    """Gives prepared series, and keeps the queries."""

    def __init__(self) -> None:
        self.now: list[t.Any] = []
        self.steps_of: dict[str, list[t.Any]] = {"max": [], "avg": []}
        self.warnings = {"now": list[str](), "max": list[str](), "avg": list[str]()}
        self.queries: list[tuple[t.Any, ...]] = []

    def instant(self, query: str, moment: int) -> QueryResult:
        self.queries.append((query, moment))
        return QueryResult(self.now, self.warnings["now"])

    def steps(self, query: str, *moments: int) -> QueryResult:
        self.queries.append((query, *moments))
        how = "avg" if "avg_over_time" in query else "max"
        return QueryResult(self.steps_of[how], self.warnings[how])


def read(api: FakeApi, **match: str) -> FleetSeries:
    fleet = PrometheusFleet(api, match, {"gpu-0000", "gpu-0001"}, EXPORTERS)  # type: ignore[arg-type]
    return fleet.read(DAY)


def now(value: t.Any = "5", **labels: str) -> dict[str, t.Any]:
    return {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", **GPU, **labels}, "value": [1, value]}


def only(api: FakeApi) -> t.Any:
    (series,) = read(api).now
    return series


# ---- the exporters' own pods --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespace", "pod", "is_exporters"),
    [
        ("gpu-operator", "nvidia-dcgm-exporter-x7b2k", True),
        ("gpu-operator", "metrics-of-gpus-2mvq9", True),
        ("gpu-operator", "metrics-of-gpus-zzzzz", True),
        ("gpu-operator", "metrics-of-gpus-zzzzzz", False),
        ("gpu-operator", "metrics-zzzzz", False),
        ("gpu-operator", "odd", True),
        ("ml", "metrics-of-gpus-2mvq9", False),
        ("ml", "odd", False),
        ("monitoring", "dcgm-exporter-dev-78z52", True),
        ("gpu-operator", "train-0", False),
    ],
)
def test_a_pod_of_an_exporter_holds_nothing(namespace: str, pod: str, is_exporters: bool) -> None:
    assert EXPORTERS.have(GpuHolder(namespace, pod, "x")) is is_exporters


# ---- queries ------------------------------------------------------------------------------------------------------


def test_three_queries_read_the_fleet() -> None:
    api = FakeApi()
    read(api, cluster='a"\\b\nc', az="1")
    (instant, moment), highest, means = api.queries
    assert moment == DAY.end and highest[1:] == means[1:] == (DAY.first, DAY.end, DAY.step_s)
    assert instant.startswith(
        "max by (__name__, hpc_job, node, hostname, Hostname, instance, gpu, UUID, uuid, GPU_I_ID, "
    )
    assert "DCGM_FI_DEV_GPU_UTIL|DCGM_FI_DEV_FB_USED" in instant
    assert instant.endswith('",az="1",cluster="a\\"\\\\b\\nc"})')
    assert "max_over_time" in highest[0] and means[0] == highest[0].replace("max_over_time", "avg_over_time")
    assert highest[0].count("[1440s]") == 3 and highest[0].count('cluster="a') == 3


def test_each_warning_is_given_once() -> None:
    api = FakeApi()
    api.warnings = {"now": ["a", "b"], "max": ["b", "c"], "avg": ["a"]}
    assert read(api).warnings == ["a", "b", "c"]


# ---- nodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        {"node": "gpu-0001"},
        {"hostname": "gpu-0001"},
        {"Hostname": "gpu-0001"},
        {"node": "ip-10-0-0-1", "Hostname": "gpu-0001"},
        # Without NODE_NAME, the exporter takes the name of its pod for that of the host.
        {"Hostname": "metrics-of-gpus-2mvq9"},
        {"Hostname": "elsewhere", "pod": "metrics-of-gpus-2mvq9", "namespace": "gpu-operator"},
        {"pod": "metrics-of-gpus-2mvq9", "namespace": "gpu-operator"},
    ],
)
def test_a_series_is_of_a_node(labels: dict[str, str]) -> None:
    api = FakeApi()
    api.now = [now(**labels)]
    series = only(api)
    assert (series.key, series.value, series.holder) == (GpuKey("gpu-0001", "0", "GPU-a"), 5.0, None)


@pytest.mark.parametrize(
    ("labels", "name"),
    [({"Hostname": "other"}, "other"), ({"instance": "10.0.0.1:9400"}, "10.0.0.1:9400"), ({}, "")],
)
def test_series_of_other_clusters_are_left_out(labels: dict[str, str], name: str) -> None:
    api = FakeApi()
    api.now = [now(**labels), now(node="gpu-0000")]
    api.steps_of["max"] = [{"metric": {**GPU, **labels}, "values": [[1, "1"]]}]
    found = read(api)
    assert [series.key.node for series in found.now] == ["gpu-0000"]
    assert found.foreign == {name} and not found.highest


# ---- series -------------------------------------------------------------------------------------------------------


def test_a_gpu_counts_once_whoever_has_scraped_it() -> None:
    """A pair of scrapes with both ways of honouring labels, of a GPU that a pod holds and of one that is free."""
    api = FakeApi()
    workload = {"namespace": "ml", "pod": "train-0", "container": "main"}
    exporter = {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x7b2k", "container": "nvidia-dcgm-exporter"}
    free = {"gpu": "1", "UUID": "GPU-b"}
    api.now = [
        now("40", node="gpu-0000", instance="10.0.0.1:9400", **workload),
        now("41", hostname="gpu-0000", **{f"exported_{name}": value for name, value in workload.items()}, **exporter),
        now("0", Hostname="gpu-0000", **exporter, **free),
        now("0", Hostname="gpu-0000", **free),
    ]
    found = readings(read(api).now)
    assert [(each.key.gpu, each.utilisation, each.pods) for each in found] == [
        ("0", 41, (GpuHolder("ml", "train-0", "main"),)),
        ("1", 0, ()),
    ]


def test_values_that_are_none_stay_unknown() -> None:
    api = FakeApi()
    api.now = [now("NaN", node="gpu-0000")]
    assert math.isnan(only(api).value)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {},
        {"metric": None, "value": [1, "1"]},
        {"metric": {}, "value": [1, "1"]},
        {"metric": {**GPU, "node": "gpu-0000"}},
        {"metric": {**GPU, "node": "gpu-0000"}, "value": [1]},
        {"metric": {**GPU, "node": "gpu-0000"}, "value": [1, "x"]},
        {"metric": {**GPU, "node": "gpu-0000"}, "value": [1, None]},
        {"metric": {**GPU, "node": "gpu-0000"}, "values": [[1]]},
        {"metric": {**GPU, "node": "gpu-0000"}, "values": [[1, "x"]]},
        {"metric": {**GPU, "node": "gpu-0000"}, "values": [["x", "1"]]},
        {"metric": {**GPU, "node": "gpu-0000"}, "values": 5},
        {"metric": {**GPU, "node": "gpu-0000"}, "values": []},
        {"metric": {**GPU, "node": "gpu-0000"}, "values": [[1, "NaN"], [2, "-1"]]},
    ],
)
def test_odd_series_are_passed_over(odd: t.Any) -> None:
    api = FakeApi()
    api.now, api.steps_of = [odd, now(node="gpu-0000")], {"max": [odd], "avg": [odd]}
    found = read(api)
    assert len(found.now) == 1 and not found.highest and not found.means


def test_steps_have_values_and_holders() -> None:
    api = FakeApi()
    held = {**GPU, "node": "gpu-0000", "namespace": "ml", "pod": "train-0"}
    api.steps_of["max"] = [{"metric": held, "values": [[1000, "100.4"], [2000, "NaN"], [3000, "7"]]}]
    api.steps_of["avg"] = [{"metric": held, "values": [[1000.0004, "3.5"]]}]
    found = read(api)
    key = GpuKey("gpu-0000", "0", "GPU-a")
    assert found.highest == {key: [StepSeries(("ml", "train-0"), {1000: 100.0, 3000: 7.0})]}
    assert found.means == {key: [StepSeries(("ml", "train-0"), {1000: 3.5})]}
