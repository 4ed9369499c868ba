# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How often a rollout looks at its members, so that watching a large fleet for hours costs little of a processor."""

from __future__ import annotations

import time

SHARE = 0.01
"""The share of a core that watching may take in the long run."""
CREDIT_S = 3.0
"""How many seconds of a core it may take beyond that: news come together, and are then seen at once."""
MAX_S = 10.0
"""The longest pause."""


class Pace:
    """Counts what looks cost, and says how long to wait after each."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._began = time.process_time()
        self._last_s = self._spent_s = 0.0

    def begin(self) -> None:
        """Note the beginning of a look."""
        self._began = time.process_time()

    def end(self) -> None:
        """Note the end of a look."""
        self._last_s = time.process_time() - self._began
        self._spent_s += self._last_s

    def pause_s(self) -> float:
        """Return how many seconds to wait after the last look."""
        earned_s = CREDIT_S + SHARE * (time.monotonic() - self._since)
        return 0.0 if self._spent_s < earned_s else min(self._last_s / SHARE, MAX_S)
