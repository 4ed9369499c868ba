# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof import gpu_checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.subject import Subject, Verdict
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._host.proof.test_subject import BEFORE, FACTS, GPU, subject

FIRST = "GPU 0000:18:00.0"
A100 = {"architecture": "Ampere", "device_id": "10de:20b2", "fabric": None}
L4 = {"architecture": "Ada Lovelace", "device_id": "10de:27b8", "fabric": None, "nvlink": None}

Check = t.Callable[[Subject], list[Verdict]]
OF_THE_DRIVER = (
    gpu_checks.check_memory,
    gpu_checks.check_pcie,
    gpu_checks.check_nvlink,
    gpu_checks.check_fabric,
    gpu_checks.check_persistence,
    gpu_checks.check_recovery,
)


def outcome(verdicts: list[Verdict]) -> tuple[str, str]:
    (verdict,) = verdicts
    return verdict.result, verdict.message


@pytest.mark.parametrize("check", OF_THE_DRIVER)
def test_a_healthy_host_passes(check: Check) -> None:
    host = subject(before=BEFORE, expected={"persistence": True, "pcie_generation": 5})
    assert [verdict.result for verdict in check(host)] == ["passed"]


@pytest.mark.parametrize("check", OF_THE_DRIVER)
def test_a_gpu_that_does_not_answer_is_not_proved(check: Check) -> None:
    fields = ("uuid", "persistence_mode", "pcie", "ecc", "remapped_rows", "recovery_action", "nvlink", "fabric")
    silent = {**dict.fromkeys(fields), "reason": "NVML did not answer in time, because the driver hangs"}
    (verdict,) = check(subject({}, silent, expected={"persistence": True}))
    assert verdict.result == "unknown"
    assert verdict.message.startswith("GPU 0000:2a:00.0 does not report")
    assert verdict.message.endswith("because the driver hangs.")


@pytest.mark.parametrize("check", OF_THE_DRIVER)
def test_an_excluded_gpu_is_not_judged(check: Check) -> None:
    broken = {**dict.fromkeys(set(GPU) - {"pci_address", "architecture", "device_id"}), "lost": True}
    host = subject({}, broken, expected={"exclude": ["0000:2a:00.0"], "persistence": True})
    assert [verdict.result for verdict in check(host)] == ["passed"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"ecc": {"enabled": True, "pending": True, "uncorrected": 2}},
            wording("GPU 0000:18:00.0 has had 2 uncorrected memory errors since the driver was loaded."),
        ),
        (
            {"ecc": {"enabled": True, "pending": False, "uncorrected": 0}},
            wording("GPU 0000:18:00.0 turns ECC off only at the next reset."),
        ),
        (
            {"ecc": {"enabled": False, "pending": True}},
            wording("GPU 0000:18:00.0 turns ECC on only at the next reset."),
        ),
        (
            {"remapped_rows": {"failure": True, "pending": False}},
            wording("GPU 0000:18:00.0 has no row left to replace a failed one."),
        ),
        (
            {"remapped_rows": {"failure": False, "pending": True}},
            wording("GPU 0000:18:00.0 replaces failed rows only at the next reset."),
        ),
        (
            {"retired_pages": {"single_bit": 1, "pending": True}},
            wording("GPU 0000:18:00.0 retires pages only at the next reset."),
        ),
    ],
)
def test_memory_that_fails(values: dict[str, t.Any], message: str) -> None:
    assert outcome(gpu_checks.check_memory(subject(values))) == ("failed", message)


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ({"ecc": None}, "unknown"),
        ({"ecc": {"enabled": True, "pending": True, "uncorrected": None}}, "unknown"),
        ({"ecc": {"enabled": False, "pending": False, "uncorrected": None}}, "passed"),
        ({"remapped_rows": None}, "unknown"),
        ({**A100, "remapped_rows": None}, "unknown"),
        ({"architecture": "Blackwell", "device_id": "10de:2901", "ecc": None}, "unknown"),
        # These may have no such memory.
        ({**L4, "ecc": None, "remapped_rows": None}, "passed"),
        ({"architecture": "Ampere", "device_id": "10de:2236", "remapped_rows": None}, "passed"),
        ({"retired_pages": {"single_bit": 1, "double_bit": 0, "pending": False}}, "passed"),
    ],
)
def test_memory_without_a_reading(values: dict[str, t.Any], result: str) -> None:
    assert outcome(gpu_checks.check_memory(subject(values)))[0] == result


PASSED = wording("Every PCIe link has all of its lanes.")


@pytest.mark.parametrize(
    ("pcie", "before", "expected", "result", "message"),
    [
        ({"width": 8}, {}, {}, "failed", wording("GPU 0000:18:00.0 has a PCIe link of 8 lanes instead of 16.")),
        (
            {"width": 8, "width_max": 8},
            BEFORE,
            {},
            "failed",
            wording("GPU 0000:18:00.0 has a PCIe link of 8 lanes instead of 16."),
        ),
        ({"width": 8, "width_max": 8}, {}, {}, "passed", PASSED),
        (
            {"generation_host": 4},
            BEFORE,
            {},
            "failed",
            wording("GPU 0000:18:00.0 has a slot of PCIe generation 4 instead of 5."),
        ),
        ({"generation_host": 4}, BEFORE, {"pcie_generation": 4}, "passed", PASSED),
        (
            {"generation_host": 4},
            {},
            {"pcie_generation": 5},
            "failed",
            wording("GPU 0000:18:00.0 has a slot of PCIe generation 4 instead of 5."),
        ),
        ({"generation_host": 4}, {}, {}, "passed", PASSED),
        (
            {"generation_host": None},
            BEFORE,
            {},
            "unknown",
            wording("GPU 0000:18:00.0 does not report the PCIe generation of its slot."),
        ),
        (
            {"width": None},
            {},
            {},
            "unknown",
            wording("GPU 0000:18:00.0 does not report its PCIe link: the driver does not say."),
        ),
        (
            {"width_max": None},
            {},
            {},
            "unknown",
            wording("GPU 0000:18:00.0 does not report its PCIe link: the driver does not say."),
        ),
    ],
)
def test_pcie(
    pcie: dict[str, t.Any], before: dict[str, t.Any], expected: dict[str, t.Any], result: str, message: str
) -> None:
    host = subject({"pcie": {**GPU["pcie"], **pcie}}, before=before, expected=expected)
    assert outcome(gpu_checks.check_pcie(host)) == (result, message)


def test_links_to_switches_must_all_be_up() -> None:
    host = subject({"nvlink": {"links": 18, "active": 17, "version": 4}})
    assert outcome(gpu_checks.check_nvlink(host)) == ("failed", f"{FIRST} has 17 of 18 NVLinks up.")
    assert outcome(gpu_checks.check_nvlink(subject({"nvlink": None})))[0] == "unknown"


def test_links_between_gpus_must_be_up_as_before() -> None:
    bridges: dict[str, t.Any] = {"nvswitches": [], "fabric": {"kind": "none"}}
    half = {"nvlink": {"links": 18, "active": 12, "version": 4}}
    former = [{**gpu, "links": 12} for gpu in BEFORE["gpus"]]
    assert outcome(gpu_checks.check_nvlink(subject(half, half, **bridges)))[0] == "skipped"
    host = subject(half, half, before={"gpus": former}, **bridges)
    assert outcome(gpu_checks.check_nvlink(host))[0] == "passed"
    none = {"nvlink": {"links": 18, "active": 0, "version": 4}}
    host = subject(half, none, before={"gpus": former}, **bridges)
    assert outcome(gpu_checks.check_nvlink(host)) == ("failed", "GPU 0000:2a:00.0 has 0 of 12 NVLinks up.")
    host = subject(half, {"nvlink": None}, before={"gpus": former}, **bridges)
    assert outcome(gpu_checks.check_nvlink(host))[0] == "unknown"
    former[1]["links"] = None
    host = subject(half, {"nvlink": None}, before={"gpus": former}, **bridges)
    assert outcome(gpu_checks.check_nvlink(host))[0] == "passed"


def test_an_a100_in_mig_mode_has_no_links() -> None:
    mig = {"mig": {"mode": True}, "nvlink": {"links": 12, "active": 0, "version": 3}}
    assert outcome(gpu_checks.check_nvlink(subject({**A100, **mig})))[0] == "passed"
    assert outcome(gpu_checks.check_nvlink(subject(mig)))[0] == "failed"


@pytest.mark.parametrize(
    ("fabric", "result", "message"),
    [
        (
            None,
            "unknown",
            wording("GPU 0000:18:00.0 does not report the state of its fabric: NVML did not answer in time."),
        ),
        (
            {"state": "In Progress", "status": None},
            "failed",
            wording("GPU 0000:18:00.0 has not joined the fabric: its state is In Progress."),
        ),
        (
            {"state": "Not Supported", "status": None},
            "failed",
            wording("GPU 0000:18:00.0 has not joined the fabric: its state is Not Supported."),
        ),
        (
            {"state": "Completed", "status": None},
            "unknown",
            wording("GPU 0000:18:00.0 does not report whether it has joined the fabric with success."),
        ),
        (
            {"state": "Completed", "status": "Insufficient Resources"},
            "failed",
            wording("GPU 0000:18:00.0 has not joined the fabric: its status is Insufficient Resources."),
        ),
        (
            {"state": "Completed", "status": "Success", "health": "Unhealthy", "problems": ["unhealthy route"]},
            "failed",
            wording("GPU 0000:18:00.0 has a fabric that is unhealthy (unhealthy route)."),
        ),
        (
            {"state": "Completed", "status": "Success", "health": "Limited Capacity", "problems": []},
            "failed",
            wording("GPU 0000:18:00.0 has a fabric that is limited capacity."),
        ),
    ],
)
def test_a_gpu_that_is_not_in_the_fabric(fabric: dict[str, t.Any] | None, result: str, message: str) -> None:
    assert outcome(gpu_checks.check_fabric(subject({"fabric": fabric}))) == (result, message)


def test_a_fabric_that_the_driver_calls_healthy() -> None:
    healthy = {"fabric": {"state": "Completed", "status": "Success", "health": "Healthy", "problems": []}}
    assert outcome(gpu_checks.check_fabric(subject(healthy, healthy))) == (
        "passed",
        wording("Every GPU has joined the fabric."),
    )


def test_gpus_without_a_fabric() -> None:
    host = subject({"fabric": None}, {"fabric": None}, fabric={"kind": "none"})
    assert outcome(gpu_checks.check_fabric(host)) == ("skipped", wording("No fabric connects the GPUs."))


@pytest.mark.parametrize(
    ("service", "result", "message"),
    [
        ({}, "passed", wording("The fabric manager runs in the driver's version.")),
        ({"active": False}, "failed", wording("The GPUs need the fabric manager, and it does not run.")),
        (
            {"version": "570.1", "matches_driver": False},
            "failed",
            wording("The fabric manager has the version 570.1, and not the driver's."),
        ),
        (
            {"active": None},
            "unknown",
            wording("Whether the fabric manager runs is not known: systemctl is not installed."),
        ),
    ],
)
def test_the_fabric_of_an_a100(service: dict[str, t.Any], result: str, message: str) -> None:
    services = {"fabric_manager": {**FACTS["services"]["fabric_manager"], **service}}
    sources = {"services.fabric_manager": {"reason": "systemctl is not installed"}}
    host = subject(A100, A100, services=services, sources=sources)
    assert outcome(gpu_checks.check_fabric(host)) == (result, message)


def test_the_fabric_of_an_a100_without_the_facts_of_services() -> None:
    host = subject(A100, A100)
    del host.facts["services"]
    assert outcome(gpu_checks.check_fabric(host)) == (
        "unknown",
        wording("Whether the fabric manager runs is not known: the subset services was not gathered."),
    )


def test_persistence_mode() -> None:
    off = {"persistence_mode": False}
    assert outcome(gpu_checks.check_persistence(subject(off)))[0] == "skipped"
    assert outcome(gpu_checks.check_persistence(subject(off, expected={"persistence": False})))[0] == "skipped"
    host = subject(off, expected={"persistence": True})
    assert outcome(gpu_checks.check_persistence(host)) == ("failed", f"{FIRST} has persistence mode off.")


def test_what_the_driver_recommends() -> None:
    host = subject({"recovery_action": "GPU_RESET"})
    assert outcome(gpu_checks.check_recovery(host)) == ("failed", f"{FIRST} needs GPU_RESET, says the driver.")
    older = {"recovery_action": None}
    assert outcome(gpu_checks.check_recovery(subject(older, older)))[0] == "skipped"
    assert outcome(gpu_checks.check_recovery(subject(older)))[0] == "passed"
