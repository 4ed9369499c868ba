# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The list of DCGM fields that the exporters collect: what is wanted, what is wrong with it, and its text.

The exporter reads the list once, when it starts, with Go's ``encoding/csv`` (``internal/pkg/counters`` of
https://github.com/NVIDIA/dcgm-exporter): three columns, name, type and help. A list that it cannot read stops the
exporter of each node.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import dcgm_fields
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.dcgm_fields import OperatorLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

KEY = "dcgm-metrics.csv"
"""The key of the ConfigMap that the operator mounts."""

LABEL_KIND = "label"
"""The type of a field that becomes a label of all series of the GPU."""

_MENTIONED = re.compile(r"\bDCGM_(?:FI|EXP)_[A-Z0-9_]*[A-Z0-9]\b")


@dataclasses.dataclass(frozen=True)
class Counter:
    """A line of the list."""

    name: str
    kind: str
    help: str


def _counters(kind: str, **helps: str) -> tuple[Counter, ...]:
    return tuple(Counter(f"DCGM_{name}", kind, text) for name, text in helps.items())


DEFAULT = (
    *_counters(
        "gauge",
        FI_DEV_SM_CLOCK="Clock of the streaming multiprocessors (in MHz).",
        FI_DEV_MEM_CLOCK="Clock of the memory (in MHz).",
        FI_DEV_MEMORY_TEMP="Temperature of the memory (in C).",
        FI_DEV_GPU_TEMP="Temperature of the GPU (in C).",
        FI_DEV_POWER_USAGE="Power draw (in W).",
        FI_DEV_GPU_UTIL="Share of time in which a kernel ran (in %).",
        FI_DEV_MEM_COPY_UTIL="Share of time in which memory was read or written (in %).",
        FI_DEV_ENC_UTIL="Use of the encoder (in %).",
        FI_DEV_DEC_UTIL="Use of the decoder (in %).",
        FI_DEV_XID_ERRORS="Code of the last Xid error.",
        FI_DEV_FB_FREE="Free memory (in MiB).",
        FI_DEV_FB_USED="Used memory (in MiB).",
        FI_DEV_FB_RESERVED="Reserved memory (in MiB).",
        FI_DEV_VGPU_LICENSE_STATUS="Whether the vGPU has its licence.",
        FI_DEV_ROW_REMAP_FAILURE="Whether a row of memory could not be remapped.",
        FI_PROF_GR_ENGINE_ACTIVE="Share of time in which the graphics or compute engine was active (0 to 1).",
        FI_PROF_PIPE_TENSOR_ACTIVE="Share of cycles in which the tensor cores were active (0 to 1).",
        FI_PROF_DRAM_ACTIVE="Share of cycles in which the memory moved data (0 to 1).",
        FI_PROF_PCIE_TX_BYTES="Data sent over PCIe (in bytes per second).",
        FI_PROF_PCIE_RX_BYTES="Data received over PCIe (in bytes per second).",
    ),
    *_counters(
        "counter",
        FI_DEV_TOTAL_ENERGY_CONSUMPTION="Energy since the driver was loaded (in mJ).",
        FI_DEV_PCIE_REPLAY_COUNTER="PCIe packets that were sent again.",
        FI_DEV_NVLINK_BANDWIDTH_TOTAL="Data over all NVLinks.",
        FI_DEV_UNCORRECTABLE_REMAPPED_ROWS="Rows remapped for uncorrectable errors.",
        FI_DEV_CORRECTABLE_REMAPPED_ROWS="Rows remapped for correctable errors.",
    ),
    *_counters(LABEL_KIND, FI_DRIVER_VERSION="Version of the driver."),
)
"""What the exporter collects without a list of its own (``etc/dcp-metrics-included.csv``)."""

HEALTH = (
    *_counters(
        "gauge",
        FI_DEV_CLOCKS_EVENT_REASONS="Reasons why clocks are lower, as bits.",
        FI_DEV_GPU_TEMP_LIMIT="Degrees left until the GPU slows down (in C).",
        FI_DEV_ROW_REMAP_PENDING="Whether a row waits for a reset to be remapped.",
        FI_DEV_GET_GPU_RECOVERY_ACTION="What the driver asks for: 1 reset, 2 reboot, 3 drain, 4 drain and reset.",
        EXP_XID_ERRORS_COUNT="Xid errors of the last minutes, by code.",
        EXP_CLOCK_EVENTS_COUNT="Times in the last minutes at which clocks were lower, by reason.",
    ),
    *_counters(
        "counter",
        FI_DEV_ECC_SBE_VOL_TOTAL="Single-bit errors since the driver was loaded.",
        FI_DEV_ECC_DBE_VOL_TOTAL="Double-bit errors since the driver was loaded.",
        FI_DEV_ECC_SBE_AGG_TOTAL="Single-bit errors since the GPU was made.",
        FI_DEV_ECC_DBE_AGG_TOTAL="Double-bit errors since the GPU was made.",
        FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL="NVLink flow control errors.",
        FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL="NVLink data errors.",
        FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL="NVLink packets that were sent again.",
        FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL="NVLinks that were trained again.",
        FI_DEV_POWER_VIOLATION="Time with lower clocks to save power (in ns).",
        FI_DEV_THERMAL_VIOLATION="Time with lower clocks because of heat (in ns).",
    ),
)

PROFILING = _counters(
    "gauge",
    FI_PROF_SM_ACTIVE="Share of cycles in which a multiprocessor had work (0 to 1).",
    FI_PROF_SM_OCCUPANCY="Share of the multiprocessors' places for warps that were taken (0 to 1).",
    FI_PROF_PIPE_FP64_ACTIVE="Share of cycles in which the FP64 pipes were active (0 to 1).",
    FI_PROF_PIPE_FP32_ACTIVE="Share of cycles in which the FP32 pipes were active (0 to 1).",
    FI_PROF_PIPE_FP16_ACTIVE="Share of cycles in which the FP16 pipes were active (0 to 1).",
)

_OTHERS = (
    *_counters(
        "gauge",
        FI_DEV_FB_TOTAL="All memory (in MiB).",
        FI_DEV_POWER_MGMT_LIMIT="Limit of the power draw (in W).",
        FI_DEV_ENFORCED_POWER_LIMIT="Limit of the power draw that is in force (in W).",
        FI_DEV_PCIE_LINK_GEN="Generation of the PCIe link.",
        FI_DEV_PCIE_LINK_WIDTH="Lanes of the PCIe link.",
        FI_DEV_PCIE_MAX_LINK_WIDTH="Lanes that the PCIe link can have.",
        FI_DEV_FABRIC_MANAGER_STATUS="State of the fabric manager.",
        EXP_GPU_HEALTH_STATUS="Result of DCGM's health checks.",
    ),
    *_counters(
        "counter",
        FI_DEV_SYNC_BOOST_VIOLATION="Time with lower clocks for sync boost (in ns).",
        FI_DEV_BOARD_LIMIT_VIOLATION="Time with lower clocks for the limits of the board (in ns).",
        FI_DEV_LOW_UTIL_VIOLATION="Time with lower clocks for lack of work (in ns).",
        FI_DEV_RELIABILITY_VIOLATION="Time with lower clocks for reliability (in ns).",
        FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS="NVLink errors that were left after correction.",
        FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS="NVLinks that could not be trained again.",
        FI_DEV_RETIRED_SBE="Pages retired for single-bit errors.",
        FI_DEV_RETIRED_DBE="Pages retired for double-bit errors.",
        FI_DEV_RETIRED_PENDING="Pages that wait to be retired.",
    ),
    *_counters(
        LABEL_KIND,
        FI_DEV_SERIAL="Serial number of the GPU.",
        FI_DEV_VBIOS_VERSION="Version of the VBIOS.",
    ),
)

PRESETS: dict[str, tuple[Counter, ...]] = {"default": DEFAULT, "health": HEALTH, "profiling": PROFILING}

_DESCRIBED = {counter.name: counter for counter in (*DEFAULT, *HEALTH, *PROFILING, *_OTHERS)}


def mentioned(text: str) -> frozenset[str]:
    """Return the names of DCGM metrics in a text, such as an expression of a rule or a dashboard."""
    return frozenset(_MENTIONED.findall(text))


def described(names: t.Iterable[str]) -> list[Counter]:
    """Return the counters of these names. Raise GpuOpsError for names whose type this collection does not know."""
    unknown = sorted(name for name in names if name not in _DESCRIBED)
    if unknown:
        raise GpuOpsError(
            f"The type of {first_few(unknown)} is not known: give name, type and help in fields.", reason="Invalid"
        )
    return [_DESCRIBED[name] for name in sorted(names)]


def wanted(
    presets: t.Iterable[str], needed: t.Iterable[str], own: t.Iterable[Counter], line: OperatorLine | None
) -> list[Counter]:
    """Return what the exporters are to collect: presets, what rules and dashboards need, and the user's own counters.

    What the exporter of the operator line may not know is left out, unless it is the user's own. What the user says of
    a field replaces what this collection says of it.
    """
    chosen = {counter.name: counter for preset in presets for counter in PRESETS[preset]}
    users = {counter.name: counter for counter in own}
    chosen |= {counter.name: counter for counter in described(set(needed) - {*chosen, *users})}
    names = dcgm_fields.names(line)
    known = {name: counter for name, counter in chosen.items() if name in names}
    return list((known | users).values())


def own_counters(fields: t.Iterable[t.Mapping[str, t.Any]], line: OperatorLine | None) -> list[Counter]:
    """Return the user's own counters. Raise GpuOpsError with everything that is wrong with them."""
    counters = [Counter(str(field["name"]).strip(), str(field["type"]), str(field["help"]).strip()) for field in fields]
    wrong = [problem for number, counter in enumerate(counters) for problem in _problems(number, counter, line)]
    names = [counter.name for counter in counters]
    twice = sorted({name for name in names if names.count(name) > 1})
    wrong += [f"fields: {name} is there {names.count(name)} times; keep one" for name in twice]
    if wrong:
        raise GpuOpsError(f"{first_few(wrong, 3, '; ')}.", reason="Invalid", problems=wrong)
    return counters


def _problems(number: int, counter: Counter, line: OperatorLine | None) -> t.Iterator[str]:
    if not dcgm_fields.may_be(counter.name, line):
        likely = " or ".join(dcgm_fields.near(counter.name, line))
        remedy = f"use {likely}" if likely else "look it up in DCGM's list of fields"
        release = f"v{line[0]}.{line[1]}" if line else "this operator"
        yield f"fields[{number}].name: the exporter of {release} has no field {counter.name!r}, {remedy}"
    elif counter.kind == LABEL_KIND and counter.name in dcgm_fields.EXPORTERS_OWN:
        # The exporter would write the type as it is, and Prometheus reads nothing of an answer with a type "label".
        yield f"fields[{number}].type: {counter.name} is a metric of the exporter itself, use gauge or counter"
    if not counter.help or not counter.help.isprintable():
        yield f"fields[{number}].help: give {counter.name} a help text of one line"


def text_of(counters: t.Iterable[Counter]) -> str:
    """Return the list as the exporter reads it. A help text with a comma or a quote is quoted."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(
        (counter.name, counter.kind, counter.help.replace("\\", "/")) for counter in counters
    )
    return written.getvalue()


def names_in(text: str) -> list[str]:
    """Return the names of the metrics in a list, without labels. What is no line of a list is left out."""
    lines = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    return [row[0].strip() for row in lines if len(row) == 3 and row[1].strip() != LABEL_KIND]


def digest(text: str) -> str:
    """Return a short name for the content of a list. Another content has another name, so exporters take it up."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
