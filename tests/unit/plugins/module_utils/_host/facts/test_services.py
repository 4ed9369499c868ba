# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.services import (
    ROLE_FILES,
    files,
    services,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost, recorded

DPKG = recorded("packages/dpkg-ubuntu-22.04.txt")
RPM = recorded("packages/rpm-rocky-9.txt")
UNITS = recorded("systemd/ubuntu-22.04.txt")


def test_services_of_ubuntu(tmp_path: Path) -> None:
    section = services(FakeHost(tmp_path), Output(DPKG), Output(UNITS), "570.158.01")
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
            "matches_driver": None,
        },
    }
    assert section.sources["imex"] == {"source": "systemd, packages", "reason": None}


def test_services_of_rocky_with_another_driver_and_without_systemd(tmp_path: Path) -> None:
    section = services(FakeHost(tmp_path), Output(RPM), Output(error="systemctl is not installed"), "580.95.05")
    assert section.facts["fabric_manager"] == {
        "package": "nvidia-fabricmanager",
        "version": "580.82.07",
        "active": None,
        "enabled": None,
        "matches_driver": False,
    }
    assert section.facts["imex"]["matches_driver"] is False
    assert section.facts["persistenced"]["package"] == "nvidia-persistenced"
    # NVLSM has its own versions.
    assert section.facts["nvlsm"] == {
        "package": "nvlsm",
        "version": "2025.06.11",
        "active": None,
        "enabled": None,
        "matches_driver": None,
    }
    assert section.sources["nvlsm"] == {"source": None, "reason": "systemctl is not installed"}


def test_nvlsm_is_active_if_the_fabric_manager_has_started_it(tmp_path: Path) -> None:
    write(tmp_path / "proc/512/comm", "nvlsm\n")
    assert services(FakeHost(tmp_path), Output(RPM), Output(UNITS), None).facts["nvlsm"]["active"] is True


def test_the_files_of_the_roles_are_whole_texts_or_null(tmp_path: Path) -> None:
    write(tmp_path / ROLE_FILES["imex_nodes"][1:], "10.0.0.1\n10.0.0.2\n\n")
    section = files(FakeHost(tmp_path))
    assert section.facts == {**dict.fromkeys(ROLE_FILES), "imex_nodes": "10.0.0.1\n10.0.0.2\n\n"}
    assert section.sources["imex_nodes"] == {"source": "/etc/nvidia-imex/nodes_config.cfg", "reason": None}
    assert section.sources["change"] == {
        "source": None,
        "reason": "/var/lib/gpuops/change.json does not exist, or cannot be read",
    }
