# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file of the page."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import store

KEPT = '<script type="application/json" id="state">{}</script>'


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_page_is_written_with_its_folder_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "fleet.html"
    assert store.write(str(path), "page", 0o600, is_new=True, check_mode=False) is True
    assert (path.read_text(), mode(path), os.listdir(path.parent)) == ("page", 0o600, ["fleet.html"])


def test_a_page_that_differs_in_time_alone_is_written_and_no_change(tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    store.write(str(path), "monday", 0o600, is_new=True, check_mode=False)
    assert store.write(str(path), "tuesday", 0o600, is_new=False, check_mode=False) is False
    assert path.read_text() == "tuesday"


def test_other_permissions_are_a_change(tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    store.write(str(path), "page", 0o600, is_new=True, check_mode=False)
    assert store.write(str(path), "page", 0o644, is_new=False, check_mode=False) is True
    assert mode(path) == 0o644


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a" / "fleet.html"
    assert store.write(str(path), "page", 0o600, is_new=True, check_mode=True) is True
    assert os.listdir(tmp_path) == []


def test_a_page_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fleet.html"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.write(str(path), "new", 0o600, is_new=True, check_mode=False)
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["fleet.html"])


@pytest.mark.parametrize("text", ["", "<p>no state</p>", KEPT.format("{broken"), KEPT.format("[" * 100_000)])
def test_a_file_that_is_no_page_has_no_state(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fleet.html"
    path.write_text(text)
    assert store.former_state(str(path)) is None


def test_the_state_of_a_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    assert store.former_state(str(path)) is None
    path.write_bytes(b"\xff" + KEPT.format('{"a": [1]}').encode())
    assert store.former_state(str(path)) == {"a": [1]}


@pytest.mark.parametrize(("text", "expected"), [("0600", 0o600), ("640", 0o640)])
def test_permissions_are_octal(text: str, expected: int) -> None:
    assert store.mode_of(text) == expected


@pytest.mark.parametrize("text", ["u+rwx", "384", "6000", ""])
def test_other_permissions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="octal number in quotes"):
        store.mode_of(text)
