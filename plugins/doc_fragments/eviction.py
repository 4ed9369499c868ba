# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that evict pods, with their specs in module_utils/_cluster/maintenance/options.py."""

    DOCUMENTATION = r"""
options:
  force:
    description: Also evict pods without a controller. They are then gone for good.
    type: bool
    default: false
  delete_emptydir_data:
    description: Also evict pods with emptyDir volumes, whose data is then lost.
    type: bool
    default: false
  grace_period:
    description: Grace period in seconds for each evicted pod, instead of the pod's own grace period.
    type: int
"""
