# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import grubby
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.boot_loader import Record
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.kernel_args import set_arguments

from tests.unit.fakes.boot_host import redhat
from tests.unit.fakes.host import FakeHost

OLD_ENTRY = "/boot/loader/entries/4f-5.14.0-362.el9.x86_64.conf"


def apply(host: FakeHost, *args: str, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    wanted = {"owner": "gpuops", "iommu": None, "hugepages": {}, "state": "present", "args": list(args)}
    return set_arguments(host, {**wanted, **options}, check)


def configured(host: FakeHost, *args: str, **options: t.Any) -> list[str]:
    """Check, run, and run again: the check predicts the run, and the second run changes nothing."""
    predicted, done = apply(host, *args, check=True, **options), apply(host, *args, **options)
    assert predicted["configured"] == done["configured"]
    assert apply(host, *args, **options)["changed"] is False
    return t.cast("list[str]", done["configured"])


def test_grubby_entries_leave_out_the_rescue_entry() -> None:
    text = (
        'index=0\nkernel="/boot/vmlinuz-5"\nargs="ro a=1"\nroot="x"\n'
        'index=1\nkernel="/boot/vmlinuz-0-rescue-4f"\nargs="ro"\n'
    )
    assert grubby.grubby_entries(text) == [["ro", "a=1"]]


def test_a_list_keeps_the_items_of_others(tmp_path: Path) -> None:
    host = redhat(tmp_path, "ro modprobe.blacklist=usb-storage")
    nouveau = ("modprobe.blacklist=nouveau,nova_core", "rd.driver.blacklist=nouveau")
    assert configured(host, *nouveau) == [
        "ro",
        "modprobe.blacklist=usb-storage,nouveau,nova_core",
        "rd.driver.blacklist=nouveau",
    ]
    assert apply(host, *nouveau)["elsewhere"] == []
    assert configured(host, "modprobe.blacklist=nouveau") == ["ro", "modprobe.blacklist=usb-storage,nouveau"]
    assert configured(host, "nokaslr") == ["ro", "modprobe.blacklist=usb-storage", "nokaslr"]
    assert configured(host, state="absent") == ["ro", "modprobe.blacklist=usb-storage"]


def test_an_item_that_others_have_set_too_stays(tmp_path: Path) -> None:
    """NVIDIA's packages set modprobe.blacklist=nouveau,nova_core themselves."""
    host = redhat(tmp_path, "ro modprobe.blacklist=nouveau,nova_core")
    assert configured(host, "modprobe.blacklist=nouveau,nova_drm") == [
        "ro",
        "modprobe.blacklist=nouveau,nova_core,nova_drm",
    ]
    assert json.loads(host.read("/etc/gpuops/kernel_args/gpuops.json") or "")["replaced"] == [
        "modprobe.blacklist=nouveau"
    ]
    assert configured(host, state="absent") == ["ro", "modprobe.blacklist=nouveau,nova_core"]


def test_two_owners_share_a_list(tmp_path: Path) -> None:
    host = redhat(tmp_path, "ro")
    apply(host, "modprobe.blacklist=nouveau")
    both = configured(host, "modprobe.blacklist=vfio", owner="other")
    assert both == ["ro", "modprobe.blacklist=nouveau,vfio"]
    assert apply(host, "modprobe.blacklist=nouveau")["changed"] is False
    assert configured(host, state="absent") == ["ro", "modprobe.blacklist=vfio"]
    assert configured(host, state="absent", owner="other") == ["ro"]


def test_a_list_that_differs_between_entries_becomes_the_same_in_all(tmp_path: Path) -> None:
    host = redhat(tmp_path, "ro modprobe.blacklist=usb-storage")
    host.put(OLD_ENTRY, (host.read(OLD_ENTRY) or "").replace("usb-storage", "floppy"))
    configured(host, "modprobe.blacklist=nouveau")
    assert "modprobe.blacklist=usb-storage,floppy,nouveau" in (host.read(OLD_ENTRY) or "")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("present", "wanted", "displaced"),
    [
        ("console=tty0 console=ttyS0,115200", "console=ttyS1", "console=tty0 console=ttyS0,115200"),
        ("console=tty0", "console=ttyS0", "console=tty0"),
        ("crashkernel=1G,high crashkernel=256M,low", "crashkernel=512M", "crashkernel=1G,high crashkernel=256M,low"),
    ],
)
def test_arguments_that_count_more_than_once_are_never_displaced(
    tmp_path: Path, check: bool, present: str, wanted: str, displaced: str
) -> None:
    host = redhat(tmp_path, f"ro {present}")
    before = host.read(OLD_ENTRY)
    with pytest.raises(GpuOpsError, match=f"remove {displaced}, which others") as error:
        apply(host, wanted, check=check)
    assert error.value.reason == "Unsupported"
    assert host.read(OLD_ENTRY) == before and not host.exists("/etc/gpuops/kernel_args/gpuops.json")


def test_a_console_that_nobody_else_has_set_can_be_set_and_changed(tmp_path: Path) -> None:
    host = redhat(tmp_path, "ro crashkernel=1G")
    assert configured(host, "console=ttyS0", "crashkernel=512M") == ["ro", "console=ttyS0", "crashkernel=512M"]
    assert configured(host, "console=ttyS1") == ["ro", "crashkernel=1G", "console=ttyS1"]
    assert configured(host, state="absent") == ["ro", "crashkernel=1G"]


def test_the_replaced_value_is_that_of_the_newest_kernel(tmp_path: Path) -> None:
    host = redhat(tmp_path, "ro iommu=off")
    host.put(OLD_ENTRY, (host.read(OLD_ENTRY) or "").replace("iommu=off", "iommu=soft"))
    configured(host, "iommu=pt")
    assert configured(host, state="absent") == ["ro", "iommu=off"]


def test_a_host_without_entries_has_nothing_to_replace(tmp_path: Path) -> None:
    loader = grubby.Grubby(FakeHost(tmp_path), "gpuops")
    assert loader.predict(["ro"], Record(), [], ["a=1"]) == ["ro", "a=1"]
