# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel import change_kernel, default_boot
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._host.kernel.conftest import (
    EL_NEW,
    EL_OLD,
    NEW,
    NEWER,
    OLD,
    Rocky,
    Ubuntu,
)


def ensure(host: t.Any, release: str, check: bool = False, headers: str = "installed") -> dict[str, t.Any]:
    return change_kernel.ensure(host, {"release": release, "headers": headers, "lock_timeout": 0}, check)


def test_check_run_and_second_run(ubuntu: Ubuntu) -> None:
    predicted = ensure(ubuntu, NEW, check=True)
    assert NEW not in str(ubuntu.packages)
    done = ensure(ubuntu, NEW)
    assert predicted == done and done["changed"] and done["reboot_required"]
    assert done["installs"] == [
        f"linux-image-{NEW}",
        f"linux-headers-{NEW}",
        f"linux-modules-{NEW}",
        f"linux-modules-extra-{NEW}",
    ]
    assert (done["next_boot"], done["way_back"], done["headers"]) == (NEW, OLD, "offered")
    for check in (True, False):
        again = ensure(ubuntu, NEW, check)
        assert (again["changed"], again["installs"], again["headers"]) == (False, [], "installed")
    # The newest kernel comes first by itself, so no choice of ours stands in the way of later updates.
    assert not ubuntu.exists(default_boot.DROP_IN)


def test_the_way_back_needs_no_repository_and_installs_nothing(ubuntu: Ubuntu) -> None:
    ensure(ubuntu, NEW)
    ubuntu.put("/proc/sys/kernel/osrelease", f"{NEW}\n")
    ubuntu.offers = {}
    back = ensure(ubuntu, OLD, headers="ignored")
    assert (back["changed"], back["installs"], back["next_boot"]) == (True, [], OLD)
    assert f'GRUB_DEFAULT="gnulinux-advanced>gnulinux-{OLD}"' in (ubuntu.read(default_boot.DROP_IN) or "")
    assert ensure(ubuntu, OLD, headers="ignored")["changed"] is False
    forth = ensure(ubuntu, NEW, headers="ignored")
    assert forth["changed"] and default_boot.boots(ubuntu) == NEW and not ubuntu.exists(default_boot.DROP_IN)


def test_latest_is_the_newest_of_the_flavour_that_runs(ubuntu: Ubuntu) -> None:
    assert ensure(ubuntu, "latest", check=True, headers="ignored")["release"] == NEWER
    refused = ensure(ubuntu, "latest", check=True)
    assert refused["refused"] == wording(
        "No enabled repository offers linux-headers-6.8.0-63-generic, the headers of the kernel 6.8.0-63-generic, without which no driver can be built for it. Choose a kernel that has them, or a driver with built modules."
    )
    assert (refused["changed"], refused["reboot_required"]) == (False, False)


def test_latest_stays_in_the_series_and_another_one_needs_its_name(ubuntu: Ubuntu) -> None:
    other = "6.17.0-5-generic"
    ubuntu.offers[f"linux-image-{other}"] = ["1"]
    assert ensure(ubuntu, "latest", check=True, headers="ignored")["release"] == NEWER
    assert ensure(ubuntu, other, check=True, headers="ignored")["installs"] == [f"linux-image-{other}"]

    ubuntu.put("/proc/sys/kernel/osrelease", "6.11.0-29-generic\n")
    refused = ensure(ubuntu, "latest", check=True)
    assert (refused["release"], refused["changed"], refused["reboot_required"]) == ("", False, False)
    assert "6.11" in refused["refused"] and f"offer {other}" in refused["refused"]
    with pytest.raises(GpuOpsError) as e:
        ensure(ubuntu, "latest")
    assert e.value.reason == "KernelRefused" and not [command for command in ubuntu.ran if "--yes" in command]


def test_a_kernel_that_nobody_offers_is_refused_with_what_there_is(ubuntu: Ubuntu) -> None:
    with pytest.raises(GpuOpsError) as e:
        ensure(ubuntu, "6.8.0-99-generic")
    assert e.value.msg == wording(
        "No enabled repository offers the kernel 6.8.0-99-generic (linux-image-6.8.0-99-generic). The repositories offer 6.8.0-63-generic, 6.8.0-60-lowlatency, 6.8.0-60-generic, 6.8.0-51-generic."
    )
    assert "unsigned" not in e.value.msg
    assert (e.value.reason, e.value.details["way_back"]) == ("KernelRefused", OLD)
    assert not [command for command in ubuntu.ran if "--yes" in command]


def test_a_refusal_of_the_package_manager_comes_before_any_change(ubuntu: Ubuntu, monkeypatch: t.Any) -> None:
    monkeypatch.setattr(change_kernel.managers.AptKernels, "simulate", lambda self, packages: "held broken packages")
    assert ensure(ubuntu, NEW, check=True)["refused"] == wording(
        "The package manager refuses it: held broken packages."
    )
    with pytest.raises(GpuOpsError, match="held broken packages"):
        ensure(ubuntu, NEW)
    assert NEW not in str(ubuntu.packages)


def test_a_full_boot_partition_is_refused(ubuntu: Ubuntu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ubuntu, "free_bytes", lambda folder: 10 * 2**20)
    assert ensure(ubuntu, NEW, check=True)["refused"].startswith("/boot has less than 100 MiB left")


def test_what_apt_did_not_install_is_an_error(ubuntu: Ubuntu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_kernel.managers.AptKernels, "install", lambda self, packages: None)
    with pytest.raises(GpuOpsError, match=f"linux-image-{NEW}, .* is not there"):
        ensure(ubuntu, NEW)


def test_a_boot_loader_that_cannot_be_told_is_refused_before_any_change(ubuntu: Ubuntu) -> None:
    ubuntu.put("/proc/cmdline", "ro quiet\n")
    refused = ensure(ubuntu, NEW, check=True)["refused"]
    assert refused == wording(
        "Which kernel the next boot uses is not known: This boot did not come from GRUB's menu on the disk (BOOT_IMAGE in /proc/cmdline). Choose the kernel in the way of this host's boot loader, and reboot."
    )


def test_the_red_hat_family(rocky: Rocky) -> None:
    predicted = ensure(rocky, EL_NEW, check=True)
    done = ensure(rocky, EL_NEW)
    assert predicted == done and rocky.default == EL_NEW
    assert done["installs"] == [f"kernel-{part}-{EL_NEW}" for part in ("core", "devel", "modules")] or sorted(
        done["installs"]
    ) == [f"kernel-{part}-{EL_NEW}" for part in ("core", "devel", "modules")]
    assert (done["way_back"], done["next_boot"]) == (EL_OLD, EL_NEW)
    assert ensure(rocky, EL_NEW)["changed"] is False
    back = ensure(rocky, EL_OLD, headers="ignored")
    assert (back["changed"], back["next_boot"], rocky.default) == (True, EL_OLD, EL_OLD)


def test_latest_on_the_red_hat_family(rocky: Rocky) -> None:
    assert ensure(rocky, "latest", check=True)["release"] == EL_NEW
