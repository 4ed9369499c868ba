# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""All rules of the diagnosis, by subject."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import (
    drift,
    driver_manager,
    nodes,
    operands,
    partitions,
    placement,
    stack,
    starts,
    upgrades,
    xid,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import (
    driver_build,
    fabric,
    gpu_health,
    hang,
    kernel_modules,
    other_drivers,
    runtime,
    services,
)

RULES: tuple[Rule, ...] = (
    *other_drivers.RULES,
    *driver_build.RULES,
    *kernel_modules.RULES,
    *gpu_health.RULES,
    *fabric.RULES,
    *runtime.RULES,
    *hang.RULES,
    *services.RULES,
    *drift.RULES,
    *starts.RULES,
    *nodes.RULES,
    *placement.RULES,
    *partitions.RULES,
    *upgrades.RULES,
    *driver_manager.RULES,
    *xid.RULES,
    *operands.RULES,
    *stack.RULES,
)
