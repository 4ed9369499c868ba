# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import smi
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import GpuReport
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from hypothesis import given
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost, recorded


def gpus(name: str) -> list[GpuReport]:
    return smi.parse(Output(recorded(f"nvidia-smi/{name}.xml"))).gpus


def test_hopper_550_with_a_fabric_in_progress_and_errors() -> None:
    report = smi.parse(Output(recorded("nvidia-smi/h100-550.xml")))
    assert (report.source, report.driver_version, report.reason) == ("nvidia-smi", "550.127.08", None)
    first, second = report.gpus
    assert first.address == "0000:19:00.0"
    assert first.values == {
        "product": "NVIDIA H100 80GB HBM3",
        "architecture": "Hopper",
        "uuid": "GPU-3c8e1b52-4d0f-4a8a-b7d6-0a1f9e2c3d10",
        "serial": "1653723052734",
        "memory_mib": 81559,
        "power_w": 70.61,
        "power_limit_w": 700.0,
        "clocks": None,
        "persistence_mode": True,
        "vbios": None,
        "inforom": None,
        "gsp": None,
        "pcie": {"generation": 5, "generation_max": 5, "generation_host": 5, "width": 16, "width_max": 16},
        "retired_pages": None,
        "recovery_action": None,
        "nvlink": None,
        "peer_type": None,
        "ecc": {
            "enabled": True,
            "pending": True,
            "corrected": 0,
            "uncorrected": 0,
            "corrected_total": 0,
            "uncorrected_total": 0,
        },
        "remapped_rows": {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False},
        "mig": {"mode": False, "pending": False, "instances": [], "gpu_instances": []},
        "fabric": {
            "state": "Completed",
            "status": "Success",
            "clique": None,
            "cluster_uuid": None,
            "health": None,
            "problems": [],
        },
    }
    assert first.reasons == dict.fromkeys(
        ("clocks", "vbios", "inforom", "gsp", "retired_pages", "recovery_action", "nvlink", "peer_type"),
        "nvidia-smi says N/A",
    )
    assert second.values["mig"]["pending"] is True
    assert second.values["fabric"]["state"] == "In Progress"
    assert second.values["ecc"] == {
        "enabled": True,
        "pending": True,
        "corrected": 3,
        "uncorrected": 0,
        "corrected_total": 10,
        "uncorrected_total": 6,
    }
    assert second.values["remapped_rows"] == {"correctable": 0, "uncorrectable": 1, "pending": False, "failure": True}


def test_ampere_470_with_mig_and_a_pending_row() -> None:
    first, second = gpus("a100-470")
    assert (first.values["power_w"], first.values["power_limit_w"], second.values["power_limit_w"]) == (
        59.87,
        400.0,
        350.0,
    )
    assert first.values["fabric"] is None
    assert first.values["ecc"]["corrected_total"] == 3
    assert second.values["ecc"]["uncorrected"] == 3
    assert second.values["pcie"] == {
        "generation": 4,
        "generation_max": 4,
        "generation_host": 4,
        "width": 8,
        "width_max": 16,
    }
    assert second.values["remapped_rows"] == {"correctable": 0, "uncorrectable": 2, "pending": True, "failure": False}
    assert (second.values["mig"]["mode"], second.values["mig"]["pending"]) == (True, False)
    assert second.values["mig"]["instances"] == [
        {"index": 0, "gpu_instance": 2, "compute_instance": 0, "memory_mib": 19968, "profile": None, "uuid": None},
        {"index": 1, "gpu_instance": 9, "compute_instance": 0, "memory_mib": 9984, "profile": None, "uuid": None},
    ]


def test_the_list_names_mig_instances() -> None:
    report = smi.parse(Output(recorded("nvidia-smi/a100-470.xml")))
    smi.name_instances(report, recorded("nvidia-smi/list-a100-470.txt"))
    instances = report.gpus[1].values["mig"]["instances"]
    assert [(instance["profile"], instance["uuid"][:12]) for instance in instances] == [
        ("2g.20gb", "MIG-0a8f3c61"),
        ("1g.10gb", "MIG-d5c2b9e4"),
    ]


def test_volta_450_counts_bits() -> None:
    (gpu,) = gpus("v100-450")
    assert gpu.values["ecc"] == {
        "enabled": True,
        "pending": False,
        "corrected": 0,
        "uncorrected": 0,
        "corrected_total": 17,
        "uncorrected_total": 1,
    }
    assert (gpu.values["mig"], gpu.values["remapped_rows"], gpu.values["architecture"]) == (
        None,
        None,
        None,
    )
    assert gpu.reasons["mig"] == "nvidia-smi says N/A"


def test_blackwell_580_has_a_clique_and_an_instant_power() -> None:
    (gpu,) = gpus("b200-580")
    assert gpu.values["power_w"] == 143.55
    assert gpu.values["pcie"] == {
        "generation": 5,
        "generation_max": 6,
        "generation_host": 5,
        "width": 16,
        "width_max": 16,
    }
    assert gpu.values["fabric"] == {
        "state": "Completed",
        "status": "Success",
        "clique": 32766,
        "cluster_uuid": "5cd30dc8-2f1a-4c3b-9e77-0d6b8a41f2c3",
        "health": None,
        "problems": [],
    }


def test_a_gb200_of_a_rack_whose_fabric_has_lost_a_route() -> None:
    (gpu,) = gpus("gb200-570")
    assert gpu.values["fabric"] == {
        "state": "Completed",
        "status": "Success",
        "clique": 2,
        "cluster_uuid": "11111111-2222-4333-8444-555555555555",
        "health": "Unhealthy",
        "problems": ["unhealthy route"],
    }
    assert gpu.values["pcie"]["generation_host"] == 5
    assert gpu.values["clocks"] == {
        "graphics_max": 2062,
        "memory_max": 3996,
        "graphics_application": 2062,
        "memory_application": 3996,
    }
    assert (gpu.values["persistence_mode"], gpu.values["recovery_action"]) == (True, "NONE")
    assert (gpu.values["vbios"], gpu.values["inforom"]) == ("97.00.B9.00.3D", "G548.0201.00.06")
    assert (gpu.values["gsp"], gpu.values["peer_type"]) == ("570.148.08", "Switch Connected")
    assert gpu.values["retired_pages"] is None


def test_an_hgx_h100_without_persistence_mode() -> None:
    (gpu,) = gpus("hgx-h100-570")
    assert gpu.values["persistence_mode"] is False
    fabric = gpu.values["fabric"]
    # The fabric of one machine has no cluster, and these drivers report no health of it.
    assert (fabric["clique"], fabric["cluster_uuid"]) == (0, "00000000-0000-0000-0000-000000000000")
    assert (fabric["state"], fabric["status"], fabric["health"], fabric["problems"]) == (
        "Completed",
        "Success",
        None,
        [],
    )
    assert gpu.values["pcie"] == {
        "generation": 4,
        "generation_max": 5,
        "generation_host": 4,
        "width": 16,
        "width_max": 16,
    }


@pytest.mark.parametrize(
    ("health", "verdict", "problems"),
    [
        ("<summary>Healthy</summary><bandwidth>Full</bandwidth>", "Healthy", []),
        ("<summary>Unhealthy</summary><bandwidth>Full</bandwidth>", "Unhealthy", []),
        ("<summary>N/A</summary><bandwidth>Degraded</bandwidth>", "Unhealthy", ["degraded bandwidth"]),
        ("<incorrect_configuration>None</incorrect_configuration>", "Healthy", []),
        (
            "<incorrect_configuration>No Partition</incorrect_configuration>",
            "Unhealthy",
            ["incorrect configuration (No Partition)"],
        ),
        ("<summary>N/A</summary><incorrect_configuration>N/A</incorrect_configuration>", None, []),
    ],
)
def test_the_health_of_the_fabric_in_newer_drivers(health: str, verdict: str | None, problems: list[str]) -> None:
    text = recorded("nvidia-smi/gb200-570.xml")
    before, after = text.split("<health>")[0], text.split("</health>")[1]
    (gpu,) = smi.parse(Output(f"{before}<health>{health}</health>{after}")).gpus
    assert (gpu.values["fabric"]["health"], gpu.values["fabric"]["problems"]) == (verdict, problems)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Reset", "GPU_RESET"),
        ("Reboot", "NODE_REBOOT"),
        ("Drain P2P", "DRAIN_P2P"),
        ("Drain and Reset", "DRAIN_AND_RESET"),
    ],
)
def test_what_the_driver_recommends(text: str, action: str) -> None:
    xml = recorded("nvidia-smi/gb200-570.xml").replace("<gpu_recovery_action>None<", f"<gpu_recovery_action>{text}<")
    (gpu,) = smi.parse(Output(xml)).gpus
    assert gpu.values["recovery_action"] == action


def test_links_that_are_down() -> None:
    report = smi.parse(Output(recorded("nvidia-smi/v100-450.xml")))
    (gpu,) = report.gpus
    listing = recorded("nvidia-smi/nvlink-v100.txt")
    smi.add_links(report, Output(listing.replace("GPU-00000000-0000-4000-8000-000000000003", gpu.values["uuid"])))
    assert gpu.values["nvlink"] == {"links": 6, "active": 4, "version": None}
    assert "nvlink" not in gpu.reasons


def test_links_that_nvidia_smi_does_not_list() -> None:
    report = smi.parse(Output(recorded("nvidia-smi/gb200-570.xml")))
    smi.add_links(report, Output("GPU 0: NVIDIA GB200 (UUID: GPU-00000000-0000-4000-8000-000000000001)\n"))
    assert (report.gpus[0].values["nvlink"], report.gpus[0].reasons["nvlink"]) == (None, "nvidia-smi lists no NVLink")
    smi.add_links(report, Output(error="nvidia-smi did not answer within 10 s"))
    assert report.gpus[0].reasons["nvlink"] == "nvidia-smi did not answer within 10 s"


def test_a_gpu_with_few_features() -> None:
    (gpu,) = gpus("l4-555")
    assert {field for field in gpu.values if gpu.values[field] is None} == {
        *("power_w", "clocks", "ecc", "mig", "fabric"),
        *("vbios", "inforom", "gsp", "retired_pages", "recovery_action", "nvlink", "peer_type"),
    }
    assert gpu.values["pcie"]["generation"] == 1


XML = recorded("nvidia-smi/gb200-570.xml")
TEXTS = sorted(set(re.findall(r">([^<>\s][^<>]*)<", XML)))


@given(old=st.sampled_from(TEXTS), new=st.text(st.characters(exclude_categories=["C"], exclude_characters="<>&")))
def test_no_text_of_an_element_breaks_the_report(old: str, new: str) -> None:
    report = smi.parse(Output(XML.replace(f">{old}<", f">{new}<")))
    smi.add_links(report, Output(new))
    assert report.reason is None
    assert len(report.gpus) == 1


@given(st.text())
def test_no_output_breaks_the_report(text: str) -> None:
    assert smi.parse(Output(text)).gpus == []
    assert smi.parse(Output(f"<?xml{text}</nvidia_smi_log>")).gpus == []


@pytest.mark.parametrize(
    ("name", "message"),
    [("lost", "Unknown Error"), ("lost-old", "GPU is lost.  Reboot the system to recover this GPU")],
)
def test_a_lost_gpu_instead_of_xml(name: str, message: str) -> None:
    report = smi.parse(
        Output(
            recorded(f"nvidia-smi/{name}.txt"), error="nvidia-smi ended with 255: Unable to determine the device handle"
        )
    )
    (gpu,) = report.gpus
    assert (gpu.address, gpu.lost, gpu.reasons["uuid"]) == ("0000:9b:00.0", True, message)
    assert report.reason == wording("nvidia-smi ended with 255: Unable to determine the device handle")


def test_a_lost_gpu_in_another_pci_domain() -> None:
    (gpu,) = smi.parse(Output("Unable to determine the device handle for GPU0009:01:00.0: Unknown Error\n")).gpus
    assert gpu.address == "0009:01:00.0"


def test_a_lost_gpu_before_the_xml_of_the_others() -> None:
    report = smi.parse(Output(recorded("nvidia-smi/lost.txt") + recorded("nvidia-smi/h100-550.xml")))
    assert [(gpu.address, gpu.lost) for gpu in report.gpus] == [
        ("0000:19:00.0", False),
        ("0000:3b:00.0", False),
        ("0000:9b:00.0", True),
    ]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            Output(
                recorded("nvidia-smi/mismatch.txt"),
                error="nvidia-smi ended with 18: Failed to initialize NVML: Driver/library version mismatch",
            ),
            "nvidia-smi ended with 18: Failed to initialize NVML: Driver/library version mismatch",
        ),
        (Output(error="nvidia-smi is not installed"), "nvidia-smi is not installed"),
        (Output("No devices were found\n"), "nvidia-smi printed no XML"),
        (
            Output('<?xml version="1.0" ?><!DOCTYPE x [<!ENTITY a "b">]><nvidia_smi_log></nvidia_smi_log>'),
            wording("nvidia-smi printed XML with entities, which is unexpected"),
        ),
        (
            Output('<?xml version="1.0" ?><nvidia_smi_log><gpu></nvidia_smi_log>'),
            "nvidia-smi printed broken XML: mismatched tag: line 1, column 45",
        ),
    ],
)
def test_no_answer(output: Output, reason: str) -> None:
    report = smi.parse(output)
    assert (report.gpus, report.reason) == ([], reason)


def test_the_driver_containers_nvidia_smi_runs_in_its_root(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, chroot=recorded("nvidia-smi/h100-550.xml"))
    assert len(smi.ask(host, "/run/nvidia/driver", 5).gpus) == 2
    command = ["chroot", "/run/nvidia/driver", "nvidia-smi"]
    assert host.ran == [[*command, "-q", "-x"], [*command, "nvlink", "--status"]]


def test_only_mig_needs_a_third_command(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, nvidia_smi=recorded("nvidia-smi/a100-470.xml"))
    smi.ask(host, "", 5)
    assert host.ran == [["nvidia-smi", "-q", "-x"], ["nvidia-smi", "nvlink", "--status"], ["nvidia-smi", "-L"]]
