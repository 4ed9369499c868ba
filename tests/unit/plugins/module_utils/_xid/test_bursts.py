# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.bursts import (
    bursts,
    distance,
    most_in_a_day,
    ordered,
    together,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import Report, from_lines


def at(*seconds: float) -> list[Report]:
    return from_lines("", [f"[{second}] NVRM: Xid (PCI:0000:01:00): 48, DBE" for second in seconds])


def test_three_minutes_of_silence_end_a_burst() -> None:
    assert [len(burst) for burst in bursts(at(10.0, 100.0, 280.0, 460.1, 1000.0))] == [3, 1, 1]
    assert [len(burst) for burst in bursts(at(10.0, 1000.0), gap_s=3600)] == [2]


def test_reports_are_put_in_the_order_of_time() -> None:
    assert ordered(at(30.0, 10.0, 20.0)) == at(10.0, 20.0, 30.0)


def test_reports_without_a_common_clock_keep_their_place_and_are_one_burst() -> None:
    without = from_lines("", ["NVRM: Xid (PCI:0000:01:00): 48, DBE"] * 2)
    mixed = [*at(5000.0), *without, *at(10.0)]
    assert ordered(mixed) == mixed
    assert len(bursts([*without, *without])) == 1
    assert distance(without[0], mixed[0]) is None
    assert together(without, at(10.0))


def test_two_bursts_overlap_with_the_tolerance_of_a_gap() -> None:
    assert together(at(10.0, 20.0), at(190.0))
    assert not together(at(10.0, 20.0), at(201.0))
    assert not together(at(201.0), at(10.0, 20.0))


def test_the_largest_number_of_bursts_within_a_day() -> None:
    hour = 3600.0
    found = bursts(at(0.5, 20 * hour, 30 * hour, 40 * hour, 43 * hour, 100 * hour))
    assert most_in_a_day(found) == 4
    assert most_in_a_day([]) == 0
    assert most_in_a_day(bursts(at(10.0))) == 1
