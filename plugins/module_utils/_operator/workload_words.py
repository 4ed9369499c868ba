# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whom the GPUs of a node serve, in the words of the operator's label ``nvidia.com/gpu.workload.config``.

Source: ``gpuStateLabels`` in ``controllers/state_manager.go`` of the GPU Operator.
"""

from __future__ import annotations

CONTAINER = "container"
VM_PASSTHROUGH = "vm-passthrough"
VM_VGPU = "vm-vgpu"
WORKLOAD_KINDS = (CONTAINER, VM_PASSTHROUGH, VM_VGPU)
