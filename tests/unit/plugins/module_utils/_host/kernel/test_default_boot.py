# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel import default_boot
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost, recorded
from tests.unit.plugins.module_utils._host.kernel.conftest import EL_NEW, NEW, OLD, Rocky, Ubuntu


@pytest.fixture
def both(ubuntu: Ubuntu) -> Ubuntu:
    """An Ubuntu host with two kernels, of which the newer one boots."""
    ubuntu.put(f"/boot/vmlinuz-{NEW}", "kernel")
    ubuntu.commands["update-grub"]([])  # type: ignore[operator]
    return ubuntu


def test_an_older_kernel_is_chosen_by_the_ids_of_its_entry(both: Ubuntu) -> None:
    assert default_boot.boots(both) == NEW and default_boot.choose(both, NEW) is False
    assert default_boot.choose(both, OLD) is True
    assert default_boot.boots(both) == OLD and default_boot.choose(both, OLD) is False


def test_an_entry_without_an_id_is_named_by_its_title(tmp_path: t.Any) -> None:
    host = FakeHost(tmp_path)
    host.put("/boot/grub/grub.cfg", recorded("debian-12/boot/grub/grub.cfg"))
    assert default_boot.entry_of(host, "6.1.0-18-amd64") == (
        "gnulinux-advanced-9b1d>Debian GNU/Linux, with Linux 6.1.0-18-amd64"
    )
    assert default_boot.entry_of(host, "6.1.0-25-amd64") == "gnulinux-simple-9b1d"


def test_a_kernel_without_an_entry_is_an_error(both: Ubuntu) -> None:
    with pytest.raises(GpuOpsError) as error:
        default_boot.entry_of(both, "6.0")
    assert error.value.reason == "BootLoader"
    assert error.value.msg == wording(
        "/boot/grub/grub.cfg has no entry for the kernel 6.0. Run update-grub and look at its output."
    )


def test_a_menu_that_cannot_be_read_is_an_error(both: Ubuntu) -> None:
    both.put("/boot/grub/grub.cfg", "menuentry {\n")
    with pytest.raises(GpuOpsError, match="cannot be read"):
        default_boot.entry_of(both, OLD)


def test_a_failure_of_update_grub_leaves_the_choice_as_it_was(both: Ubuntu) -> None:
    both.failure_of_grub = "no space left"
    with pytest.raises(GpuOpsError, match="no space left"):
        default_boot.choose(both, OLD)
    assert not both.exists(default_boot.DROP_IN)
    both.failure_of_grub = ""
    default_boot.choose(both, OLD)
    before = both.read(default_boot.DROP_IN)
    both.failure_of_grub = "no space left"
    with pytest.raises(GpuOpsError, match="no space left"):
        default_boot.choose(both, NEW)
    assert both.read(default_boot.DROP_IN) == before


def test_a_boot_loader_that_does_not_obey_is_an_error(both: Ubuntu) -> None:
    both.commands["update-grub"] = ""
    with pytest.raises(GpuOpsError, match=r"still say 6\.8\.0-60-generic") as e:
        default_boot.choose(both, OLD)
    assert e.value.reason == "BootLoader"


def test_grubby_chooses_on_the_red_hat_family(rocky: Rocky) -> None:
    rocky.packages.append(f"kernel-core-{EL_NEW}")
    rocky._boot_files()
    assert default_boot.choose(rocky, EL_NEW) and rocky.default == EL_NEW


def test_without_a_boot_loader_that_can_be_told_nothing_is_tried(both: Ubuntu) -> None:
    default_boot.assert_possible(both)
    del both.commands["update-grub"]
    with pytest.raises(GpuOpsError) as e:
        default_boot.assert_possible(both)
    assert e.value.reason == "Unsupported"
    assert e.value.msg == wording(
        "This host boots without GRUB and update-grub (Debian, Ubuntu) and without grubby (the Red Hat family). Choose the kernel in the way of its boot loader, and reboot."
    )
