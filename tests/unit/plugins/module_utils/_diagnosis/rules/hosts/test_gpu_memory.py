# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts.gpu_memory import RULES

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE


def host(**fields: t.Any) -> dict[str, t.Any]:
    """Return what is known of a host with one GPU."""
    gpu = {"pci_address": "0000:18:00.0", "lost": False, **fields}
    return {"hosts": {NODE: {"facts": {"gpus": [gpu]}}}}


@pytest.mark.parametrize(
    ("evidence", "code"),
    [
        (host(remapped_rows={"pending": True, "failure": False}), "RowRemapPending"),
        (host(remapped_rows={"pending": True, "failure": True}), "RowRemapFailed"),
        (host(ecc={"enabled": True, "pending": True, "uncorrected": 2}), "MemoryUncorrectable"),
        (host(ecc={"enabled": True, "pending": False, "uncorrected": 0}), "ECCChangePending"),
        (host(retired_pages={"single_bit": 0, "double_bit": 1, "pending": True}), "PagesRetiredPending"),
    ],
)
def test_facts_of_a_gpus_memory(evidence: dict[str, t.Any], code: str) -> None:
    found = diagnosed.found(RULES, **evidence)
    assert {each: finding.certainty for each, finding in found.items()} == {code: "certain"}
    assert found[code].objects == ("GPU 0000:18:00.0",)


@pytest.mark.parametrize(
    "evidence",
    [
        host(ecc={"enabled": True, "pending": True, "uncorrected": 0}),
        host(remapped_rows={"correctable": 1, "uncorrectable": 2, "pending": False, "failure": False}),
        host(ecc=None, remapped_rows=None, retired_pages=None),
        host(lost=True, remapped_rows={"pending": True, "failure": False}),
    ],
)
def test_memory_that_is_well_or_unknown(evidence: dict[str, t.Any]) -> None:
    assert not diagnosed.found(RULES, **evidence)


def test_a_report_of_nvidia_smi_about_its_rows() -> None:
    # https://github.com/leptonai/gpud/pull/80
    pending, failed = "            Pending                           : Yes", "Remapping Failure Occurred : Yes"
    assert set(diagnosed.found(RULES, "    Remapped Rows", pending)) == {"RowRemapPending"}
    assert set(diagnosed.found(RULES, "    Remapped Rows", pending, failed)) == {"RowRemapFailed"}
    assert not diagnosed.found(RULES, pending)
    assert not diagnosed.found(RULES, "    Remapped Rows", pending.replace("Yes", "No"))
