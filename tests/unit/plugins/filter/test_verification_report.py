# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.verification_report import FilterModule, verification_report
from inline_snapshot import snapshot as wording


def check(classname: str, name: str, failure: str = "", skipped: str = "") -> dict[str, t.Any]:
    return {"classname": classname, "name": name, "failure": failure, "skipped": skipped}


def test_each_group_has_a_line_of_counts_and_its_reasons_with_their_nodes() -> None:
    checks = [
        check("stack", "operands"),
        check("stack", "tested", "Only 0 of 9 nodes were tested."),
        check("smoke", "a"),
        check("smoke", "b", "Status 1."),
        *(check("smoke", f"n{number}", skipped="The node is cordoned.") for number in range(7)),
        check("smoke", "z", skipped="Other pods hold the node's GPUs."),
        check("dcgm", "a"),
    ]
    assert verification_report(checks) == [
        "stack: 1 passed, 1 failed",
        "  failed: Only 0 of 9 nodes were tested. (tested)",
        "smoke: 1 passed, 1 failed, 8 skipped",
        "  failed: Status 1. (b)",
        "  skipped: The node is cordoned. (n0, n1, n2, n3, n4, and 2 more)",
        wording("  skipped: Other pods hold the node's GPUs. (z)"),
        "dcgm: 1 passed",
    ]


def test_a_check_that_failed_and_was_skipped_has_failed() -> None:
    assert verification_report([check("x", "a", "broken", "busy")]) == ["x: 1 failed", "  failed: broken (a)"]


def test_no_checks_make_no_lines() -> None:
    assert verification_report([]) == []


@pytest.mark.parametrize("checks", ["text", {"name": "a"}, ["a"], [{"classname": "x"}], None])
def test_other_input_is_refused(checks: object) -> None:
    with pytest.raises(AnsibleFilterError, match="list of checks"):
        FilterModule().filters()["verification_report"](checks)
