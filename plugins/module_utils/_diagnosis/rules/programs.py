# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What CUDA says to users' programs: no driver, no GPU, another CUDA, other models, no memory, or their own errors.

The words are those of the errors 2, 3, 35, 100, 101, 209, 500, 700, 710, 803, 804 and 999 of CUDA 13.0.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
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
    pattern(r"\bcupy\.cuda\.memory\.OutOfMemoryError\b", "cupy.cuda.memory.outofmemoryerror"),
    pattern(
        r"\bRESOURCE_EXHAUSTED: Out of memory while trying to allocate .* with allocator GPU_\d",
        "resource_exhausted: out of memory",
    ),
)

_TAKEN = pattern(r"Free memory on device .{0,80}is less than desired GPU", "free memory on device")
"""vLLM's check before it loads a model."""

_NO_DRIVER = (
    pattern(r"Found no NVIDIA driver on your system", "found no nvidia driver on your system"),
    pattern(r"\blibcuda\.so\.1'?: cannot open shared object file", "cannot open shared object file"),
    pattern(r"NVIDIA-SMI couldn't find libnvidia-ml\.so library", "nvidia-smi couldn't find"),
    pattern(r"CUDA platform is not available because: NVML Shared Library", "cuda platform is not available"),
    pattern(r"No platform detected, vLLM is running on UnspecifiedPlatform", "vllm is running on unspecifiedplatform"),
    pattern(r"RuntimeError: Failed to infer device type", "failed to infer device type"),
    pattern(r"JAX was unable to load the CUDA libraries", "jax was unable to load the cuda libraries"),
)

_NO_GPU = (
    pattern(r"No CUDA GPUs are available", "no cuda gpus are available"),
    pattern(
        r"^(?!.*Failed to allocate device vector A).*no CUDA-capable device is detected",
        "no cuda-capable device is detected",
    ),
    pattern(r"\bCUDA_ERROR_NO_DEVICE\b", "cuda_error_no_device"),
    pattern(r"\b0 active drivers \(\[\]\)\. There should only be one", "active drivers"),
)

_NUMBER = pattern(r"^(?!.*nvidia-container-cli).*CUDA error:? invalid device ordinal", "invalid device ordinal")
"""The toolkit's words are about the host."""

_NO_KERNEL = pattern(
    r"^(?!.*Failed to (?:allocate|launch)).*no kernel image is available for execution on the device",
    "no kernel image is available",
)

_NO_SYMBOL = pattern(r"\b(?:CUDA.{0,40}: |cudaError\w*: .{0,10})?named symbol not found", "named symbol not found")
_NOT_INITIALIZED = (
    pattern(r"\bCUDA (?:runtime )?error:? (?:\(3\): )?initialization error", "initialization error"),
    pattern(r"\bcudaErrorInitializationError\b", "cudaerrorinitializationerror"),
    pattern(r"\bCUDA_ERROR_NOT_INITIALIZED\b", "cuda_error_not_initialized"),
)
_UNKNOWN = (
    pattern(r"\bCUDA_ERROR_UNKNOWN\b", "cuda_error_unknown"),
    pattern(r"\bCUDA unknown error\b", "cuda unknown error"),
    pattern(r"\(error code unknown error\)", "(error code unknown error)"),
)
_CONTAINED = pattern(r"\bCUDA_ERROR_CONTAINED\b|\bcudaErrorContained\b", "contained")

_FAULT = (
    pattern(r"an illegal memory access was encountered", "an illegal memory access was encountered"),
    pattern(r"\bdevice-side assert triggered\b", "device-side assert triggered"),
)

RULES = (
    Rule(
        code="ProgramWithoutDriver",
        title="A program's container got no NVIDIA driver",
        severity="failure",
        cause="The driver's libraries are not in the container. The pod asks for no GPU, or the container was started "
        "by a runtime other than NVIDIA's, which is what adds them.",
        remedy="Give the container a limit for nvidia.com/gpu. If it has one, set runtimeClassName: nvidia in the spec "
        "of the pod, beside containers and not below one of them, and start the pod again. If that does not help, run "
        "playbooks/diagnose.yml.",
        sources=(
            "https://github.com/NVIDIA/k8s-device-plugin/issues/5",
            "https://github.com/NVIDIA/gpu-operator/issues/346",
            "https://github.com/canonical/microk8s/issues/4408",
        ),
        certainty="likely",
        patterns=_NO_DRIVER,
    ),
    Rule(
        code="ProgramSeesNoGPU",
        title="A program has the driver but finds no GPU",
        severity="failure",
        cause="CUDA works and shows the program no GPU. CUDA_VISIBLE_DEVICES names a GPU that the container does not "
        "have or is empty, the container has no GPU, or the GPU is in MIG mode without MIG devices.",
        remedy="Run `nvidia-smi -L` and `env | grep VISIBLE_DEVICES` in the container. If a GPU is listed, remove "
        "CUDA_VISIBLE_DEVICES from the program and the pod: a container's own GPUs count from 0. If none is listed, "
        "give the container a limit for nvidia.com/gpu or for a MIG device.",
        sources=(
            "https://github.com/Grace9994/CoMoSVC/issues/6",
            "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables",
        ),
        certainty="possible",
        patterns=_NO_GPU,
    ),
    Rule(
        code="ProgramCountsMoreGPUs",
        title="A program asks for a GPU by a number that its container does not have",
        severity="failure",
        cause="The program starts more processes than its container has GPUs, or counts the GPUs of all nodes. CUDA "
        "shows a process one MIG device at most.",
        remedy="Run `nvidia-smi -L` in the container. Start at most one process for each GPU that it lists, numbered "
        "from 0 on each node, or raise the limit for nvidia.com/gpu.",
        sources=(
            "https://github.com/tatsu-lab/stanford_alpaca/issues/67",
            "https://github.com/LMCache/LMCache/issues/814",
            "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
        ),
        certainty="likely",
        patterns=(_NUMBER,),
    ),
    Rule(
        code="ProgramNotBuiltForGPU",
        title="A program has no code for the model of its GPU",
        severity="failure",
        cause="The program, or a library in its image, was built for other compute capabilities than that of this GPU. "
        "The GPU and its driver work.",
        remedy="Use an image that supports the GPU: a newer one for a new model, an older one for an old model. The "
        "label nvidia.com/gpu.compute.major of the node says what it must support.",
        sources=("https://github.com/opendatalab/MinerU/issues/1800", "https://github.com/dphnAI/sonar/issues/49"),
        patterns=(_NO_KERNEL,),
    ),
    Rule(
        code="ProgramSymbolNotFound",
        title="CUDA does not find its own functions",
        severity="failure",
        cause="The container lacks a library of the driver, or has one of another driver (error 500). Under WSL2, "
        "drivers from 555 on bring libnvdxgdmal.so.1, which a container toolkit before 1.14.4 does not put into "
        "containers.",
        remedy="Run `nvidia-smi` on the host and in the container, and compare the versions. Under WSL2, update "
        "nvidia-container-toolkit (1.14.4 or 1.15 and newer) or Docker Desktop (4.31 and newer). On a server, delete "
        "the pod, so that it starts with the node's libraries.",
        sources=(
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/520",
            "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
        certainty="possible",
        patterns=(_NO_SYMBOL,),
    ),
    Rule(
        code="ProgramCannotInitialize",
        title="A program cannot start CUDA",
        severity="failure",
        cause="CUDA does not start in this process (error 3). The program forked after it had used CUDA, the GPU was "
        "reset or its MIG devices were changed under the container, or the fabric of the GPUs is not ready.",
        remedy="Run nvidia-smi -L in the container. If it lists the GPU and another process of the container can use "
        "CUDA, start the workers of the program with spawn rather than fork. Otherwise delete the pod, so that a new "
        "one gets its GPU again, and look at the kernel log of the node (journalctl -k -g 'NVRM|Xid').",
        sources=(
            "https://pytorch.org/docs/stable/notes/multiprocessing.html",
            "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
        certainty="possible",
        patterns=_NOT_INITIALIZED,
        unlike={"FabricNotReady": seen.FABRIC_OR_PROGRAM},
    ),
    Rule(
        code="ProgramUnknownError",
        title="CUDA fails with an unknown error",
        severity="failure",
        cause="CUDA does not start, and the driver gives no reason (error 999). Most often the module nvidia_uvm is "
        "not loaded or its device file is not in the container, or the driver was changed or suspended under the "
        "program.",
        remedy="Run ls -l /dev/nvidia-uvm in the container and on the host. If it is missing on the host, run "
        "nvidia-modprobe -u -c 0; if only in the container, delete the pod. Otherwise read journalctl -k -g "
        "'NVRM|Xid'.",
        sources=(
            "https://github.com/pytorch/pytorch/issues/49081",
            "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        ),
        certainty="possible",
        patterns=_UNKNOWN,
    ),
    Rule(
        code="ProgramContained",
        title="A fault of NVLink or of a GPU ended a program",
        severity="warning",
        cause="The driver stopped the program, because a peer GPU over NVLink or the hardware failed, and kept the "
        "fault from others. The program is not the cause.",
        remedy="Start the program again. Read journalctl -k -g 'Xid|SXid' on all nodes of the job, from before the "
        "error: the first Xid names the GPU or the link.",
        sources=(
            "https://github.com/marin-community/marin/issues/8934",
            "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
        ),
        certainty="likely",
        patterns=(_CONTAINED,),
    ),
    Rule(
        code="ProgramFault",
        title="A program made an error on its GPU",
        severity="warning",
        cause="The program used memory that is not its own, or one of its own checks failed. Most often that is an "
        "error in the program or in its input.",
        remedy="Run the program with CUDA_LAUNCH_BLOCKING=1, which names the call that fails. If it fails on one node "
        "only, read that node's kernel log for Xid messages: playbooks/diagnose.yml explains them.",
        sources=("https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",),
        certainty="likely",
        patterns=_FAULT,
    ),
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
        code="GPUMemoryTakenBefore",
        title="Another program holds the memory of the GPU that a program got",
        severity="failure",
        cause="The program found less free GPU memory at its start than it wants. A process that was left over, a pod "
        "that shares the GPU, or a second way of giving out GPUs holds it: the device plugin and the DRA driver on one "
        "node give the same GPU out twice.",
        remedy="Run nvidia-smi on the node for the processes of the GPU, and compare with the pods that hold GPUs "
        "there (nvidia.com/gpu, and kubectl get resourceclaims -A -o yaml for the claims of the node). Offer the GPUs "
        "of a node in one way only. If the sharing is meant, lower gpu_memory_utilization.",
        sources=("https://github.com/ai-dynamo/dynamo/pull/13536",),
        patterns=(_TAKEN,),
        certainty="likely",
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
