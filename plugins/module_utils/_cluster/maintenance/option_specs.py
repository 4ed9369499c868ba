# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The options that modules share which evict pods or change nodes a few at a time. `options` says what they mean.

They stand apart, because a module that seldom changes nodes must not load how nodes are changed: Ansible packs modules
as source, and each file is compiled in each run. The fragments ``eviction`` and ``node_rollout`` describe them.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec

EVICTION = ArgumentSpec(
    {
        "force": {"type": "bool", "default": False},
        "delete_emptydir_data": {"type": "bool", "default": False},
        "grace_period": {"type": "int"},
    }
)
"""Which pods may be evicted, and how."""

HOLD = ArgumentSpec(
    {
        "allow_shared": {"type": "bool", "default": False},
        "lease": {"type": "int", "default": 3600},
        "take_over": {"type": "bool", "default": False},
        "pause_nvsentinel": {"type": "bool", "default": False},
    }
)
"""How a node is held among other maintainers."""

NODE_ROLLOUT = ArgumentSpec(
    {
        "canary": {"type": "raw", "default": 0},
        "waves": {"type": "list", "elements": "str", "default": []},
        "soak": {"type": "int", "default": 0},
        "max_unavailable": {"type": "str", "default": "1"},
        "max_failed": {"type": "str", "default": "0"},
        "group_by": {"type": "str"},
        "windows": {"type": "list", "elements": "str", "default": []},
        "time_zone": {"type": "str", "default": "UTC"},
        "drain_timeout": {"type": "int", "default": 600},
    }
).including(HOLD)
"""How many nodes change at a time, and how each of them is held and emptied."""
