# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detached processes are distinguished from others with the same pid, and are gone after a stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from lab.process import Component, identity


@pytest.fixture
def start(tmp_path: Path) -> t.Iterator[t.Callable[..., Component]]:
    started: list[Component] = []

    def start(*argv: str, **options: t.Any) -> Component:
        component = Component("thing", list(argv), tmp_path / "log", tmp_path, **options)
        component.start()
        started.append(component)
        return component

    yield start
    for component in started:
        component.stop()


def eventually(condition: t.Callable[[], bool], timeout: float = 10) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_kill_ends_the_whole_group(start: t.Callable[..., Component]) -> None:
    component = start("sh", "-c", "sleep 1000 & echo $!; wait")
    assert eventually(lambda: component.log.read_text().strip().isdigit())
    child = int(component.log.read_text())
    component.kill()
    assert not component.alive
    assert eventually(lambda: identity(child) is None)


def test_children_of_a_dead_leader_are_killed_too(start: t.Callable[..., Component]) -> None:
    component = start("sh", "-c", "sleep 1000 & echo $!")
    assert eventually(lambda: not component.alive)
    child = int(component.log.read_text())
    component.stop()
    assert eventually(lambda: identity(child) is None)


def test_a_process_has_a_grace_period_to_end_by_itself(start: t.Callable[..., Component]) -> None:
    handler = "signal.signal(signal.SIGTERM, lambda *a: sys.exit(print('tidied up')))"
    program = f"import signal, sys, time; {handler}; print('on'); time.sleep(1000)"
    component = start(sys.executable, "-u", "-c", program, grace=5)
    assert eventually(lambda: "on" in component.log.read_text())
    component.stop()
    assert component.log_end() == "on\ntidied up"


def test_a_process_that_ended_is_not_alive_even_if_nobody_waited_for_it(start: t.Callable[..., Component]) -> None:
    component = start("true")
    assert eventually(lambda: not component.alive)
    again = Component.from_dict(component.as_dict())
    assert not again.alive


def test_another_process_with_the_pid_is_neither_alive_nor_killed(start: t.Callable[..., Component]) -> None:
    component = start("true")
    # Start times are given in hundredths of a second, and no system reuses a pid that quickly.
    time.sleep(0.05)
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        component.pid = bystander.pid
        assert not component.alive
        component.stop()
        assert bystander.poll() is None
    finally:
        os.killpg(bystander.pid, signal.SIGKILL)
        bystander.wait()


def test_log_end_of_a_long_log(start: t.Callable[..., Component]) -> None:
    component = start("seq", "1", "100000")
    assert eventually(lambda: not component.alive)
    assert component.log_end(2) == "99999\n100000"
