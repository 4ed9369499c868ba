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

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import health
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import normal_address
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.xid import catalogue
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# ISO 8601, or the time without a year that rsyslog writes into /var/log.
_TIME = r"(?P<time>\d{4}-\d\d-\d\d[T ][\d:.,]+(?:[+-]\d\d:?\d\d|Z)?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"
_PREFIX = rf"^(?:{_TIME}\s+)?(?:(?:\S+ )?kernel:\s*)?(?:\[\s*(?P<uptime>[\d.]+)\]\s*)?\s*"
_KIND = r"(?:NVRM: (?P<kind>Xid)|nvidia-nvswitch\d+: SXid)"
# On a GPU with MIG, the instance follows the address: (PCI:0000:01:00 GPU-I:05 GPU-CI:01).
_INSTANCE = r"(?: GPU-I:(?P<gpu_instance>\d+))?(?: GPU-CI:(?P<compute_instance>\d+))?"
_DEVICE = rf"\((?:PCI:)?(?P<gpu>[0-9a-fA-F:.]+){_INSTANCE}[^)]*\)"
_MESSAGE = re.compile(rf"{_PREFIX}{_KIND} {_DEVICE}: (?P<code>\d{{1,9}})(?:, )?(?P<message>.*)$")
# If a GPU is gone when the driver loads, the driver writes a message of several lines instead of an Xid.
_GONE_GPU = re.compile(_PREFIX + r"NVRM: The NVIDIA GPU (?P<gpu>[0-9a-fA-F]+:[0-9a-fA-F:.]+)")
_GONE = "fallen off the bus and is not responding"
_SEVERITY = re.compile(r"^(?:\S+\s+)?(?P<severity>Fatal|Non-fatal|Nonfatal|Correctable)\b")
_SEVERITIES = {"Fatal": "fatal", "Non-fatal": "nonfatal", "Nonfatal": "nonfatal", "Correctable": "correctable"}
# The driver adds lines with the same SXid to an error: its severity as a number, and data.
_DETAIL = re.compile(r"(?:Severity (?P<severity>\d+) Engine instance|Data \{)")
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
    events: list[Event] = []
    gone: re.Match[str] | None = None
    for line in text.splitlines():
        message = _MESSAGE.match(line) if "Xid (" in line else None
        gone = _GONE_GPU.match(line) or gone
        if message:
            _add(
                events, _event(message, "xid" if message["kind"] else "sxid", int(message["code"]), message["message"])
            )
        elif gone and _GONE in line:
            events.append(_event(gone, "xid", catalogue.OFF_THE_BUS, f"{_GONE} to commands"))
            gone = None
    return events


def _add(events: list[Event], event: Event) -> None:
    """Add an event, or the detail of the SXid before it."""
    detail = _DETAIL.match(event.message) if event.kind == "sxid" else None
    last = events[-1] if events else None
    if not detail or not last or (last.kind, last.gpu, last.code) != ("sxid", event.gpu, event.code):
        events.append(event)
    elif detail["severity"] and last.severity is None:
        events[-1] = dataclasses.replace(last, severity="fatal" if detail["severity"] == "1" else "nonfatal")


def _event(match: re.Match[str], kind: str, code: int, message: str) -> Event:
    fields, message = match.groupdict(), message.strip()
    severity = _severity(kind, code, message)
    time = match["time"] or (f"{match['uptime']} s after the boot" if match["uptime"] else None)
    return Event(
        time=time,
        kind=kind,
        gpu=normal_address(match["gpu"]),
        gpu_instance=_number(fields.get("gpu_instance")),
        compute_instance=_number(fields.get("compute_instance")),
        code=code,
        severity=severity,
        meaning=catalogue.XIDS.get(code, (None, None))[0] if kind == "xid" else None,
        action=catalogue.action(code, severity) if kind == "xid" else None,
        recovery_action=_recovery_action(code, message) if kind == "xid" else None,
        message=message,
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _severity(kind: str, code: int, message: str) -> str | None:
    found = _SEVERITY.match(message) if kind == "sxid" or code in catalogue.NVLINK5 else None
    return _SEVERITIES[found["severity"]] if found else None


def _recovery_action(code: int, message: str) -> str | None:
    found = _NEW_ACTION.search(message) if code == catalogue.RECOVERY_ACTION_CHANGED else None
    return health.recovery_action(int(found["action"], 16)) if found else None


def needs_attention(event: Json) -> bool:
    """Return whether something must be done about the GPU, the NVSwitch or the host, rather than the application."""
    if event["kind"] == "sxid":
        return event.get("severity") == "fatal"
    return event.get("action") in catalogue.GPU_ACTIONS and event.get("recovery_action") != "NONE"


def standing(events: t.Iterable[Json]) -> list[Json]:
    """Return the events that still need attention.

    An Xid 154 replaces the one before it on the same GPU. If it says that nothing is to be done any more, the GPU was
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
