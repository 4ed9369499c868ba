# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import typing as t

import hypothesis.strategies as st
import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.proof import CHECKS, prove, reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.subject import Verdict
from hypothesis import given
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._host.guests.test_guest_problems import FOR_GUESTS, KERNEL
from tests.unit.plugins.module_utils._host.proof.test_subject import BEFORE, FACTS, GPU


def options(**values: t.Any) -> dict[str, t.Any]:
    nothing: dict[str, t.Any] = {"before": {}, "expected": {}, "skip": [], "workload_kind": "container"}
    return {"facts": copy.deepcopy(FACTS), "driver": "host", **nothing, **values}


FOR_CONTAINERS = list(CHECKS)[:10]


def test_a_healthy_host_is_proved() -> None:
    result = prove(options(before=BEFORE, expected={"version": "580", "gpus": 2, "model": None, "persistence": True}))
    assert (result["proved"], result["reason"]) == (True, "")
    assert [finding["check"] for finding in result["findings"]] == FOR_CONTAINERS
    assert result["summary"] == {"failed": 0, "unknown": 0, "passed": 10, "skipped": 0}
    assert result["record"] == BEFORE


def test_what_failed_comes_before_what_is_unknown() -> None:
    given_options = options()
    given_options["facts"]["gpus"][0].update(fabric=None, recovery_action="NODE_REBOOT")
    result = prove(given_options)
    assert [finding["result"] for finding in result["findings"]][:3] == ["failed", "unknown", "passed"]
    assert result["summary"] == {"failed": 1, "unknown": 1, "passed": 6, "skipped": 2}
    assert result["proved"] is False
    assert result["reason"] == (
        wording(
            "GPU 0000:18:00.0 needs NODE_REBOOT, says the driver. Reboot the host, or reset the GPU "
            "(nvidia-smi --gpu-reset). If that does not help, replace the GPU. 1 more findings are in the report."
        )
    )


def test_what_is_unknown_is_not_proved() -> None:
    given_options = options()
    given_options["facts"]["gpus"][0]["fabric"] = None
    result = prove(given_options)
    assert (result["proved"], result["summary"]["failed"], result["summary"]["unknown"]) == (False, 0, 1)


@pytest.mark.parametrize(
    ("driver", "why"),
    [
        ("container", "The driver container"),
        ("none", "have no driver"),
    ],
)
def test_a_host_without_a_driver_of_its_own(driver: str, why: str) -> None:
    facts = copy.deepcopy(FACTS)
    facts["driver"].update(loaded=False, version=None, matches=None)
    for gpu in facts["gpus"]:
        gpu.update(dict.fromkeys(("uuid", "ecc", "nvlink", "fabric", "persistence_mode")))
    result = prove(options(facts=facts, driver=driver, before=BEFORE, expected={"persistence": True}))
    assert result["proved"] is True
    (message,) = {finding["message"] for finding in result["findings"] if finding["result"] == "skipped"}
    assert why in message
    assert [finding["check"] for finding in result["findings"] if finding["result"] == "passed"] == [
        "proof_gpus",
        "proof_nvswitches",
        "proof_errors",
    ]


def test_a_check_that_is_left_out() -> None:
    facts = copy.deepcopy(FACTS)
    facts["gpus"][0]["pcie"]["width"] = 8
    assert prove(options(facts=facts))["proved"] is False
    result = prove(options(facts=facts, skip=["proof_pcie"]))
    assert result["proved"] is True
    assert {
        "check": "proof_pcie",
        "result": "skipped",
        "message": wording("The check is left out by skip."),
        "remedy": "",
    } in result["findings"]


@pytest.mark.parametrize(("kind", "own"), [("vm-passthrough", "proof_binding"), ("vm-vgpu", "proof_vgpus")])
def test_a_host_of_virtual_machines(kind: str, own: str) -> None:
    facts = {**copy.deepcopy(FACTS), **copy.deepcopy(FOR_GUESTS), "kernel": KERNEL}
    facts["driver"].update(loaded=False, version=None, matches=None)
    given = {"facts": facts, "driver": "none", "workload_kind": kind}
    result = prove(options(**given))
    assert result["proved"] is True
    for_guests = ["proof_iommu", "proof_iommu_groups", own]
    assert sorted(finding["check"] for finding in result["findings"]) == sorted([*FOR_CONTAINERS, *for_guests])
    assert prove(options(**given, skip=for_guests))["summary"]["passed"] == 2
    facts["iommu"]["enabled"] = False
    broken = prove(options(**given))
    assert (broken["proved"], broken["summary"]["failed"], broken["summary"]["unknown"]) == (False, 1, 1)


def test_no_statements() -> None:
    assert prove(options(before=None, expected=None))["proved"] is True


def test_missing_facts() -> None:
    with pytest.raises(GpuOpsError) as error:
        prove(options(facts={"gpus": []}))
    assert error.value.msg == wording(
        "The facts lack nvswitches, fabric, driver. Gather the subsets min, gpus, services and xid of gpuops.nvidia.gpu_facts."
    )


def test_a_reason_without_a_remedy() -> None:
    assert reason([Verdict("a", "unknown", "It is unknown."), Verdict("b", "passed", "Good.")]) == "It is unknown."


READINGS = sorted(set(GPU) - {"pci_address", "lost"})


@given(missing=st.sets(st.sampled_from(READINGS)), kind=st.sampled_from(["none", "nvswitch", "nvlink5", "nvl72"]))
def test_no_reading_that_is_missing_breaks_the_proof_or_proves_more(missing: set[str], kind: str) -> None:
    facts = copy.deepcopy(FACTS)
    facts["fabric"] = {"kind": kind}
    facts["gpus"][0].update(dict.fromkeys(missing))
    result = prove(options(facts=facts, before=BEFORE, expected={"persistence": True, "gpus": 2}))
    needed = {"uuid", "pcie", "nvlink", "persistence_mode"} | ({"fabric"} if kind != "none" else set())
    if missing & needed:
        assert result["proved"] is False
        assert result["summary"]["unknown"] > 0
    else:
        assert result["summary"]["failed"] == 0
