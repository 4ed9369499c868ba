# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import boot_loader
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.boot_loader import Record
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.grub import GrubDropIn
from inline_snapshot import snapshot as wording

from tests.unit.fakes.boot_host import debian


def test_the_last_of_equal_arguments_is_removed() -> None:
    assert boot_loader.remove_arguments(["a", "b", "a"], ["a"]) == ["a", "b"]
    assert boot_loader.remove_arguments(["a", "b"], ["a", "a", "c"]) == ["b"]


def test_an_argument_is_missing_unless_every_entry_has_it() -> None:
    assert boot_loader.missing_arguments([["a", "b"], ["a"]], ["a", "b"]) == ["b"]


def test_a_killed_run_may_have_left_the_old_and_the_new_arguments() -> None:
    assert Record(args=["a", "b"], pending=True, previous=["b", "c"]).current_and_previous == ["a", "b", "c"]


def test_a_change_needs_one_mebibyte_in_every_folder_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = GrubDropIn(debian(tmp_path), "gpuops")
    asked = []
    monkeypatch.setattr(loader.host, "free_bytes", lambda folder: asked.append(folder) or 1_048_576)
    loader.assert_possible(Record(), [], ["a"])
    assert asked == ["/boot/grub"]  # /etc/default/grub.d does not exist yet
    monkeypatch.setattr(loader.host, "free_bytes", lambda folder: 1_048_575)
    with pytest.raises(GpuOpsError) as error:
        loader.assert_possible(Record(), [], ["a"])
    assert error.value.reason == "NoSpace"
    assert error.value.msg == wording(
        "/boot/grub is on a full file system, so the kernel arguments are left as they are. Remove kernels that are no longer used."
    )
