# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Limits of numbers that a user gives."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError


def refuse_below(options: t.Mapping[str, t.Any], **minimums: int) -> None:
    """Raise for an option that is smaller than its minimum: ``refuse_below(options, wait_timeout=0)``."""
    for name, minimum in minimums.items():
        value = options.get(name)
        if value is not None and value < minimum:
            raise GpuOpsError(f"{name} is {value}: give {minimum} or more.", reason="Invalid")
