# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import sysctls
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost

FILE = "/etc/sysctl.d/90-gpuops.conf"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    host = FakeHost(tmp_path)
    host.put("/proc/sys/kernel/numa_balancing", "1\n")
    host.put("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    return host


def apply(host: FakeHost, values: dict[str, t.Any], check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    return sysctls.set_sysctls(host, {"owner": "gpuops", "state": "present", **options, "values": values}, check)


def four_steps(host: FakeHost, values: dict[str, t.Any], **options: t.Any) -> dict[str, t.Any]:
    """Check, run, check again and run again. Return the result of the first run."""
    predicted = apply(host, values, check=True, **options)
    done = apply(host, values, **options)
    assert predicted == done
    assert [apply(host, values, check=check, **options)["changed"] for check in (True, False)] == [False, False]
    return done


def test_sets_values_now_and_at_boot_and_restores_the_previous_ones(host: FakeHost) -> None:
    assert four_steps(host, {"kernel.numa_balancing": False, "net.ipv4.tcp_rmem": "4096 87380 16777216"})["changed"]
    assert host.read("/proc/sys/kernel/numa_balancing") == "0"
    assert "net.ipv4.tcp_rmem = 4096 87380 16777216" in host.read(FILE).splitlines()
    four_steps(host, {"kernel.numa_balancing": 0})
    assert host.read("/proc/sys/net/ipv4/tcp_rmem") == "4096 131072 6291456"
    four_steps(host, {}, state="absent")
    assert host.read("/proc/sys/kernel/numa_balancing") == "1" and not host.exists(FILE)


def test_a_value_that_somebody_has_changed_is_set_again(host: FakeHost) -> None:
    apply(host, {"kernel.numa_balancing": 0})
    host.put("/proc/sys/kernel/numa_balancing", "1\n")
    assert four_steps(host, {"kernel.numa_balancing": 0})["changed"]
    assert "# before: kernel.numa_balancing = 1" in host.read(FILE).splitlines()


def test_in_a_container_the_next_boot_sets_the_values(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "writable", lambda path: False)
    assert apply(host, {"kernel.numa_balancing": 0})["pending"] == ["kernel.numa_balancing"]
    assert not apply(host, {"kernel.numa_balancing": 0})["changed"]


@pytest.mark.parametrize("check", [True, False])
def test_an_unknown_name_is_an_error_before_the_first_change(host: FakeHost, check: bool) -> None:
    with pytest.raises(GpuOpsError, match=r"no sysctl vm\.bogus"):
        apply(host, {"kernel.numa_balancing": 0, "vm.bogus": 1}, check=check)
    assert host.read("/proc/sys/kernel/numa_balancing") == "1" and not host.exists(FILE)


def test_a_value_that_the_kernel_refuses_is_an_error(host: FakeHost, tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel/numa_balancing").unlink()
    (tmp_path / "proc/sys/kernel/numa_balancing").symlink_to("/dev/full")
    with pytest.raises(GpuOpsError) as error:
        sysctls.Sysctls(host, "gpuops").set({"kernel.numa_balancing": "0"})
    assert error.value.reason == "Invalid"
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "The kernel refuses kernel.numa_balancing = 0: No space left on device."
    )


@pytest.mark.parametrize("values", [{"a b": 1}, {"vm": 1}, {"vm.x": ""}, {"vm.x": "1\n2"}, {"../etc/x": 1}])
def test_bad_values_are_refused(host: FakeHost, values: dict[str, t.Any]) -> None:
    with pytest.raises(GpuOpsError, match="not sysctls with a"):
        apply(host, values)


def test_bad_owners_are_refused(host: FakeHost) -> None:
    with pytest.raises(GpuOpsError, match="owner must be"):
        apply(host, {}, owner="../x")


def test_names_with_dots_inside() -> None:
    assert sysctls.live_path("net.ipv4.conf.eth0/1.forwarding") == "/proc/sys/net/ipv4/conf/eth0.1/forwarding"
    assert sysctls.live_path("net/ipv4/conf/eth0.1/forwarding") == "/proc/sys/net/ipv4/conf/eth0.1/forwarding"


def test_a_file_that_is_read_later_and_wins_is_named(host: FakeHost) -> None:
    host.put("/etc/sysctl.d/10-early.conf", "kernel.numa_balancing = 1\n")
    host.put("/usr/lib/sysctl.d/95-tuned.conf", "net.ipv4.tcp_rmem = 1 2 3\nkernel/numa_balancing=1\n")
    host.put("/usr/lib/sysctl.d/99-masked.conf", "kernel.numa_balancing = 1\n")
    host.put("/etc/sysctl.d/99-masked.conf", "")
    host.put("/etc/sysctl.d/99-notes.txt", "kernel.numa_balancing = 1\n")
    wanted = {"kernel.numa_balancing": 0, "net.ipv4.tcp_rmem": "4096 87380 16777216"}
    for check in (True, False):
        assert apply(host, wanted, check=check)["overridden"] == [
            {"name": "net.ipv4.tcp_rmem", "value": "1 2 3", "file": "/usr/lib/sysctl.d/95-tuned.conf"},
            {"name": "kernel.numa_balancing", "value": "1", "file": "/usr/lib/sysctl.d/95-tuned.conf"},
        ]
    host.put(
        "/etc/sysctl.d/99-sysctl.conf",
        "# net.ipv4.tcp_rmem = 7 8 9\nbroken\nbare = 1\n-net.ipv4.tcp_* = 4096\t87380  16777216 \n; x = y\n",
    )
    assert [each["name"] for each in apply(host, wanted)["overridden"]] == ["kernel.numa_balancing"]
    assert apply(host, {}, state="absent")["overridden"] == []
