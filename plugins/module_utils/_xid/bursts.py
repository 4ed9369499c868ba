# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reports that belong together: bursts, and how often they come back.

One fault makes the driver write many lines. NVIDIA counts as one burst what comes without three minutes of silence:
https://docs.nvidia.com/fleet-intel/user-guide/xid-bursts.md
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import Report

BURST_GAP_S = 180.0
STICKY_GAP_S = 3 * 3600.0
"""The silence that ends a burst, and the one for errors that come back until the GPU is reset."""
STICKY = frozenset({74, 79, 95, 109, 119})
DAY_S = 24 * 3600.0

Burst = list[Report]


def ordered(reports: t.Iterable[Report]) -> list[Report]:
    """Return reports in the order of time. What happened at one time, or has no time, keeps its place."""
    found = list(reports)
    clocks = {report.at.clock if report.at else "" for report in found}
    if len(clocks) == 1 and clocks != {""}:
        found.sort(key=lambda report: report.at.seconds if report.at else 0.0)
    return found


def bursts(reports: t.Iterable[Report], gap_s: float = BURST_GAP_S) -> list[Burst]:
    """Return reports as bursts. Where times cannot be compared, a silence is unknown."""
    found: list[Burst] = []
    for report in ordered(reports):
        if found and not _is_after(found[-1][-1], report, gap_s):
            found[-1].append(report)
        else:
            found.append([report])
    return found


def _is_after(last: Report, report: Report, gap_s: float) -> bool:
    seconds = distance(last, report)
    return seconds is not None and seconds > gap_s


def distance(one: Report, other: Report) -> float | None:
    """Return the seconds between two reports, or None if their times cannot be compared."""
    if one.at is None or other.at is None or one.at.clock != other.at.clock:
        return None
    return abs(other.at.seconds - one.at.seconds)


def together(some: t.Sequence[Report], others: t.Sequence[Report]) -> bool:
    """Return whether two bursts overlap, with a gap's tolerance. Without times, they may."""
    moments = [[report.at for report in group if report.at] for group in (some, others)]
    clocks = {at.clock for group in moments for at in group}
    if len(clocks) != 1 or not all(moments):
        return True
    (first, last), (begin, end) = ((group[0].seconds, group[-1].seconds) for group in moments)
    return first - BURST_GAP_S <= end and begin - BURST_GAP_S <= last


def most_in_a_day(found: t.Sequence[Burst]) -> int:
    """Return the largest number of bursts within 24 hours."""
    best = 1 if found else 0
    start = 0
    for end, burst in enumerate(found):
        while (distance(found[start][0], burst[0]) or 0.0) > DAY_S:
            start += 1
        best = max(best, end - start + 1)
    return best
