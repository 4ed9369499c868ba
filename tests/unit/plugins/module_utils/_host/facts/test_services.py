# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.services import (
    PERSISTENCED_UNIT,
    ROLE_FILES,
    files,
    persistenced_dropin,
    services,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from inline_snapshot import snapshot as wording

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
    absent = dict.fromkeys([*ROLE_FILES, "persistenced_needs"])
    assert section.facts == {**absent, "imex_nodes": "10.0.0.1\n10.0.0.2\n\n", "restarts": []}
    assert section.sources["imex_nodes"] == {"source": "/etc/nvidia-imex/nodes_config.cfg", "reason": None}
    assert section.sources["change"] == {
        "source": None,
        "reason": wording("/var/lib/gpuops/change.json does not exist, or cannot be read"),
    }


def test_the_unit_of_the_persistence_daemon_is_there_as_what_it_needs(tmp_path: Path) -> None:
    unit = recorded("systemd/nvidia-persistenced-ubuntu.service")
    write(tmp_path / PERSISTENCED_UNIT[1:], unit)
    section = files(FakeHost(tmp_path))
    assert section.facts["persistenced_needs"] == persistenced_dropin(unit) != ""
    assert section.sources["persistenced_needs"] == {"source": PERSISTENCED_UNIT, "reason": None}
    write(tmp_path / PERSISTENCED_UNIT[1:], recorded("systemd/nvidia-persistenced-debian.service"))
    assert files(FakeHost(tmp_path)).facts["persistenced_needs"] == "", "It is known to need nothing."


# ---- the unit of the persistence daemon

UNIT_OF_UBUNTU = recorded("systemd/nvidia-persistenced-ubuntu.service")


def test_ubuntus_unit_turns_persistence_mode_on_and_can_be_enabled() -> None:
    assert persistenced_dropin(UNIT_OF_UBUNTU).splitlines()[1:] == [
        "[Unit]",
        "StopWhenUnneeded=no",
        "",
        "[Service]",
        "ExecStart=",
        "ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]


def test_debians_unit_needs_no_drop_in() -> None:
    assert persistenced_dropin(recorded("systemd/nvidia-persistenced-debian.service")) == ""


@pytest.mark.parametrize(
    ("unit", "sections"),
    [
        (UNIT_OF_UBUNTU + "[Install]\nWantedBy=multi-user.target\n", ["[Unit]", "[Service]"]),
        (UNIT_OF_UBUNTU.replace("StopWhenUnneeded=true\n", ""), ["[Service]", "[Install]"]),
        (UNIT_OF_UBUNTU.replace(" --no-persistence-mode", ""), ["[Unit]", "[Install]"]),
        (UNIT_OF_UBUNTU.replace("StopWhenUnneeded=true", "StopWhenUnneeded=false"), ["[Service]", "[Install]"]),
        ("[Service]\n", ["[Install]"]),
    ],
)
def test_only_what_is_wrong_is_changed(unit: str, sections: list[str]) -> None:
    assert [line for line in persistenced_dropin(unit).splitlines() if line.startswith("[")] == sections


@pytest.mark.parametrize(
    ("record", "read"),
    [
        (
            json.dumps({"stage": "\u202eegats", "run": {"machine": "\x1b[2Kx"}}),
            {"stage": "\\u202eegats", "run": {"machine": "\\x1b[2Kx"}},
        ),
        ('{"stage": "drain",  "reasons": ["a"]}', {"stage": "drain", "reasons": ["a"]}),
    ],
)
def test_a_record_has_only_printable_texts_once_it_is_read(tmp_path: Path, record: str, read: dict[str, t.Any]) -> None:
    write(tmp_path / ROLE_FILES["change"][1:], record)
    text = files(FakeHost(tmp_path)).facts["change"]
    assert json.loads(text) == read
    assert text == record or read["stage"] != "drain", "a harmless record stays as it is"


def test_a_record_that_is_no_json_stays_as_it_is(tmp_path: Path) -> None:
    for record in ("{cut", ""):
        write(tmp_path / ROLE_FILES["change"][1:], record)
        assert files(FakeHost(tmp_path)).facts["change"] == record
