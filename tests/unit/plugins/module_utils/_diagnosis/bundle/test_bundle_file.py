# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file of a bundle on the controller."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle import bundle_file
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording


def test_only_the_owner_can_read_a_bundle_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "bundle.tar.gz"
    target.write_bytes(b"old")
    target.chmod(0o644)
    assert bundle_file.write(str(target), b"new") is True
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"new", 0o600)
    assert os.listdir(tmp_path) == ["bundle.tar.gz"]


def test_equal_content_is_not_written_again(tmp_path: Path) -> None:
    target = tmp_path / "bundle.tar.gz"
    assert bundle_file.write(str(target), b"same") is True
    before = target.stat().st_mtime_ns
    assert bundle_file.write(str(target), b"same") is False
    assert target.stat().st_mtime_ns == before


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(GpuOpsError) as caught:
        bundle_file.write(str(tmp_path / "missing" / "bundle.tar.gz"), b"x")
    assert caught.value.reason == "NotWritable"
    assert caught.value.msg.replace(str(tmp_path), "TMP") == wording(
        "The bundle TMP/missing/bundle.tar.gz cannot be written: No such file or directory. Set bundle_path to a file in a folder that exists and that you may write to."
    )


def test_a_failure_leaves_the_old_bundle_and_no_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "bundle.tar.gz"
    target.write_bytes(b"old")

    def refuse(source: str, destination: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle_file.os, "replace", refuse)
    with pytest.raises(GpuOpsError) as error:
        bundle_file.write(str(target), b"new")
    assert error.value.reason == "NotWritable"
    assert error.value.msg.replace(str(tmp_path), "TMP") == wording(
        "The bundle TMP/bundle.tar.gz cannot be written: No space left on device. Set bundle_path to a file in a folder that exists and that you may write to."
    )
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]
