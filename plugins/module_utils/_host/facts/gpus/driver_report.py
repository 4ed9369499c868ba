# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The driver's report on its GPUs, in the same form from NVML and from nvidia-smi."""

from __future__ import annotations

import dataclasses
import typing as t

NVML, SMI = "nvml", "nvidia-smi"
"""The sources that speak for the driver."""

FIELDS = (
    "product",
    "uuid",
    "serial",
    "memory_mib",
    "power_w",
    "power_limit_w",
    "clocks",
    "persistence_mode",
    "vbios",
    "inforom",
    "gsp",
    "ecc",
    "remapped_rows",
    "retired_pages",
    "recovery_action",
    "mig",
    "nvlink",
    "peer_type",
    "fabric",
)
"""The facts that only the driver knows. It also knows ``architecture`` and ``pcie``, better than sysfs does."""


@dataclasses.dataclass(frozen=True)
class GpuReport:
    """The report on one GPU. ``reasons`` says why a field is null, ``sources`` which other source told a field.

    NVML does not give the ``address`` of a lost GPU.
    """

    address: str | None
    values: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    reasons: dict[str, str] = dataclasses.field(default_factory=dict)
    lost: bool = False
    sources: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class DriverReport:
    """Everything that one source reported before it ended. ``reason`` says why the report is incomplete."""

    source: str
    driver_version: str | None = None
    gpus: list[GpuReport] = dataclasses.field(default_factory=list)
    reason: str | None = None
    timed_out: bool = False
