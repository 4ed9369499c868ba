# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file of a snapshot. tests/unit/plugins/modules/test_operator_snapshot.py runs the whole module."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import keeping
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError


def test_no_name_of_a_release_leads_out_of_the_folder() -> None:
    options = {"folder": "/snapshots", "release_namespace": "../../etc", "release_name": "a/b"}
    path = keeping._path(options, "0123456789abcdef")
    assert path == "/snapshots/.._.._etc.a_b.01234567.json"


def test_only_its_user_can_read_a_snapshot_and_a_draft_does_not_stay(tmp_path: Path) -> None:
    path = tmp_path / "new" / "snapshot.json"
    keeping._write(str(path), {"closed": ""})
    keeping._write(str(path), {"closed": "upgraded"})
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert [found.name for found in path.parent.iterdir()] == ["snapshot.json"]


def test_a_place_that_cannot_be_written_or_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GpuOpsError, match=r"Cannot write the snapshot .*file/snapshot\.json: ") as e:
        keeping._write(str(tmp_path / "file" / "snapshot.json"), {})
    assert e.value.reason == "NotWritable"
    with pytest.raises(GpuOpsError, match=r"Cannot read the snapshot "):
        keeping._read(str(tmp_path), "uid")
    assert keeping._read(str(tmp_path / "none"), "uid") is None
