# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Why an action plugin: a rollout may take hours, and only the controller can print progress.

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.plugin_utils._progress import WatchingAction


class ActionModule(WatchingAction):
    """Runs the module of the same name and prints its progress."""

    MODULE = "gpuops.nvidia.gpu_pools"
