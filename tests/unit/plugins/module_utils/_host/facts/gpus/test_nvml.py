# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
import time
import typing as t
from pathlib import Path

import pynvml
import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import nvml as nvml_module
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import DriverReport
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.forked import Answer
from inline_snapshot import snapshot as wording

from lab.nvml import A100, B200, H100, H200, L4, Gpu, Instance, Model, machine

SetNvml = t.Callable[..., None]
DRIVER_NOT_LOADED, GPU_IS_LOST, MISMATCH = 9, 15, 18


def ask(timeout_s: float = 10, library: Path | None = None) -> DriverReport:
    return nvml_module.NvmlChild(str(library) if library else None).answer(time.monotonic() + timeout_s)


def test_every_field_of_a_healthy_hopper(nvml: SetNvml) -> None:
    nvml(machine(H100))
    report = ask()
    assert (report.driver_version, report.reason, len(report.gpus)) == ("580.95.05", None, 8)
    gpu = report.gpus[2]
    assert (gpu.address, gpu.lost) == ("0000:3a:00.0", False)
    assert gpu.reasons == {"retired_pages": "NVML: Not Supported", "peer_type": "NVML: Not Supported"}
    assert gpu.values == {
        "product": "NVIDIA H100 80GB HBM3",
        "architecture": "Hopper",
        "uuid": "GPU-23300000-0000-4000-8000-000000000002",
        "serial": "1650124000002",
        "memory_mib": 81559,
        "power_w": 70.0,
        "power_limit_w": 700.0,
        "clocks": {
            "graphics_max": 1980,
            "memory_max": 2619,
            "graphics_application": 1980,
            "memory_application": 2619,
        },
        "persistence_mode": True,
        "vbios": "96.00.74.00.01",
        "inforom": "G520.0200.00.05",
        "gsp": "580.95.05",
        "recovery_action": "NONE",
        "pcie": {"generation": 5, "generation_max": 5, "generation_host": 5, "width": 16, "width_max": 16},
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
        "nvlink": {"links": 18, "active": 18, "version": 4},
        "fabric": {
            "state": "Completed",
            "status": "Success",
            "clique": 0,
            "cluster_uuid": "00000000-0000-0000-0000-000000000000",
            "health": None,
            "problems": [],
        },
    }


@pytest.mark.parametrize(
    ("model", "architecture", "missing"),
    [
        (A100, "Ampere", {"fabric"}),
        (H200, "Hopper", set()),
        (B200, "Blackwell", set()),
        (L4, "Ada Lovelace", {"mig", "nvlink", "fabric"}),
    ],
)
def test_unsupported_fields_are_null_with_nvmls_reason(
    nvml: SetNvml, model: Model, architecture: str, missing: set[str]
) -> None:
    nvml(machine(model, 1))
    (gpu,) = ask().gpus
    assert gpu.values["architecture"] == architecture
    missing_everywhere = {"retired_pages", "peer_type"}
    assert gpu.reasons == dict.fromkeys(missing | missing_everywhere, "NVML: Not Supported")


def test_a_driver_without_clocks_for_applications_still_tells_the_highest(nvml: SetNvml) -> None:
    (gpu,) = machine(H100, 1)
    nvml([Gpu({key: value for key, value in gpu.keys.items() if not key.endswith("clock_set")})])
    assert ask().gpus[0].values["clocks"] == {
        "graphics_max": 1980,
        "memory_max": 2619,
        "graphics_application": None,
        "memory_application": None,
    }


def test_errors_rows_and_links(nvml: SetNvml) -> None:
    nvml(
        machine(
            A100,
            1,
            corrected=7,
            uncorrected=1,
            corrected_total=9,
            uncorrected_total=2,
            rows_uncorrectable=1,
            rows_pending=1,
            links_active=11,
            link_width=8,
        )
    )
    values = ask().gpus[0].values
    assert values["ecc"] == {
        "enabled": True,
        "pending": True,
        "corrected": 7,
        "uncorrected": 1,
        "corrected_total": 9,
        "uncorrected_total": 2,
    }
    assert values["remapped_rows"] == {"correctable": 0, "uncorrectable": 1, "pending": True, "failure": False}
    assert values["nvlink"] == {"links": 12, "active": 11, "version": 3}
    assert values["pcie"]["width"] == 8


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        (1, 0, ("Not Started", None)),
        (2, 0, ("In Progress", None)),
        (3, 0, ("Completed", "Success")),
        (3, 999, ("Completed", "Unknown Error")),
    ],
)
def test_the_fabric(nvml: SetNvml, state: int, status: int, expected: tuple[str, str | None]) -> None:
    nvml(machine(H100, 1, fabric_state=state, fabric_status=status))
    fabric = ask().gpus[0].values["fabric"]
    assert (fabric["state"], fabric["status"]) == expected


@pytest.mark.parametrize(
    ("mask", "summary", "version", "health", "problems"),
    [
        (0, 0, 3, None, []),
        (0xAA, 0, 3, "Healthy", []),
        (0xAA, 0, 2, "Healthy", []),
        (0x1AA, 1, 3, "Healthy", []),
        (0x1AA, 3, 3, "Limited Capacity", []),
        (0x19A, 2, 3, "Unhealthy", ["unhealthy route"]),
        (0x55, 2, 2, "Unhealthy", [
            "degraded bandwidth", "route recovery in progress", "unhealthy route", "access timeout recovery"
        ]),
        (0x5AA, 0, 3, "Unhealthy", ["incorrect configuration (insufficient NVLinks)"]),
        (0xF00, 0, 3, "Unhealthy", ["incorrect configuration (15)"]),
    ],
)  # fmt: skip
def test_the_health_of_the_fabric(
    nvml: SetNvml, mask: int, summary: int, version: int, health: str | None, problems: list[str]
) -> None:
    # Version 2 of the answer, which drivers before branch 570 give, has no summary.
    nvml(machine(B200, 1, fabric_health=mask, fabric_summary=summary, fabric_version=version))
    fabric = ask().gpus[0].values["fabric"]
    assert (fabric["state"], fabric["status"]) == ("Completed", "Success")
    assert (fabric["health"], fabric["problems"]) == (health, problems)


def test_a_driver_that_knows_no_version_of_the_fabric(nvml: SetNvml) -> None:
    nvml(machine(B200, 1, fabric_version=1))
    (gpu,) = ask().gpus
    assert "fabric" not in gpu.values
    assert gpu.reasons["fabric"].startswith("NVML: ")


def test_retired_pages_of_an_older_gpu(nvml: SetNvml) -> None:
    nvml(machine(L4, 1, retired_single=2, retired_double=1, retired_pending=1))
    assert ask().gpus[0].values["retired_pages"] == {"single_bit": 2, "double_bit": 1, "pending": True}


@pytest.mark.parametrize(
    ("number", "action"), [(1, "GPU_RESET"), (2, "NODE_REBOOT"), (7, "SYSTEM_REBOOT"), (9, "UNKNOWN_9")]
)
def test_what_the_driver_recommends(nvml: SetNvml, number: int, action: str) -> None:
    nvml(machine(H100, 1, recovery_action=number))
    assert ask().gpus[0].values["recovery_action"] == action


def test_a_driver_without_recommendations_and_with_persistence_off(nvml: SetNvml) -> None:
    gpus = machine(B200, 1, persistence=0, peer_type=1)
    del gpus[0].keys["recovery_action"]
    nvml(gpus)
    (gpu,) = ask().gpus
    assert gpu.reasons["recovery_action"] == "NVML: Not Supported"
    assert (gpu.values["persistence_mode"], gpu.values["peer_type"]) == (False, "Switch Connected")


def test_bindings_that_lack_a_structure(nvml: SetNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pynvml, "c_nvmlPlatformInfo_v2_t")
    monkeypatch.delattr(pynvml, "c_nvmlGpuFabricInfo_v3_t")
    nvml(machine(B200, 1))
    (gpu,) = ask().gpus
    assert "nvidia-ml-py is too old" in gpu.reasons["peer_type"]
    assert gpu.values["fabric"]["health"] == "Healthy"
    monkeypatch.delattr(pynvml, "c_nvmlGpuFabricInfo_v2_t")
    assert ask().gpus[0].reasons["fabric"] == "NVML: Not Supported"


def test_mig_instances_and_a_pending_mode(nvml: SetNvml) -> None:
    gpus = machine(A100, 2)
    gpus[0].keys |= {"mig": 1, "mig_pending": 0}
    gpus[0].instances = [Instance("3g.40gb", 4), Instance("1g.10gb+me", 2), Instance("2g.20gb", 0, ("1c", "1c"))]
    gpus[1].keys |= {"mig": 0, "mig_pending": 1}
    nvml(gpus)
    first, second = (gpu.values["mig"] for gpu in ask().gpus)
    assert first["mode"] is True and first["pending"] is False
    names = ("gpu_instance", "compute_instance", "profile", "memory_mib")
    assert [tuple(instance[name] for name in names) for instance in first["instances"]] == [
        (2, 0, "3g.40gb", 40192),
        (3, 0, "1c.2g.20gb", 19968),
        (3, 1, "1c.2g.20gb", 19968),
        (9, 0, "1g.10gb+me", 9728),
    ]
    assert [instance["index"] for instance in first["instances"]] == [0, 1, 2, 3]
    uuids = {instance["uuid"] for instance in first["instances"]}
    assert len(uuids) == 4 and all(
        re.fullmatch("MIG-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) for uuid in uuids
    )
    assert [(each["id"], each["profile"], each["start"], each["size"]) for each in first["gpu_instances"]] == [
        (3, "2g.20gb", 0, 2),
        (9, "1g.10gb+me", 2, 1),
        (2, "3g.40gb", 4, 4),
    ]
    assert first["gpu_instances"][0]["compute_instances"] == [
        {"id": 0, "profile": "1c.2g.20gb", "start": 0, "size": 1},
        {"id": 1, "profile": "1c.2g.20gb", "start": 1, "size": 1},
    ]
    assert second == {"mode": False, "pending": True, "instances": [], "gpu_instances": []}


@pytest.mark.parametrize(("key", "address"), [("error", None), ("handle_error", None), ("late", "0000:2a:00.0")])
def test_a_lost_gpu_does_not_hide_the_others(
    nvml: SetNvml, monkeypatch: pytest.MonkeyPatch, key: str, address: str | None
) -> None:
    gpus = machine(H100, 3)
    if key == "late":
        # It falls off the bus between two calls.
        def lost(nvml: t.Any, handle: t.Any) -> None:
            if nvml.nvmlDeviceGetSerial(handle) == "1650124000001":
                raise nvml.NVMLError(nvml.NVML_ERROR_GPU_IS_LOST)

        monkeypatch.setitem(nvml_module.QUESTIONS, "ecc", lost)
    else:
        gpus[1].keys[key] = GPU_IS_LOST
    nvml(gpus)
    report = ask()
    assert [gpu.lost for gpu in report.gpus] == [False, True, False]
    assert (report.gpus[1].address, report.gpus[1].values) == (address, {})
    assert set(report.gpus[1].reasons.values()) == {"NVML: GPU is lost"}
    assert report.gpus[2].values["uuid"].endswith("2")


@pytest.mark.parametrize(
    ("init", "reason"),
    [(DRIVER_NOT_LOADED, "NVML: Driver Not Loaded"), (MISMATCH, "NVML: RM has detected an NVML/RM version mismatch.")],
)
def test_a_library_that_does_not_start(nvml: SetNvml, init: int, reason: str) -> None:
    nvml([], init=init)
    assert ask() == DriverReport("nvml", reason=reason)


def test_no_library(nvml: SetNvml) -> None:
    assert ask().reason == "NVML: NVML Shared Library Not Found"
    assert "No such file" in str(ask(library=Path("/nowhere/libnvidia-ml.so.1")).reason)


def test_a_library_that_the_linker_does_not_find(nvml: SetNvml, nvml_library: Path) -> None:
    nvml(machine(L4, 1))
    assert len(ask(library=nvml_library).gpus) == 1


def test_if_the_driver_hangs_earlier_answers_are_kept(nvml: SetNvml) -> None:
    gpus = machine(H100)
    gpus[5].keys["hang"] = 1
    nvml(gpus)
    started = time.monotonic()
    report = ask(timeout_s=1)
    assert time.monotonic() - started < 30
    assert (report.timed_out, report.driver_version, len(report.gpus)) == (True, "580.95.05", 5)
    assert report.reason == wording("NVML did not answer in time, because the driver hangs")


def test_a_driver_that_crashes(nvml: SetNvml) -> None:
    gpus = machine(H100, 2)
    gpus[1].keys["crash"] = 1
    nvml(gpus)
    report = ask()
    assert (len(report.gpus), report.timed_out, report.reason) == (
        1,
        False,
        wording("NVML's process ended by signal 6"),
    )


def test_a_text_that_is_no_utf_8_hides_nothing_else(nvml: SetNvml, tmp_path: Path) -> None:
    gpus = machine(H100, 2)
    gpus[0].keys["name"] = "NVIDIA \\xff H100"
    nvml(gpus)
    path = tmp_path / "nvml.state"
    path.write_bytes(path.read_bytes().replace(rb"\xff", b"\xff"))
    report = ask()
    assert (len(report.gpus), report.reason) == (2, None)
    assert "product" not in report.gpus[0].values and "UTF-8" in report.gpus[0].reasons["product"]
    assert report.gpus[0].values["uuid"].endswith("0") and report.gpus[1].values["product"].endswith("HBM3")


@pytest.mark.parametrize("error", [1, 3, 4, 10, 16, 17, 20, 25, 777, 999])
def test_a_driver_that_refuses_everything_is_quoted_for_each_field(nvml: SetNvml, error: int) -> None:
    gpus = machine(H100, 2)
    gpus[0].keys["error"] = error
    nvml(gpus)
    report = ask()
    assert report.reason is None and [gpu.lost for gpu in report.gpus] == [False, False]
    assert set(report.gpus[0].reasons) == set(nvml_module.QUESTIONS) and report.gpus[0].values == {}
    assert len(set(report.gpus[0].reasons.values())) == 1 and report.gpus[1].values["uuid"].endswith("1")


@pytest.mark.parametrize("count", [-1, 2_000_000_000])
def test_a_count_that_no_machine_has_is_not_believed(nvml: SetNvml, count: int) -> None:
    nvml(machine(H100, 2), count=count)
    report = ask()
    assert report.gpus == [] and report.reason.startswith(f"NVML counts {count % 2**32} GPUs"), report.reason


def test_a_child_that_ends_early_without_an_answer() -> None:
    assert nvml_module.parse_answer(Answer("", timed_out=False, signal_number=0)).reason == "NVML's process ended early"
    # The last line is incomplete.
    assert (
        nvml_module.parse_answer(
            Answer('{"driver_version": "580"}\n{"gp', timed_out=True, signal_number=0)
        ).driver_version
        == "580"
    )


def test_the_child_shares_only_the_pipe_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    def report_the_process(library: str | None) -> t.Iterator[dict[str, t.Any]]:
        yield {
            "driver_version": " ".join(os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)),
            "reason": str(os.getsid(0) == os.getpid()),
        }
        yield {"gpu": {"address": ",".join(os.listdir("/proc/self/fd"))}}

    monkeypatch.setattr(nvml_module, "ask", report_the_process)
    report = ask()
    assert report.driver_version == "/dev/null /dev/null /dev/null"
    assert report.reason == "True"
    # The pipe, and the folder that was listed.
    assert set(str(report.gpus[0].address).split(",")) - {"0", "1", "2", "3"} <= {"4", "5"}


def test_older_bindings_return_bytes() -> None:
    assert nvml_module._string(b"NVIDIA L4") == "NVIDIA L4"
    assert nvml_module._string("NVIDIA L4") == "NVIDIA L4"
