# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What users' programs print when CUDA fails. The corpus has the threads from which the lines are."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import all_rules

from tests.unit.diagnosed import found
from tests.unit.plugins.module_utils._diagnosis.rules.test_failing_operands import WORDS as OF_OPERANDS

ASKED = "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before? "
LINES = {
    # https://github.com/SYSTRAN/faster-whisper/issues/1259
    "RuntimeError: CUDA failed with error CUDA driver version is insufficient for CUDA runtime version": (
        "ProgramNewerThanDriver",
        "possible",
    ),
    # https://github.com/NVIDIA/nvidia-docker/issues/781
    "Check failed: error == cudaSuccess (35 vs. 0)  CUDA driver version is insufficient for CUDA runtime version": (
        "ProgramNewerThanDriver",
        "possible",
    ),
    # https://github.com/vllm-project/vllm/pull/33992
    "RuntimeError: The NVIDIA driver on your system is too old (found version 12090). Please update": (
        "ProgramNewerThanDriver",
        "possible",
    ),
    # https://github.com/gpustack/gpustack/issues/4678
    f"{ASKED}Error 803: system has unsupported display driver / cuda driver combination": (
        "CompatLibraryTooOld",
        "likely",
    ),
    # https://github.com/AIR-DISCOVER/ICRA2024-Sim2Real-AXS/issues/5
    f"{ASKED}Error 804: forward compatibility was attempted on non supported HW": (
        "CompatLibraryNotSupported",
        "likely",
    ),
    # https://github.com/taohan10200/IIM/issues/28
    "RuntimeError: CUDA error: out of memory": ("ProgramOutOfGPUMemory", "certain"),
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.": ("ProgramOutOfGPUMemory", "certain"),
    "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY": ("ProgramOutOfGPUMemory", "certain"),
    "cudaErrorMemoryAllocation: out of memory": ("ProgramOutOfGPUMemory", "certain"),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_gives_one_finding(line: str) -> None:
    findings = found(all_rules.RULES, line)
    assert {code: finding.certainty for code, finding in findings.items()} == dict([LINES[line]])


def test_the_validators_words_are_those_of_its_own_rule() -> None:
    assert list(found(all_rules.RULES, OF_OPERANDS["ValidatorNewerThanDriver"])) == ["ValidatorNewerThanDriver"]


@pytest.mark.parametrize("line", ["Out of memory: Killed process 1 (python)", "cuda: 2 devices", "not out of memory"])
def test_other_lines_give_nothing(line: str) -> None:
    assert not {code for code in found(all_rules.RULES, line) if code.startswith(("Program", "Compat"))}
