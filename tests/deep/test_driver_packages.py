# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module driver_packages on three releases of Debian, with all of their packages: DKMS, firmware, open modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hosts import running_release
from tests.support.real_packages import Release

pytestmark = pytest.mark.deep


@pytest.mark.parametrize(
    ("suite", "branch", "newer"),
    [("bookworm", "470", "535"), ("trixie", "535", "550"), ("sid", "470", "535"), ("sid", "535", "550")],
)
def test_a_branch_gives_way_to_another_and_comes_back(suite: str, branch: str, newer: str, tmp_path: Path) -> None:
    with running_release("driver", suite) as hosts:
        release = Release(hosts, tmp_path)
        first = release.driver(branch=branch, flavour="proprietary")
        assert first["wanted"]["branch"] == branch, first
        before = release.versions()
        assert before[f"nvidia-tesla-{branch}-smi"] == first["wanted"]["version"]
        assert release.driver()["former"]["version"] == first["wanted"]["version"]
        assert release.versions() == before

        flavour = "proprietary" if (suite, newer) == ("sid", "535") else "open"
        changed = release.driver(branch=newer, flavour=flavour, replace=True)
        assert changed["wanted"]["branch"] == newer and changed["former"]["flavour"] == "proprietary", changed
        assert not [name for name in release.versions() if f"-{branch}-" in name]
        if flavour == "open":
            assert release.versions()["nvidia-open-kernel-dkms"] == changed["wanted"]["version"]

        restored = release.driver(state="restored", former=changed["former"])
        assert restored["action"] == "restore", restored
        assert {name: release.versions().get(name) for name in before} == before

        removed = release.driver(state="absent")
        assert removed["action"] == "remove", removed
        assert release.versions() == {}
        assert release.driver(state="absent")["changed"] is False
