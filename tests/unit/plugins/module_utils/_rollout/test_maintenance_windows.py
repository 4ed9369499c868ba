# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import maintenance_windows


def at(text: str, zone: str = "UTC") -> float:
    """Return a moment of the wall clock, such as ``2026-11-23 06:00``, in seconds since the epoch."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def open_minutes(window: str, moment: str, zone: str = "UTC") -> float | None:
    found = maintenance_windows.parse([window], zone).open_for_s(at(moment, zone))
    return None if found is None else found / 60


def test_without_windows_it_is_always_open() -> None:
    assert maintenance_windows.parse([], "UTC").open_for_s(0.0) == math.inf


@pytest.mark.parametrize(
    ("window", "moment", "minutes"),
    [
        ("08:00-18:00", "2026-11-23 08:00", 600),
        ("08:00-18:00", "2026-11-23 18:00", None),
        ("08:00-18:00", "2026-11-23 07:59", None),
        ("22:00-04:00", "2026-11-23 23:00", 300),
        ("22:00-04:00", "2026-11-23 03:59", 1),
        ("22:00-04:00", "2026-11-23 04:00", None),
        ("00:00-24:00", "2026-11-23 12:00", 720),
        ("00:00-24:00", "2026-11-23 00:00", 1440),
        ("22:00-00:00", "2026-11-23 23:00", 60),
        ("08:59-23:59", "2026-11-23 08:59", 900),
        ("sun 22:00-04:00", "2026-11-23 03:00", 60),  # a Monday: the window began on Sunday
        ("mon 22:00-04:00", "2026-11-23 03:00", None),
        ("mon-fri 06:00-07:00", "2026-11-28 06:30", None),
        ("fri-mon 06:00-07:00", "2026-11-28 06:30", 30),
        ("Sat,Sun 08:00-18:00", "2026-11-28 17:00", 60),
    ],
)
def test_a_window_is_open_from_its_beginning_to_its_end(window: str, moment: str, minutes: float | None) -> None:
    assert open_minutes(window, moment) == minutes


def test_the_clock_on_the_wall_decides_also_when_it_is_put_forward() -> None:
    # On this night, the clocks in Berlin go from two to three.
    assert open_minutes("01:00-05:00", "2027-03-28 01:30", "Europe/Berlin") == 150
    assert open_minutes("01:00-05:00", "2027-03-27 01:30", "Europe/Berlin") == 210


def test_of_several_windows_the_one_that_is_open_longest_counts() -> None:
    found = maintenance_windows.parse(["08:00-10:00", "09:00-12:00"], "UTC")
    assert found.open_for_s(at("2026-11-23 09:30")) == 150 * 60
    assert str(found) == "08:00-10:00, 09:00-12:00 (UTC)"


def test_the_next_window_may_be_a_week_away() -> None:
    found = maintenance_windows.parse(["mon 08:00-10:00"], "UTC")
    assert found.next_s(at("2026-11-23 07:00")) == 3600
    assert found.next_s(at("2026-11-23 08:00")) == 7 * 24 * 3600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "always",
        "8-10",
        "08:00",
        "25:00-26:00",
        "08:60-09:00",
        "24:01-03:00",
        "xyz 08:00-09:00",
        "mon-abc 08:00-09:00",
    ],
)
def test_a_window_that_nobody_can_read_is_refused(text: str) -> None:
    with pytest.raises(GpuOpsError, match="cannot be read"):
        maintenance_windows.parse([text], "UTC")


def test_an_unknown_time_zone_is_refused() -> None:
    for zone in ("Europe/Nowhere", "../etc/passwd", ""):
        with pytest.raises(GpuOpsError, match="time_zone is"):
            maintenance_windows.parse([], zone)
