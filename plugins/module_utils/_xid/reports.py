# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Errors as logs and facts report them: on which machine, in which line, and when."""

from __future__ import annotations

import calendar
import dataclasses
import re
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import catalogue, messages
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.address import normal_address
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.messages import Event

_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\d*(?:([+-])(\d\d):?(\d\d)|Z)?$")
_UPTIME = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\d* s after the boot$")
_DATES = {"date": "%a %b %d %H:%M:%S %Y", "syslog": "%Y %b %d %H:%M:%S"}
_ALSO_GONE = re.compile(
    r"NVRM: GPU (?:at )?(?P<gpu>[0-9a-fA-F]{4,8}:[0-9a-fA-F:.]*[0-9a-fA-F])(?:: GPU)? has fallen off"
)


@dataclasses.dataclass(frozen=True)
class Moment:
    """A time, on the clock that a log uses: times of different clocks cannot be compared."""

    clock: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class Report:
    """An error that was reported. ``line`` is the very line, or what the facts of the host say instead."""

    machine: str
    event: Event
    line: str
    source: str = ""
    at: Moment | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Return what makes two reports the same error: its kind and its code."""
        return self.event.kind, self.event.code


def from_lines(machine: str, lines: t.Sequence[str], source: str = "", *, anywhere: bool = True) -> list[Report]:
    """Return the errors in the lines of one log."""
    found = messages.parse_lines(lines, anywhere=anywhere)
    found += [(number, event) for number, line in enumerate(lines) for event in _also_gone(line)]
    found.sort(key=lambda item: item[0])
    return [Report(machine, event, lines[number].strip(), source, moment(event.time)) for number, event in found]


def _also_gone(line: str) -> t.Iterator[Event]:
    """Yield the loss of a GPU from a line without a number. The Xid mostly stands in the line before it."""
    gone = _ALSO_GONE.search(line) if "fallen off" in line else None
    if gone:
        text = f"NVRM: Xid (PCI:{normal_address(gone['gpu'])}): {catalogue.OFF_THE_BUS}, GPU has fallen off the bus."
        yield from (event for _number, event in messages.parse_lines([line[: gone.start()] + text], anywhere=True))


def from_facts(machine: str, events: t.Iterable[Json]) -> list[Report]:
    """Return the errors that the facts of a host have (``xid`` of gpu_facts)."""
    names = {field.name for field in dataclasses.fields(Event)}
    found = []
    for each in events:
        values: dict[str, t.Any] = {name: each.get(name) for name in names}
        event = Event(**values)
        found.append(Report(machine, event, _as_line(event), "kernel log", moment(event.time)))
    return found


def _as_line(event: Event) -> str:
    """Return an event in the driver's words. Facts do not keep the line itself."""
    name = "NVRM: Xid" if event.kind == "xid" else "nvidia-nvswitch: SXid"
    when = f"{event.time} " if event.time else ""
    return f"{when}{name} (PCI:{event.gpu}): {event.code}, {event.message}".rstrip(", ")


def moment(text: str | None) -> Moment | None:
    """Return the time that a log gives for a message, or None if it gives none that can be read."""
    uptime, iso = _UPTIME.match(text or ""), _ISO.match(text or "")
    if uptime:
        return Moment("uptime", float(uptime[1]))
    if iso:
        return _of_iso(iso)
    for clock, form in _DATES.items():
        # A log without years may contain February 29.
        written = f"2000 {text}" if clock == "syslog" else str(text)
        try:
            return Moment(clock, calendar.timegm(time.strptime(written, form)))
        except ValueError:
            continue
    return None


def _of_iso(found: re.Match[str]) -> Moment | None:
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if not (year and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    seconds = float(calendar.timegm((year, month, day, hour, minute, second, 0, 0, 0)))
    fraction, sign, hours, minutes = found.groups()[6:]
    offset = (int(hours) * 60 + int(minutes)) * 60 if sign else 0
    return Moment("calendar", seconds + float(f"0.{fraction or 0}") - (offset if sign == "+" else -offset))
