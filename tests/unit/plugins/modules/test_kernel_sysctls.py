# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.modules import kernel_sysctls
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.modules import RunModule


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    host = FakeHost(tmp_path)
    host.put("/proc/sys/kernel/numa_balancing", "1\n")
    monkeypatch.setattr(kernel_sysctls, "Host", lambda: host)
    return host


def test_predicts_sets_and_restores(host: FakeHost, run_module: RunModule) -> None:
    predicted = run_module(
        "kernel_sysctls", values={"kernel.numa_balancing": 0}, _ansible_check_mode=True, _ansible_diff=True
    )
    assert host.read("/proc/sys/kernel/numa_balancing") == "1"
    done = run_module("kernel_sysctls", values={"kernel.numa_balancing": 0}, _ansible_diff=True)
    assert predicted.result == done.result and done.result["changed"]
    assert done.result["diff"][1] == {
        "before": {"kernel.numa_balancing": "1"},
        "after": {"kernel.numa_balancing": "0"},
        "before_header": "kernel",
        "after_header": "kernel",
    }
    assert not run_module("kernel_sysctls", values={"kernel.numa_balancing": 0}).result["changed"]
    assert run_module("kernel_sysctls", state="absent").result["changed"]
    assert host.read("/proc/sys/kernel/numa_balancing") == "1"


def test_warns_of_values_that_have_to_wait_for_the_boot(
    host: FakeHost, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "writable", lambda path: False)
    (warning,) = run_module("kernel_sysctls", values={"kernel.numa_balancing": 0}).warnings
    assert warning == wording(
        "kernel.numa_balancing cannot be set in the running kernel from here. The next boot sets it."
    )


def test_warns_of_a_file_that_wins_at_the_next_boot(host: FakeHost, run_module: RunModule) -> None:
    host.put("/etc/sysctl.d/99-sysctl.conf", "kernel.numa_balancing = 1\n")
    assert run_module("kernel_sysctls", values={"kernel.numa_balancing": 0}).warnings == [
        wording(
            "/etc/sysctl.d/99-sysctl.conf sets kernel.numa_balancing to 1 at the next boot, because it is read last. "
            "Remove the line there."
        )
    ]


def test_a_wrong_name_is_one_message(host: FakeHost, run_module: RunModule) -> None:
    failed = run_module("kernel_sysctls", values={"vm.bogus": 1})
    assert (failed.rc, failed.result["reason"]) == (1, "NotFound")
