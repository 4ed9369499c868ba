# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``gpu_facts`` on a machine with a GPU: what NVML says, field by field, is what nvidia-smi says."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import gather
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import nvml
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.proof import CHECKS, prove

pytestmark = pytest.mark.skipif(
    not os.path.exists("/dev/nvidiactl") or not shutil.which("nvidia-smi"),
    reason="This machine has no NVIDIA GPU with a driver (/dev/nvidiactl and nvidia-smi).",
)

SUBSETS = ["!all", "!min", "gpus", "driver", "services", "xid"]
# What changes from one moment to the next, and what only NVML tells.
CHANGING = {"power_w", "reason", "ecc", "pcie", "nvlink"}


def gathered() -> dict[str, t.Any]:
    return gather.gather(Host(timeout_s=60), SUBSETS, 60)


def test_nvml_and_nvidia_smi_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    from_nvml = gathered()
    monkeypatch.setattr(nvml, "HAS_PYNVML", False)
    from_smi = gathered()
    assert from_nvml["sources"]["gpus.uuid"]["source"] == "nvml"
    assert from_smi["sources"]["gpus.uuid"]["source"] == "nvidia-smi"
    assert len(from_nvml["gpus"]) == len(from_smi["gpus"]) > 0
    for one, other in zip(from_nvml["gpus"], from_smi["gpus"], strict=True):
        assert {field: one[field] for field in one if field not in CHANGING} == {
            field: other[field] for field in other if field not in CHANGING
        }
        for field in ("generation_max", "generation_host", "width", "width_max", "degraded"):
            assert one["pcie"][field] == other["pcie"][field], field
        if one["nvlink"]:
            assert {**one["nvlink"], "version": None} == other["nvlink"]


def test_the_readings_are_those_of_nvidia_smis_table() -> None:
    names = ("uuid", "name", "serial", "vbios_version", "inforom.img", "persistence_mode", "memory.total")
    command = ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = {row[0]: row for row in csv.reader(output.splitlines(), skipinitialspace=True)}
    for gpu in gathered()["gpus"]:
        row = rows[gpu["uuid"]]
        found = (gpu["product"], gpu["serial"], gpu["vbios"], gpu["inforom"])
        assert [value or "[N/A]" for value in found] == [text.replace("[Not Supported]", "[N/A]") for text in row[1:5]]
        assert gpu["persistence_mode"] is (row[5] == "Enabled")
        assert gpu["memory_mib"] == int(row[6])


def test_the_proof_judges_a_real_host() -> None:
    facts = gathered()
    options = {"facts": facts, "driver": "host", "before": {}, "expected": {"gpus": len(facts["gpus"])}, "skip": []}
    result = prove(options)
    assert {finding["check"] for finding in result["findings"]} == set(CHECKS)
    again = prove({**options, "before": result["record"]})
    assert next(finding for finding in again["findings"] if finding["check"] == "proof_gpus")["result"] == "passed"
