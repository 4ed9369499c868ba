# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of Debian's packages, without an installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import programs
from lab.errors import UnavailableError


def test_a_machine_without_the_program_and_without_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="no apt-get to download with"):
        programs.provide("docker-registry")


def test_an_installed_program_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "promtool").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.provide("prometheus", "promtool") == tmp_path / "promtool"
