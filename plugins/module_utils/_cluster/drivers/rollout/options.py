# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The options of a driver's rollout, and what is wrong with them. The documentation fragment is driver_rollout."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import NODE_ROLLOUT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import stages, windows

Options = t.Mapping[str, t.Any]

OPTIONS: dict[str, t.Any] = {
    "wait": {"type": "bool", "default": True},
    "waves": {"type": "list", "elements": "str", "default": []},
    "soak": {"type": "int", "default": 0},
    "windows": {"type": "list", "elements": "str", "default": []},
    "time_zone": {"type": "str", "default": "UTC"},
    "timeout": {"type": "int", "default": 1800},
    **NODE_ROLLOUT,
    **PROGRESS,
}


def refuse(options: Options) -> None:
    """Raise if an option has a value that cannot be meant, before anything is read or written."""
    refuse_below(options, soak=0, timeout=1, drain_timeout=1, lease=1)
    stages.check(options["waves"])
    windows.parse(options["windows"], options["time_zone"])
