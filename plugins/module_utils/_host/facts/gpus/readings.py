# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a driver says of its GPUs, whoever was asked: NVML or nvidia-smi."""

from __future__ import annotations

import dataclasses
import typing as t

FIELDS = (
    "product",
    "uuid",
    "serial",
    "memory_mib",
    "power_w",
    "power_limit_w",
    "ecc",
    "remapped_rows",
    "mig",
    "nvlink",
    "fabric",
)
"""What only the driver knows of a GPU. It also knows ``architecture`` and ``pcie``, and better than sysfs does."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """One GPU. ``reasons`` says of a field that is null why; ``address`` is None for a lost GPU that NVML does not name any more."""

    address: str | None
    values: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    reasons: dict[str, str] = dataclasses.field(default_factory=dict)
    lost: bool = False


@dataclasses.dataclass(frozen=True)
class Readings:
    """The answer of one source: what it said before it ended, and the reason when it did not say all."""

    source: str
    driver_version: str | None = None
    gpus: list[Reading] = dataclasses.field(default_factory=list)
    reason: str | None = None
    timed_out: bool = False
