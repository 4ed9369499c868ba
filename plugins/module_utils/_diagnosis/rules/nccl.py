# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What NCCL says of the container that it runs in: too little shared memory, and memory that may not be locked."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_SHM = (
    pattern(r"NCCL WARN .*failed to extend /dev/shm/nccl", "failed to extend /dev/shm/"),
    pattern(r"NCCL WARN Error while creating shared memory segment", "error while creating shared memory segment"),
    pattern(r"NCCL WARN Call to posix_fallocate failed", "call to posix_fallocate failed"),
)
_LOCKED = pattern(
    r"NCCL WARN Call to ibv_(?:reg_mr\w*|create_\w+) failed with error Cannot allocate memory", "call to ibv_"
)

_GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"

RULES = (
    Rule(
        code="NCCLSharedMemoryFull",
        title="The container has too little shared memory for NCCL",
        severity="failure",
        cause="NCCL passes data between the GPUs of a container through /dev/shm, and it is full. A pod gets 64 MB of "
        "it unless it asks for more.",
        remedy="Mount an emptyDir with medium: Memory at /dev/shm in the pod. Its size counts towards the memory limit "
        "of the container.",
        sources=(
            f"{_GUIDE}#shared-memory",
            "https://github.com/kserve/kserve/issues/3791",
            "https://github.com/pytorch/ci-infra/pull/490",
        ),
        patterns=_SHM,
    ),
    Rule(
        code="NCCLMemoryNotLocked",
        title="NCCL may not lock enough memory for InfiniBand",
        severity="failure",
        cause="NCCL cannot register memory with the network adapter, because the limit of locked memory (memlock) is "
        "too small.",
        remedy="Run ulimit -l in the container: it should print unlimited. In a pod, add the capability IPC_LOCK; "
        "with a service of the host, set LimitMEMLOCK=infinity for the container runtime, drain the node, and restart "
        "it.",
        sources=(f"{_GUIDE}#infiniband", "https://github.com/NVIDIA/nccl-tests/issues/206"),
        patterns=(_LOCKED,),
        certainty="likely",
    ),
)
