# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From errors to cases: what happened to a GPU, and the one thing to do about it. Pure.

A fault makes many lines, and the lines of one fault ask for different things. A case has all of them, and ends in
exactly one outcome. What the driver orders wins (Xid 154, NVML); else the error that asks for most does, and what
follows from another error does not count.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import (
    bursts,
    catalogue,
    messages,
    nvlink,
    repeats,
    switches,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.advice import (
    BY_GRAVITY,
    DISRUPTIVE,
    FOLLOWERS,
    ORDERS,
    Advice,
    Family,
    Outcome,
    advise,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.bursts import Burst
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.case import Case, Certainty
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.messages import Event
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import Report

_CERTAINTIES: tuple[Certainty, ...] = ("certain", "likely", "possible")
_PLAIN: frozenset[Family] = frozenset({"memory", "contained", "off the bus", "order"})
"""Families of errors that only their own hardware causes."""
_ORDER = catalogue.RECOVERY_ACTION_CHANGED
_DECODED = frozenset({74, _ORDER, *catalogue.NVLINK5})
"""Codes whose message has more than the name of the error."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """What is known of a machine besides its log. Everything may be unknown."""

    driver: str = ""
    architectures: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    """By the address of the GPU. With the key ``""``, that of all GPUs."""
    orders: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What the driver recommends now, by the address of the GPU, in NVML's words."""
    lost: frozenset[str] = frozenset()
    """GPUs that are not there any more."""
    has_switches: bool | None = None

    @property
    def branch(self) -> int | None:
        """Return the branch of the driver: 580 of 580.95.05."""
        found = re.match(r"\d{1,4}", self.driver)
        return int(found[0]) if found else None

    def architecture(self, gpu: str) -> str:
        """Return the architecture of a GPU, or an empty text."""
        return self.architectures.get(gpu) or self.architectures.get("") or ""


def judge(reports: t.Iterable[Report], machines: t.Mapping[str, Machine] | None = None) -> list[Case]:
    """Return the cases of a fleet, sorted by machine and GPU."""
    known = machines or {}
    places: dict[tuple[str, str], list[Report]] = {}
    for report in reports:
        places.setdefault((report.machine, report.event.gpu), []).append(report)
    for name, machine in known.items():
        for gpu in {*machine.lost, *(gpu for gpu, order in machine.orders.items() if order != "NONE")}:
            places.setdefault((name, gpu), [])
    by_machine: dict[str, list[Case]] = {}
    for (name, gpu), found in sorted(places.items()):
        by_machine.setdefault(name, []).extend(_of_gpu(name, gpu, found, known.get(name, Machine())))
    cases = [case for found in by_machine.values() for case in _without_echoes(found)]
    return repeats.spread(cases)


# ---- one GPU -------------------------------------------------------------------------------------------------------


def _of_gpu(name: str, gpu: str, reports: list[Report], machine: Machine) -> list[Case]:
    """Return the cases of one GPU: one for each error that decides, and the driver's order on top."""
    groups: dict[tuple[str, int], list[Burst]] = {}
    cleared: list[tuple[str, int]] = []
    for burst in bursts.bursts(reports):
        key = _lead(burst, machine).key
        if _order(burst) == "NONE":
            cleared += [*groups, key]
            groups[key] = [*groups.get(key, []), burst]
            continue
        cleared = [each for each in cleared if each != key]
        groups.setdefault(key, []).append(burst)
    cases = [_case(name, gpu, key, found, machine) for key, found in groups.items()]
    if machine.orders.get(gpu) == "NONE":
        cleared += [*groups]
    cases = [_over(case) if (case.kind, case.code) in cleared else case for case in cases]
    return _ordered_by_driver(name, gpu, _lost(name, gpu, cases, machine), machine)


def _lead(reports: t.Iterable[Report], machine: Machine) -> Report:
    """Return the report that decides: not one that follows from another, and then the one that asks for most."""
    distinct: dict[tuple[t.Any, ...], Report] = {}
    for report in reports:
        event = report.event
        # For other errors, processes and addresses in a message are ignored.
        message = event.message if event.code in _DECODED else ""
        distinct.setdefault((event.kind, event.code, event.severity, message), report)
    return max(distinct.values(), key=lambda report: _rank(report.event, advise(report.event, machine.branch)))


def _rank(event: Event, advice: Advice) -> tuple[bool, bool, bool, int]:
    follows = event.kind == "xid" and event.code in FOLLOWERS
    return event.code != _ORDER, advice.known, not follows, BY_GRAVITY.index(advice.outcome)


def _order(burst: Burst) -> str | None:
    """Return what the driver ordered last in a burst."""
    orders = [report.event.recovery_action for report in burst if report.event.code == _ORDER]
    return next((order for order in reversed(orders) if order), None)


def _case(name: str, gpu: str, key: tuple[str, int], found: list[Burst], machine: Machine) -> Case:
    """Return the case of an error that came once or more often."""
    last = found[-1]
    lead = _lead((report for burst in found for report in burst if report.key == key), machine)
    advice = _told(lead, last, machine, gpu)
    reports = tuple(report for burst in found for report in burst)
    order = _order(last)
    if order and order != "NONE" and lead.event.code != _ORDER:
        why = f"The driver orders {order}; {advice.why}"
        advice = dataclasses.replace(advice, outcome=ORDERS.get(order, "service"), why=why)
    certainty, doubt = _doubt(lead.event, advice, order, gpu, machine)
    case = Case(
        name,
        gpu,
        *key,
        advice.family,
        advice.outcome,
        advice.why + doubt,
        advice.source,
        certainty,
        reports,
        len(found),
    )
    return repeats.escalated(case, found)


def _told(lead: Report, burst: Burst, machine: Machine, gpu: str) -> Advice:
    """Return the advice for an error in the company of the others of its burst."""
    advice = advise(lead.event, machine.branch)
    codes = {report.event.code for report in burst}
    if messages.previous(lead.event) is not None:
        return advice
    if lead.event.code == catalogue.CLEANUP and machine.has_switches is not False:
        why = f"{advice.why}, and the rest is in order. On a machine with NVSwitches, restart the fabric manager"
        return dataclasses.replace(advice, outcome="check the machine", why=why)
    if lead.event.code == 48 and codes & {63, 64}:
        return dataclasses.replace(advice, why=f"{advice.why}; with Xid 63 or 64, drain the GPU and reset it")
    if lead.event.code == 163 and burst[-1].event.code == 162:
        return dataclasses.replace(advice, outcome="nothing", why=f"{advice.why}. Xid 162 says that it is over")
    if lead.event.code == 74 and nvlink.decode(lead.event.message).signs == {"secondary"} and codes == {74}:
        return dataclasses.replace(advice, outcome="service", why=f"{advice.why}, and here it is alone: report it")
    return advice


def _doubt(event: Event, advice: Advice, order: str | None, gpu: str, machine: Machine) -> tuple[Certainty, str]:
    """Return how sure a case is, and the words that say why not."""
    row = catalogue.XIDS.get(event.code) if event.kind == "xid" else None
    level, why = (0 if order or advice.family in _PLAIN else 1), ""
    if not advice.known or advice.family == "cleanup":
        return "possible", why
    architecture = machine.architecture(gpu)
    if row and architecture and not row.applies_to(architecture):
        level, why = level + 1, f". NVIDIA's catalog does not list it for GPUs of {architecture}"
    elif row and row.linked and not order and gpu not in machine.orders and (machine.branch or 0) >= row.linked:
        level = max(level, 1)
        if advice.outcome in DISRUPTIVE:
            why = f". A driver of branch {row.linked} or newer adds its order (Xid {_ORDER}), which the log lacks"
    return _CERTAINTIES[level], why


def _over(case: Case) -> Case:
    """Return a case that the driver has closed. A GPU that fell off the bus is not back by that."""
    row = catalogue.XIDS.get(case.code)
    closes = case.code == _ORDER or bool(row and row.linked) or case.outcome == "reset the GPU"
    if case.kind != "xid" or case.code == catalogue.OFF_THE_BUS or not closes:
        return case
    return dataclasses.replace(case, outcome="nothing", why=f"The driver has withdrawn its recommendation. {case.why}")


def _lost(name: str, gpu: str, cases: list[Case], machine: Machine) -> list[Case]:
    """Add the case of a GPU that is gone, whatever its log says."""
    if gpu not in machine.lost or any(case.code == catalogue.OFF_THE_BUS for case in cases):
        return cases
    why = "The GPU is not on the bus any more, and the log has no Xid 79"
    off: tuple[Family, Outcome] = ("off the bus", "reboot")
    return [*cases, Case(name, gpu, "xid", catalogue.OFF_THE_BUS, *off, why, catalogue.CATALOG_PAGE, "certain", ())]


def _ordered_by_driver(name: str, gpu: str, cases: list[Case], machine: Machine) -> list[Case]:
    """Let what NVML says now win over all cases that ask for a reset or a reboot, or make a case of it."""
    order = machine.orders.get(gpu, "NONE")
    outcome = ORDERS.get(order, "service")
    lead = next((case for case in cases if case.outcome in DISRUPTIVE or case.code == _ORDER), None)
    if order == "NONE" or gpu in machine.lost:
        return cases
    why = f"The driver recommends {order} now"
    if lead is None:
        return [*cases, Case(name, gpu, "xid", _ORDER, "order", outcome, why, catalogue.CATALOG_PAGE, "certain", ())]
    changed = dataclasses.replace(lead, outcome=outcome, why=f"{why}; {lead.why}", certainty="certain")
    return [changed if case is lead else case for case in cases]


# ---- one machine ---------------------------------------------------------------------------------------------------


def _without_echoes(cases: list[Case]) -> list[Case]:
    """Return the cases of a machine. What only follows from the fault of another GPU needs no action."""
    faults = [case for case in cases if case.outcome in DISRUPTIVE and case.family not in ("nvlink", "switch")]
    links = [case for case in cases if case.outcome in DISRUPTIVE and case.family in ("nvlink", "switch")]
    return [_echo(case, faults, links) for case in cases]


def _echo(case: Case, faults: list[Case], links: list[Case]) -> Case:
    causes = faults if _is_of_link(case) else [*faults, *links] if case.family == "cleanup" else []
    cause = next((each for each in causes if each.gpu != case.gpu and _overlap(each, case)), None)
    if cause is None or case.outcome == "nothing" or _has_order(case):
        return case
    return dataclasses.replace(case, outcome="nothing", why=f"It follows from {cause.name}. {case.why}")


def _is_of_link(case: Case) -> bool:
    """Return whether an error says that the other end of a link is gone."""
    if case.kind == "sxid":
        return case.code in switches.LINK_DOWN
    return case.family == "nvlink"


def _has_order(case: Case) -> bool:
    return any(report.event.code == _ORDER for report in case.reports)


def _overlap(one: Case, other: Case) -> bool:
    return not one.reports or bursts.together(one.reports, other.reports)
