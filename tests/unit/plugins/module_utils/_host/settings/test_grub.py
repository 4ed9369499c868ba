# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.boot_loader import Record
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.grub import GrubDropIn
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.kernel_args import set_arguments
from inline_snapshot import snapshot as wording

from tests.unit.fakes.boot_host import debian
from tests.unit.fakes.host import FakeHost

MENU = "/boot/grub/grub.cfg"
DROP_IN = "/etc/default/grub.d/zz-gpuops.cfg"
CUSTOM = "menuentry 'Rescue by network' {\n\tlinux /netboot/vmlinuz-6.1 ip=dhcp\n}"


def apply(host: FakeHost, *args: str, **options: t.Any) -> dict[str, t.Any]:
    wanted = {"owner": "gpuops", "iommu": None, "hugepages": {}, "state": "present", "args": list(args)}
    return set_arguments(host, {**wanted, **options}, False)


def overridden(host: FakeHost, *, broken: bool = False) -> None:
    """Let update-grub write a menu with the first wanted argument only. ``broken``: only once, then it fails."""
    update_grub = host.commands["update-grub"]
    runs: list[int] = []

    def partly(command: list[str]) -> str:
        runs.append(1)
        if broken and len(runs) > 1:
            raise OSError("cannot find a device for /")
        update_grub(command)
        host.put(MENU, (host.read(MENU) or "").replace(" nokaslr", "") + "\n")
        return ""

    host.commands["update-grub"] = partly


@pytest.mark.parametrize("earlier", [[], ["init_on_alloc=0"]])
def test_the_menu_is_put_back_with_its_drop_in(tmp_path: Path, earlier: list[str]) -> None:
    host = debian(tmp_path)
    apply(host, *earlier)
    before = [host.read(MENU), host.read(DROP_IN)]
    overridden(host)
    with pytest.raises(GpuOpsError) as error:
        apply(host, *earlier, "iommu=pt", "nokaslr")
    assert error.value.reason == "BootLoader"
    assert error.value.msg == wording(
        "update-grub ran, but /boot/grub/grub.cfg still lacks nokaslr, so the kernel arguments are left as they were. A file that is read after /etc/default/grub.d/zz-gpuops.cfg overrides GRUB_CMDLINE_LINUX_DEFAULT, or /etc/grub.d does not use it."
    )
    assert [host.read(MENU), host.read(DROP_IN)] == before
    assert apply(host, *earlier)["changed"] is False


def test_a_menu_that_cannot_be_put_back_is_put_back_by_the_next_run(tmp_path: Path) -> None:
    host = debian(tmp_path)
    update_grub = host.commands["update-grub"]
    overridden(host, broken=True)
    with pytest.raises(GpuOpsError) as error:
        apply(host, "iommu=pt", "nokaslr")
    assert error.value.reason == "BootLoader"
    assert error.value.msg == wording(
        "/boot/grub/grub.cfg could not be put back, and may have some of the arguments: update-grub ended with 1: cannot find a device for /. Run update-grub before the next boot, or run this again."
    )
    assert "iommu=pt" in (host.read(MENU) or "")

    host.commands["update-grub"] = update_grub
    assert apply(host, state="absent")["changed"] is True
    assert "iommu=pt" not in (host.read(MENU) or "") and not host.exists(DROP_IN)
    assert apply(host, state="absent")["changed"] is False


def test_an_update_that_fails_before_it_writes_is_not_repeated(tmp_path: Path) -> None:
    host = debian(tmp_path)

    def refuse(_command: list[str]) -> str:
        raise OSError("no such device")

    host.commands["update-grub"] = refuse
    with pytest.raises(GpuOpsError, match="update-grub failed"):
        apply(host, "iommu=pt")
    assert host.ran == [["update-grub"]]


def test_entries_by_hand_are_no_obstacle_and_are_named(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.put("/etc/grub.d/40_custom", CUSTOM)
    done = apply(host, "iommu=pt")
    assert (done["changed"], done["entries_without"]) == (True, ["Rescue by network"])
    assert done["configured"][-1] == "iommu=pt"
    again = apply(host, "iommu=pt")
    assert (again["changed"], again["entries_without"]) == (False, ["Rescue by network"])
    assert apply(host, state="absent")["entries_without"] == []


def test_a_menu_without_kernels_is_refused(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.commands["update-grub"] = lambda _command: host.put(MENU, "### BEGIN /etc/grub.d/10_linux ###\n") or ""
    with pytest.raises(GpuOpsError) as error:
        apply(host, "iommu=pt")
    assert error.value.reason == "BootLoader"
    assert error.value.msg == wording(
        "update-grub ran, but /boot/grub/grub.cfg has no entry of a kernel, so the kernel arguments are left as they were. Install a kernel, or set the arguments where this host's kernel comes from."
    )


def test_a_menu_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    host = debian(tmp_path)
    host.put(MENU, "menuentry 'Ubuntu {\n\tlinux /vmlinuz-6.8.0\n}\n")
    with pytest.raises(GpuOpsError) as error:
        apply(host, "iommu=pt")
    assert error.value.reason == "BootLoader"
    assert error.value.msg == wording(
        "The boot menu /boot/grub/grub.cfg cannot be read, so its kernel arguments are left as they are: its script cannot be followed: a quotation mark is not closed. Repair the file of /etc/grub.d that writes this, and run update-grub."
    )
    assert host.ran == [] and not host.exists(DROP_IN)


def test_a_menu_that_update_grub_breaks_is_put_back(tmp_path: Path) -> None:
    host = debian(tmp_path)
    before, update_grub = host.read(MENU), host.commands["update-grub"]

    def broken(command: list[str]) -> str:
        update_grub(command)
        if host.exists(DROP_IN):
            host.put(MENU, f"{host.read(MENU)}\n}}\n")
        return ""

    host.commands["update-grub"] = broken
    with pytest.raises(GpuOpsError) as error:
        apply(host, "iommu=pt")
    assert error.value.reason == "BootLoader"
    assert error.value.msg == wording(
        "The boot menu /boot/grub/grub.cfg cannot be read, so its kernel arguments are left as they are: its script cannot be followed: } is in the wrong place. Repair the file of /etc/grub.d that writes this, and run update-grub."
    )
    assert host.read(MENU) == before and not host.exists(DROP_IN)


def test_a_record_is_pending_until_the_menu_is_written(tmp_path: Path) -> None:
    host = debian(tmp_path)
    loader = GrubDropIn(host, "gpuops")
    assert loader.record() == Record()
    apply(host, "a=1", "b=2")
    assert loader.record() == Record(args=["a=1", "b=2"])

    def killed(_command: list[str]) -> str:
        raise KeyboardInterrupt

    host.commands["update-grub"] = killed
    with pytest.raises(KeyboardInterrupt):
        apply(host, "c=3")
    assert loader.record() == Record(args=["c=3"], pending=True, previous=["a=1", "b=2"])
