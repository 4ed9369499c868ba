# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The options of a rollout of the toolkit, and the way to it, which a call without a change does not take."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.apply import Stage, Staged
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.option_specs import NODE_ROLLOUT

_PACE = ArgumentSpec(
    {
        **{name: option for name, option in NODE_ROLLOUT.options.items() if name != "drain_timeout"},
        "timeout": {"type": "int", "default": 600},
    }
)
TOOLKIT_ROLLOUT = ArgumentSpec({"toolkit_rollout": _PACE.as_dict(default={})})

Options = t.Mapping[str, t.Any]


def stage_of(options: Options) -> Stage:
    """Return what makes the change in steps if it concerns the toolkit. Raises for options that cannot be meant."""
    defaults = {name: option.get("default") for name, option in _PACE.options.items()}
    return functools.partial(_stage, options) if options["toolkit_rollout"] == defaults else _load(options)


def _load(options: Options) -> Stage:
    # With all that a rollout needs, it would take a quarter of an unchanged task's time.
    from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit import toolkit_rollout

    return toolkit_rollout.stage_of(options)


def _stage(options: Options, *arguments: t.Any) -> Staged | None:
    return _load(options)(*arguments)
