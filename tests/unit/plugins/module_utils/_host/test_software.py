# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.software import (
    InstalledPackage,
    is_active,
    package_query,
    parse_packages,
    parse_rows,
    parse_units,
    unit_query,
    upstream_version,
)

from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost, recorded

DPKG = recorded("packages/dpkg-ubuntu-22.04.txt")
RPM = recorded("packages/rpm-rocky-9.txt")
UNITS = recorded("systemd/ubuntu-22.04.txt")


@pytest.mark.parametrize(
    ("version", "upstream"),
    [
        ("570.158.01-0ubuntu0.22.04.1", "570.158.01"),
        ("5:28.1.1-1~ubuntu.22.04~jammy", "28.1.1"),
        ("(none):580.82.07-1", "580.82.07"),
        ("3:580.82.07-1.el9", "580.82.07"),
        ("1.7.27", "1.7.27"),
    ],
)
def test_versions_as_upstream_writes_them(version: str, upstream: str) -> None:
    assert upstream_version(version) == upstream


def test_packages_that_are_not_installed_do_not_count() -> None:
    assert parse_packages(DPKG) == {
        "containerd.io": "1.7.27",
        "docker-ce": "28.1.1",
        "nvidia-compute-utils-570-server": "570.158.01",
        "nvidia-fabricmanager-570": "570.158.01",
    }


def test_units() -> None:
    assert parse_units(UNITS)["nvidia-persistenced.service"] == {
        "Id": "nvidia-persistenced.service",
        "LoadState": "loaded",
        "ActiveState": "active",
        "UnitFileState": "static",
    }
    assert is_active(parse_units(UNITS), "nvidia-persistenced.service")
    assert not is_active(parse_units(UNITS), "unknown.service")
    assert parse_units("") == {}


def test_one_command_lists_all_packages_and_one_all_units(tmp_path: Path) -> None:
    host = FakeHost(
        tmp_path,
        dpkg_query=Output(DPKG, "dpkg-query: no packages found matching nvlsm*", "dpkg-query ended with 1"),
        systemctl=UNITS,
    )
    assert package_query(host, ["nvidia-*", "nvlsm*"]).ok
    assert unit_query(host, ["nvlsm.service"]).ok
    assert [command[0] for command in host.ran] == ["dpkg-query", "systemctl"]
    assert [command[-1] for command in host.ran] == ["nvlsm*", "nvlsm.service"]


def test_a_pattern_that_matches_no_package_is_not_an_error(tmp_path: Path) -> None:
    nothing = Output("", "dpkg-query: no packages found matching x", "dpkg-query ended with 1")
    assert package_query(FakeHost(tmp_path, dpkg_query=nothing), ["x"]).ok
    late = Output("", "", "dpkg-query did not answer within 10 s")
    assert package_query(FakeHost(tmp_path, dpkg_query=late), ["x"]).error


def test_a_debian_with_rpm_asks_dpkg(tmp_path: Path) -> None:
    write(tmp_path / "etc/debian_version", "12.11\n")
    assert package_query(FakeHost(tmp_path, rpm=RPM, dpkg_query=DPKG), ["x"]).stdout == DPKG


def test_the_makers_of_packages() -> None:
    assert parse_rows(DPKG)["nvidia-fabricmanager-570"] == InstalledPackage(
        "570.158.01", "Ubuntu Core Developers <ubuntu-devel-discuss@lists.ubuntu.com>"
    )
    assert parse_rows(RPM)["nvidia-imex"] == InstalledPackage("580.82.07", "(none)")


def test_rpm_without_dpkg(tmp_path: Path) -> None:
    assert package_query(FakeHost(tmp_path, rpm=RPM), ["x"]).stdout == RPM
    # EPEL has a dpkg, which knows no package.
    assert package_query(FakeHost(tmp_path, rpm=RPM, dpkg_query=""), ["x"]).stdout == RPM
    assert package_query(FakeHost(tmp_path), ["x"]).error == "rpm is not installed"
