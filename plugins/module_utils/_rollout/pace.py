# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How often a rollout looks at its members, so that watching a large fleet for hours costs little of a processor."""

from __future__ import annotations

import time

SHARE = 0.005
"""The share of a core that watching may take in the long run."""
CREDIT_S = 3.0
"""How many seconds of a core it may take beyond that: news come together, and are then seen at once."""
QUIET = 0.25
"""How long a pause may be, as a part of the time since the last news, while there is credit."""
MAX_S = 10.0
"""The longest pause."""


class Pace:
    """Counts what looks cost, and says how long to wait after each.

    After news, the next look follows at once. As long as there are none, the pauses grow, so that the credit is not
    spent on looks at nothing.
    """

    def __init__(self) -> None:
        self._since = self._news = time.monotonic()
        self._began = time.process_time()
        self._last_s = self._spent_s = 0.0

    def begin(self) -> None:
        """Note the beginning of a look."""
        self._began = time.process_time()

    def end(self, has_news: bool) -> None:
        """Note the end of a look, and whether anything was different from the look before."""
        self._last_s = time.process_time() - self._began
        self._spent_s += self._last_s
        if has_news:
            self._news = time.monotonic()

    def pause_s(self) -> float:
        """Return how many seconds to wait after the last look."""
        now = time.monotonic()
        longest_s = min(self._last_s / SHARE, MAX_S)
        has_credit = self._spent_s < CREDIT_S + SHARE * (now - self._since)
        return min(longest_s, QUIET * (now - self._news)) if has_credit else longest_s
