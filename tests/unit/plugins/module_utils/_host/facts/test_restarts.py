# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import restarts

from tests.unit.fakes.host import FakeHost

UNIT = "containerd.service"


def started(seconds_ago: float, state: str = "active") -> str:
    """Return what systemctl says of a unit."""
    moment = time.clock_gettime(time.CLOCK_MONOTONIC) - seconds_ago
    return f"ActiveState={state}\nExecMainStartTimestampMonotonic={int(moment * 1e6)}\n"


def test_without_a_mark_nothing_is_owed(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    assert restarts.owed(host) == [] and host.ran == []


@pytest.mark.parametrize(
    ("answer", "owed"),
    [
        pytest.param(started(3600), [UNIT], id="started before"),
        pytest.param(started(-3600), [], id="started since"),
        pytest.param(started(3600, "inactive"), [], id="reads its files when it starts"),
        pytest.param("ActiveState=active\nExecMainStartTimestampMonotonic=0\n", [UNIT], id="unknown start"),
        pytest.param("", [UNIT], id="no answer"),
    ],
)
def test_a_unit_with_a_mark_is_restarted_unless_it_was_started_since(
    tmp_path: Path, answer: str, owed: list[str]
) -> None:
    host = FakeHost(tmp_path, systemctl=answer)
    restarts.leave_mark(host, UNIT)
    assert restarts.owed(host) == owed
    restarts.remove_mark(host, UNIT)
    assert restarts.owed(host) == []


def test_time_of_a_moment_on_the_monotonic_clock(tmp_path: Path) -> None:
    now = FakeHost(tmp_path).time_of(time.clock_gettime(time.CLOCK_MONOTONIC))
    assert abs(now - time.time()) < 5
