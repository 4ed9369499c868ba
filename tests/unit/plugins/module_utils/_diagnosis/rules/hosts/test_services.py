# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import (
    fabric,
    kernel_modules,
    services,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE

# https://github.com/ollama/ollama/issues/11932
GAVE_UP = "localhost systemd[1]: nvidia-persistenced.service: Start request repeated too quickly."
PERSISTENCED = "nvidia-persistenced.service"
FAILED = {"load": "loaded", "active": "failed", "sub": "failed", "result": "exit-code", "restarts": 5}
RESTARTED = {**FAILED, "active": "activating", "sub": "auto-restart", "restarts": 812}
RUNS = {**FAILED, "active": "active", "sub": "running", "result": "success", "restarts": 1}


def host(state: dict[str, t.Any] | None = None, name: str = PERSISTENCED, **facts: t.Any) -> dict[str, t.Any]:
    """Return what is known of a host with this service."""
    return {"hosts": {NODE: {"facts": facts, "state": {"services": {name: state} if state else {}}}}}


@pytest.mark.parametrize("state", [FAILED, RESTARTED])
def test_a_service_that_fails(state: dict[str, t.Any]) -> None:
    found = diagnosed.found(services.RULES, **host(state))["HostServiceFails"]
    assert found.certainty == "certain" and PERSISTENCED in found.cause
    assert f"restarts: {state['restarts']}" in found.quotes[0].text


def test_a_published_line() -> None:
    found = diagnosed.found(services.RULES, GAVE_UP)["HostServiceFails"]
    assert found.certainty == "likely" and found.cause.startswith(PERSISTENCED)


@pytest.mark.parametrize(
    "evidence",
    [
        host(RUNS),
        host(FAILED, "docker.service"),
        # What is left of a driver on the host, beside a driver container.
        host(FAILED, driver={"containerised": True}),
    ],
)
def test_near_misses(evidence: dict[str, t.Any]) -> None:
    assert not diagnosed.found(services.RULES, **evidence)


def test_a_driver_container_on_one_host_hides_no_service_of_the_next() -> None:
    evidence = host(FAILED, driver={"containerised": True})
    evidence["hosts"]["gpu-9999"] = host(FAILED)["hosts"][NODE]
    assert diagnosed.found(services.RULES, **evidence)["HostServiceFails"].nodes == ("gpu-9999",)


def test_lines_about_other_services_and_lines_that_are_over() -> None:
    assert not diagnosed.found(services.RULES, GAVE_UP.replace("nvidia-persistenced", "nvidia-docker"))
    old = TextLine(GAVE_UP, "unit", "journal of nvidia-persistenced", NODE)
    assert not diagnosed.found(services.RULES, old, **host(RUNS))


def test_a_service_that_fails_for_want_of_the_driver_or_is_the_fabric_manager_is_no_cause() -> None:
    missing = {"loaded": False, "module_installed": True, "installed_version": "580.95.05"}
    evidence = host(FAILED, gpus=[{"pci_address": "0000:18:00.0"}], driver=missing)
    assert set(diagnosed.found((*services.RULES, *kernel_modules.RULES), **evidence)) == {"DriverNotLoaded"}
    evidence = host(
        FAILED,
        "nvidia-fabricmanager.service",
        driver={"loaded": True, "containerised": False, "version": "580.95.05"},
        fabric={"kind": "nvswitch"},
        services={"fabric_manager": {"package": "nvidia-fabricmanager", "version": "580.95.05", "active": False}},
    )
    assert set(diagnosed.found((*services.RULES, *fabric.RULES), **evidence)) == {"FabricManagerStopped"}
