# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What users' programs print when CUDA fails. The corpus has the threads from which the lines are."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import all_rules

from tests.unit.diagnosed import found
from tests.unit.plugins.module_utils._diagnosis.rules.test_failing_operands import WORDS as OF_OPERANDS

RECORDED = yaml.safe_load((Path(__file__).parents[4] / "fixtures" / "diagnosis" / "recorded_programs.yml").read_text())
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
    "ValueError: Free memory on device (5.12/79.11 GiB) on startup is less than desired GPU memory utilization (0.9)": (
        "GPUMemoryTakenBefore",
        "likely",
    ),
    "RuntimeError: No CUDA GPUs are available": ("ProgramSeesNoGPU", "possible"),
    # https://github.com/tatsu-lab/stanford_alpaca/issues/67
    "RuntimeError: CUDA error: invalid device ordinal": ("ProgramCountsMoreGPUs", "likely"),
    # https://github.com/opendatalab/MinerU/issues/1800
    "CUDA error: no kernel image is available for execution on the device": ("ProgramNotBuiltForGPU", "certain"),
    "RuntimeError: CUDA error: an illegal memory access was encountered": ("ProgramFault", "likely"),
    # https://github.com/NVIDIA/nvidia-container-toolkit/issues/520
    "E external/local_xla cuda_driver.cc:282] failed call to cuInit: CUDA_ERROR_NOT_FOUND: named symbol not found": (
        "ProgramSymbolNotFound",
        "possible",
    ),
    # https://github.com/NVIDIA/gpu-operator/issues/854
    "Failed to allocate device vector A (error code unknown error)!": ("ProgramUnknownError", "possible"),
    # https://github.com/marin-community/marin/issues/8934
    "CUDA_ERROR_CONTAINED: Invalid access of peer GPU memory over nvlink": ("ProgramContained", "likely"),
    "RuntimeError: CUDA error: initialization error": ("ProgramCannotInitialize", "possible"),
    # https://github.com/pytorch/pytorch/issues/49081
    "UserWarning: CUDA initialization: CUDA unknown error - this may be due to": ("ProgramUnknownError", "possible"),
    # https://github.com/tensorflow/tensorflow/issues/10642
    "ImportError: libcuda.so.1: cannot open shared object file: No such file": ("ProgramWithoutDriver", "likely"),
    "Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file": (
        "ProgramWithoutDriver",
        "likely",
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_gives_one_finding(line: str) -> None:
    findings = found(all_rules.RULES, line)
    assert {code: finding.certainty for code, finding in findings.items()} == dict([LINES[line]])


@pytest.mark.parametrize("record", RECORDED, ids=lambda record: f"{record['program']}: {record['did']}")
def test_what_programs_printed_on_a_real_gpu(record: dict[str, str]) -> None:
    assert list(found(all_rules.RULES, record["excerpt"])) == [record["code"]]


def test_the_validators_words_are_those_of_its_own_rule() -> None:
    assert list(found(all_rules.RULES, OF_OPERANDS["ValidatorNewerThanDriver"])) == ["ValidatorNewerThanDriver"]


@pytest.mark.parametrize(
    "line",
    [
        "Out of memory: Killed process 1 (python)",
        "cuda: 2 devices",
        "not out of memory",
        "libcudart.so.12: cannot open shared object file: No such file or directory",
        # https://github.com/NVIDIA/gpu-feature-discovery/issues/11: the toolkit speaks of the host.
        "nvidia-container-cli: detection error: cuda error: invalid device ordinal: unknown",
        # https://github.com/NVIDIA/gpu-operator/issues/1900: the validator has the driver and asks for a GPU.
        "Failed to allocate device vector A (error code no CUDA-capable device is detected)!",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8GiB on the host",
    ],
)
def test_other_lines_give_nothing(line: str) -> None:
    assert not {code for code in found(all_rules.RULES, line) if code.startswith(("Program", "Compat"))}
