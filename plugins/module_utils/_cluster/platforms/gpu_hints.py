# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Which nodes have NVIDIA GPUs by the word of their platform, before Node Feature Discovery has looked."""

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_HINTS = (
    # https://github.com/GoogleCloudPlatform/container-engine-accelerators at 992db812, nvidia-driver-installer/cos
    r"cloud\.google\.com/gke-accelerator=nvidia-.+",
    # https://learn.microsoft.com/azure/aks/use-labels#reserved-system-labels (2026-11-29)
    r"kubernetes\.azure\.com/accelerator=nvidia",
    # Families of https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html (2026-11-29). The GPUs of
    # g4ad are AMD's.
    r"node\.kubernetes\.io/instance-type=(p[3-9]|g4dn|g[5-9]|gr[6-9])[a-z0-9-]*\..+",
    # https://docs.siderolabs.com/talos/v1.13/configure-your-talos-cluster/hardware-and-drivers/nvidia-gpu (2026-08-19)
    r"extensions\.talos\.dev/(nvidia-open-gpu-kernel-modules|nonfree-kmod-nvidia)\b.*=.*",
)
"""Labels that platforms put on nodes with GPUs, as ``key=value``."""


def says_gpu(node: Json) -> bool:
    """Return whether a label of its platform says that a node has an NVIDIA GPU. Without one it is unknown."""
    labels = [f"{key}={value}" for key, value in labels_of(node).items()]
    return any(re.fullmatch(hint, label) for hint in _HINTS for label in labels)
