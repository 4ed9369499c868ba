# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import typing as t
from datetime import UTC, datetime

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils import _runs
from inline_snapshot import snapshot as wording

SEEN = "2026-03-01T12:00:00Z"
SEEN_S = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()


def record(**run: t.Any) -> dict[str, t.Any]:
    return {"stage": "drain", "run": {"machine": socket.gethostname(), "process": 1, "seen": SEEN, **run}}


def test_a_worker_names_the_process_of_its_run() -> None:
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    worker = context.Process(target=lambda: theirs.send(_runs.this_run()))
    worker.start()
    assert mine.recv() == _runs.this_run() == {"machine": socket.gethostname(), "process": os.getpid()}
    worker.join()


def test_a_run_does_not_stand_in_its_own_way() -> None:
    assert _runs.at_work(record(process=os.getpid())) == ""
    assert _runs.at_work({}) == _runs.at_work({"stage": "failed", "run": None}) == ""


def test_a_run_on_this_machine_is_at_work_as_long_as_its_process_exists() -> None:
    process = subprocess.Popen(["sleep", "60"])
    words = f"process {process.pid} on {socket.gethostname()}, which was last seen at {SEEN}"
    assert _runs.at_work(record(process=process.pid)) == words
    process.kill()
    process.wait()
    assert _runs.at_work(record(process=process.pid)) == ""


def test_a_process_of_somebody_else_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    assert _runs.at_work(record()) != ""


def test_a_run_on_another_machine_is_at_work_for_an_hour_after_it_was_seen() -> None:
    other = record(machine="elsewhere")
    assert _runs.at_work(other, now=SEEN_S + 3599) == wording(
        "process 1 on elsewhere, which was last seen at 2026-03-01T12:00:00Z"
    )
    assert _runs.at_work(other, now=SEEN_S + 3600) == ""
    assert _runs.at_work(other) == ""
