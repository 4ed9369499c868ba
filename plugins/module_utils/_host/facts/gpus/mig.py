# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""The GPU instances of GPUs with MIG, and their places. Only NVML names them, only to root, and without pynvml."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host import forked
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import NVML, DriverReport
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver import instances
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.library import SONAME, Driver, DriverError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def gpu_instances(uuid: str, library: str | None = None) -> list[Json] | None:
    """Return the GPU instances of a GPU, or None if the driver does not tell them. The call may hang."""
    try:
        facts = instances.facts(Driver(library or SONAME).gpu(uuid))
    except (OSError, DriverError):
        return None
    return facts["gpu_instances"] if facts else None


class MigChild:
    """A process that asks about MIG where nvidia-smi tells the rest, since NVML tells more."""

    def __init__(self, library: str | None = None) -> None:
        """Fork. ``library`` is the path of NVML's library if the linker cannot find it."""
        self._child = forked.Child(lambda: _ask(library))

    def complete(self, report: DriverReport, deadline: float) -> None:
        """Give the report of another source what NVML says of MIG, as far as that is known by the deadline."""
        known = {message["address"]: message["mig"] for message in self._child.read(deadline).messages()}
        for gpu in report.gpus:
            if gpu.values and known.get(gpu.address):
                gpu.values["mig"] = known[gpu.address]
                gpu.sources["mig"] = NVML
                gpu.reasons.pop("mig", None)


def _ask(library: str | None) -> t.Iterator[Json]:
    try:
        for gpu in Driver(library or SONAME).gpus():
            yield {"address": gpu.address, "mig": instances.facts(gpu)}
    except (OSError, DriverError):
        return
