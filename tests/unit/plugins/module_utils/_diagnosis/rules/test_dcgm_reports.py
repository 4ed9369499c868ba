# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of DCGM by their names and numbers, as monitors of nodes report them."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import dcgm_errors
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import dcgm_reports

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "severity", "words"),
    [
        (
            "ErrorCode:DCGM_FR_VOLATILE_DBE_DETECTED GPU:4 PCI:0000:c4:00.0",
            "DCGMFindsFault",
            "failure",
            "uncorrectable",
        ),
        ("DCGM_FR_PENDING_ROW_REMAP", "DCGMFindsFault", "failure", "a reset will remap"),
        ("Reason:DCGMHealthCode14", "DCGMReportsTrouble", "warning", "NVLink"),
        ("DCGM_FR_PERSISTENCE_MODE", "DCGMReportsTrouble", "warning", "persistence mode"),
        # https://github.com/aws/eks-node-monitoring-agent/pull/63
        (
            "DCGM detected issues in health check system with error code 122",
            "IMEXReportedUnhealthy",
            "warning",
            "false alarm",
        ),
        # https://github.com/NVIDIA/DCGM/issues/308
        ("We are seeing `DCGM_FR_IMEX_UNHEALTHY` being set", "IMEXReportedUnhealthy", "warning", "false alarm"),
    ],
)
def test_an_error_is_told_with_its_meaning(text: str, code: str, severity: str, words: str) -> None:
    found = diagnosed.found(dcgm_reports.RULES, text)
    assert [*found] == [code]
    assert (found[code].severity, found[code].certainty) == (severity, "likely")
    assert words in found[code].cause


@pytest.mark.parametrize("text", ["DCGM_FR_XID_ERROR", "DCGM_FR_SOMETHING_NEW", "DCGMHealthCode999", "DCGM_FR_OK"])
def test_what_other_rules_tell_and_what_nobody_knows(text: str) -> None:
    assert diagnosed.found(dcgm_reports.RULES, text) == {}


def test_a_table_of_errors_is_no_report() -> None:
    names = [f"DCGM_FR_{each.name},CONTACT_SUPPORT" for each in dcgm_errors.ERRORS[:9]]
    assert diagnosed.found(dcgm_reports.RULES, *names) == {}
    assert diagnosed.found(dcgm_reports.RULES, *names[:2]) != {}
