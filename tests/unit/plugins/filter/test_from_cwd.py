# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.filter.from_cwd import FilterModule

from_cwd = FilterModule().filters()["from_cwd"]


@pytest.mark.parametrize("path", ["reports/gpu.xml", "./reports/gpu.xml", "x/../reports/gpu.xml"])
def test_a_relative_path(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert from_cwd(path) == f"{tmp_path}/reports/gpu.xml"


@pytest.mark.parametrize(
    "value",
    ["", "/reports/gpu.xml", "~/kubeconfig", "apiVersion: v1\nkind: Config\n", '{"kind": "Config"}', None, {}, 3],
)
def test_anything_else_stays(value: t.Any) -> None:
    assert from_cwd(value) == value
