# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A clock for tests of code that waits."""

from __future__ import annotations

import time


class Clock:
    """A replacement for the module ``time``, in which time passes only during sleep."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


class LeapingClock:
    """A clock for tests with real threads and a real server: it runs as time does, and leaps over each sleep."""

    def __init__(self) -> None:
        self._monotonic, self._time = time.monotonic, time.time
        self.leapt_s = 0.0

    def monotonic(self) -> float:
        return self._monotonic() + self.leapt_s

    def time(self) -> float:
        return self._time() + self.leapt_s

    def sleep(self, seconds: float) -> None:
        self.leapt_s += max(0.0, seconds)
