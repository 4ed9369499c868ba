# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The findings of the checks of clusters and hosts."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import CheckFinding, as_result, worst_first

FINE = CheckFinding("kubernetes", "ok", "Kubernetes 1.34 is supported.")
ODD = CheckFinding("driver", "warning", "The driver is not in the list.", "Use a listed driver.")
BAD = CheckFinding("nfd", "failure", "Node Feature Discovery is missing.", "Install it.")


def test_failures_come_first() -> None:
    assert worst_first([FINE, ODD, BAD, FINE]) == [BAD, ODD, FINE, FINE]


def test_findings_as_a_result() -> None:
    result = as_result([BAD, ODD, FINE, FINE])
    assert result["summary"] == {"failures": 1, "warnings": 1, "ok": 2}
    assert result["findings"][0] == {
        "check": "nfd",
        "level": "failure",
        "message": "Node Feature Discovery is missing.",
        "remedy": "Install it.",
    }
