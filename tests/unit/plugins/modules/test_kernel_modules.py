# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import kernel_modules
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.modules import RunModule


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = FakeHost(tmp_path)
    host.put("/proc/modules", "nouveau 1 0 - Live 0x0\n")
    monkeypatch.setattr(kernel_modules, "Host", lambda: host)
    return host


def test_predicts_blacklists_and_removes(host: FakeHost, run_module: RunModule) -> None:
    predicted = run_module("kernel_modules", blacklist=["nouveau"], _ansible_check_mode=True, _ansible_diff=True)
    assert host.names("/etc/modprobe.d") == []
    done = run_module("kernel_modules", blacklist=["nouveau"], _ansible_diff=True)
    assert predicted.result == done.result and done.result["changed"] and done.result["reboot_required"]
    assert [part["after_header"] for part in done.result["diff"]] == ["/etc/modprobe.d/zz-gpuops.conf"]
    assert not run_module("kernel_modules", blacklist=["nouveau"]).result["changed"]
    assert run_module("kernel_modules", state="absent").result["changed"]
    assert host.names("/etc/modprobe.d") == []


def test_a_wrong_option_is_one_message(host: FakeHost, run_module: RunModule) -> None:
    failed = run_module("kernel_modules", blacklist=["a b"], load=["c d"])
    assert (failed.rc, failed.result["reason"]) == (1, "Invalid")
    assert failed.result["msg"] == wording(
        "'a b' is not the name of a kernel module. 'c d' is not the name of a kernel module."
    )
