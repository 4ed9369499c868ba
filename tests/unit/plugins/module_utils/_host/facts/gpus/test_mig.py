# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import mig
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import nvml as nvml_module
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import (
    DriverReport,
    GpuReport,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver import instances
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.library import Driver

from lab.nvml import H100, L4, Instance, machine

SetNvml = t.Callable[..., None]
FIRST = "GPU-23300000-0000-4000-8000-000000000000"


def divided(nvml: SetNvml) -> None:
    gpus = machine(H100, 2)
    gpus[0].keys |= {"mig": 1, "mig_pending": 1}
    gpus[0].instances = [Instance("3g.40gb", 4)]
    nvml(gpus)


def complete(values: dict[str, t.Any], reasons: dict[str, str] | None = None) -> GpuReport:
    report = DriverReport("nvidia-smi", gpus=[GpuReport("0000:18:00.0", values, reasons or {}), GpuReport(None)])
    mig.MigChild().complete(report, time.monotonic() + 10)
    return report.gpus[0]


def test_the_places_of_instances_are_asked_of_nvml(nvml: SetNvml) -> None:
    divided(nvml)
    (instance,) = mig.gpu_instances(FIRST) or []
    assert (instance["profile"], instance["start"], instance["size"]) == ("3g.40gb", 4, 4)
    completed = complete({"product": "NVIDIA H100", "mig": None}, {"mig": "nvidia-smi says N/A"})
    assert completed.values["mig"]["gpu_instances"] == [instance] and completed.reasons == {}
    assert [device["profile"] for device in completed.values["mig"]["instances"]] == ["3g.40gb"]
    assert completed.sources == {"mig": "nvml"}
    assert complete({}).values == {} and complete({}).sources == {}


def test_what_nvml_does_not_tell_stays_as_another_source_has_it(nvml: SetNvml) -> None:
    assert mig.gpu_instances(FIRST) is None
    assert complete({"mig": {"mode": True, "gpu_instances": None}}).values["mig"]["gpu_instances"] is None
    nvml(machine(L4, 1))
    assert mig.gpu_instances("GPU-27b80000-0000-4000-8000-000000000000") is None
    assert complete({"mig": None}, {"mig": "nvidia-smi says N/A"}).reasons == {"mig": "nvidia-smi says N/A"}
    assert mig.gpu_instances(FIRST, str(Path("/nonexistent/libnvidia-ml.so.1"))) is None


def test_both_ways_to_ask_nvml_agree(nvml: SetNvml) -> None:
    gpus = machine(H100, 1, mig=1, mig_pending=1)
    gpus[0].instances = [Instance("3g.40gb", 4, ("2c", "1c")), Instance("1g.10gb+me", 0), Instance("1g.20gb", 2)]
    nvml(gpus)
    report = nvml_module.NvmlChild().answer(time.monotonic() + 10)
    assert report.gpus[0].values["mig"] == instances.facts(Driver().gpu(FIRST))
    assert len(report.gpus[0].values["mig"]["instances"]) == 4
