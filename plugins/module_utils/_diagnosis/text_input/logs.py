# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Lines of logs in the forms in which people paste them: what wrote each, and on which node. Pure."""

from __future__ import annotations

import dataclasses
import json
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import whose_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files.layout import Origin
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import (
    LINE_LENGTH,
    PREVIOUS,
    TextLine,
)

_JOURNAL = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    r"|(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})? ?(?:[+-]\d\d:?\d\d|UTC|CES?T|[A-Z]{3,4}))"
    r" (?P<host>[\w.-]{1,253}) (?P<unit>[\w@./()+-]{1,100}?)(?:\[\d{1,10}\])?:(?: |$)"
)
"""``journalctl`` in the formats short, short-precise, short-iso and short-full, and files of syslog."""

_DMESG = re.compile(
    r"(?:<\d{1,3}>|\w{1,10} *:\w{1,10} *: )?"
    r"\[(?: *\d{1,10}\.\d{3,6}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\]"
)
"""``dmesg``, also with -T, -x and -r, and ``journalctl -k -o short-monotonic`` without a host."""

_MONOTONIC = re.compile(
    r"\[ *\d{1,10}\.\d{6}\] (?P<host>[\w.-]{1,253}) (?P<unit>[\w@./()+-]{1,100}?)(?:\[\d{1,10}\])?: "
)
"""``journalctl -o short-monotonic``."""

_POD = re.compile(r"\[pod/(?P<pod>[\w.-]{1,253})/(?P<container>[\w.-]{1,63})\] ")
"""``kubectl logs --prefix``."""

_STERN = re.compile(r"(?P<pod>(?:[a-z0-9]+-)+[a-z0-9]{5}) (?P<container>[a-z][a-z0-9-]{2,62}) (?=\S)")
"""``stern``, where the pod is one of the stack."""

_PDSH = re.compile(
    r"(?P<host>(?=[A-Za-z]*[\d.-])[A-Za-z][\w.-]{1,252}): "
    r"(?=\[ *\d|\[?[A-Z][a-z]{2} |NVRM: |nvidia-\w+: |<\d+>|\d{4}-\d\d-\d\d|[IWEF]\d{4} )"
)
"""``pdsh``, ``clush`` and others that write a host before each line of a log."""

_BARE = re.compile(r"\s{0,80}(?:NVRM: |nvidia-(?:nvswitch|uvm|modeset|gpu)\d*: |nvidia: module |nouveau \d{4}:)")
"""What only the kernel writes, without the time before it (``journalctl -k -o cat``, later lines of one message)."""


_JSON_NODE = re.compile(r"\"(?:node|nodeName|node_name|NodeName)\": ?\"(?P<node>[a-z0-9][a-z0-9.-]{0,252})\"")
"""Where a program that logs JSON names the node that a line is about."""


def line_of(text: str, origin: Origin) -> TextLine:
    """Return a line of a log, with what wrote it and where."""
    text = text[:LINE_LENGTH]
    if text.startswith("{") and '"MESSAGE"' in text:
        return _of_journal(text, origin)
    host = _PDSH.match(text) if origin.kind == "text" else None
    if host and not _is_module(host["host"]):
        return line_of(text[host.end() :], dataclasses.replace(origin, node=origin.node or host["host"]))
    found = _JOURNAL.match(text) or _MONOTONIC.match(text)
    if found and not _is_module(found["host"]):
        return _of_unit(text, found["unit"], found["host"], origin)
    return _of_kernel_or_pod(text, origin)


def _of_kernel_or_pod(text: str, origin: Origin) -> TextLine:
    if _DMESG.match(text) or (origin.kind == "text" and _BARE.match(text)):
        return TextLine(text, "kernel", "kernel log", origin.node)
    pod = _POD.match(text)
    if pod:
        name = f"{origin.namespace}/{pod['pod']}" if origin.namespace else pod["pod"]
        previous = PREVIOUS if origin.source.endswith(PREVIOUS) else ""
        source = f"pod {name}, container {pod['container']}{previous}"
        return TextLine(text[pod.end() :], "pod", source, origin.node, f"pod {name}")
    stern = _STERN.match(text) if origin.kind == "text" else None
    if stern and whose_line.of_source(f"pod {stern['pod']}"):
        name = f"pod {stern['pod']}"
        return TextLine(text[stern.end() :], "pod", f"{name}, container {stern['container']}", origin.node, name)
    named = _JSON_NODE.search(text) if origin.kind == "text" and text.startswith("{") and not origin.node else None
    return TextLine(text, origin.kind, origin.source, named["node"] if named else origin.node, origin.object)


def _is_module(host: str) -> bool:
    """Return whether the word after a time is the beginning of a message of the kernel, not a host."""
    return host.lower() in ("nvrm", "nvidia", "kernel", "error", "warning", "info", "warn", "debug", "fatal", "notice")


def _of_unit(text: str, unit: str, host: str, origin: Origin) -> TextLine:
    node = origin.node or host
    if unit == "kernel":
        return TextLine(text, "kernel", "kernel log", node)
    return TextLine(text, "unit", f"journal of {unit.rpartition('/')[2].strip('()')}", node)


def _of_journal(text: str, origin: Origin) -> TextLine:
    """Return a line of ``journalctl -o json``."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return TextLine(text, origin.kind, origin.source, origin.node, origin.object)
    message = entry.get("MESSAGE")
    is_kernel = entry.get("_TRANSPORT") == "kernel"
    unit = "kernel" if is_kernel else str(entry.get("SYSLOG_IDENTIFIER") or entry.get("_COMM") or "journal")
    return _of_unit(str(message or ""), unit, str(entry.get("_HOSTNAME") or ""), origin)
