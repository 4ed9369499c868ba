# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import recovery


def test_actions_that_this_version_does_not_know_keep_their_number() -> None:
    assert recovery.recovery_action(7) == "SYSTEM_REBOOT"
    assert (recovery.recovery_action(8), recovery.recovery_action(200)) == ("UNKNOWN_8", "UNKNOWN_200")
