# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.filter.fabric_plan import FilterModule, fabric_plan

NOTHING = {"package": None, "version": None, "active": False, "enabled": False, "matches_driver": None}
A100 = "10de:20b2"
L40S = "10de:26b9"
H100 = "10de:2330"
B200 = "10de:2901"
GB200 = "10de:2941"
SWITCH = "10de:22a3"
CONNECTX = "15b3:1021"


def facts(
    gpu: str, *switches: str, version: str | None = "580.95.05", containerised: bool = False, **services: t.Any
) -> dict[str, t.Any]:
    return {
        "gpus": [{"device_id": gpu}] * 8,
        "nvswitches": [{"device_id": switch} for switch in switches],
        "driver": {"version": version, "containerised": containerised},
        "services": {
            name: {**NOTHING, **services.get(name, {})} for name in ("fabric_manager", "nvlsm", "imex", "persistenced")
        },
    }


def running(version: str) -> dict[str, t.Any]:
    return {
        "package": "nvidia-fabricmanager-580",
        "version": version,
        "active": True,
        "enabled": True,
        "matches_driver": version == "580.95.05",
    }


@pytest.mark.parametrize(
    ("given", "fabric", "missing", "units"),
    [
        (facts(L40S), "none", [], []),
        (facts(A100, SWITCH), "nvswitch", ["fabric_manager"], ["nvidia-fabricmanager.service"]),
        (facts(H100, SWITCH, fabric_manager=running("580.95.05")), "nvswitch", [], ["nvidia-fabricmanager.service"]),
        (
            facts(H100, SWITCH, fabric_manager=running("580.65.06")),
            "nvswitch",
            ["fabric_manager"],
            ["nvidia-fabricmanager.service"],
        ),
        (facts(B200), "nvlink5", ["fabric_manager", "nvlsm"], ["nvidia-fabricmanager.service"]),
        (facts("10de:ffff", CONNECTX), "nvlink5", ["fabric_manager", "nvlsm"], ["nvidia-fabricmanager.service"]),
        (facts(GB200), "nvl72", ["imex"], ["nvidia-imex.service"]),
    ],
)
def test_the_hardware_determines_the_services(
    given: dict[str, t.Any], fabric: str, missing: list[str], units: list[str]
) -> None:
    plan = FilterModule().filters()["fabric_plan"](given)
    assert (plan["fabric"], plan["missing"], plan["services"], plan["conflicts"], plan["failure"]) == (
        fabric,
        missing,
        units,
        [],
        "",
    )


def test_a_package_may_have_several_names() -> None:
    packages = fabric_plan(facts(B200))["packages"]
    assert packages["fabric_manager"] == ["nvidia-fabricmanager-580", "nvidia-fabricmanager", "nvidia-fabric-manager"]
    assert packages["nvlsm"] == ["nvlsm"]
    assert fabric_plan(facts(GB200))["packages"]["imex"] == ["nvidia-imex-580", "nvidia-imex"]


def test_a_fabric_needs_a_loaded_driver() -> None:
    assert "Install the driver and reboot first" in fabric_plan(facts(H100, SWITCH, version=None))["failure"]
    assert fabric_plan(facts(L40S, version=None))["failure"] == ""


@pytest.mark.parametrize("how", [{"driver": "container"}, {"containerised": True}])
def test_services_of_the_host_conflict_with_a_driver_container(how: dict[str, t.Any]) -> None:
    driver = how.pop("driver", "host")
    plan = fabric_plan(
        facts(H100, SWITCH, fabric_manager=running("580.95.05"), persistenced={"active": True}, **how), driver
    )
    # The persistence daemon has no package on the host, so it runs in the container.
    assert (plan["conflicts"], plan["services"], plan["missing"]) == (["nvidia-fabricmanager.service"], [], [])
    assert fabric_plan(facts(H100, SWITCH), "container")["conflicts"] == []
