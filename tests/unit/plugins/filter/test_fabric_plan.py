# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.filter.fabric_plan import FilterModule, fabric_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.restarts import RESTART_MARKS
from inline_snapshot import snapshot as wording

NOTHING = {"package": None, "version": None, "active": False, "enabled": False, "matches_driver": None}
A100, L40S, H100, B200, GB200 = "10de:20b2", "10de:26b9", "10de:2330", "10de:2901", "10de:2941"
SWITCH, CONNECTX = "10de:22a3", "15b3:1021"
VERSION = "580.95.05"
FABRIC_MANAGER, IMEX, PERSISTENCED = (
    "nvidia-fabricmanager.service",
    "nvidia-imex.service",
    "nvidia-persistenced.service",
)


def facts(gpu: str, *switches: str, services: dict[str, t.Any] | None = None, **driver: t.Any) -> dict[str, t.Any]:
    known = {"loaded": True, "version": VERSION, "installed_version": VERSION, "containerised": False}
    names = ("fabric_manager", "nvlsm", "imex", "persistenced")
    return {
        "gpus": [{"device_id": gpu}] * 8,
        "nvswitches": [{"device_id": switch} for switch in switches],
        "driver": known | driver,
        "services": {name: NOTHING | (services or {}).get(name, {}) for name in names},
    }


def installed(package: str, version: str = VERSION, **more: t.Any) -> dict[str, t.Any]:
    return {"package": package, "version": version, "matches_driver": version == VERSION} | more


MANAGER = {"fabric_manager": installed("nvidia-fabricmanager-580")}
BARE = {"loaded": False, "version": None, "installed_version": None}
RACK = {"imex": installed("nvidia-imex", active=True)}


@pytest.mark.parametrize(
    ("given", "fabric", "run", "lacking"),
    [
        (facts(L40S), "none", [], []),
        (facts(A100, SWITCH), "nvswitch", [], ["fabric_manager"]),
        (facts(H100, SWITCH, services=MANAGER), "nvswitch", [FABRIC_MANAGER], []),
        (facts(B200, CONNECTX, services=MANAGER), "nvlink5", [FABRIC_MANAGER], ["nvlsm"]),
        (facts(GB200, services=RACK), "nvl72", [], []),
        (facts(L40S, services={"persistenced": installed("nvidia-persistenced")}), "none", [PERSISTENCED], []),
    ],
)
def test_the_hardware_determines_the_services(
    given: dict[str, t.Any], fabric: str, run: list[str], lacking: list[str]
) -> None:
    plan = FilterModule().filters()["fabric_plan"](given)
    assert plan["marks"] == RESTART_MARKS
    found = (plan["fabric"], plan["run"], plan["start"], plan["lacking"], plan["failure"])
    assert found == (fabric, run, run, lacking, "")


def test_what_does_not_belong_to_the_loaded_driver_starts_after_the_reboot() -> None:
    for driver in (BARE, {"installed_version": "580.105.08"}):
        new = {"fabric_manager": installed("nvidia-fabricmanager", "580.105.08")}
        plan = fabric_plan(facts(H100, SWITCH, services=new, **driver))
        assert (plan["run"], plan["start"], plan["failure"]) == ([FABRIC_MANAGER], [], "")


@pytest.mark.parametrize("driver", [BARE, {"installed_version": "580.105.08"}, {"matches": False}])
def test_persistence_mode_waits_for_the_reboot_too(driver: dict[str, t.Any]) -> None:
    """The unit of change would otherwise wait for a driver that cannot answer, before the reboot that cures it."""
    daemon = {"persistenced": installed("nvidia-persistenced", "580.105.08", matches_driver=None)}
    plan = fabric_plan(facts(H100, services=daemon, **driver), persistence=True)
    assert (plan["run"], plan["start"], plan["failure"]) == (["nvidia-persistenced.service"], [], "")


def test_a_fabric_manager_of_another_version_than_the_only_driver_is_a_failure() -> None:
    old = {"fabric_manager": installed("nvidia-fabricmanager-580", "580.65.06")}
    failure = fabric_plan(facts(H100, SWITCH, services=old))["failure"]
    assert "runs the driver 580.95.05, and nvidia-fabricmanager-580 580.65.06 serves another one" in failure


@pytest.mark.parametrize(
    ("nodes", "listed", "run", "mask", "interrupts"),
    [
        ([], "", [], [IMEX], [wording("nvidia-imex.service is stopped, because IMEX is left to compute domains.")]),
        (["192.0.2.1"], "192.0.2.1\n", [IMEX], [], []),
        (
            ["192.0.2.1"],
            "",
            [IMEX],
            [],
            [wording("nvidia-imex.service is restarted, because the list of trays changes.")],
        ),
    ],
)
def test_imex_runs_on_the_host_or_is_left_to_compute_domains(
    nodes: list[str], listed: str, run: list[str], mask: list[str], interrupts: list[str]
) -> None:
    plan = fabric_plan(facts(GB200, services=RACK), "host", nodes, listed)
    assert (plan["run"], plan["mask"], plan["interrupts"]) == (run, mask, interrupts)
    idle = {"imex": installed("nvidia-imex")}
    assert fabric_plan(facts(GB200, services=idle), "host", nodes, listed)["interrupts"] == []


def test_without_persistence_the_daemon_is_disabled_and_not_masked() -> None:
    daemon = {"persistenced": installed("nvidia-persistenced", active=True)}
    plan = fabric_plan(facts(L40S, services=daemon), persistence=False)
    assert (plan["run"], plan["mask"], plan["disable"]) == ([], [], [PERSISTENCED])
    assert fabric_plan(facts(L40S), persistence=False)["disable"] == []


RUNNING = {"fabric_manager": MANAGER["fabric_manager"] | {"active": True, "enabled": True}}


def test_a_container_source_leaves_the_services_of_a_loaded_host_driver_alone() -> None:
    """Stopping the fabric manager of a running driver ends every CUDA job on the host."""
    plan = fabric_plan(facts(H100, SWITCH, services=RUNNING), "container")
    assert "runs its own driver 580.95.05, which needs nvidia-fabricmanager.service" in plan["failure"]
    assert (plan["mask"], plan["disable"], plan["interrupts"]) == ([], [], [])
    assert fabric_plan(facts(H100, SWITCH), "container")["failure"] == ""


@pytest.mark.parametrize(
    ("source", "driver", "interrupts"),
    [("container", BARE, 0), ("container", {"containerised": True}, 1), ("host", {"containerised": True}, 1)],
)
def test_services_of_the_host_are_masked_if_the_driver_is_a_containers_or_none_is_loaded(
    source: str, driver: dict[str, t.Any], interrupts: int
) -> None:
    services = RUNNING | {"persistenced": {"active": True}}
    plan = fabric_plan(facts(H100, SWITCH, services=services, **driver), source)
    # The persistence daemon has no package on the host, so it runs in the container.
    assert (plan["mask"], plan["run"], plan["failure"]) == ([FABRIC_MANAGER], [], "")
    assert len(plan["interrupts"]) == interrupts


def test_what_is_masked_stays_masked_as_long_as_the_driver_is_a_containers() -> None:
    given = facts(H100, SWITCH, services=MANAGER, containerised=True)
    assert fabric_plan(given, "container", masked=[FABRIC_MANAGER, IMEX])["mask"] == [FABRIC_MANAGER]
    assert fabric_plan(given, "container")["mask"] == []
    assert fabric_plan(facts(H100, SWITCH, services=MANAGER), masked=[FABRIC_MANAGER])["mask"] == []


UP = {"active": True, "enabled": True}
DAEMON = {"persistenced": installed("nvidia-persistenced", **UP)}
SERVING = {"fabric_manager": installed("nvidia-fabricmanager-580", **UP), **DAEMON}


@pytest.mark.parametrize(
    ("changed", "options", "settled"),
    [
        ({}, {}, True),
        ({"fabric_manager": installed("nvidia-fabricmanager-580", active=True)}, {}, False),
        ({"fabric_manager": installed("nvidia-fabricmanager-580", enabled=True)}, {}, False),
        ({"fabric_manager": installed("nvidia-fabricmanager-580", active=None, enabled=None)}, {}, False),
        ({"fabric_manager": installed("nvidia-fabricmanager-580", "580.65.06", **UP)}, {}, False),
        ({"fabric_manager": NOTHING}, {}, False),
        ({}, {"masked": [IMEX]}, False),
        ({}, {"persistence": False}, False),
        ({"persistenced": installed("nvidia-persistenced")}, {"persistence": False}, True),
        ({"persistenced": installed("nvidia-persistenced", enabled=True)}, {"persistence": False}, False),
        ({"persistenced": installed("nvidia-persistenced", active=None)}, {"persistence": False}, False),
        ({}, {"driver": "container"}, False),
    ],
)
def test_services_that_are_as_they_should_be_are_settled(
    changed: dict[str, t.Any], options: dict[str, t.Any], settled: bool
) -> None:
    given = facts(H100, SWITCH, services=SERVING | changed)
    assert fabric_plan(given, **options)["settled"] is settled


@pytest.mark.parametrize(
    ("nodes", "listed", "settled"),
    [
        (["192.0.2.1", "192.0.2.2"], "192.0.2.1\n192.0.2.2\n", True),
        (["192.0.2.1", "192.0.2.3"], "192.0.2.1\n192.0.2.2\n", False),
        ([], "192.0.2.1\n", False),
    ],
)
def test_a_tray_is_settled_only_with_the_list_that_is_asked_for(nodes: list[str], listed: str, settled: bool) -> None:
    """Without a list, IMEX is masked, and the mask needs a record."""
    given = facts(GB200, services={"imex": installed("nvidia-imex", **UP), **DAEMON})
    assert fabric_plan(given, imex_nodes=nodes, imex_list=listed)["settled"] is settled


def test_a_host_without_services_is_settled() -> None:
    assert fabric_plan(facts(L40S))["settled"] and fabric_plan(facts(L40S), "container")["settled"]


def test_imex_that_has_not_read_its_list_is_restarted_by_the_next_run() -> None:
    rack = facts(GB200, services={"imex": installed("nvidia-imex", active=True, enabled=True)})
    listed = {"imex_nodes": ["10.0.0.1"], "imex_list": "10.0.0.1\n", "persistence": False}
    settled = fabric_plan({**rack, "files": {"restarts": ["containerd.service"]}}, "host", **listed)  # type: ignore[arg-type]
    assert (settled["settled"], settled["interrupts"]) == (True, [])
    owed = fabric_plan({**rack, "files": {"restarts": [IMEX]}}, "host", **listed)  # type: ignore[arg-type]
    assert owed["settled"] is False
    assert owed["interrupts"] == [
        wording("nvidia-imex.service is restarted, because it has not read its list of trays.")
    ]
