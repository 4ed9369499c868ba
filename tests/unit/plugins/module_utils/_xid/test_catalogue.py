# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.catalogue import GPU_ACTIONS, XIDS, action, meaning

ACTIONS = {
    None,
    "CHECK_MECHANICALS",
    "CHECK_UVM",
    "CONTACT_SUPPORT",
    "IGNORE",
    "RESET_GPU",
    "RESTART_APP",
    "RESTART_BM",
    "RESTART_VM",
    "UPDATE_SWFW",
    "WORKFLOW_NVLINK5_ERR",
    "WORKFLOW_NVLINK_ERR",
    "WORKFLOW_XID_45",
    "WORKFLOW_XID_48",
    "XID_154",
}
"""The words of the column "Resolution Bucket" in NVIDIA's catalog."""

INVESTIGATIONS = {
    None,
    "CHECK_APP",
    "CONTACT_SUPPORT",
    "FOLLOW_OTHER",
    "IGNORE",
    "IGNORE_SYMPATHETIC",
    "INVESTIGATE_LINK_SI",
    "INVESTIGATE_SW",
    "INVESTIGATE_SW_USER",
    "RESTART_FM_IF_ALONE",
    "SYMPATHETIC_REPORT_SOLO",
    "UPDATE_SWFW",
    "WORKFLOW_NVLINK5_ERR",
    "WORKFLOW_XID_13",
    "WORKFLOW_XID_31",
    "WORKFLOW_XID_48",
    "XID_137_FLOW",
}
"""The words of the column "Investigatory Action", without its remarks in brackets."""


@pytest.mark.parametrize("code", sorted(XIDS))
def test_each_code_has_a_meaning_and_an_action_of_nvidias_catalog(code: int) -> None:
    row = XIDS[code]
    assert len(row.meaning) > 5
    assert row.action in ACTIONS
    assert row.investigation in INVESTIGATIONS


@pytest.mark.parametrize("code", [13, 31, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 154])
def test_common_codes_have_a_meaning_and_an_action(code: int) -> None:
    assert XIDS[code].meaning and XIDS[code].action


def test_each_action_on_the_gpu_is_in_the_table() -> None:
    assert {row.action for row in XIDS.values()} >= GPU_ACTIONS


@pytest.mark.parametrize(
    ("code", "severity", "recommended"),
    [
        (79, None, "RESTART_BM"),
        (4711, None, None),
        (145, None, "WORKFLOW_NVLINK5_ERR"),
        (144, "fatal", "RESET_GPU"),
        (150, "nonfatal", "XID_154_EVAL"),
        (151, "fatal", "RESTART_VM"),
    ],
)
def test_the_action_for_a_code(code: int, severity: str | None, recommended: str | None) -> None:
    assert action(code, severity) == recommended


def test_a_code_has_a_meaning_if_the_catalog_knows_it() -> None:
    assert meaning(79) == XIDS[79].meaning and meaning(4711) is None


def test_the_catalog_speaks_of_some_architectures() -> None:
    assert XIDS[79].applies_to("Ada Lovelace") and XIDS[79].applies_to("Hopper")
    assert XIDS[151].applies_to("Blackwell") and not XIDS[151].applies_to("Ampere")
