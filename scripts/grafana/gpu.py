# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dashboard of one GPU: its instances and shares, what works in it, and what limits it."""

from __future__ import annotations

import functools
import typing as t

from grafana_foundation_sdk.builders import dashboard as build

from . import faults, panels, variables
from .board import board
from .panels import BYTES_PER_S, CELSIUS, KWH, MEGABYTES_PER_S, MHZ, MIB, RATIO, WATT, Panel, Query, number, rows
from .promql import ACTIVE, CONTAINER, GPU, NAMESPACE, ONE_GPU, POD, POWER, PRESENT, SLOT, STATE_S, UTIL

_SLOT = "{{GPU_I_PROFILE}} {{GPU_I_ID}}"
"""The name of a line for each MIG instance, with the words before it."""

lines = functools.partial(panels.lines, points=300)
"""The few series of a node may have more points than those of a fleet."""


def dashboard() -> build.Dashboard:
    choices = [
        variables.datasource(),
        variables.cluster(),
        variables.node(),
        variables.gpu(),
        variables.prefix(),
    ]
    contents = [
        ("At a glance", _numbers()),
        ("Instances and holders", [_holders(), _instances()]),
        ("Work", [_engines(), _memory(), _media()]),
        ("Limits", [_power(), _heat(), _clocks(), _throttling()]),
        ("Links", [_pcie(), _nvlink()]),
        ("Errors", [_xids(), _health()]),
    ]
    return board("gpu", "GPU", "One GPU with its MIG instances, and the pods that share it.", choices, contents)


def _numbers() -> list[Panel]:
    activity = f"max({ONE_GPU.activity(window=STATE_S)})"
    energy = f"max({ONE_GPU.each('DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION')}) / 3.6e9"
    parts = f"count({ONE_GPU.present(by=SLOT)})"
    pods = f"{GPU}, GPU_I_ID, {NAMESPACE}, {POD}"
    holders = ONE_GPU.count(ONE_GPU.present(ONE_GPU.holders, by=pods))
    margin = "How many degrees are left until the GPU slows down. GPUs before Hopper do not say it."
    return [
        number(
            "Activity now", f"The mean of the last {STATE_S}, of the most active MIG instance.", activity, unit=RATIO
        ),
        number("Parts", "The number of MIG instances, or 1.", parts),
        number("Holders", "The pods that hold the GPU, whole or in part.", holders),
        number("Power now", "What the GPU draws.", f"max({ONE_GPU.each(POWER)})", unit=WATT),
        number("Energy", "What the GPU drew since the driver was loaded.", energy, unit=KWH),
        number(
            "Degrees left",
            margin,
            f"max({ONE_GPU.each('DCGM_FI_DEV_GPU_TEMP_LIMIT')})",
            unit=CELSIUS,
        ),
    ]


def _with_holders(metric: str, factor: str = "") -> str:
    """Return the query for a value of each holder, and of what nobody holds.

    The exporter may send a series without a pod beside those of the pods. It counts only where no pod has one.
    """
    by = f"{SLOT}, {NAMESPACE}, {POD}, {CONTAINER}, vgpu"
    held, rest = (ONE_GPU.each(metric, f'{POD}{sign}""', by=by) for sign in ("!=", "="))
    return f"({held} or on ({SLOT}) {rest}){factor}"


def _holders() -> Panel:
    columns = [
        Query(_with_holders(PRESENT), "Memory in use", MIB),
        Query(f"({_with_holders(UTIL, ' / 100')} or {_with_holders(ACTIVE)})", "Activity", RATIO, 0),
    ]
    return rows(
        "Who holds the GPU",
        "One row for each pod on each MIG instance, and one for each instance that nobody holds. The values of pods "
        "that share a GPU are their own with KUBERNETES_VIRTUAL_GPUS=true in the exporter's environment, and "
        "otherwise those of the whole GPU or instance, and only one of the pods is named: do not add them up.",
        columns,
        sort_by="Memory in use",
    )


def _instances() -> Panel:
    columns = [
        Query(ONE_GPU.each(ACTIVE, by=SLOT), "Activity", RATIO, 0),
        Query(ONE_GPU.each(PRESENT, by=SLOT), "Memory in use", MIB),
        Query(ONE_GPU.each("DCGM_FI_DEV_FB_FREE", by=SLOT), "Free memory", MIB),
        Query(ONE_GPU.each("DCGM_FI_DEV_FB_RESERVED", by=SLOT), "Reserved memory", MIB),
    ]
    description = "One row for each MIG instance, or for the whole GPU."
    return rows("Instances", description, columns, sort_by="Memory in use")


def _whole(title: str, description: str, metrics: t.Mapping[str, str], unit: str) -> Panel:
    """Return a panel with a line for each metric of the whole GPU."""
    return lines(title, description, [Query(ONE_GPU.each(each), name) for each, name in metrics.items()], unit=unit)


def _memory() -> Panel:
    metrics = {PRESENT: "in use", "DCGM_FI_DEV_FB_FREE": "free"}
    queries = [Query(ONE_GPU.each(metric, by=SLOT), f"{name} {_SLOT}") for metric, name in metrics.items()]
    return lines("Memory", "The memory of the GPU, or of each MIG instance.", queries, unit=MIB)


def _engines() -> Panel:
    metrics = {
        "DCGM_FI_PROF_SM_ACTIVE": "processors",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor cores",
        "DCGM_FI_PROF_DRAM_ACTIVE": "memory",
    }
    queries = [Query(ONE_GPU.activity(by=SLOT), f"GPU {_SLOT}")]
    queries += [Query(ONE_GPU.each(metric, by=SLOT), f"{name} {_SLOT}") for metric, name in metrics.items()]
    description = (
        "The part of the time in which something runs, in which the processors have work, in which the tensor cores "
        "compute, and in which the memory is busy. Much of the first and little of the others is work that waits "
        "for something."
    )
    return lines("What works", description, queries, unit=RATIO, top=1)


def _media() -> Panel:
    metrics = {"DCGM_FI_DEV_ENC_UTIL": "encoder", "DCGM_FI_DEV_DEC_UTIL": "decoder"}
    queries = [Query(f"{ONE_GPU.each(metric)} / 100", name) for metric, name in metrics.items()]
    return lines("Video", "How busy the video encoder and decoder are.", queries, unit=RATIO, top=1, width=24)


def _power() -> Panel:
    metrics = {POWER: "power", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "limit"}
    return _whole("Power", "What the GPU draws, and the limit that is in force.", metrics, WATT)


def _heat() -> Panel:
    metrics = {
        "DCGM_FI_DEV_GPU_TEMP": "GPU",
        "DCGM_FI_DEV_MEMORY_TEMP": "memory",
        "DCGM_FI_DEV_GPU_TEMP_LIMIT": "left until the GPU slows down",
    }
    return _whole("Temperature", "The temperatures, and the degrees that are left.", metrics, CELSIUS)


def _clocks() -> Panel:
    metrics = {"DCGM_FI_DEV_SM_CLOCK": "processors", "DCGM_FI_DEV_MEM_CLOCK": "memory"}
    return _whole("Clocks", "The clocks of the processors and of the memory. An idle GPU clocks down.", metrics, MHZ)


def _throttling() -> Panel:
    counted = ONE_GPU.each(faults.CLOCKS_NOW, by=f"{GPU}, clock_event")
    reason = f'label_replace({counted}, "clock_event", "none", "clock_event", "")'
    description = (
        "In how many samples of the last 5 minutes each reason kept the clocks down. gpu_idle and power_cap are "
        "everyday life; hw_slowdown, hw_thermal, hw_power_brake and sw_thermal mean trouble with heat or power."
    )
    return lines("Reasons for low clocks", description, [Query(reason, "{{clock_event}}")])


def _pcie() -> Panel:
    metrics = {"DCGM_FI_PROF_PCIE_TX_BYTES": "sent", "DCGM_FI_PROF_PCIE_RX_BYTES": "received"}
    return _whole("PCIe", "What the GPU sends and receives over PCIe.", metrics, BYTES_PER_S)


def _nvlink() -> Panel:
    description = (
        "What the GPU sends and receives over all of its NVLinks. The exporter calls it a counter, but it is a rate "
        "already. Empty on GPUs without NVLink."
    )
    return _whole("NVLink", description, {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "both directions"}, MEGABYTES_PER_S)


def _xids() -> Panel:
    columns = [Query(faults.xids_in_range(ONE_GPU, f"{GPU}, xid"), "Times")]
    return rows(
        "Xids in the time range",
        "How often the GPU reported which Xid.",
        columns,
        meanings={"Xid": faults.MEANINGS},
        width=12,
    )


def _health() -> Panel:
    checked = ONE_GPU.each("DCGM_EXP_GPU_HEALTH_STATUS", by=f"{GPU}, health_watch, health_error_code")
    return rows(
        "Health checks of DCGM",
        "What DCGM's own health checks say about each part of the GPU.",
        [Query(checked, "State")],
        meanings={"State": faults.HEALTH},
        width=12,
    )
