# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Alert


def test_the_fields_of_an_alert_follow_from_its_expression() -> None:
    alert = Alert("A", "info", "DCGM_FI_DEV_GPU_TEMP > 1 and up", "5m", "s", "c", "l", "r")
    assert alert.fields == {"DCGM_FI_DEV_GPU_TEMP"}
    assert alert.is_silent_in_maintenance and alert.since == (25, 10) and alert.needs == ()
