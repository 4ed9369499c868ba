# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which run changes a host, and whether it can still be active.

The record of a change on the host names the run: its machine, its process there, and when it last wrote the record. A
run on the same machine can be looked for. One on another machine, such as a job in a pod of its own, may be active as
long as it has written lately.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from datetime import UTC, datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LEASE_S = 3600
"""For how long a run on another machine is assumed active. No step of a change takes longer by its defaults."""


def this_run() -> Json:
    """Return the ``machine`` and the ``process`` of this run.

    Templates are filled in by the process of the run and by its workers, so a worker names its parent.
    """
    parent = multiprocessing.parent_process()
    return {"machine": socket.gethostname(), "process": parent.pid if parent else os.getpid()}


def at_work(record: Json, now: float | None = None) -> str:
    """Return which other run may be active on a host according to its record, or an empty string."""
    run = record.get("run") or {}
    here = this_run()
    if not run or (run["machine"], run["process"]) == (here["machine"], here["process"]):
        return ""
    if run["machine"] == here["machine"]:
        works = _exists(run["process"])
    else:
        works = (time.time() if now is None else now) - _moment(run["seen"]) < LEASE_S
    words = f"process {run['process']} on {run['machine']}, which was last seen at {run['seen']}"
    return words if works else ""


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _moment(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()


def refusal(host: str, record: Json, take_over: bool = False) -> str:
    """Return why a host is left alone because another run changes it, or an empty string."""
    other = "" if take_over else at_work(record)
    if not other:
        return ""
    return (
        f"Another run changes {host}: {other} (stage {record.get('stage')}). Wait until it has ended. If it was "
        "killed, set host_change_take_over to true."
    )
