# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.services import (
    package_query,
    parse_packages,
    parse_units,
    services,
    unit_query,
    upstream_version,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from lab.nvml.tree import write
from tests.unit.recorded_host import RecordedHost, recorded

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


def test_services_of_ubuntu(tmp_path: Path) -> None:
    section = services(RecordedHost(tmp_path), Output(DPKG), Output(UNITS), "570.158.01")
    nothing = {"package": None, "version": None, "active": False, "enabled": False, "matches_driver": None}
    assert section.facts == {
        "fabric_manager": {
            "package": "nvidia-fabricmanager-570",
            "version": "570.158.01",
            "active": True,
            "enabled": True,
            "matches_driver": True,
        },
        "nvlsm": nothing,
        "imex": nothing,
        "persistenced": {
            "package": "nvidia-compute-utils-570-server",
            "version": "570.158.01",
            "active": True,
            "enabled": True,
            "matches_driver": True,
        },
    }
    assert section.sources["imex"] == {"source": "systemd, packages", "reason": None}


def test_services_of_rocky_with_another_driver_and_without_systemd(tmp_path: Path) -> None:
    section = services(RecordedHost(tmp_path), Output(RPM), Output(error="systemctl is not installed"), "580.95.05")
    assert section.facts["fabric_manager"] == {
        "package": "nvidia-fabricmanager",
        "version": "580.82.07",
        "active": None,
        "enabled": None,
        "matches_driver": False,
    }
    assert section.facts["imex"]["matches_driver"] is False
    assert section.facts["persistenced"]["package"] == "nvidia-persistenced"
    # NVLSM has versions of its own.
    assert section.facts["nvlsm"] == {
        "package": "nvlsm",
        "version": "2025.06.11",
        "active": None,
        "enabled": None,
        "matches_driver": None,
    }
    assert section.sources["nvlsm"] == {"source": None, "reason": "systemctl is not installed"}


def test_nvlsm_runs_below_the_fabric_manager(tmp_path: Path) -> None:
    write(tmp_path / "proc/512/comm", "nvlsm\n")
    assert services(RecordedHost(tmp_path), Output(RPM), Output(UNITS), None).facts["nvlsm"]["active"] is True


def test_units() -> None:
    assert parse_units(UNITS)["nvidia-persistenced.service"] == {
        "Id": "nvidia-persistenced.service",
        "LoadState": "loaded",
        "ActiveState": "active",
        "UnitFileState": "static",
    }
    assert parse_units("") == {}


def test_one_question_for_all_packages_and_one_for_all_units(tmp_path: Path) -> None:
    host = RecordedHost(
        tmp_path,
        dpkg_query=Output(DPKG, "dpkg-query: no packages found matching nvlsm*", "dpkg-query ended with 1"),
        systemctl=UNITS,
    )
    assert package_query(host).ok
    assert unit_query(host).ok
    assert [command[0] for command in host.ran] == ["dpkg-query", "systemctl"]
    assert package_query(
        RecordedHost(
            tmp_path, dpkg_query=Output("", "dpkg-query: no packages found matching x", "dpkg-query ended with 1")
        )
    ).ok
    assert package_query(
        RecordedHost(tmp_path, dpkg_query=Output("", "", "dpkg-query did not answer within 10 s"))
    ).error
    assert package_query(RecordedHost(tmp_path, rpm=RPM)).stdout == RPM
    assert package_query(RecordedHost(tmp_path)).error == "rpm is not installed"
