# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run unit tests again and again, each time with the plugins as they then are.

Python, pytest and the libraries take most of the time of a short test, and do not change. This process loads them once.
Each line of its standard input is a list of test files in JSON. For each it forks a child that loads the plugins and
runs the tests until one fails, and answers with "passed", "failed" or "too long". scripts/mutation.py uses it.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import typing as t

import pytest

OURS = ("ansible_collections.gpuops", "tests.unit")
"""The modules that a change may concern: every child loads them again."""

MEMORY = 6 << 30
"""How many bytes of addresses a child may have: a changed loop may never stop to collect."""

FIRST_S, LEAST_S, TIMES = 300, 5, 5
"""The first run of some tests may take 300 s of a processor, and the next ones 5 s and five times what it took."""

WALL_TIMES, WALL_S = 10, 60
"""A run may take 60 s and ten times that by the clock, which goes on while other programs run."""


def main(log: str) -> None:
    """Answer each line of the standard input with the outcome of its tests. What they print is in the log."""
    answers = os.fdopen(os.dup(1), "w")
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # for what a test starts
    latest, allowed = "", 0.0
    for line in sys.stdin:
        os.ftruncate(output, 0)
        command = ["-x", "-q", "-p", "no:cacheprovider", *json.loads(line)]
        if line != latest:
            pytest.main(["--collect-only", *command])
            _forget_ours()
        outcome, used = _run(command, allowed if line == latest else FIRST_S)
        if line != latest:
            latest, allowed = line, LEAST_S + TIMES * used
        print(outcome, file=answers, flush=True)


def _forget_ours() -> None:
    """Let the next import of a plugin or a unit test read its file. The libraries stay loaded."""
    for name in [name for name in sys.modules if name.startswith(OURS)]:
        del sys.modules[name]


def _run(command: list[str], allowed: float) -> tuple[str, float]:
    """Run the tests in a child. Return the outcome, and the seconds of a processor that it used."""
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _in_child(command, allowed)
    handle = os.pidfd_open(child)
    in_time = bool(select.select([handle], [], [], WALL_S + WALL_TIMES * allowed)[0])
    os.close(handle)
    if not in_time:
        os.killpg(child, signal.SIGKILL)
    _child, status, usage = os.wait4(child, 0)
    used = usage.ru_utime + usage.ru_stime
    print(f"The run took {time.monotonic() - started:.1f} s, and {used:.1f} s of a processor.", flush=True)
    if os.WIFSIGNALED(status):
        return "too long", used
    return "failed" if os.WEXITSTATUS(status) else "passed", used


def _in_child(command: list[str], allowed: float) -> t.NoReturn:
    status = 1
    try:
        os.setpgid(0, 0)
        sys.dont_write_bytecode = True  # What is cached is what the files were before a change.
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (int(allowed) + 1, int(allowed) + 2))
        status = int(pytest.main(command))
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
