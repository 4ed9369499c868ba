# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Numbers and percentages, as Ansible's own ``serial`` and ``max_fail_percentage`` take them."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

_AMOUNT = re.compile(r"\s*(\d+)\s*(%?)\s*")


def amount(value: t.Any, total: int, name: str, least: int = 0) -> int:
    """Return a number, or a percentage of ``total``: rounded down, and at least ``least``."""
    found = _AMOUNT.fullmatch(str(value))
    number = int(found[1]) if found else -1
    if not found or isinstance(value, bool) or (number == 0 and least) or (found[2] and number > 100):
        example = f"{least or 3} or {10 if least else 5}%"
        raise GpuOpsError(f"{name} is {value!r}. Give a number or a percentage, such as {example}.", reason="Invalid")
    return max(least, number * total // 100) if found[2] else number
