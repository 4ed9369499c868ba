# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which run holds a node for a purpose: since when, from which machine, and whether it can still be at work.

A run on the same machine is at work as long as its process exists. One on another machine, such as a job in a pod of
its own, may be so until its lease is over.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import uuid
from datetime import UTC, datetime
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PURPOSE_PREFIX = "gpuops.nvidia/maintenance."
"""Prefix of an annotation; a purpose follows. Its value says since when, from which machine and by which run."""


_ENDED = ("Z", "X")
"""The states of a process that has ended, and that its parent has not asked for yet."""


def _moment(now: float) -> str:
    return datetime.fromtimestamp(now, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclasses.dataclass(frozen=True)
class Stamp:
    """The value of a purpose's annotation: since when the node is held, from which machine, and by which run."""

    since: str
    machine: str
    run: str

    def __str__(self) -> str:
        return f"{self.since} {self.machine} {self.run}"

    def age_s(self, now: float) -> float:
        """Return for how many seconds the node has been held."""
        return now - datetime.fromisoformat(self.since).timestamp()

    @property
    def process(self) -> str:
        """The process of the run on its machine, or an empty string if the stamp does not name one."""
        return self.run.partition("-")[2].partition("-")[0]

    @property
    def is_at_work(self) -> bool:
        """Whether it is the stamp of another process of this machine that still exists."""
        if self.machine != socket.gethostname() or self.process in ("", str(os.getpid())):
            return False
        started = self.run.rpartition("-")[2]
        return bool(started) and _started(self.process) == started

    def renewed(self, now: float) -> Stamp:
        """Return the stamp of a run that still holds the node."""
        return dataclasses.replace(self, since=_moment(now))

    def resumed_by(self, other: Stamp) -> Stamp:
        """Return the stamp of the run that this one is, in the process and on the machine of another one."""
        return dataclasses.replace(other, run="-".join([self.run.partition("-")[0], *other.run.split("-")[1:]]))


def new_stamp(now: float) -> Stamp:
    """Return the stamp of one run. ``now`` is the API server's clock, which all machines share."""
    process = str(os.getpid())
    return Stamp(_moment(now), socket.gethostname(), f"{uuid.uuid4().hex[:8]}-{process}-{_started(process)}")


def _started(process: str) -> str:
    """Return when a process has begun, in the kernel's ticks, or an empty string if it has ended or nothing says so.

    It tells a process from a later one with the same number. Source: proc_pid_stat(5), fields 3 and 22.
    """
    try:
        text = Path("/proc", process, "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in _ENDED else ""


def stamp_of(node: Json, purpose: str) -> Stamp | None:
    """Return the stamp of the run that holds a node for a purpose, or None. A stamp written by hand may be anything."""
    parts = annotations_of(node).get(PURPOSE_PREFIX + purpose, "").split(" ")
    try:
        stamp = Stamp(*parts)
        stamp.age_s(0)
    except (TypeError, ValueError):
        return None
    return stamp


def has_stamp(node: Json, purpose: str, stamp: Stamp) -> bool:
    """Return whether the run with this stamp holds the node for the purpose."""
    found = stamp_of(node, purpose)
    return found is not None and (found.machine, found.run) == (stamp.machine, stamp.run)
