# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dashboard of one node: a line or a row for each of its GPUs."""

from __future__ import annotations

import functools
import typing as t

from grafana_foundation_sdk.builders import dashboard as build

from . import faults, panels, variables
from .board import board
from .panels import BYTES_PER_S, CELSIUS, MEGABYTES_PER_S, MHZ, MIB, RATIO, WATT, Panel, Query, number, rows
from .promql import ACTIVE, DEVICES, GPU, ONE_NODE, POWER, STATE_S

_EACH = "GPU {{gpu}}"
_KUBERNETES = "Needs kube-state-metrics."

lines = functools.partial(panels.lines, points=300)
"""The few series of a node may have more points than those of a fleet."""


def dashboard() -> build.Dashboard:
    choices = [variables.datasource(), variables.cluster(), variables.node(), variables.prefix()]
    contents = [
        ("At a glance", [*_numbers(), *_kubernetes(), _gpus()]),
        ("Use", [_activity(), _memory(), _tensor(), _dram()]),
        ("Power, heat and clocks", [_power(), _heat(), _clocks(), _throttling()]),
        ("Links", [_pcie(), _nvlink()]),
        ("Errors", [_xids(), _replays(), _ecc(), _operands()]),
    ]
    return board("node", "GPU node", "One node: each of its GPUs, and what Kubernetes makes of it.", choices, contents)


def _numbers() -> list[Panel]:
    lost = "GPUs that reported a day ago and are silent now."
    return [
        number("GPUs", "The GPUs that report now.", f"count({ONE_NODE.present()})"),
        number("Held GPUs", "The GPUs that pods hold, whole or in part.", ONE_NODE.count(ONE_NODE.held())),
        number("Lost GPUs", lost, ONE_NODE.count(ONE_NODE.lost()), red_from=1),
        number("Power now", "What the GPUs draw together.", f"sum({ONE_NODE.each(POWER)})", unit=WATT),
        number(
            "Hottest GPU",
            "The temperature of the hottest GPU.",
            f"max({ONE_NODE.series('DCGM_FI_DEV_GPU_TEMP')})",
            unit=CELSIUS,
        ),
        number(
            "GPUs with a fault",
            "GPUs with an Xid of the last 5 minutes after which NVIDIA wants a reset, a restart or a repair, or "
            "with failing memory.",
            ONE_NODE.count(f"{faults.serious(ONE_NODE)} or {faults.bad_memory(ONE_NODE)}"),
            red_from=1,
        ),
    ]


def _kubernetes() -> list[Panel]:
    shares = "Shares of a time-sliced GPU and MIG instances count as devices."
    capacity, offered = (ONE_NODE.about(f"kube_node_status_{part}", DEVICES) for part in ("capacity", "allocatable"))
    return [
        number("Devices", f"The devices that Kubernetes knows. {shares} {_KUBERNETES}", f"sum({capacity})", width=6),
        number(
            "Withheld devices",
            "Devices that Kubernetes knows and does not offer, since the device plugin calls them unhealthy. "
            f"{_KUBERNETES}",
            f"sum({capacity}) - sum({offered})",
            red_from=1,
            width=6,
        ),
        number(
            "Requested devices",
            f"What pods on the node request. {shares} {_KUBERNETES}",
            f"sum({ONE_NODE.requested('cluster, node')}) or 0 * sum({capacity})",
            width=6,
        ),
        number(
            "Cordoned",
            f"1 if Kubernetes starts no new pods on the node. {_KUBERNETES}",
            f"max({ONE_NODE.about('kube_node_spec_unschedulable')})",
            red_from=1,
            width=6,
        ),
    ]


def _gpus() -> Panel:
    instances = f"count by ({GPU}) ({ONE_NODE.present(by=f'{GPU}, GPU_I_ID')})"
    columns = [
        Query(ONE_NODE.activity(window=STATE_S), "Activity", RATIO, 0),
        Query(ONE_NODE.memory("USED"), "Memory in use", MIB),
        Query(ONE_NODE.memory("FREE"), "Free memory", MIB),
        Query(ONE_NODE.each(POWER), "Power", WATT),
        Query(ONE_NODE.each("DCGM_FI_DEV_GPU_TEMP"), "Temperature", CELSIUS),
        Query(instances, "Parts"),
        Query(ONE_NODE.each("DCGM_FI_DEV_XID_ERRORS"), "Last Xid"),
    ]
    return rows(
        "Each GPU",
        f"One row for each GPU, with its mean activity of the last {STATE_S}. Parts is the number of MIG instances, "
        "or 1. The last Xid stays until the exporter starts again, however long ago it was; 0 means none.",
        columns,
        sort_by="GPU",
        meanings={"Last Xid": {"0": "none", **faults.MEANINGS}},
    )


def _each(
    title: str, description: str, metrics: t.Mapping[str, str], unit: str, *, top: float | None = None, width: int = 12
) -> Panel:
    """Return a panel with a line for each GPU and metric."""
    queries = [Query(ONE_NODE.each(metric), f"{_EACH} {name}".strip()) for metric, name in metrics.items()]
    return lines(title, description, queries, unit=unit, top=top, width=width)


def _activity() -> Panel:
    description = "The part of the time in which a GPU computes. Of a divided GPU, its most active MIG instance counts."
    return lines("Activity", description, [Query(ONE_NODE.activity(), _EACH)], unit=RATIO, top=1)


def _memory() -> Panel:
    description = "The memory that is in use on each GPU, with all of its MIG instances."
    return lines("Memory in use", description, [Query(ONE_NODE.memory("USED"), _EACH)], unit=MIB)


def _tensor() -> Panel:
    description = "The part of the cycles in which the tensor cores work, and in which a GPU computes at all."
    metrics = {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor cores", ACTIVE: "at all"}
    return _each("Tensor cores", description, metrics, RATIO, top=1)


def _dram() -> Panel:
    description = (
        "The part of the cycles in which the GPU's memory sends or receives, and how busy the driver calls it."
    )
    queries = [
        Query(ONE_NODE.each("DCGM_FI_PROF_DRAM_ACTIVE"), _EACH),
        Query(f"{ONE_NODE.each('DCGM_FI_DEV_MEM_COPY_UTIL')} / 100", f"{_EACH}, by the driver"),
    ]
    return lines("Memory traffic", description, queries, unit=RATIO, top=1)


def _power() -> Panel:
    metrics = {POWER: "", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "limit"}
    return _each("Power", "What each GPU draws, and the limit that is in force.", metrics, WATT)


def _heat() -> Panel:
    metrics = {"DCGM_FI_DEV_GPU_TEMP": "", "DCGM_FI_DEV_MEMORY_TEMP": "memory"}
    return _each("Temperature", "The temperature of each GPU and of its memory.", metrics, CELSIUS)


def _clocks() -> Panel:
    metrics = {"DCGM_FI_DEV_SM_CLOCK": "", "DCGM_FI_DEV_MEM_CLOCK": "memory"}
    return _each("Clocks", "The clocks of the processors and of the memory. Idle GPUs clock down.", metrics, MHZ)


def _throttling() -> Panel:
    reasons = {"POWER": "power limit", "THERMAL": "heat", "BOARD_LIMIT": "board limit", "RELIABILITY": "voltage"}
    queries = [
        Query(f"{ONE_NODE.rate(f'DCGM_FI_DEV_{reason}_VIOLATION')} / 1e9", f"{_EACH} {name}")
        for reason, name in reasons.items()
    ]
    description = (
        "The part of the time in which a limit kept the clocks down. The power limit is reached in normal work."
    )
    return lines("Slowed down", description, queries, unit=RATIO, top=1)


def _pcie() -> Panel:
    metrics = {"DCGM_FI_PROF_PCIE_TX_BYTES": "sent", "DCGM_FI_PROF_PCIE_RX_BYTES": "received"}
    return _each(
        "PCIe", "What each GPU sends and receives over PCIe, with the protocol's own bytes.", metrics, BYTES_PER_S
    )


def _nvlink() -> Panel:
    metrics = {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": ""}
    description = (
        "What each GPU sends and receives over all of its NVLinks. The exporter calls it a counter, but it is a rate "
        "already. Empty on GPUs without NVLink."
    )
    return _each("NVLink", description, metrics, MEGABYTES_PER_S)


def _xids() -> Panel:
    counted = ONE_NODE.each(faults.XIDS_NOW, by=f"{GPU}, xid")
    queries = [Query(f'label_replace({counted}, "xid", "none", "xid", "")', f"{_EACH}, Xid {{{{xid}}}}")]
    return lines("Xids of the last 5 minutes", "How often each GPU reported which Xid.", queries)


def _replays() -> Panel:
    queries = [Query(ONE_NODE.rate("DCGM_FI_DEV_PCIE_REPLAY_COUNTER") + " * 60", _EACH)]
    description = "Packets per minute that went over PCIe again after an error. A steady flow points to a bad contact."
    return lines("PCIe replays", description, queries)


def _ecc() -> Panel:
    columns = [
        Query(ONE_NODE.each("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"), "Corrected errors"),
        Query(ONE_NODE.each(faults.ECC_UNCORRECTABLE), "Uncorrectable errors"),
        Query(ONE_NODE.each("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"), "Rows remapped for corrected errors"),
        Query(ONE_NODE.each(faults.REMAPPED), "Rows remapped for uncorrectable errors"),
        Query(ONE_NODE.each(faults.REMAP_PENDING), "Remapping waits for a reset"),
        Query(ONE_NODE.each(faults.REMAP_FAILED), "Remapping failed"),
    ]
    description = "ECC errors since the driver was loaded, and rows of memory that were replaced for good."
    return rows("Memory errors", description, columns, sort_by="Uncorrectable errors")


def _operands() -> Panel:
    metrics = {"driver": "driver", "toolkit": "container toolkit", "plugin": "device plugin", "cuda": "CUDA"}
    queries = [
        Query(f"max({ONE_NODE.about(f'gpu_operator_node_{metric}_ready')})", name) for metric, name in metrics.items()
    ]
    description = (
        "1 while the operator's validator finds a part of the stack ready on the node. Needs the operator's node "
        "status exporter (nodeStatusExporter.enabled), which is off by default."
    )
    return lines("Parts of the stack that are ready", description, queries, top=1, width=24)
