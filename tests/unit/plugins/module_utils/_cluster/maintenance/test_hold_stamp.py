# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold_stamp import (
    Stamp,
    has_stamp,
    new_stamp,
    stamp_of,
)

from tests.unit.plugins.module_utils._cluster.maintenance.nodes import MINE, NOW, held


def test_a_stamp_tells_one_run_from_another() -> None:
    stamp = new_stamp(NOW)
    assert stamp.since == "2026-11-21T10:00:00Z" and stamp.run != new_stamp(NOW).run and stamp.age_s(NOW + 60) == 60
    assert has_stamp(held(reboot=str(stamp)), "reboot", stamp) and stamp_of(held(reboot=str(stamp)), "reboot") == stamp
    assert not has_stamp(held(reboot="other"), "reboot", stamp)
    assert not has_stamp(held(repair=str(stamp)), "reboot", stamp) and stamp_of(held(repair="x"), "reboot") is None


@pytest.mark.parametrize("text", ["", "by hand", "yesterday awx-7 00000000", "2026-11-21T09:30:00Z awx-7"])
def test_a_stamp_that_was_written_by_hand_names_no_run(text: str) -> None:
    assert stamp_of(held(reboot=text), "reboot") is None


def test_a_renewed_stamp_names_the_same_run_at_another_time() -> None:
    assert str(MINE.renewed(NOW + 60)) == "2026-11-21T10:01:00Z bastion 00000001"


def test_a_run_of_this_machine_is_at_work_as_long_as_its_process_exists() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        started = Path("/proc", str(other.pid), "stat").read_text().rpartition(")")[2].split()[19]
        here, run = socket.gethostname(), f"00000000-{other.pid}-{started}"
        assert Stamp(MINE.since, here, run).is_at_work and Stamp(MINE.since, here, run).process == str(other.pid)
        assert not Stamp(MINE.since, "bastion", run).is_at_work, "another machine has other processes"
        assert not Stamp(MINE.since, here, f"00000000-{other.pid}-1").is_at_work, "a later process with the number"
        assert not Stamp(MINE.since, here, f"00000000-{other.pid}-").is_at_work
        other.kill()
        while Path("/proc", str(other.pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        assert not Stamp(MINE.since, here, run).is_at_work, "it has ended, and nobody has asked for it yet"
    assert not Stamp(MINE.since, here, run).is_at_work


@pytest.mark.parametrize("run", ["00000000", "-", "00000000-x-1", "00000000--"])
def test_a_stamp_without_a_process_is_of_no_run_at_work(run: str) -> None:
    assert not Stamp(MINE.since, socket.gethostname(), run).is_at_work


def test_a_run_is_no_other_run_to_itself() -> None:
    stamp = new_stamp(NOW)
    assert stamp.process == str(os.getpid()) and not stamp.is_at_work
