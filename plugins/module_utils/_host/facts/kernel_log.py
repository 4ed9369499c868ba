# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The driver's errors in the kernel log since the boot, from the journal, the ring buffer or the files in /var/log."""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import messages

LIMIT = 100
"""The number of messages to return, unless more kinds of them differ. A broken GPU writes thousands."""

_MILD = (None, "IGNORE", "RESTART_APP")
"""The actions of errors that an application causes, or that need nothing."""

_THIS_BOOT = ["journalctl", "--dmesg", "--boot", "--output=short-iso", "--no-hostname", "--no-pager", "--quiet"]
_OF_THE_DRIVER = "NVRM|SXid"
# The newest lines, and the newest first. Versions of journalctl differ in whether --lines alone means that.
_NEWEST = ["--lines=5000", "--reverse"]
_FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog")
_TAIL_BYTES = 8 * 2**20
_BEGINNING = re.compile(r"kernel:\s*(?:\[\s*[\d.]+\]\s*)?Linux version \d|^\[\s*0\.0+\] Linux version \d", re.MULTILINE)


def kernel_log(host: Host, wanted: str = _OF_THE_DRIVER) -> tuple[Output, str]:
    """Return the driver's messages since the boot, and where they come from.

    ``wanted`` is what the journal is searched for; other sources are returned whole. The ring buffer is complete unless
    newer messages have displaced its beginning. Then the files of rsyslog are.
    """
    journal = _journal(host, wanted)
    if journal is not None:
        return Output(journal), "journalctl"
    ring = host.run(["dmesg", "--time-format=iso"])
    if not ring.ok and host.which("dmesg"):
        # BusyBox has no formats.
        ring = host.run(["dmesg"])
    if ring.ok and re.search(r"\bLinux version \d", ring.stdout[:20_000]):
        return ring, "dmesg"
    for path in _FILES:
        text = _since_boot(_tail(host, f"{path}.1") + _tail(host, path))
        if re.search(r"\bkernel:", text):
            return Output(text), path
    return ring, "dmesg"


def _journal(host: Host, wanted: str) -> str | None:
    """Return these messages from the journal, the oldest first, or None if it has no messages of the kernel."""
    found = host.run([*_THIS_BOOT, f"--grep={wanted}", *_NEWEST])
    if found.ok and found.stdout:
        return "\n".join(reversed(found.stdout.splitlines()))
    # Without a match, journalctl ends with 1 and an empty output, and so it does without any message of the kernel.
    if found.ok or (not found.stderr and "ended with 1:" in str(found.error)):
        return "" if host.run([*_THIS_BOOT, "--lines=1"]).stdout.strip() else None
    return None


def _tail(host: Host, path: str) -> str:
    try:
        with host.stream(path) as file:
            file.seek(max(0, host.size(path) - _TAIL_BYTES), os.SEEK_SET)
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _since_boot(text: str) -> str:
    """Return the lines since the newest boot that the text shows, or else all of them."""
    beginnings = list(_BEGINNING.finditer(text))
    return text[text.rfind("\n", 0, beginnings[-1].start()) + 1 :] if beginnings else text


def xid(log: Output, source: str) -> Section:
    """Return the messages that tell most as facts, in the order of the log."""
    if not log.ok:
        return Section(None, {"": unknown(str(log.error))})
    events: t.Sequence[messages.Event] = messages.parse_log(log.stdout)
    return Section([dataclasses.asdict(event) for event in most_telling(events)], {"": known_from(source)})


def most_telling(events: t.Sequence[messages.Event]) -> list[messages.Event]:
    """Return the newest error of each GPU and code, then those that need an action, then the newest others.

    Otherwise, the flood of one application would hide another GPU's fault.
    """
    newest = {(event.gpu, event.kind, event.code): number for number, event in enumerate(events)}
    grave = [number for number, event in enumerate(events) if event.action not in _MILD]
    kept = set(newest.values())
    for number in [*reversed(grave), *reversed(range(len(events)))]:
        if len(kept) >= LIMIT:
            break
        kept.add(number)
    return [events[number] for number in sorted(kept)]
