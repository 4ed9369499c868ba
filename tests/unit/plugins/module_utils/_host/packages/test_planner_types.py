# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import planner_types
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Package,
    Request,
)
from inline_snapshot import snapshot as wording


@pytest.mark.parametrize(
    ("version", "upstream", "branch"),
    [
        ("580.95.05-0ubuntu0.24.04.1", "580.95.05", "580"),
        ("535.216.03-2~bpo12+1", "535.216.03", "535"),
        ("3:580.95.05-1.el9", "580.95.05", "580"),
        ("595.71.05-1ubuntu1", "595.71.05", "595"),
        ("610-2ubuntu1", "610-2ubuntu1", "610-2ubuntu1"),
        ("20220217+3~deb12u1", "20220217+3~deb12u1", "20220217+3~deb12u1"),
    ],
)
def test_the_upstream_version_is_without_epoch_and_revision(version: str, upstream: str, branch: str) -> None:
    assert (planner_types.upstream(version), planner_types.branch_of(version)) == (upstream, branch)


def test_versions_are_sorted_by_their_numbers() -> None:
    offered = tuple(Package("nvidia-smi", version) for version in ("580.95.05-1", "580.105.08-1", "1:580.65.06-1"))
    observed = planner_types.Observed(InstalledDriver(), offered=(*offered, Package("other", "1")))
    assert [package.upstream for package in observed.versions("nvidia-smi")] == ["580.105.08", "580.95.05", "580.65.06"]


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (
            InstalledDriver(True, "ubuntu-signed", "580.95.05"),
            wording("the driver 580.95.05 of Ubuntu's archive with signed modules"),
        ),
        (
            InstalledDriver(True, "nvidia", "580.95.05", system="DGX OS 7.1.0"),
            "the driver 580.95.05 of NVIDIA's repository (DGX OS 7.1.0)",
        ),
        (InstalledDriver(True, "runfile"), "the driver of unknown version of a .run installer"),
        (InstalledDriver(True, "unknown", "1.2"), "the driver 1.2 of unknown origin"),
    ],
)
def test_a_driver_is_named_with_its_origin(driver: InstalledDriver, words: str) -> None:
    assert driver.described == words


@pytest.mark.parametrize(
    ("fabric", "roles"),
    [
        ("none", ["imex", "persistenced", "toolkit"]),
        ("nvswitch", ["fabric_manager", "imex", "persistenced", "toolkit"]),
        ("nvlink5", ["fabric_manager", "nvlsm", "imex", "persistenced", "toolkit"]),
        ("nvl72", ["imex", "persistenced", "toolkit"]),
    ],
)
def test_the_fabric_decides_about_the_companions(fabric: str, roles: list[str]) -> None:
    assert Request(fabric=fabric, imex=True, persistence=True, toolkit=True).roles == roles
    assert Request(fabric="none").roles == []


def test_the_branch_is_part_of_the_version() -> None:
    assert [each.wanted_branch for each in (Request(), Request(branch="580"), Request(version="570.133.20"))] == [
        "",
        "580",
        "570",
    ]


def test_pins_alone_are_nothing_for_the_package_manager() -> None:
    assert planner_types.Transaction(pins={"/a": "b"}).empty
    assert not planner_types.Transaction(remove=("a",)).empty
