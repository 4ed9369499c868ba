# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dashboard of the fleet's health: Xids, memory, links, throttling, and the software that watches and drives it."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from . import faults, variables
from .board import board
from .panels import CELSIUS, RATIO, Panel, Query, bars, lines, number, rows
from .promql import ACTIVE, DEVICES, FLEET, GPU, PRESENT

_XID_TEXTS = {"Xid": faults.MEANINGS}
_OPERATOR = "Needs the metrics of the operator itself."


def dashboard() -> build.Dashboard:
    choices = [
        variables.datasource(),
        variables.cluster(),
        variables.model_name(),
        variables.nodes(),
    ]
    contents = [
        ("Xids", [_xids_now(), _codes(), _xid_gpus(), _last_xids()]),
        ("Memory", [*_memory_numbers(), _corrected(), _uncorrectable(), _bad_memory()]),
        ("Links", [*_link_numbers(), _nvlink(), _nvlink_gpus(), _replays()]),
        ("Throttling", [_throttling(), _slowdowns(), _slowed_gpus()]),
        ("Health checks", [_checks(), _failed_checks()]),
        ("Drivers and exporters", [_versions(), _silent_nodes(), *_exporters()]),
        ("Operator", [*_operator(), _upgrades(), _operands()]),
    ]
    description = "What is wrong with GPUs, and whether the software that watches them works."
    return board("health", "GPU health", description, choices, contents)


# ---- Xids --------------------------------------------------------------------------------------------------------


def _xids_now() -> Panel:
    counted = f"sum by (xid) ({FLEET.each(faults.XIDS_NOW, by=f'{GPU}, xid')})"
    queries = [Query(f'label_replace({counted}, "xid", "none", "xid", "")', "Xid {{xid}}")]
    description = (
        "How often GPUs reported which Xid within 5 minutes. Each Xid stays in sight for 5 minutes, also if it "
        "comes twice with the same code."
    )
    return lines("Xids of the last 5 minutes", description, queries, stacked=True)


def _codes() -> Panel:
    columns = [
        Query(f"topk(50, {faults.xids_in_range(FLEET, 'xid')})", "Times", decimals=0),
        Query(f"count by (xid) ({faults.xids_in_range(FLEET, f'{GPU}, xid')})", "GPUs"),
    ]
    description = "How often each Xid came in the time range, and on how many GPUs."
    return rows("Xids in the time range", description, columns, meanings=_XID_TEXTS, width=12)


def _xid_gpus() -> Panel:
    columns = [Query(f"topk(50, {faults.xids_in_range(FLEET, f'{GPU}, xid')})", "Times", decimals=0)]
    description = "The 50 GPUs that reported an Xid most often in the time range."
    return rows("GPUs with Xids in the time range", description, columns, meanings=_XID_TEXTS)


def _last_xids() -> Panel:
    last = FLEET.each("DCGM_FI_DEV_XID_ERRORS", by=f"{GPU}, err_msg")
    description = (
        "At most 50 GPUs whose last Xid is known. It stays until the exporter starts again, however long ago it "
        "was, and it does not change if the same Xid comes again: the tables of the time range say what happened "
        "when."
    )
    columns = [Query(f"topk(50, {last} > 0)", "Last Xid")]
    return rows("Last Xid of each GPU", description, columns, meanings={"Last Xid": faults.MEANINGS})


# ---- memory ------------------------------------------------------------------------------------------------------


def _memory_numbers() -> list[Panel]:
    numbers = {
        "GPUs with uncorrectable errors": (
            faults.ECC_UNCORRECTABLE,
            "ECC could not correct since the driver was loaded",
        ),
        "GPUs that wait for a reset": (faults.REMAP_PENDING, "will be remapped by the next reset of the GPU"),
        "GPUs that cannot remap": (faults.REMAP_FAILED, "could not be remapped: NVIDIA replaces such GPUs"),
    }
    return [
        number(title, f"GPUs with memory that {what}.", FLEET.count(f"{FLEET.each(metric)} > 0"), red_from=1, width=8)
        for title, (metric, what) in numbers.items()
    ]


def _ecc(title: str, description: str, metric: str) -> Panel:
    queries = [Query(f"sum by (modelName) ({FLEET.rate(metric)}) * 3600", "{{modelName}}")]
    return lines(title, description, queries)


def _corrected() -> Panel:
    description = "Errors per hour that ECC corrected. Single ones are normal; a GPU with many of them wears out."
    return _ecc("Corrected ECC errors", description, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL")


def _uncorrectable() -> Panel:
    description = "Errors per hour that ECC found and could not correct. Each one ends a workload."
    return _ecc("Uncorrectable ECC errors", description, faults.ECC_UNCORRECTABLE)


def _bad_memory() -> Panel:
    of_these = f"and on ({GPU}) topk(50, {faults.bad_memory(FLEET)} or {FLEET.each(faults.REMAPPED)} > 0)"
    columns = {
        faults.ECC_UNCORRECTABLE: "Uncorrectable errors",
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": "Uncorrectable errors ever",
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": "Corrected errors ever",
        faults.REMAPPED: "Rows remapped for uncorrectable errors",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "Rows remapped for corrected errors",
        faults.REMAP_PENDING: "Remapping waits for a reset",
        faults.REMAP_FAILED: "Remapping failed",
    }
    queries = [Query(f"{FLEET.each(metric)} {of_these}", name) for metric, name in columns.items()]
    description = (
        "At most 50 GPUs with uncorrectable errors or with remapped rows. Remapped rows are replaced for good."
    )
    return rows("GPUs with memory errors", description, queries)


# ---- links -------------------------------------------------------------------------------------------------------


def _link_numbers() -> list[Panel]:
    width, wanted = (FLEET.each(f"DCGM_FI_DEV_PCIE_{name}LINK_WIDTH") for name in ("", "MAX_"))
    fabric = FLEET.each("DCGM_FI_DEV_FABRIC_MANAGER_STATUS")
    return [
        number(
            "GPUs with a narrow PCIe link",
            "GPUs whose PCIe link has fewer lanes than GPU and slot could have. The width stays when a GPU is idle.",
            FLEET.count(f"{width} < {wanted}"),
            red_from=1,
            width=12,
        ),
        number(
            "GPUs outside of the NVLink fabric",
            "GPUs of NVSwitch systems whose fabric manager has not started, is still at work, or failed.",
            FLEET.count(f"({fabric} == 1 or {fabric} == 2 or {fabric} == 4)"),
            red_from=1,
            width=12,
        ),
    ]


def _nvlink() -> Panel:
    queries = [Query(f"sum by (kind) ({faults.nvlink_errors(FLEET)}) * 60", "{{kind}}")]
    description = "Errors per minute on all NVLinks of the fleet. Empty on GPUs without NVLink."
    return lines("NVLink errors", description, queries)


def _nvlink_gpus() -> Panel:
    columns = [
        Query(
            f"topk(50, sum by ({GPU}, kind) ({faults.nvlink_errors(FLEET)}) * 60 > 0)", "Errors per minute", decimals=1
        )
    ]
    return rows("GPUs with NVLink errors", "The 50 GPUs with the most errors on NVLinks now.", columns, width=12)


def _replays() -> Panel:
    columns = [
        Query(f"topk(50, {FLEET.rate('DCGM_FI_DEV_PCIE_REPLAY_COUNTER')} * 60 > 0)", "Replays per minute", decimals=1)
    ]
    description = (
        "The 50 GPUs with the most packets that go over PCIe again now. A steady flow points to a bad contact."
    )
    return rows("GPUs with PCIe replays", description, columns)


# ---- throttling --------------------------------------------------------------------------------------------------


def _throttling() -> Panel:
    reasons = {
        "POWER": "power limit",
        "THERMAL": "heat",
        "BOARD_LIMIT": "limit of the board",
        "RELIABILITY": "voltage",
        "SYNC_BOOST": "clocks of a group",
        "LOW_UTIL": "little work",
    }
    queries = [
        Query(f"avg({FLEET.rate(f'DCGM_FI_DEV_{reason}_VIOLATION')}) / 1e9", name) for reason, name in reasons.items()
    ]
    description = (
        "The part of the time in which each limit kept clocks down, as the mean of all GPUs. The power limit is "
        "reached in normal work."
    )
    return lines("Time with lower clocks, by reason", description, queries, unit=RATIO)


def _slowdowns() -> Panel:
    counted = FLEET.each(faults.CLOCKS_NOW, f'clock_event=~"{faults.SLOWDOWNS}"', by=f"{GPU}, clock_event")
    none = f'label_replace({FLEET.none()}, "clock_event", "none", "", "")'
    queries = [Query(f"count by (clock_event) ({counted} > 0) or {none}", "{{clock_event}}")]
    description = (
        "GPUs whose clocks heat or a lack of power cut within the last 5 minutes, by reason. hw_slowdown goes along "
        "with hw_thermal or hw_power_brake."
    )
    return lines("GPUs slowed down by heat or power", description, queries)


def _slowed_gpus() -> Panel:
    slowed = f"topk(50, {FLEET.rate('DCGM_FI_DEV_THERMAL_VIOLATION')} / 1e9 > 0)"
    columns = [
        Query(slowed, "Time lost to heat", RATIO, 1),
        Query(f"{FLEET.each('DCGM_FI_DEV_GPU_TEMP')} and on ({GPU}) {slowed}", "Temperature", CELSIUS),
    ]
    return rows("GPUs slowed down by heat", "The 50 GPUs that heat slows down the most now.", columns)


# ---- health checks -----------------------------------------------------------------------------------------------

_CHECKS = "DCGM_EXP_GPU_HEALTH_STATUS"


def _checks() -> Panel:
    each = FLEET.each(_CHECKS, by=f"{GPU}, health_watch")
    query = f"count by (health_watch) ({each} > 0) or 0 * count by (health_watch) ({each})"
    description = "GPUs of which a health check of DCGM warns or fails, by the part that it checks."
    return bars("GPUs with a finding, by part", description, Query(query, "{{health_watch}}"))


def _failed_checks() -> Panel:
    each = FLEET.each(_CHECKS, by=f"{GPU}, health_watch, health_error_code")
    columns = [Query(f"topk(50, {each} > 0)", "State")]
    description = "At most 50 findings of DCGM's health checks."
    return rows("Findings", description, columns, meanings={"State": faults.HEALTH}, width=12)


# ---- drivers and exporters ---------------------------------------------------------------------------------------


def _versions() -> Panel:
    by = "modelName, DCGM_FI_DRIVER_VERSION"
    each = FLEET.present(by=f"{GPU}, DCGM_FI_DRIVER_VERSION")
    columns = [
        Query(f"count by ({by}) ({each})", "GPUs"),
        Query(f"count by ({by}) ({FLEET.present(by=f'cluster, node, {by}')})", "Nodes"),
    ]
    return rows(
        "Drivers", "How many GPUs have which driver. A fleet has more than one during upgrades.", columns, width=12
    )


def _silent_nodes() -> Panel:
    devices = f"sum by (cluster, node) ({FLEET.about('kube_node_status_capacity', DEVICES)})"
    columns = [Query(f"topk(50, {devices} > 0 unless on (cluster, node) {FLEET.about(PRESENT)})", "Devices")]
    description = (
        "At most 50 nodes with GPUs of which none reports: the exporter does not run there, or Prometheus does not "
        "reach it. Needs kube-state-metrics."
    )
    return rows("Nodes without GPU metrics", description, columns, width=12)


def _exporters() -> list[Panel]:
    energy = FLEET.series("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
    frozen = FLEET.count(f"(max by ({GPU}) (changes({energy}[10m])) == 0)")
    blind = FLEET.count(f"({FLEET.present()} unless on (cluster, UUID) {FLEET.series(ACTIVE)})", "modelName")
    return [
        number(
            "GPUs whose values stand still",
            "GPUs whose energy counter did not move for 10 minutes. A GPU that lives always draws something, so "
            "these values are old, or the exporter has just started.",
            frozen,
            red_from=1,
            width=12,
        ),
        bars(
            "GPUs without profiling counters",
            "GPUs that report no DCGM_FI_PROF_ metrics, by model. Another profiler may hold the counters, or the "
            "GPU does not have them. Their activity comes from the driver.",
            Query(blind, "{{modelName}}"),
        ),
    ]


# ---- operator ----------------------------------------------------------------------------------------------------


def _of_operator(metric: str) -> str:
    return f'gpu_operator_{metric}{{cluster=~"$cluster"}}'


def _operator() -> list[Panel]:
    outcomes = "1 is in order, 0 not ready, -1 without a ClusterPolicy, and -2 an error of the operator."
    age = f"time() - max({_of_operator('reconciliation_last_success_ts_seconds')})"
    return [
        number(
            "State of the operator",
            f"The operator's last reconciliation: {outcomes} {_OPERATOR}",
            f"min({_of_operator('reconciliation_status')})",
            width=6,
        ),
        number("Last reconciliation", f"How long ago the last one succeeded. {_OPERATOR}", age, unit="s", width=6),
        number(
            "Nodes of the operator",
            f"The nodes that the operator takes care of. {_OPERATOR}",
            f"sum({_of_operator('gpu_nodes_total')})",
            width=6,
        ),
        number(
            "Automatic driver upgrades",
            f"1 if the operator upgrades drivers by itself. {_OPERATOR}",
            f"max({_of_operator('driver_auto_upgrade_enabled')})",
            width=6,
        ),
    ]


def _upgrades() -> Panel:
    states = {
        "in_progress": "in progress",
        "pending": "pending",
        "done": "done",
        "failed": "failed",
        "available": "available",
    }
    queries = [Query(f"sum({_of_operator(f'nodes_upgrades_{state}')})", name) for state, name in states.items()]
    description = (
        "Nodes by the state of their driver upgrade. The operator writes them while upgrades are on, every 2 "
        f"minutes at most. {_OPERATOR}"
    )
    return lines("Driver upgrades", description, queries)


def _operands() -> Panel:
    parts = {"driver": "driver", "toolkit": "container toolkit", "plugin": "device plugin", "cuda": "CUDA"}
    queries = [
        Query(f"count({ready} == 0) or 0 * count({ready})", name)
        for part, name in parts.items()
        for ready in [FLEET.about(f"gpu_operator_node_{part}_ready")]
    ]
    description = (
        "Nodes on which the operator's validator does not find a part of the stack ready. Needs the operator's node "
        "status exporter (nodeStatusExporter.enabled), which is off by default."
    )
    return lines("Nodes with parts that are not ready", description, queries)
