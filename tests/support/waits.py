# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for what a test wants to see."""

from __future__ import annotations

import time
import typing as t


def sees(condition: t.Callable[[], object], seconds: float = 120) -> None:
    """Wait until a condition is met, and fail if it is not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not seen within {seconds:g} s"
        time.sleep(0.2)
