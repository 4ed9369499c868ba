# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.evidence import processes

from tests.unit.fakes.host import FakeHost

IN_DRIVER = "[<0>] os_acquire_rwlock_read+0x33/0x60 [nvidia]\n[<0>] nvidia_ioctl+0x80/0x6f0 [nvidia]\n"
IN_NFS = "[<0>] rpc_wait_bit_killable+0x11/0x60 [sunrpc]\n[<0>] nfs_file_fsync+0x1b/0x40 [nfs]\n"


def start(host: FakeHost, pid: int, state: str, *, name: str = "nvidia-smi", stack: str = "") -> None:
    """Write the files of a process."""
    host.put(f"/proc/{pid}/stat", f"{pid} ({name}) {state} 1 1 1 0 -1 4194560 0 0 0\n")
    host.put(f"/proc/{pid}/status", "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n")
    host.put(f"/proc/{pid}/wchan", "0")
    host.put(f"/proc/{pid}/stack", stack)


def stuck(host: FakeHost) -> list[dict[str, object]]:
    return list(processes.look(host, pause_s=0))


def test_a_process_in_the_driver_and_one_that_only_holds_a_gpu(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    start(host, 7, "D", stack=IN_DRIVER)
    start(host, 8, "D", name="python3 (train)", stack=IN_NFS)
    (tmp_path / "proc/8/fd").mkdir()
    (tmp_path / "proc/8/fd/3").symlink_to("/dev/nvidia0")
    first, second = sorted(stuck(host), key=lambda each: str(each["pid"]))
    assert first == {
        "pid": 7,
        "name": "nvidia-smi",
        "wchan": "",
        "stack": ["os_acquire_rwlock_read [nvidia]", "nvidia_ioctl [nvidia]"],
        "nvidia": True,
    }
    assert (second["name"], second["nvidia"]) == ("python3 (train)", False)


def test_without_its_stack_the_open_files_of_a_process_count(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    start(host, 8, "D", name="python3")
    assert [each["nvidia"] for each in stuck(host)] == [False]
    (tmp_path / "proc/8/fd").mkdir()
    (tmp_path / "proc/8/fd/3").symlink_to("/dev/nvidiactl")
    assert [each["nvidia"] for each in stuck(host)] == [True]


def test_a_process_that_goes_on_is_not_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(tmp_path)
    start(host, 7, "D", stack=IN_DRIVER)
    start(host, 9, "D", stack=IN_DRIVER)

    def sleep(_seconds: float) -> None:
        host.put("/proc/7/status", "voluntary_ctxt_switches:\t13\nnonvoluntary_ctxt_switches:\t3\n")
        start(host, 9, "R")

    monkeypatch.setattr(processes.time, "sleep", sleep)
    assert stuck(host) == []


def test_a_quiet_host_is_not_looked_at_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(tmp_path)
    for pid, state in ((1, "S"), (2, "Z"), (3, "Z"), (4, "I")):
        start(host, pid, state)
    monkeypatch.setattr(processes.time, "sleep", lambda _seconds: pytest.fail("There is nothing to wait for."))
    assert stuck(host) == []
