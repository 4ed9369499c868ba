# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What CUDA says to users' programs: their CUDA does not fit the driver, or the GPU has no memory left.

The numbers and names of the errors are those of ``driver_types.h`` of CUDA 12: 2, 35, 803 and 804.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_VLLM = "https://github.com/vllm-project/vllm/"

_INSUFFICIENT = pattern(
    r"^(?!.*Failed to allocate device vector A).*CUDA driver version is insufficient for CUDA runtime version",
    "cuda driver version is insufficient",
)
"""The validator's own words have a rule of their own: the validator brings its CUDA with it."""

_TOO_OLD = pattern(
    r"The NVIDIA driver on your system is too old \(found version \d+\)", "driver on your system is too old"
)

_MISMATCH = pattern(
    r"system has unsupported display driver / cuda driver combination", "unsupported display driver / cuda driver"
)

_NOT_ON_THIS_GPU = pattern(
    r"forward compatibility was attempted on non supported HW", "forward compatibility was attempted"
)

_NO_MEMORY = (
    pattern(r"\bCUDA out of memory\b|\bCUDA(?: runtime)? error:? (?:\(2\): )?out of memory", "out of memory"),
    pattern(r"\bCUDA_ERROR_OUT_OF_MEMORY\b", "cuda_error_out_of_memory"),
    pattern(r"\bcudaErrorMemoryAllocation\b", "cudaerrormemoryallocation"),
)

RULES = (
    Rule(
        code="ProgramNewerThanDriver",
        title="A program's CUDA does not work with the driver that it gets",
        severity="failure",
        cause="The program needs a newer driver than that of its node, or its container got no driver at all, because "
        "the pod asks for no GPU or did not run with the NVIDIA runtime.",
        remedy="Run `nvidia-smi` in the container. If it works, compare the CUDA version that it prints with that of "
        "the program: use an image for this CUDA version, or run playbooks/upgrade_driver.yml. If it is not found, "
        "give the pod a limit for nvidia.com/gpu.",
        sources=(
            "https://github.com/SYSTRAN/faster-whisper/issues/1259",
            "https://github.com/OPM/LBPM/issues/41",
            f"{_VLLM}pull/33992",
        ),
        certainty="possible",
        patterns=(_INSUFFICIENT, _TOO_OLD),
    ),
    Rule(
        code="CompatLibraryTooOld",
        title="A container uses its own CUDA driver library, which does not fit the node's driver",
        severity="failure",
        cause="The program has loaded a libcuda.so.1 of another version than the driver of the node (error 803). Most "
        "often it is that of the image (package cuda-compat), and the node's driver is newer.",
        remedy="Run `ldconfig -p | grep libcuda.so.1` and `echo $LD_LIBRARY_PATH` in the container. If a directory "
        "such as /usr/local/cuda/compat comes first, put that of the node's library before it "
        "(LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu in images of Debian and Ubuntu), or use an image without the "
        "package. If the pod is older than the driver, start it again.",
        sources=("https://github.com/gpustack/gpustack/issues/4678", f"{_VLLM}pull/33992"),
        certainty="likely",
        patterns=(_MISMATCH,),
    ),
    Rule(
        code="CompatLibraryNotSupported",
        title="A program is too new for the driver, and this GPU takes no newer CUDA without a new driver",
        severity="failure",
        cause="The image brings a newer CUDA driver library than the node's driver (error 804). NVIDIA supports that "
        "on GPUs for data centers alone.",
        remedy="Run playbooks/upgrade_driver.yml with a driver for the program's CUDA version, or use an image for the "
        "CUDA version that `nvidia-smi` prints on the node.",
        sources=(
            "https://github.com/AIR-DISCOVER/ICRA2024-Sim2Real-AXS/issues/5",
            "https://github.com/oobabooga/textgen/issues/4407",
        ),
        certainty="likely",
        patterns=(_NOT_ON_THIS_GPU,),
    ),
    Rule(
        code="ProgramOutOfGPUMemory",
        title="A program needs more GPU memory than it can get",
        severity="warning",
        cause="The memory of the GPU, or of its MIG device, is used up: by this program, or by others that share the "
        "GPU. With time-slicing nothing keeps programs from each other's memory.",
        remedy="Look at what uses the GPU with playbooks/report.yml or the module gpu_metrics_info. Give the program a "
        "GPU or MIG device with more memory, make it use less, or share the GPU among fewer programs.",
        sources=(
            "https://github.com/taohan10200/IIM/issues/28",
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html",
        ),
        patterns=_NO_MEMORY,
    ),
)
