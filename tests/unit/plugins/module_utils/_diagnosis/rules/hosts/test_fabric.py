# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts.fabric import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE


@pytest.mark.parametrize(
    ("line", "code", "certainty"),
    [
        # https://github.com/NVIDIA/gpu-operator/issues/544
        (
            "nv-fabricmanager[3228]: fabric manager NVIDIA GPU driver interface version 530.30.02 don't match with "
            "driver version 530.41.03. Please update with matching NVIDIA driver package.",
            "FabricManagerMismatch",
            "certain",
        ),
        # https://github.com/NVIDIA/nvtrust/issues/55, with a typographic apostrophe
        (
            "fabric manager NVIDIA GPU driver interface version 550.90.07 don\u2019t match with "
            "driver version 550.107.02.",
            "FabricManagerMismatch",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-operator/issues/121
        (
            "nvidia-nvswitch: Version mismatch, kernel version 450.80.02 user version 450.51.06",
            "FabricManagerMismatch",
            "certain",
        ),
        # https://github.com/wilicc/gpu-burn/issues/92
        ("  what():  Error (gpu_burn-drv.cpp:298): system not yet initialized", "FabricNotReady", "likely"),
        # https://github.com/NVIDIA/gpu-operator/issues/610
        (
            "nv-fabricmanager[4177]: request to query NVSwitch device information from NVSwitch driver failed with "
            "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]",
            "FabricManagerWithoutSwitches",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-driver-container/blob/main/rhel9/nvidia-driver
        ("waiting for the mlx5_core and ib_umad kernel modules to be loaded", "NVLSMMissing", "likely"),
    ],
)
def test_published_lines(line: str, code: str, certainty: str) -> None:
    found = diagnosed.found(RULES, line)
    assert {each: finding.certainty for each, finding in found.items()} == {code: certainty}


@pytest.mark.parametrize(
    "line",
    [
        # https://github.com/NVIDIA/nvtrust/issues/128
        "nv-fabricmanager[1120]: Successfully configured all the available NVSwitches to route GPU NVLink traffic.",
        # https://github.com/jax-ml/jax/pull/34113
        "This PR addresses an issue where `cuInit(0)` raises a generic error when failing with `CUDA_ERROR_SYSTEM_NOT`",
        "RuntimeError: CUDA error: initialization error",
    ],
)
def test_near_misses(line: str) -> None:
    assert not diagnosed.found(RULES, line)


MANAGER = {"package": "nvidia-fabricmanager", "version": "580.95.05", "active": True, "matches_driver": True}
NVLSM = {"package": "nvlsm", "active": True}
COMPLETED = {"state": "Completed", "health": "Healthy", "problems": []}


def host(kind: str = "nvswitch", fields: t.Any = None, driver: t.Any = None, **services: t.Any) -> dict[str, t.Any]:
    """Return what is known of a host whose GPUs are connected by a fabric."""
    links = {"links": 18, "active": 18}
    gpu = {"pci_address": "0000:18:00.0", "lost": False, "fabric": COMPLETED, "nvlink": links, **(fields or {})}
    facts = {
        "gpus": [gpu],
        "fabric": {"kind": kind},
        "driver": {"loaded": True, "containerised": False, "version": "580.95.05", **(driver or {})},
        "services": {"fabric_manager": MANAGER, "nvlsm": NVLSM, **services},
    }
    return {"hosts": {NODE: {"facts": facts}}}


@pytest.mark.parametrize(
    ("evidence", "code", "certainty"),
    [
        (host(fabric_manager={**MANAGER, "package": None, "active": False}), "FabricManagerMissing", "certain"),
        (host(fabric_manager={**MANAGER, "active": False}), "FabricManagerStopped", "certain"),
        (
            host(fabric_manager={**MANAGER, "version": "580.65.06", "matches_driver": False}),
            "FabricManagerMismatch",
            "certain",
        ),
        (host("nvlink5", nvlsm={"package": None, "active": False}), "NVLSMMissing", "certain"),
        (host("nvl72", {"fabric": {**COMPLETED, "state": "In Progress"}}), "FabricNotReady", "certain"),
        (
            host(fields={"fabric": {**COMPLETED, "health": "Unhealthy", "problems": ["unhealthy route"]}}),
            "FabricUnhealthy",
            "certain",
        ),
        (host(fields={"nvlink": {"links": 18, "active": 17}}), "NVLinkDown", "likely"),
    ],
)
def test_facts_of_a_host(evidence: dict[str, t.Any], code: str, certainty: str) -> None:
    found = diagnosed.found(RULES, **evidence)
    assert {each: finding.certainty for each, finding in found.items()} == {code: certainty}


@pytest.mark.parametrize(
    "evidence",
    [
        host(),
        host("nvlink5"),
        host("nvl72", fabric_manager={**MANAGER, "package": None, "active": False}),
        host(
            "none", {"fabric": None, "nvlink": {"links": 18, "active": 0}}, fabric_manager={**MANAGER, "package": None}
        ),
        # The driver container runs its own.
        host(driver={"containerised": True}, fabric_manager={**MANAGER, "package": None, "active": False}),
        host(fabric_manager={"package": None, "active": None, "matches_driver": None}),
    ],
)
def test_a_fabric_that_is_well_or_somebody_elses(evidence: dict[str, t.Any]) -> None:
    assert not diagnosed.found(RULES, **evidence)


def test_a_report_of_nvidia_smi_about_the_fabric() -> None:
    # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html
    state, clique = (
        "     State                             : In Progress",
        "     CliqueId                          : N/A",
    )
    assert diagnosed.found(RULES, state, clique)["FabricNotReady"].certainty == "likely"
    assert not diagnosed.found(RULES, state)
    assert not diagnosed.found(RULES, state.replace("In Progress", "Completed"), clique)


def test_lines_about_a_fabric_are_over_when_all_gpus_have_registered() -> None:
    texts = "     State                             : In Progress", "     CliqueId                          : N/A"
    state, clique = (TextLine(text, node=NODE) for text in texts)
    waits = {"fabric": {**COMPLETED, "state": "In Progress"}}
    assert "FabricNotReady" in diagnosed.found(RULES, state, clique)
    assert not diagnosed.found(RULES, state, clique, **host("nvl72"))
    assert "FabricNotReady" in diagnosed.found(RULES, state, clique, **host("nvl72", waits))


def test_links_whose_number_is_unknown_are_not_down() -> None:
    assert not diagnosed.found(RULES, **host(fields={"nvlink": {"links": None, "active": 0}}))


def test_the_wrong_version_explains_the_stopped_manager_and_error_802() -> None:
    stopped = {**MANAGER, "active": False, "version": "580.65.06", "matches_driver": False}
    evidence = host(fields={"fabric": {**COMPLETED, "state": "In Progress"}}, fabric_manager=stopped)
    found = diagnosed.found(RULES, **evidence)
    assert set(found) == {"FabricManagerMismatch"}
    assert {each.code for each in found["FabricManagerMismatch"].consequences} == {
        "FabricManagerStopped",
        "FabricNotReady",
    }


def test_links_that_are_down_and_a_fabric_that_is_not_ready_are_told_apart() -> None:
    down = {"fabric": {**COMPLETED, "state": "In Progress"}, "nvlink": {"links": 18, "active": 0}}
    found = diagnosed.found(RULES, **host(fields=down))
    assert set(found) == {"FabricNotReady", "NVLinkDown"}
    assert found["FabricNotReady"].tell_apart == found["NVLinkDown"].tell_apart
    assert "nvidia-smi nvlink --status" in found["NVLinkDown"].tell_apart[0]
