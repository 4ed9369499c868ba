# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import nvml, smi
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import FIELDS
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from tests.unit.fakes.host import recorded


def test_both_sources_report_every_field() -> None:
    fields = {*FIELDS, "architecture", "pcie"}
    assert set(nvml.QUESTIONS) == fields
    (gpu, *_others) = smi.parse(Output(recorded("nvidia-smi/h100-550.xml"))).gpus
    assert {*gpu.values, *gpu.reasons} == fields
