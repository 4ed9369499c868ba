# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Maintenance windows: hours of the week in which members of a fleet may begin to change."""

from __future__ import annotations

import dataclasses
import re
import typing as t
import zoneinfo
from datetime import UTC, datetime, timedelta

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(r"(?:(?P<days>[a-z]{3}(?:[,-][a-z]{3})*)\s+)?(?P<begin>\d\d:\d\d)\s*-\s*(?P<end>\d\d:\d\d)")
_DAY_MINUTES = 24 * 60


@dataclasses.dataclass(frozen=True)
class Hours:
    """One window: on which days it begins, and the minutes of the day at which it begins and ends."""

    days: frozenset[int]
    begin: int
    end: int

    @property
    def minutes(self) -> int:
        """How long the window is. Equal times mean a whole day."""
        return (self.end - self.begin) % _DAY_MINUTES or _DAY_MINUTES


@dataclasses.dataclass(frozen=True)
class Windows:
    """All windows of a rollout. Without any, it is always open."""

    hours: tuple[Hours, ...]
    zone: zoneinfo.ZoneInfo
    text: str = ""

    def open_for_s(self, now: float) -> float | None:
        """Return for how many seconds a window is still open, or None if none is. Without windows, for ever."""
        if not self.hours:
            return float("inf")
        left = [end - now for begin, end in self._near(now) if begin <= now < end]
        return max(left, default=None)

    def next_s(self, now: float) -> float:
        """Return in how many seconds the next window opens."""
        return min(begin - now for begin, dummy in self._near(now) if begin > now)

    def _near(self, now: float) -> t.Iterator[tuple[float, float]]:
        """Yield the beginnings and ends of the windows of a week, in seconds since the epoch."""
        today = datetime.fromtimestamp(now, tz=UTC).astimezone(self.zone).date()
        for offset in range(-1, 9):
            day = today + timedelta(days=offset)
            for hours in self.hours:
                if day.weekday() in hours.days:
                    # The clock on the wall decides, also on the day on which it is put forward or back.
                    midnight = datetime(day.year, day.month, day.day)
                    begin = self._moment(midnight + timedelta(minutes=hours.begin))
                    end = self._moment(midnight + timedelta(minutes=hours.begin + hours.minutes))
                    yield begin, end

    def _moment(self, wall: datetime) -> float:
        return wall.replace(tzinfo=self.zone).timestamp()

    def __str__(self) -> str:
        return f"{self.text} ({self.zone.key})"


ALWAYS = Windows((), zoneinfo.ZoneInfo("UTC"))
"""No windows: a rollout may begin at any time."""


def parse(windows: t.Sequence[str], time_zone: str) -> Windows:
    """Return the windows that a user has written."""
    try:
        zone = zoneinfo.ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as e:  # ZoneInfoNotFoundError is a KeyError
        message = f"time_zone is {time_zone!r}: give a name of the time zone database, such as Europe/Berlin."
        raise GpuOpsError(message, reason="Invalid") from e
    return Windows(tuple(map(_hours, windows)), zone, ", ".join(windows))


def _hours(text: str) -> Hours:
    found = _WINDOW.fullmatch(text.strip().lower())
    times = [_minutes(found[name]) for name in ("begin", "end")] if found else []
    days = _days(found["days"] or "mon-sun") if found else None
    if days is None or None in times:
        message = f"The window {text!r} cannot be read. Write windows such as 22:00-04:00 or sat,sun 08:00-18:00."
        raise GpuOpsError(message, reason="Invalid")
    begin, end = (minute or 0 for minute in times)
    return Hours(days, begin, end)


def _minutes(text: str) -> int | None:
    hour, minute = (int(part) for part in text.split(":"))
    return hour * 60 + minute if hour * 60 + minute <= _DAY_MINUTES and minute < 60 else None


def _days(text: str) -> frozenset[int] | None:
    """Return the numbers of days such as ``mon-fri,sun``, or None for a word that is no day."""
    found: set[int] = set()
    for part in text.split(","):
        first, dummy, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            return None
        begin, length = DAYS.index(first), (DAYS.index(last or first) - DAYS.index(first)) % 7
        found |= {(begin + step) % 7 for step in range(length + 1)}
    return frozenset(found)
