# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.evidence import collect, processes
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost
from tests.unit.plugins.module_utils._host.evidence.test_units import SHOWN

NVRM = "2026-11-20T04:12:09+00:00 kernel: NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x62:0x40:2168)"
SECRET = "W1rklich-Geheim-42"


def journal(command: list[str]) -> str:
    if "--dmesg" in command:
        return f"{NVRM}\n"
    return '{"MESSAGE": "level=error msg=pull url=https://user:' + SECRET + '@mirror.example/v2/ failed"}\n'


def test_state_and_lines(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, systemctl=SHOWN, journalctl=journal, dkms="nvidia/580.95.05: added\n", mokutil="")
    result = collect.collect(host, 5, 200)
    kernel_line, unit_line = result["lines"]
    assert kernel_line == {"text": NVRM, "kind": "kernel", "source": "kernel log"}
    assert (unit_line["kind"], unit_line["source"]) == ("unit", "journal of nvidia-fabricmanager")
    assert SECRET not in str(result) and "mirror.example" in unit_line["text"]
    state = result["state"]
    assert state["services"]["nvidia-fabricmanager.service"]["active"] == "failed"
    assert (state["stuck"], state["sources"]) == ([], {})


def test_denials_of_selinux_are_lines_of_the_kernel(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    denial = 'type=AVC msg=audit(1691187405.3:9647): avc:  denied  { module_load } path="/x/nvidia.ko" permissive=0'
    host.put("/var/log/audit/audit.log", f"{denial}\n")
    assert collect.collect(host, 5, 9)["lines"] == [{"text": denial, "kind": "kernel", "source": "audit log"}]


def test_a_bare_host_says_why_nothing_is_known(tmp_path: Path) -> None:
    result = collect.collect(FakeHost(tmp_path), 5, 200)
    state = result["state"]
    assert result["lines"] == []
    assert {name for name, value in state.items() if value is None} == {
        "services", "dkms", "mok_pending", "driver_gpus",
    }  # fmt: skip
    assert state["sources"]["dkms"] == "dkms is not installed"
    assert state["sources"]["kernel_log"] == "dmesg: dmesg is not installed"


def test_a_look_at_the_processes_that_hangs_does_not_stop_the_rest(tmp_path: Path, monkeypatch: t.Any) -> None:
    def hang(_host: Host) -> t.Iterator[dict[str, int]]:
        time.sleep(60)
        yield {}

    monkeypatch.setattr(processes, "look", hang)
    begun = time.monotonic()
    state = collect.collect(FakeHost(tmp_path, systemctl=SHOWN), 0.5, 10)["state"]
    assert time.monotonic() - begun < 5
    assert state["stuck"] is None and state["services"]
    assert state["sources"]["stuck"] == wording("The look at the processes did not end in time")


def test_commands_that_hang_end_at_their_time_limit(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("systemctl", "journalctl", "dmesg", "dkms", "mokutil"):
        (programs / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (programs / name).chmod(0o755)

    class Slow(Host):
        def which(self, name: str) -> str | None:
            return str(programs / name)

    begun = time.monotonic()
    state = collect.collect(Slow(str(tmp_path), timeout_s=0.3), 0.3, 10)["state"]
    assert time.monotonic() - begun < 5
    assert state["sources"]["services"] == "systemctl did not answer within 0.3 s"
