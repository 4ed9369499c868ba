# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The alert rules, as Prometheus's own promtool understands them: when they fire, and when they are silent."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import rule_groups
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Alert, Thresholds

from lab import prometheus
from lab.errors import UnavailableError
from tests.support.prometheus import named, promtool_tests

pytestmark = pytest.mark.slow("promtool computes every minute of each case")

LIMITS = Thresholds(idle_after="20m", waiting_after="10m", upgrade_stuck_after="20m", not_ready_after="10m")
"""Shorter than the defaults: promtool computes every minute."""
ALERTS = rule_groups.chosen(LIMITS, (), (26, 7))
BY_NAME = {alert.name: alert for alert in ALERTS}

MODEL = "NVIDIA H100 80GB HBM3"
EXPORTER = {"job": "nvidia-dcgm-exporter", "instance": "10.0.0.1:9400"}
TARGET = {"pod": "nvidia-dcgm-exporter-x7b2k", "namespace": "gpu-operator", "container": "nvidia-dcgm-exporter"}
WORK = {"namespace": "team", "pod": "train-0", "container": "main"}

Series = tuple[str, str]

SHAPES: dict[str, t.Callable[[str, bool], dict[str, str]]] = {
    "ours": lambda node, held: {"node": node, "hostname": node, **(WORK if held else {})},
    "honor_labels": lambda node, held: {"hostname": node, **TARGET, **(WORK if held else {})},
    "target_wins": lambda node, held: {
        "Hostname": node,
        **TARGET,
        **({f"exported_{name}": value for name, value in WORK.items()} if held else {}),
    },
}
"""The labels of an exporter's series in each way to scrape it, by node and by whether a pod holds the GPU."""


def series(name: str, values: str, **labels: str) -> Series:
    """Return a series of promtool: its name with its labels, and its values, one a minute."""
    return named(name, labels), values


class Exporter:
    """Writes series as an exporter does that is scraped in one of the ways."""

    def __init__(self, shape: str) -> None:
        self._shape = SHAPES[shape]

    def gpu(self, field: str, values: str, *, index: int = 0, held: bool = False, **more: str) -> Series:
        """Return a series of a GPU of node n1."""
        labels = {"gpu": str(index), "UUID": f"GPU-{index}", "modelName": MODEL, "device": f"nvidia{index}"}
        return series(f"DCGM_{field}", values, **labels, **EXPORTER, **self._shape("n1", held), **more)

    def up(self, values: str) -> Series:
        """Return the series that Prometheus writes about the exporter itself."""
        named = {"node": "n1"} if "node" in self._shape("n1", False) else {"hostname": "n1", **TARGET}
        return series("up", values, **EXPORTER, **named)


def kube(name: str, values: str, **labels: str) -> Series:
    """Return a series of kube-state-metrics about node n1."""
    return series(f"kube_{name}", values, **({"node": "n1"} | labels))


def pod_of(phase: str, gpus: int, name: str, **labels: str) -> list[Series]:
    """Return the series of a pod that asks for GPUs."""
    whose = {"namespace": "team", "pod": name}
    asks = kube(
        "pod_container_resource_requests", f"{gpus}x600", resource="nvidia_com_gpu", container="main", **whose, **labels
    )
    return [asks, series("kube_pod_status_phase", "1x600", phase=phase, **whose)]


def capacity(has: str, offers: str) -> list[Series]:
    """Return what node n1 has and offers."""
    return [
        kube("node_status_capacity", has, resource="nvidia_com_gpu"),
        kube("node_status_allocatable", offers, resource="nvidia_com_gpu"),
    ]


@dataclasses.dataclass(frozen=True)
class Case:
    """Series in which an alert fires at a minute, with these labels, and no longer at a later minute."""

    series: t.Callable[[Exporter], list[Series]]
    labels: dict[str, str]
    at: int
    over: int | None = None


GPU_0 = {"node": "n1", "gpu": "0", "UUID": "GPU-0", "modelName": MODEL}
N1 = {"node": "n1"}


def error(field: str, values: str, at: int, over: int | None = None, **labels: str) -> Case:
    """Return a fault of a GPU that two jobs of a workload manager use: it has each series twice."""
    jobs = ("4711", "4712")
    return Case(lambda e: [e.gpu(field, values, hpc_job=job, **labels) for job in jobs], GPU_0 | labels, at, over)


def xid(code: int) -> Case:
    return error("EXP_XID_ERRORS_COUNT", "0 1x4 0x60", 2, 50, xid=str(code))


FIRES: dict[str, Case] = {
    "GpuXidReboot": xid(79),
    "GpuXidHardware": xid(54),
    "GpuXidReset": xid(48),
    "GpuXidNvlink": xid(74),
    "GpuXidApplication": xid(31),
    "GpuRecoveryAction": error("FI_DEV_GET_GPU_RECOVERY_ACTION", "1x10 0x10", 8, 15),
    "GpuEccUncorrectable": error("FI_DEV_ECC_DBE_VOL_TOTAL", "0x10 1x200", 20, 100),
    "GpuRowRemapFailed": error("FI_DEV_ROW_REMAP_FAILURE", "1x20", 5),
    "GpuRowRemapPending": error("FI_DEV_ROW_REMAP_PENDING", "1x20 0x20", 15, 25),
    "GpuNvlinkRecovered": error("FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "3x10 4x200", 20, 100),
    "GpuSlowFromHeat": error("FI_DEV_CLOCKS_EVENT_REASONS", "72x20 1x20", 15, 25),
    "GpuSlowFromPowerBrake": error("FI_DEV_CLOCKS_EVENT_REASONS", "136x20 1x20", 15, 25),
    "GpuNearTemperatureLimit": error("FI_DEV_GPU_TEMP_LIMIT", "2x20 30x20", 15, 25),
    "GpuLost": Case(
        lambda exporter: [exporter.gpu("FI_DEV_GPU_TEMP", "40x60"), exporter.gpu("FI_DEV_GPU_TEMP", "40x20", index=1)],
        N1,
        40,
    ),
    "GpuNotAllocatable": Case(
        lambda exporter: [exporter.gpu("FI_DEV_GPU_TEMP", "40x60"), *capacity("8x60", "7x30 8x30")], N1, 20, 40
    ),
    "GpuNotOffered": Case(
        lambda exporter: [exporter.gpu("FI_DEV_GPU_TEMP", "40x60"), *capacity("0x30 8x30", "0x30 8x30")], N1, 20, 40
    ),
    "GpuExporterDown": Case(lambda exporter: [exporter.up("0x30 1x30")], N1, 15, 40),
    "GpuExporterSilent": Case(lambda exporter: [exporter.up("1x60"), *capacity("8x60", "8x60")], N1, 20),
    "GpuExporterStuck": Case(
        lambda exporter: [exporter.gpu("FI_DEV_TOTAL_ENERGY_CONSUMPTION", "500x40 500+9x40")], N1, 35, 60
    ),
    "GpuMetricsWithoutPods": Case(
        lambda exporter: [exporter.gpu("FI_DEV_GPU_TEMP", "40x60"), *pod_of("Running", 1, "train-0", node="n1")], N1, 20
    ),
    "GpuOperatorNotReady": Case(
        lambda exporter: [series("gpu_operator_reconciliation_status", "0x60 1x60")], {}, 40, 70
    ),
    "GpuDriverUpgradeFailed": Case(
        lambda exporter: [series("gpu_operator_nodes_upgrades_failed", "1x25 0x20")], {}, 20, 30
    ),
    "GpuDriverUpgradeStuck": Case(
        lambda exporter: [
            series("gpu_operator_nodes_upgrades_in_progress", "1x60"),
            series("gpu_operator_nodes_upgrades_done", "3x45 4x20"),
        ],
        {},
        40,
        50,
    ),
    "GpuMigChangeFailed": Case(
        lambda exporter: [kube("node_labels", "1x20", label_nvidia_com_mig_config_state="failed")], N1, 10, 30
    ),
    "GpuDriverNotAnswering": Case(
        lambda exporter: [series("gpu_operator_node_driver_validation", "1x5 0x20 1x20", node="n1", job="status")],
        N1,
        20,
        35,
    ),
    "GpuSharingNotInEffect": Case(
        lambda exporter: [
            exporter.gpu("FI_DEV_GPU_TEMP", "40x60", held=True),
            kube("node_labels", "1x60", label_nvidia_com_gpu_sharing_strategy="time-slicing"),
            *capacity("1x30 4x30", "1x30 4x30"),
        ],
        N1,
        25,
        40,
    ),
    "GpuHeldIdle": Case(
        lambda exporter: [exporter.gpu("FI_DEV_GPU_UTIL", "0x40 90x20", held=True)],
        GPU_0 | {"namespace": "team", "pod": "train-0"},
        35,
        45,
    ),
    "GpuPodsWaitWhileGpusAreFree": Case(
        lambda exporter: [
            exporter.gpu("FI_DEV_GPU_TEMP", "40x60", held=True),
            *capacity("8x60", "8x60"),
            *pod_of("Running", 6, "train-0"),
            *pod_of("Pending", 2, "train-1"),
        ],
        {"namespace": "team", "pod": "train-1"},
        40,
    ),
}

CORDONED = [kube("node_spec_unschedulable", "1x600")]


def told(alert: Alert, case: Case) -> dict[str, t.Any]:
    return {"exp_labels": case.labels | {"severity": alert.severity}}


def promtool_test(folder: Path, tests: list[dict[str, t.Any]]) -> None:
    status, said = promtool_tests(folder, ALERTS, LIMITS, tests)
    assert status == 0, said


def of(name: str, listed: t.Iterable[Series], *moments: tuple[int, str, list[dict[str, t.Any]]]) -> dict[str, t.Any]:
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": labels, "values": values} for labels, values in listed],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": alerts} for minute, alert, alerts in moments
        ],
    }


def test_each_alert_has_a_case() -> None:
    assert set(FIRES) == set(BY_NAME)


def _shapes(everyday: str) -> pytest.MarkDecorator:
    """Run a test for one way to scrape each day, and for the others in the wide tier."""
    marks = {shape: [] if shape == everyday else [pytest.mark.wide] for shape in SHAPES}
    return pytest.mark.parametrize("shape", [pytest.param(shape, marks=marks[shape]) for shape in SHAPES])


@_shapes(everyday="ours")
def test_alerts_fire_for_their_cause_alone_and_are_over_when_it_is(tmp_path: Path, shape: str) -> None:
    tests = []
    for name, case in FIRES.items():
        others = [(case.at, other, []) for other in BY_NAME if other != name and not _follows(name, other)]
        over = [] if case.over is None else [(case.over, name, [])]
        fires = (case.at, name, [told(BY_NAME[name], case)])
        tests.append(of(f"{name}, {shape}", case.series(Exporter(shape)), fires, *over, *others))
    promtool_test(tmp_path, tests)


def _follows(cause: str, other: str) -> bool:
    """Whether the series of one case show the cause of another alert, too."""
    return (cause, other) in {("GpuMetricsWithoutPods", "GpuNotOffered"), ("GpuNotOffered", "GpuNotAllocatable")}


def test_what_a_cordon_explains_is_silent_and_errors_of_the_hardware_are_not(tmp_path: Path) -> None:
    tests = []
    for name, case in FIRES.items():
        of_node = "node" in case.labels
        silent = BY_NAME[name].is_silent_in_maintenance or name == "GpuOperatorNotReady"
        told_now = [] if silent and (of_node or name == "GpuOperatorNotReady") else [told(BY_NAME[name], case)]
        tests.append(of(name, [*case.series(Exporter("ours")), *CORDONED], (case.at, name, told_now)))
    promtool_test(tmp_path, tests)
    hardware = {"GpuXidReboot", "GpuXidHardware", "GpuEccUncorrectable", "GpuRowRemapFailed"}
    assert {
        name for name, case in FIRES.items() if "node" in case.labels and not BY_NAME[name].is_silent_in_maintenance
    } == hardware


def test_pods_that_wait_one_after_the_other_are_no_pod_that_waits_long(tmp_path: Path) -> None:
    name, listed = "GpuPodsWaitWhileGpusAreFree", capacity("8x90", "8x90")
    for number in range(16):
        asks, dummy = pod_of("Pending", 2, f"train-{number}")
        phases = f"0x{5 * number} 1x4 0x90"
        listed += [
            asks,
            series("kube_pod_status_phase", phases, phase="Pending", namespace="team", pod=f"train-{number}"),
        ]
    promtool_test(tmp_path, [of("turns", listed, *((minute, name, []) for minute in range(30, 90, 5)))])


def test_a_node_that_came_back_is_given_a_quarter_of_an_hour(tmp_path: Path) -> None:
    back = kube("node_spec_unschedulable", "1x30 0x60")
    down = [Exporter("ours").up("0x90"), back]
    promtool_test(
        tmp_path,
        [
            of(
                "back",
                down,
                (44, "GpuExporterDown", []),
                (70, "GpuExporterDown", [told(BY_NAME["GpuExporterDown"], FIRES["GpuExporterDown"])]),
            )
        ],
    )


HEALTHY: dict[str, str] = {
    "FI_DEV_GPU_TEMP": "61x100",
    "FI_DEV_GPU_UTIL": "97x100",
    "FI_PROF_GR_ENGINE_ACTIVE": "0.96x100",
    "FI_DEV_TOTAL_ENERGY_CONSUMPTION": "0+40000x100",
    "FI_DEV_CLOCKS_EVENT_REASONS": "4x100",
    "FI_DEV_GPU_TEMP_LIMIT": "26x100",
    "FI_DEV_ROW_REMAP_FAILURE": "0x100",
    "FI_DEV_ROW_REMAP_PENDING": "0x100",
    "FI_DEV_GET_GPU_RECOVERY_ACTION": "0x100",
    "FI_DEV_ECC_DBE_VOL_TOTAL": "2x100",
    "FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": "0x100",
    "FI_DEV_XID_ERRORS": "79x100",
}
"""A GPU that works at its limit of power. Its last Xid is of long ago: the exporter never forgets it."""


def healthy(exporter: Exporter) -> list[Series]:
    """Return the series of a node with two GPUs at work, one of which two pods share."""
    gpus = [exporter.gpu(f, values, index=index, held=True) for f, values in HEALTHY.items() for index in (0, 1)]
    other = {"exported_pod": "train-1"} if "exported_pod" in gpus[0][0] else {"pod": "train-1"}
    shared = [
        (labels.replace("train-0", next(iter(other.values()))), values)
        for labels, values in gpus
        if 'gpu="1"' in labels
    ]
    operator = [
        series("gpu_operator_reconciliation_status", "1x100"),
        series("gpu_operator_nodes_upgrades_failed", "0x100"),
        series("gpu_operator_nodes_upgrades_in_progress", "0x100"),
        series("gpu_operator_nodes_upgrades_done", "1x100"),
    ]
    pods = [*pod_of("Running", 2, "train-0", node="n1"), *pod_of("Pending", 4, "train-9")]
    jobs = [exporter.gpu(f, values, held=True, hpc_job=job) for f, values in HEALTHY.items() for job in ("1", "2")]
    rest = [exporter.up("1x100"), kube("node_spec_unschedulable", "0x100")]
    return [*gpus, *shared, *jobs, *operator, *pods, *rest, *capacity("2x100", "2x100")]


@_shapes(everyday="target_wins")
def test_a_healthy_node_alerts_nobody(tmp_path: Path, shape: str) -> None:
    moments = [(minute, name, []) for minute in (30, 90) for name in BY_NAME]
    promtool_test(tmp_path, [of(f"healthy, {shape}", healthy(Exporter(shape)), *moments)])


@pytest.mark.wide
@pytest.mark.parametrize("shape", SHAPES)
def test_a_pod_that_uses_one_of_its_instances_does_not_hold_the_gpu_idle(tmp_path: Path, shape: str) -> None:
    exporter = Exporter(shape)
    active, used = "FI_PROF_GR_ENGINE_ACTIVE", "FI_DEV_GPU_UTIL"
    divided = [
        exporter.gpu(active, values, held=True, GPU_I_ID=own) for own, values in (("1", "0x60"), ("2", "0.5x60"))
    ]
    whole = [exporter.gpu(active, "0.5x60", index=1, held=True), exporter.gpu(used, "0x60", index=1, held=True)]
    promtool_test(tmp_path, [of("used", [*divided, *whole], (50, "GpuHeldIdle", []))])


def test_promtool_accepts_the_rules_with_their_texts(tmp_path: Path) -> None:
    groups = rule_groups.groups(ALERTS, LIMITS, {"team": "gpu"})
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": groups}))
    try:
        status, said = prometheus.promtool("check", "rules", tmp_path / "rules.yml")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    assert status == 0 and f"{len(ALERTS) + 2} rules found" in said, said
