# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.filter.persistenced_dropin import FilterModule

from tests.unit.fakes.host import recorded

dropin = FilterModule().filters()["persistenced_dropin"]
UBUNTU = recorded("systemd/nvidia-persistenced-ubuntu.service")


def test_ubuntus_unit_turns_persistence_mode_on_and_can_be_enabled() -> None:
    assert dropin(UBUNTU).splitlines()[1:] == [
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
    assert dropin(recorded("systemd/nvidia-persistenced-debian.service")) == ""


@pytest.mark.parametrize(
    ("unit", "sections"),
    [
        (UBUNTU + "[Install]\nWantedBy=multi-user.target\n", ["[Unit]", "[Service]"]),
        (UBUNTU.replace("StopWhenUnneeded=true\n", ""), ["[Service]", "[Install]"]),
        (UBUNTU.replace(" --no-persistence-mode", ""), ["[Unit]", "[Install]"]),
        (UBUNTU.replace("StopWhenUnneeded=true", "StopWhenUnneeded=false"), ["[Service]", "[Install]"]),
        ("[Service]\n", ["[Install]"]),
    ],
)
def test_only_what_is_wrong_is_changed(unit: str, sections: list[str]) -> None:
    assert [line for line in dropin(unit).splitlines() if line.startswith("[")] == sections
