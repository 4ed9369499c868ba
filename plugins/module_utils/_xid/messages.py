# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Errors of GPUs (Xid) and of NVSwitches (SXid) as the driver writes them into the kernel log.

The forms of the messages are those of NVIDIA's open kernel modules: krcReportXid in kernel_rc.c, gpu.c for Xid 154, and
the macros of common_nvswitch.h and error_nvswitch.h for SXids.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import catalogue, recovery
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.address import normal_address

# ISO 8601, or the time without a year that rsyslog writes into /var/log.
_TIME = r"(?P<time>\d{4}-\d\d-\d\d[T ][\d:.,]+(?:[+-]\d\d:?\d\d|Z)?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"
# Seconds since the boot, or the date and the time that dmesg -T writes.
_STAMP = r"\[\s*(?:(?P<uptime>[\d.]+)|(?P<date>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}))\]"
_PREFIX = rf"^(?:{_TIME}\s+)?(?:(?:\S+ )?kernel:\s*)?(?:{_STAMP}\s*)?\s*"
_KIND = r"(?:NVRM: (?P<kind>Xid)|nvidia-nvswitch\d+: SXid)"
# On a GPU with MIG, the instance follows the address: (PCI:0000:01:00 GPU-I:05 GPU-CI:01).
_INSTANCE = r"(?: GPU-I:(?P<gpu_instance>\d+))?(?: GPU-CI:(?P<compute_instance>\d+))?"
_DEVICE = rf"\((?:PCI:)?(?P<gpu>[0-9a-fA-F:.]+){_INSTANCE}[^)]*\)"
_BODY = rf"{_KIND} {_DEVICE}: (?P<code>\d{{1,9}})\b(?:, ?)?(?P<message>.*)$"
_MESSAGE = re.compile(_PREFIX + _BODY)
# If a GPU is gone when the driver loads, the driver writes a message of several lines instead of an Xid.
_GONE_BODY = r"NVRM: The NVIDIA GPU (?P<gpu>[0-9a-fA-F]+:[0-9a-fA-F:.]+)"
_GONE_GPU = re.compile(_PREFIX + _GONE_BODY)
# In a log that was pasted, anything may stand before a message: quotation marks, numbers of lines, a pod's name.
_ANYWHERE = re.compile(_BODY.replace("NVRM: (?P<kind>Xid)", r"(?P<kind>\bXid)"))
_GONE_ANYWHERE = re.compile(_GONE_BODY)
_WHEN = re.compile(rf"{_TIME}|{_STAMP}")
_GONE = "fallen off the bus and is not responding"
_SEVERITY = re.compile(r"^(?:pid=[^,]*, name=[^,]*, )?(?:\S+\s+)?(?P<severity>Fatal|Non-fatal|Nonfatal|Correctable)\b")
_SEVERITIES = {"Fatal": "fatal", "Non-fatal": "nonfatal", "Nonfatal": "nonfatal", "Correctable": "correctable"}
# The driver adds lines with the same SXid to an error: its severity as a number, and data.
_DETAIL = re.compile(r"(?:Severity (?P<severity>\d+) Engine instance|Data \{)")
_PREVIOUS = re.compile(r"caused by previous Xid (?P<code>\d{1,9})")
_NEW_ACTION = re.compile(r"\bto 0x(?P<action>[0-9a-fA-F]{1,8})\b")


@dataclasses.dataclass(frozen=True)
class Event:
    """One error.

    ``kind`` is ``xid`` or ``sxid``. ``meaning`` and ``action`` are NVIDIA's words, and None for a code without an entry
    in the catalog. ``severity`` is that of an SXid or an error of NVLink 5: ``fatal``, ``nonfatal`` or ``correctable``.
    ``recovery_action`` is what an Xid 154 recommends, in NVML's words.
    """

    time: str | None
    kind: str
    gpu: str
    gpu_instance: int | None
    compute_instance: int | None
    code: int
    severity: str | None
    meaning: str | None
    action: str | None
    recovery_action: str | None
    message: str


def parse_log(text: str) -> list[Event]:
    """Return every Xid and SXid of a kernel log, in the order of the log."""
    return [event for _number, event in parse_lines(text.splitlines())]


def parse_lines(lines: t.Iterable[str], *, anywhere: bool = False) -> list[tuple[int, Event]]:
    """Return every Xid and SXid with the number of its line.

    With ``anywhere``, an error may follow any text, as in a log that was pasted. A log that anyone may write to must be
    read without it.
    """
    read = _MessageReader(anywhere)
    for number, line in enumerate(lines):
        read.line(number, line)
    return read.events


class _MessageReader:
    """Reads line after line, and remembers the beginning of a message of several lines."""

    def __init__(self, anywhere: bool) -> None:
        self.events: list[tuple[int, Event]] = []
        self._gone: re.Match[str] | None = None
        self._patterns = (_ANYWHERE, _GONE_ANYWHERE) if anywhere else (_MESSAGE, _GONE_GPU)

    def line(self, number: int, line: str) -> None:
        message, gone = self._patterns
        found = message.search(line) if "Xid" in line else None
        if "NVRM: The" in line:
            self._gone = gone.search(line) or self._gone
        if found:
            kind = "xid" if found["kind"] else "sxid"
            self._add(number, _event(found, kind, int(found["code"]), found["message"]))
        elif self._gone and _GONE in line:
            self.events.append((number, _event(self._gone, "xid", catalogue.OFF_THE_BUS, f"{_GONE} to commands")))
            self._gone = None

    def _add(self, number: int, event: Event) -> None:
        """Add an event, or the detail of the SXid before it."""
        detail = _DETAIL.match(event.message) if event.kind == "sxid" else None
        at, last = self.events[-1] if self.events else (0, None)
        if not detail or not last or (last.kind, last.gpu, last.code) != ("sxid", event.gpu, event.code):
            self.events.append((number, event))
        elif detail["severity"] and last.severity is None:
            severity = "fatal" if detail["severity"] == "1" else "nonfatal"
            self.events[-1] = (at, dataclasses.replace(last, severity=severity))


def _event(match: re.Match[str], kind: str, code: int, message: str) -> Event:
    fields, message = match.groupdict(), message.strip()
    when = fields if "time" in fields else _when(match)
    severity = _severity(kind, code, message)
    uptime = f"{when['uptime']} s after the boot" if when.get("uptime") else None
    return Event(
        time=when.get("time") or when.get("date") or uptime,
        kind=kind,
        gpu=normal_address(match["gpu"]),
        gpu_instance=_number(fields.get("gpu_instance")),
        compute_instance=_number(fields.get("compute_instance")),
        code=code,
        severity=severity,
        meaning=catalogue.meaning(code) if kind == "xid" else None,
        action=catalogue.action(code, severity) if kind == "xid" else None,
        recovery_action=_recovery_action(code, message) if kind == "xid" else None,
        message=message,
    )


def _when(match: re.Match[str]) -> dict[str, str | None]:
    """Return the time that stands before a message."""
    found = _WHEN.search(match.string, 0, match.start())
    return found.groupdict() if found else {}


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _severity(kind: str, code: int, message: str) -> str | None:
    found = _SEVERITY.match(message) if kind == "sxid" or code in catalogue.NVLINK5 else None
    return _SEVERITIES[found["severity"]] if found else None


def _recovery_action(code: int, message: str) -> str | None:
    found = _NEW_ACTION.search(message) if code == catalogue.RECOVERY_ACTION_CHANGED else None
    return recovery.recovery_action(int(found["action"], 16)) if found else None


def previous(event: Event) -> int | None:
    """Return the Xid that a cleanup (Xid 45) names as its reason, or None."""
    found = _PREVIOUS.search(event.message) if event.kind == "xid" and event.code == catalogue.CLEANUP else None
    return int(found["code"]) if found else None


def needs_attention(event: Json) -> bool:
    """Return whether something must be done about the GPU, the NVSwitch or the host, rather than the application."""
    if event["kind"] == "sxid":
        return event.get("severity") == "fatal"
    return event.get("action") in catalogue.GPU_ACTIONS and event.get("recovery_action") != "NONE"


def standing(events: t.Iterable[Json]) -> list[Json]:
    """Return the events that still need attention.

    An Xid 154 replaces the one before it on the same GPU. If it says that no action is needed any more, the GPU was
    reset, and the errors before it that asked for a reset are over.
    """
    found: list[Json] = []
    for event in events:
        if event["kind"] == "xid" and event.get("recovery_action"):
            over = ("XID_154", "RESET_GPU") if event["recovery_action"] == "NONE" else ("XID_154",)
            found = [each for each in found if each["gpu"] != event["gpu"] or each.get("action") not in over]
        if needs_attention(event):
            found.append(event)
    return found


def describe(event: Json) -> str:
    """Return an event in a few words."""
    if event["kind"] == "sxid":
        return f"{event['gpu']}: SXid {event['code']} ({event['message']})"
    meaning = event["recovery_action"] if event.get("recovery_action") else event["meaning"]
    return f"{event['gpu']}: Xid {event['code']} ({meaning})"
