# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import dnf_locks
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import Request

from tests.unit.fakes.host import FakeHost

LIST = "/etc/dnf/plugins/versionlock.list"
USERS = "# by hand\nkernel-0:5.14.0-427.el9.*\nnvidia-fabricmanager-0:580.95.05-1.el9.*\n"
EPOCHS = {"nvidia-driver-cuda": "3", "nvidia-fabricmanager": "0", "nvlsm": "0", "kmod-nvidia-580.95.05-5.14.0-1": "3"}
BLOCK = """\
# gpuops.nvidia driver_packages: begin
nvidia-driver-cuda-3:{kept}-*
nvidia-fabricmanager-0:{kept}-*
# gpuops.nvidia driver_packages: end
"""


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    host = FakeHost(tmp_path)
    host.put(LIST, USERS)
    return host


@pytest.mark.parametrize(
    ("request_", "kept"),
    [(Request(version="580.95.05"), "580.95.05"), (Request(branch="580"), "580.*"), (Request(branch="590"), "590.*")],
)
def test_keeps_what_is_asked_for(host: FakeHost, request_: Request, kept: str) -> None:
    assert dnf_locks.pins(host, EPOCHS, request_, "580.95.05", True) == {LIST: USERS + BLOCK.format(kept=kept)}


def test_if_nothing_is_asked_for_what_is_in_no_stream_stays_in_the_branch(host: FakeHost) -> None:
    block = BLOCK.format(kept="580.*").replace("nvidia-driver-cuda-3:580.*-*\n", "")
    assert dnf_locks.pins(host, EPOCHS, Request(), "580.95.05", True) == {LIST: USERS + block}
    assert dnf_locks.pins(host, EPOCHS, Request(), "580.95.05", False) == {LIST: USERS}
    assert dnf_locks.pins(host, EPOCHS, Request(), None, True) == {LIST: USERS}


def test_another_version_replaces_the_block_and_leaves_the_locks_of_others(host: FakeHost) -> None:
    host.put(LIST, BLOCK.format(kept="570.*") + USERS)
    # The block stays in its place: package_hold has another one, and the two must not move each other in each run.
    assert dnf_locks.pins(host, EPOCHS, Request(branch="580"), None, True) == {LIST: BLOCK.format(kept="580.*") + USERS}
    assert dnf_locks.pins(host, EPOCHS, None, None, True) == {LIST: USERS}
    host.put(LIST, BLOCK.format(kept="570.*"))
    assert dnf_locks.pins(host, EPOCHS, None, None, True) == {LIST: None}


def test_the_own_block_locks_nobody_out(host: FakeHost) -> None:
    host.put(LIST, USERS + BLOCK.format(kept="580.*"))
    assert dnf_locks.locked(host) == {"kernel", "nvidia-fabricmanager"}
    host.remove(LIST)
    assert dnf_locks.locked(host) == set()
