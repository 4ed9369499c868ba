# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What comes back, and what is seen on many GPUs: hardware or application.

The windows are those of NVIDIA's NVSentinel: the same error of a GPU in five bursts of a day is a matter for support,
an error of an application twice a day one for the diagnostics, unless other GPUs have it too.
"""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import bursts, nvlink
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.advice import DISRUPTIVE
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.bursts import Burst
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.case import Case

_SENTINEL = "https://github.com/NVIDIA/NVSentinel"
OFTEN = 5
LINK_ERRORS = 2
"""So many errors of ECC or parity a link may have."""
SUSPECT = frozenset({13, 31})
"""Errors of applications that broken hardware causes, too, though rarely."""

_PROCESS = re.compile(r"\bname=([^,]{1,64})")
_PLACE = re.compile(r"\(?(GPC \d+,? TPC \d+)", re.IGNORECASE)


def escalated(case: Case, found: list[Burst]) -> Case:
    """Return a case as what it is after its repetitions. ``found`` are the bursts of the case."""
    if case.outcome not in DISRUPTIVE:
        return case
    if case.kind == "xid" and case.code in bursts.STICKY:
        found = bursts.bursts(case.reports, bursts.STICKY_GAP_S)
    times = bursts.most_in_a_day(found)
    if times >= OFTEN:
        why = f"{times} times within a day: what was done has not helped. {case.why}"
        return dataclasses.replace(case, outcome="service", why=why, source=_SENTINEL)
    if case.code == 74 and case.kind == "xid":
        return _link(case)
    return case


def _link(case: Case) -> Case:
    """Return the case of a link whose errors come again, as NVIDIA's workflow for Xid 74 wants it."""
    seen: dict[tuple[nvlink.Sign, int | None], int] = {}
    for burst in bursts.bursts(case.reports):
        errors = [nvlink.decode(report.event.message) for report in burst if report.key == (case.kind, case.code)]
        for sign, link in {(sign, error.link) for error in errors for sign in error.signs}:
            seen[sign, link] = seen.get((sign, link), 0) + 1
    worst = [(sign, link) for (sign, link), times in seen.items() if times > _ALLOWED.get(sign, times)]
    if not worst:
        return case
    sign, link = worst[0]
    why = f"Link {link} has had errors of this kind ({sign}) {seen[sign, link]} times. {case.why}"
    return dataclasses.replace(case, outcome="service", why=why)


_ALLOWED: dict[nvlink.Sign, int] = {"parity": LINK_ERRORS, "repeated bug": 1, "diagnose": 1}


def spread(cases: list[Case]) -> list[Case]:
    """Return the cases with the errors of applications told from those of hardware."""
    places: dict[int, set[tuple[str, str]]] = {}
    for case in cases:
        for code in case.codes:
            places.setdefault(code, set()).add((case.machine, case.gpu))
    return [_of_application(case, len(places.get(case.code, ()))) for case in cases]


def _of_application(case: Case, gpus: int) -> Case:
    if case.kind != "xid" or case.family != "application":
        return case
    if gpus > 1:
        why = f"{case.why}. {gpus} GPUs have had it, which speaks for the application and not for the hardware"
        return dataclasses.replace(case, why=why)
    if case.code in SUSPECT and _is_suspect(case):
        why = f"{case.why}. Different applications have had it on this GPU alone: test the GPU"
        return dataclasses.replace(case, outcome="check the machine", why=why, source=_SENTINEL)
    return case


def _is_suspect(case: Case) -> bool:
    """Return whether different applications failed in the same way, on this GPU, within a day."""
    found = bursts.bursts([report for report in case.reports if report.event.code == case.code])
    if bursts.most_in_a_day(found) < 2:
        return False
    names = {name for report in case.reports for name in _PROCESS.findall(report.event.message)}
    named = {name.strip() for name in names if not name.startswith("<")}
    if len(named) < 2:
        return False
    places = [{place for report in burst for place in _PLACE.findall(report.event.message)} for burst in found]
    # Hosts may have a Python without itertools.pairwise.
    return case.code != 13 or any(places[index] & places[index + 1] for index in range(len(places) - 1))
