# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The options that say how pods share GPUs, for every module that takes them. `config` says what they mean."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec

_RESOURCE = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "replicas": {"type": "int", "required": True},
    }
)

SHARES = ArgumentSpec(
    {
        "strategy": {"type": "str", "choices": ["time-slicing", "mps", "none"]},
        "replicas": {"type": "int"},
        "resources": _RESOURCE.as_list(),
        "rename_by_default": {"type": "bool", "default": False},
        "fail_requests_greater_than_one": {"type": "bool"},
        "config": {"type": "dict"},
    }
)
"""How pods share the GPUs of a node: in short, or as a whole configuration of the device plugin."""
