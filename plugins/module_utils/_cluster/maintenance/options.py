# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The options that modules share which evict pods or change nodes a few at a time, and what follows from them.

The documentation fragments ``eviction`` and ``node_rollout`` describe these options.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.wishes import OPTIONS_FOR_NODES, Wishes
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

EVICTION: dict[str, t.Any] = {
    "force": {"type": "bool", "default": False},
    "delete_emptydir_data": {"type": "bool", "default": False},
    "grace_period": {"type": "int"},
}
"""Which pods may be evicted, and how."""

HOLD: dict[str, t.Any] = {
    "allow_shared": {"type": "bool", "default": False},
    "lease": {"type": "int", "default": 3600},
    "take_over": {"type": "bool", "default": False},
    "pause_nvsentinel": {"type": "bool", "default": False},
}
"""How a node is held among other maintainers."""

NODE_ROLLOUT: dict[str, t.Any] = {
    "canary": {"type": "raw", "default": 0},
    "max_unavailable": {"type": "str", "default": "1"},
    "max_failed": {"type": "str", "default": "0"},
    "group_by": {"type": "str"},
    "drain_timeout": {"type": "int", "default": 600},
    **HOLD,
}
"""How many nodes change at a time, and how each of them is held and emptied."""

ROLLOUT_MINIMA = {"drain_timeout": 1, "lease": 1, "grace_period": 0}
"""The smallest values of these options, for ``refuse_below``."""


def drain_options(options: Options, purpose: str) -> Json:
    """Return the options with which node maintenance drains nodes for a module that has the options above.

    A module without the option ``evict`` needs idle GPUs only.
    """
    fixed = {
        "state": "drained",
        "purpose": purpose,
        "timeout": options["drain_timeout"],
        "skip_wait_for_delete_timeout": None,
        "max_in_maintenance": None,
    }
    return {"evict": "gpu", **options, **fixed}


def wishes_of(options: Options, groups: t.Mapping[str, t.Any] | None = None) -> Wishes:
    """Return what the options want of a rollout. ``groups`` are the nodes' values of the label in ``group_by``."""
    grouped = groups if options["group_by"] else None
    return Wishes(options["max_unavailable"], options["canary"], grouped, options["max_failed"], OPTIONS_FOR_NODES)
