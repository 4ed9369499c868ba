# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import apt_locks
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from tests.unit.fakes.host import FakeHost

LOCKED = (
    "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)",
    "E: Unable to lock directory /var/lib/apt/lists/",
    "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
    "dpkg: error: dpkg frontend lock was locked by another process with pid 812",
    "dpkg: error: dpkg frontend lock is locked by another process",
)
"""The words of apt and of dpkg 1.19 and 1.21."""


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited. A clock of its own goes on by them."""
    slept: list[float] = []
    monkeypatch.setattr(apt_locks.time, "sleep", slept.append)
    monkeypatch.setattr(apt_locks.time, "monotonic", lambda: sum(slept))
    return slept


@pytest.mark.parametrize("words", LOCKED)
def test_waits_for_a_lock_only_as_long_as_it_may(tmp_path: Path, waited: list[float], words: str) -> None:
    host = FakeHost(tmp_path)
    host.commands = {"apt-mark": Output(stderr=f"{words}\n", error="apt-mark ended with 100")}
    output = apt_locks.patiently(host, ["apt-mark", "hold", "bash"], 120, 12)
    assert output.error == "apt-mark ended with 100" and waited == [5.0, 5.0, 5.0]


def test_any_other_end_is_the_end(tmp_path: Path, waited: list[float]) -> None:
    host = FakeHost(tmp_path)
    for end in (Output("done", stderr=LOCKED[0]), Output(stderr="E: no such package", error="apt-get ended with 100")):
        host.commands = {"apt-get": end}
        assert apt_locks.patiently(host, ["apt-get", "update"], 120, 600) == end
    assert waited == []
