# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.filter.service_gaps import FilterModule
from inline_snapshot import snapshot as wording

gaps = FilterModule().filters()["service_gaps"]
FABRIC_MANAGER, PERSISTENCED = "nvidia-fabricmanager.service", "nvidia-persistenced.service"
COMPLETE = {"state": "Completed", "status": "Success", "health": "Healthy"}


def facts(*fabrics: dict[str, t.Any] | None, architecture: str = "Hopper", active: bool = True) -> dict[str, t.Any]:
    return {
        "gpus": [
            {"pci_address": f"0000:{n}8:00.0", "device_id": "10de:2330", "architecture": architecture, "fabric": fabric}
            for n, fabric in enumerate(fabrics, 1)
        ],
        "nvswitches": [{"device_id": "10de:22a3"}],
        "services": {"fabric_manager": {"active": active}},
    }


@pytest.mark.parametrize(
    ("fabric", "problem"),
    [
        (None, "is not known"),
        ({}, "is not known"),
        ({"state": None}, "is not known"),
        ({"state": "In Progress"}, "is In Progress"),
        (COMPLETE | {"status": "Not Found"}, "has the status Not Found"),
        (COMPLETE | {"status": None}, "has the status None"),
        (COMPLETE | {"health": "Unhealthy"}, "is unhealthy"),
    ],
)
def test_unknown_and_failed_fabrics_are_gaps(fabric: dict[str, t.Any] | None, problem: str) -> None:
    assert gaps(facts(COMPLETE, fabric), [FABRIC_MANAGER]) == [f"The fabric of 0000:28:00.0 {problem}."]


def test_a_complete_fabric_has_no_gap() -> None:
    assert gaps(facts(COMPLETE, COMPLETE | {"health": None}), [FABRIC_MANAGER]) == []
    assert gaps(facts(COMPLETE, active=False), [FABRIC_MANAGER]) == [wording("The fabric manager does not run.")]
    assert gaps(facts(None), []) == []


def test_gpus_that_report_no_fabric_need_a_running_fabric_manager() -> None:
    assert gaps(facts(None, architecture="Ampere"), [FABRIC_MANAGER]) == []
    assert gaps(facts(None, architecture="Ampere", active=False), [FABRIC_MANAGER]) != []
    assert gaps(facts(None) | {"nvswitches": []}, [FABRIC_MANAGER]) == []


def test_persistence_mode_must_be_known_to_be_on() -> None:
    found = facts(None, None, None)
    for gpu, mode in zip(found["gpus"], (True, False, None), strict=True):
        gpu["persistence_mode"] = mode
    wanted = [wording("Persistence mode is not known to be on for 0000:28:00.0, 0000:38:00.0.")]
    assert gaps(found, [PERSISTENCED]) == wanted
