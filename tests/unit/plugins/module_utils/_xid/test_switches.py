# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import collections

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import switches


def test_the_table_has_the_93_codes_of_the_guide() -> None:
    counts = collections.Counter(row.severity for row in switches.SXIDS.values())
    assert counts == {"fatal": 42, "nonfatal": 25, "always": 20, "other": 6}


@pytest.mark.parametrize(
    ("code", "severity", "action"),
    [
        (20034, "fatal", "RESET_ALL"),
        (20034, None, "RESET_ALL"),
        (20034, "nonfatal", "IGNORE"),
        (12020, "fatal", "RESTART_BM"),
        (12020, None, "RESTART_BM"),
        (12020, "nonfatal", "IGNORE"),
        (11012, "nonfatal", "IGNORE"),
        (11012, "fatal", "RESET_ALL"),
        (19084, "nonfatal", "RESET_ALL"),
        (12028, "nonfatal", "RESTART_APP"),
        (99999, None, None),
        (99999, "correctable", "IGNORE"),
        (99999, "fatal", "RESET_ALL"),
    ],
)
def test_the_message_says_whether_an_error_is_fatal(code: int, severity: str | None, action: str | None) -> None:
    assert switches.action(code, severity) == action


def test_each_code_with_an_action_of_its_own_is_in_the_table() -> None:
    assert set(switches.ACTIONS) | switches.LINK_DOWN <= set(switches.SXIDS)
