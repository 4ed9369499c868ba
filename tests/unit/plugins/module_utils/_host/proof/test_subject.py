# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.subject import (
    Findings,
    Subject,
    Verdict,
    record,
)
from inline_snapshot import snapshot as wording

GPU: dict[str, t.Any] = {
    "pci_address": "0000:18:00.0",
    "device_id": "10de:2330",
    "name": "GH100 [H100 SXM5 80GB]",
    "architecture": "Hopper",
    "product": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-0",
    "serial": "1650124000000",
    "persistence_mode": True,
    "pcie": {
        "generation": 1,
        "generation_max": 5,
        "generation_host": 5,
        "width": 16,
        "width_max": 16,
        "degraded": False,
    },
    "ecc": {"enabled": True, "pending": True, "corrected": 7, "uncorrected": 0},
    "remapped_rows": {"correctable": 1, "uncorrectable": 0, "pending": False, "failure": False},
    "retired_pages": None,
    "recovery_action": "NONE",
    "mig": {"mode": False, "pending": False, "instances": []},
    "nvlink": {"links": 18, "active": 18, "version": 4},
    "fabric": {"state": "Completed", "status": "Success", "health": None, "problems": []},
    "lost": False,
    "reason": None,
}
FACTS: dict[str, t.Any] = {
    "gpus": [GPU, {**GPU, "pci_address": "0000:2a:00.0", "uuid": "GPU-1", "serial": "1650124000001"}],
    "nvswitches": [{"device_id": "10de:22a3"}] * 4,
    "fabric": {"kind": "nvswitch"},
    "driver": {
        "loaded": True,
        "version": "580.95.05",
        "module_installed": True,
        "installed_version": "580.95.05",
        "userspace_version": "580.95.05",
        "matches": True,
        "signer": None,
        "signer_enrolled": None,
        "containerised": False,
        "origin": "nvidia",
    },
    "kernel": {"running": "6.8.0-87-generic"},
    "services": {"fabric_manager": {"active": True, "version": "580.95.05", "matches_driver": True}},
    "xid": [],
    "sources": {"gpus.fabric": {"source": None, "reason": "NVML did not answer in time."}},
}
BEFORE: dict[str, t.Any] = {
    "driver": {"loaded": True, "version": "580.95.05", "origin": "nvidia"},
    "gpus": [
        {
            "pci_address": address,
            "device_id": "10de:2330",
            "uuid": uuid,
            "serial": serial,
            "width": 16,
            "generation_host": 5,
            "links": 18,
        }
        for address, uuid, serial in (
            ("0000:18:00.0", "GPU-0", "1650124000000"),
            ("0000:2a:00.0", "GPU-1", "1650124000001"),
        )
    ],
    "nvswitches": 4,
}


def subject(
    *gpus: dict[str, t.Any],
    source: str = "host",
    before: dict[str, t.Any] | None = None,
    expected: dict[str, t.Any] | None = None,
    **facts: t.Any,
) -> Subject:
    """A host whose first GPUs differ from healthy ones in the given facts."""
    found = copy.deepcopy({**FACTS, **facts})
    for gpu, values in zip(found["gpus"], gpus, strict=False):
        gpu.update(values)
    return Subject(found, source, before or {}, expected or {})


def test_the_record_of_a_host() -> None:
    assert record(FACTS) == BEFORE


def test_the_record_of_a_host_without_a_driver() -> None:
    facts = {
        "gpus": [{"pci_address": "0000:18:00.0", "pcie": None, "nvlink": None}],
        "nvswitches": None,
        "driver": {"loaded": False, "version": None},
    }
    assert record(facts) == {
        "driver": {"loaded": False, "version": None, "origin": None},
        "gpus": [
            {
                "pci_address": "0000:18:00.0",
                **dict.fromkeys(("device_id", "uuid", "serial", "width", "generation_host", "links")),
            }
        ],
        "nvswitches": 0,
    }


def test_excluded_gpus_do_not_count() -> None:
    for name in ("0000:2A:00.0", "GPU-1", "1650124000001"):
        host = subject(before=BEFORE, expected={"exclude": [name, "0000:ff:00.0"]})
        assert [gpu["uuid"] for gpu in host.gpus] == ["GPU-0"]
        assert [gpu["uuid"] for gpu in host.former_gpus] == ["GPU-0"]
        assert host.excluded == 1
    # A GPU without a serial number is not the one whose name is missing.
    assert not subject(expected={"exclude": ["None"]}).is_excluded({"pci_address": "0000:18:00.0"})


def test_what_is_recorded_of_a_gpu() -> None:
    host = subject(before=BEFORE)
    assert host.former(host.gpus[1]) == BEFORE["gpus"][1]
    assert host.former({"pci_address": "0000:ff:00.0"}) == {}


def test_why_a_fact_is_unknown() -> None:
    host = subject()
    assert host.why_unknown("gpus.fabric") == wording("NVML did not answer in time")
    assert host.why_unknown("gpus.ecc") == wording("the driver does not say")


def test_one_verdict_for_what_failed_and_one_for_what_is_unknown() -> None:
    found = Findings(failed=["GPU a is lost", "GPU b is lost"], unknown=["GPU c does not answer"])
    assert found.verdicts("proof_x", "All is well.", "Reset it.", "Ask it.") == [
        Verdict("proof_x", "failed", "GPU a is lost, GPU b is lost.", "Reset it."),
        Verdict("proof_x", "unknown", "GPU c does not answer.", "Ask it."),
    ]
    assert Findings().verdicts("proof_x", "All is well.") == [Verdict("proof_x", "passed", "All is well.")]
