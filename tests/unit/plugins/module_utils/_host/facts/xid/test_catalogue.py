# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.xid.catalogue import GPU_ACTIONS, XIDS, action

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


@pytest.mark.parametrize("code", sorted(XIDS))
def test_each_code_has_a_meaning_and_an_action_of_nvidias_catalog(code: int) -> None:
    meaning, recommended = XIDS[code]
    assert len(meaning) > 5
    assert recommended in ACTIONS


@pytest.mark.parametrize("code", [13, 31, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 154])
def test_common_codes_have_a_meaning_and_an_action(code: int) -> None:
    assert all(XIDS[code])


def test_each_action_on_the_gpu_is_in_the_table() -> None:
    assert {recommended for _meaning, recommended in XIDS.values()} >= GPU_ACTIONS


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
