# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""Processes that do not leave the kernel, as far as a diagnosis needs them.

Only files are read that need no lock of the process: ``cmdline`` and ``maps`` can hang with it. Kernel stacks can, too,
in rare cases, so all of this runs in a child process that may be left behind.
"""

from __future__ import annotations

import re
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PAUSE_S = 1.0
"""A process that reads from a disk is in D, too, but it switches sooner."""

MOST = 50
"""How many stuck processes are looked at."""

DEPTH = 8
"""How many functions of a stack are returned."""

_STAT = re.compile(r"^\d+ \((?P<name>.*)\) (?P<state>\S)", re.DOTALL)
_SWITCHES = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)
_FUNCTION = re.compile(r"^(?:\[<[0-9a-fx]+>\] )?(?P<name>[\w.]+)(?:\+0x\S+)?(?P<module> \[\w+\])?")
_DEVICE = re.compile(r"nvidia(?:\d+|ctl|-uvm|-modeset|-nvswitch\d+|-caps)")


def look(host: Host, pause_s: float = PAUSE_S) -> t.Iterator[Json]:
    """Yield each process that is stuck."""
    states = {pid: stat for pid, stat in ((pid, _stat(host, pid)) for pid in _pids(host)) if stat}
    waiting = [pid for pid, (_name, state) in states.items() if state == "D"][:MOST]
    if not waiting:
        return
    before = {pid: _switches(host, pid) for pid in waiting}
    time.sleep(pause_s)
    for pid in waiting:
        now = _stat(host, pid)
        if now and now[1] == "D" and _switches(host, pid) == before[pid]:
            yield _described(host, pid, now[0])


def _pids(host: Host) -> list[str]:
    return [name for name in host.names("/proc") if name.isdigit()]


def _stat(host: Host, pid: str) -> tuple[str, str] | None:
    found = _STAT.match(host.read(f"/proc/{pid}/stat") or "")
    return (found["name"], found["state"]) if found else None


def _switches(host: Host, pid: str) -> list[str]:
    return _SWITCHES.findall(host.read(f"/proc/{pid}/status") or "")


def _described(host: Host, pid: str, name: str) -> Json:
    stack = (host.read(f"/proc/{pid}/stack") or "").splitlines()
    functions = [found["name"] + (found["module"] or "") for found in map(_FUNCTION.match, stack) if found]
    return {
        "pid": int(pid),
        "name": name,
        "wchan": (host.read(f"/proc/{pid}/wchan") or "").strip("0"),
        "stack": functions[:DEPTH],
        "nvidia": _in_driver(functions) if functions else _holds_device(host, pid),
    }


def _in_driver(functions: t.Sequence[str]) -> bool:
    """Return whether a process waits inside NVIDIA's modules. One that has a GPU open may wait for a disk."""
    return any(" [nvidia" in function for function in functions)


def _holds_device(host: Host, pid: str) -> bool:
    names = host.names(f"/proc/{pid}/fd")
    return any(_DEVICE.fullmatch(host.link_name(f"/proc/{pid}/fd/{name}") or "") for name in names)
