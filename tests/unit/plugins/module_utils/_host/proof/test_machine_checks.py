# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.machine_checks import (
    check_driver,
    check_errors,
    check_gpus,
    check_nvswitches,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.subject import Verdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import messages
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._host.proof.test_subject import BEFORE, FACTS, subject


def driver(**values: t.Any) -> dict[str, t.Any]:
    return {"driver": {**FACTS["driver"], **values}}


def outcome(verdicts: list[Verdict]) -> tuple[str, str]:
    """Return the result and the message of the only verdict."""
    (verdict,) = verdicts
    return verdict.result, verdict.message


@pytest.mark.parametrize("wanted", ["580.95.05", "580.95", "580", "", None])
def test_a_driver_of_the_wanted_version_or_branch(wanted: str | None) -> None:
    found = check_driver(subject(expected={"version": wanted}))
    assert outcome(found) == ("passed", "The driver 580.95.05 is loaded.")


@pytest.mark.parametrize("wanted", ["580.95.0", "580.9", "58", "595", "580.105.08"])
def test_a_driver_of_another_version(wanted: str) -> None:
    found = check_driver(subject(expected={"version": wanted}))
    assert outcome(found) == ("failed", f"The driver 580.95.05 is loaded, and {wanted} is wanted.")


NOT_LOADED = {"loaded": False, "version": None, "matches": None}


@pytest.mark.parametrize(
    ("values", "result", "message"),
    [
        (NOT_LOADED, "failed", wording("The driver 580.95.05 is installed and not loaded.")),
        (
            {**NOT_LOADED, "module_installed": False},
            "failed",
            wording("The kernel 6.8.0-87-generic has no module of NVIDIA's driver."),
        ),
        (
            {**NOT_LOADED, "signer": "gpu-4 key", "signer_enrolled": False},
            "failed",
            wording("The driver 580.95.05 is not loaded, and the kernel does not trust its signer gpu-4 key."),
        ),
        (
            {**NOT_LOADED, "installed_version": None},
            "failed",
            wording("The driver 580.95.05 is installed and not loaded."),
        ),
        (
            {"containerised": True},
            "failed",
            wording("A driver container has loaded the driver, and the host should have its own."),
        ),
        ({"version": None}, "unknown", wording("The driver's version is not known: sysfs does not say.")),
        (
            {"matches": False, "userspace_version": "595.1"},
            "failed",
            wording("The driver's parts have different versions: the modules are 580.95.05, the libraries 595.1."),
        ),
        (
            {"matches": None},
            "unknown",
            wording("Whether the libraries fit the driver is not known: libnvidia-ml.so.1 is not installed."),
        ),
    ],
)
def test_a_driver_that_is_not_whole(values: dict[str, t.Any], result: str, message: str) -> None:
    sources = {
        "driver.version": {"reason": "sysfs does not say"},
        "driver.matches": {"reason": "libnvidia-ml.so.1 is not installed"},
    }
    assert outcome(check_driver(subject(**driver(**values), sources=sources))) == (result, message)


def test_no_driver_on_a_host_whose_kernel_is_unknown() -> None:
    host = subject(**driver(**NOT_LOADED, module_installed=None), kernel=None)
    assert outcome(check_driver(host)) == ("failed", "No driver is installed.")


def test_as_many_gpus_as_stated_of_the_model() -> None:
    host = subject(before=BEFORE, expected={"gpus": 2, "model": "h100"})
    assert outcome(check_gpus(host)) == ("passed", "GPUs: 2, NVIDIA H100 80GB HBM3.")


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"gpus": 8}, "The PCI bus has 2 GPUs, and 8 are expected."),
        ({"gpus": 1}, "The PCI bus has 2 GPUs, and 1 are expected."),
        # The one that is excluded is there, so that one is left.
        ({"gpus": 3, "exclude": ["GPU-1"]}, "The PCI bus has 1 GPUs, and 2 are expected."),
    ],
)
def test_more_or_fewer_gpus_than_stated(expected: dict[str, t.Any], message: str) -> None:
    assert outcome(check_gpus(subject(expected=expected))) == ("failed", message)


def test_another_model_than_stated() -> None:
    host = subject({"product": None}, {"product": None, "name": None}, expected={"model": "H200"})
    assert outcome(check_gpus(host)) == (
        "failed",
        "GPU 0000:18:00.0 is GH100 [H100 SXM5 80GB], and H200 is expected, "
        "GPU 0000:2a:00.0 is of an unknown model, and H200 is expected.",
    )


def test_as_many_gpus_as_before() -> None:
    assert check_gpus(subject(before=BEFORE))[0].result == "passed"
    gone = subject(before=BEFORE, gpus=FACTS["gpus"][:1])
    assert outcome(check_gpus(gone)) == ("failed", wording("The GPUs 0000:2a:00.0 are no longer on the PCI bus."))
    assert check_gpus(subject(before=BEFORE, gpus=FACTS["gpus"][:1], expected={"exclude": ["GPU-1"]}))[0].result == (
        "passed"
    )


def test_a_gpu_that_moved_to_another_slot_passes_if_the_number_is_stated() -> None:
    moved: tuple[dict[str, t.Any], ...] = ({}, {"pci_address": "0000:3a:00.0"})
    assert check_gpus(subject(*moved, before=BEFORE))[0].result == "failed"
    assert check_gpus(subject(*moved, before=BEFORE, expected={"gpus": 2}))[0].result == "passed"


def test_without_a_statement_and_a_record_one_gpu_is_enough() -> None:
    assert check_gpus(subject())[0].result == "passed"
    assert outcome(check_gpus(subject(gpus=[]))) == ("failed", wording("There is no NVIDIA GPU on the PCI bus."))


def test_lost_gpus_and_gpus_that_do_not_answer() -> None:
    lost = {"lost": True, "uuid": None, "reason": "The GPU fell off the bus (NVML: GPU is lost)"}
    silent = {"uuid": None, "reason": "NVML did not answer in time, because the driver hangs"}
    failed, unknown = check_gpus(subject(lost, silent))
    assert (failed.result, failed.message) == ("failed", wording("GPU 0000:18:00.0 has fallen off the bus."))
    assert (unknown.result, unknown.message) == (
        "unknown",
        wording("GPU 0000:2a:00.0 does not answer the driver: NVML did not answer in time, because the driver hangs."),
    )
    # Without a driver of the host, nobody can ask the GPUs.
    assert check_gpus(subject({"uuid": None}, silent, source="container"))[0].result == "passed"
    assert check_gpus(subject(lost, silent, expected={"exclude": ["0000:18:00.0", "0000:2a:00.0"]}))[0].result == (
        "failed"
    )


@pytest.mark.parametrize(
    ("before", "expected", "result", "message"),
    [
        ({}, {}, "skipped", wording("The expected number of NVSwitches is unknown.")),
        (BEFORE, {}, "passed", "NVSwitches: 4."),
        ({"nvswitches": 2}, {}, "passed", "NVSwitches: 4."),
        ({"nvswitches": 6}, {}, "failed", "The PCI bus has 4 NVSwitches, and 6 are expected."),
        ({"nvswitches": 4}, {}, "passed", "NVSwitches: 4."),
        ({"nvswitches": 6}, {"nvswitches": 4}, "passed", "NVSwitches: 4."),
        ({}, {"nvswitches": 0}, "failed", "The PCI bus has 4 NVSwitches, and 0 are expected."),
    ],
)
def test_nvswitches(before: dict[str, t.Any], expected: dict[str, t.Any], result: str, message: str) -> None:
    assert outcome(check_nvswitches(subject(before=before, expected=expected))) == (result, message)


def logged(*lines: str) -> list[dict[str, t.Any]]:
    """The events that gpu_facts finds in lines of a kernel log."""
    return [dataclasses.asdict(event) for event in messages.parse_log("\n".join(lines))]


OFF_THE_BUS = "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
DOUBLE_BIT = "NVRM: Xid (PCI:0000:2a:00): 48, pid='<unknown>', name=<unknown>, DBE (double bit error) on GPU"
ENGINE = "NVRM: Xid (PCI:0000:18:00): 13, pid=1, name=python, Graphics Exception"
NO_LONGER = "NVRM: Xid (PCI:0000:2a:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"


def test_errors_after_which_the_application_restarts_are_no_obstacle() -> None:
    assert outcome(check_errors(subject(xid=logged(ENGINE)))) == (
        "passed",
        wording("The kernel log has no fatal error of a GPU or a switch since the boot."),
    )


def test_fatal_errors() -> None:
    host = subject(xid=logged(OFF_THE_BUS, OFF_THE_BUS, ENGINE, DOUBLE_BIT, NO_LONGER))
    result, message = outcome(check_errors(host))
    assert result == "failed"
    assert message == wording(
        "The kernel log since the boot has fatal errors: 0000:18:00.0: Xid 79 (GPU has fallen off the bus), 0000:2a:00.0: Xid 48 (Double Bit ECC Error)."
    )
    assert message.count("Xid 79") == 1
    assert check_errors(subject(xid=logged(OFF_THE_BUS), expected={"exclude": ["GPU-0"]}))[0].result == "passed"


def test_a_fatal_error_of_a_switch() -> None:
    fatal = "nvidia-nvswitch0: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    result, message = outcome(check_errors(subject(xid=logged(fatal))))
    assert (result, "0000:07:00.0: SXid 20034" in message) == ("failed", True)
    harmless = fatal.replace("Fatal, Link", "Non-fatal, Link")
    assert outcome(check_errors(subject(xid=logged(harmless))))[0] == "passed"


def test_errors_that_nobody_could_read() -> None:
    host = subject(xid=None, sources={"xid": {"reason": "journalctl did not answer within 10 s"}})
    assert outcome(check_errors(host)) == (
        "unknown",
        wording("The errors in the kernel log are not known: journalctl did not answer within 10 s."),
    )
    host = subject()
    del host.facts["xid"]
    assert outcome(check_errors(host))[1] == wording(
        "The errors in the kernel log are not known: the subset xid was not gathered."
    )
