# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""All rules of the diagnosis, by subject."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import (
    claim_placement,
    claims,
    compute_domains,
    device_sharing,
    discovery,
    dra_plugin,
    driver_manager,
    failing_operands,
    image_pulls,
    kubelet,
    nccl,
    operator,
    out_of_memory,
    partitions,
    platforms,
    programs,
    refused_pods,
    starts,
    stuck_upgrades,
    unexplained,
    unlike_machines,
    unplaced_pods,
    upgrade_leftovers,
    validator,
    virtual_machines,
    xid,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import (
    container_devices,
    driver_build,
    fabric,
    gpu_health,
    gpu_memory,
    hang,
    kernel_modules,
    other_drivers,
    runtime,
    runtime_start,
    services,
    toolkit_hooks,
)

RULES: tuple[Rule, ...] = (
    *other_drivers.RULES,
    *driver_build.RULES,
    *kernel_modules.RULES,
    *gpu_health.RULES,
    *gpu_memory.RULES,
    *fabric.RULES,
    *runtime.RULES,
    *runtime_start.RULES,
    *toolkit_hooks.RULES,
    *container_devices.RULES,
    *hang.RULES,
    *services.RULES,
    *unlike_machines.RULES,
    *image_pulls.RULES,
    *starts.RULES,
    *kubelet.RULES,
    *unplaced_pods.RULES,
    *refused_pods.RULES,
    *partitions.RULES,
    *device_sharing.RULES,
    *stuck_upgrades.RULES,
    *upgrade_leftovers.RULES,
    *driver_manager.RULES,
    *xid.RULES,
    *validator.RULES,
    *programs.RULES,
    *nccl.RULES,
    *failing_operands.RULES,
    *out_of_memory.RULES,
    *operator.RULES,
    *discovery.RULES,
    *dra_plugin.RULES,
    *claims.RULES,
    *claim_placement.RULES,
    *compute_domains.RULES,
    *virtual_machines.RULES,
    *platforms.RULES,
    *unexplained.RULES,
)
