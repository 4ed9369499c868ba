# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import boot_loaders

from tests.unit.fakes.boot_host import debian, redhat
from tests.unit.fakes.host import FakeHost


def test_grubby_entries_leave_out_the_rescue_entry() -> None:
    text = (
        'index=0\nkernel="/boot/vmlinuz-5"\nargs="ro a=1"\nroot="x"\n'
        'index=1\nkernel="/boot/vmlinuz-0-rescue-4f"\nargs="ro"\n'
    )
    assert boot_loaders.grubby_entries(text) == [["ro", "a=1"]]


def test_the_last_of_equal_arguments_is_removed() -> None:
    assert boot_loaders.remove_arguments(["a", "b", "a"], ["a"]) == ["a", "b"]
    assert boot_loaders.remove_arguments(["a", "b"], ["a", "a", "c"]) == ["b"]


def test_an_argument_is_missing_unless_every_entry_has_it() -> None:
    assert boot_loaders.missing_arguments([["a", "b"], ["a"]], ["a", "b"]) == ["b"]


def test_each_family_has_its_boot_loader(tmp_path: Path) -> None:
    assert boot_loaders.boot_loader(debian(tmp_path / "debian"), "gpuops").path == "/etc/default/grub.d/zz-gpuops.cfg"
    assert boot_loaders.boot_loader(redhat(tmp_path / "redhat"), "gpuops").path == (
        "/etc/gpuops/kernel_args/gpuops.json"
    )
    with pytest.raises(GpuOpsError, match="No boot loader was found"):
        boot_loaders.boot_loader(FakeHost(tmp_path / "other"), "gpuops")


@pytest.mark.parametrize("missing", ["update-grub", "/etc/default/grub"])
def test_grub_needs_its_command_and_its_defaults(tmp_path: Path, missing: str) -> None:
    host = debian(tmp_path)
    if missing == "update-grub":
        del host.commands["update-grub"]
    else:
        host.remove("/etc/default/grub")
    with pytest.raises(GpuOpsError, match="No boot loader was found that this module can change"):
        boot_loaders.boot_loader(host, "gpuops")
