# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import error_alerts
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Thresholds
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.dcgm_fields import OLDEST_LINE
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.catalogue import XIDS


def test_each_xid_has_at_most_one_alert_and_those_that_ask_for_nothing_have_none() -> None:
    found: list[int] = []
    for alert in error_alerts.of_errors():
        for codes in re.findall(r'xid=~"([^"]*)"', alert.expression):
            found += map(int, codes.split("|"))
    quiet = {None, "IGNORE", "WORKFLOW_XID_45", "UPDATE_SWFW", "XID_154", "CHECK_UVM"}
    assert sorted(found) == sorted(code for code, row in XIDS.items() if row.action not in quiet)


def test_heat_and_power_are_asked_by_their_bits() -> None:
    heat, power, margin = error_alerts.of_clocks(Thresholds(temperature_margin=5))
    assert "/ 32) % 4 > 0" in heat.expression and "/ 128) % 2 > 0" in power.expression
    assert "DCGM_FI_DEV_GPU_TEMP_LIMIT < 5," in margin.expression


def test_errors_of_hardware_are_told_during_maintenance_too() -> None:
    told = {alert.name for alert in error_alerts.of_errors() if not alert.is_silent_in_maintenance}
    assert told == {"GpuXidReboot", "GpuXidHardware", "GpuEccUncorrectable", "GpuRowRemapFailed"}
    assert all(alert.is_silent_in_maintenance for alert in error_alerts.of_clocks(Thresholds()))


def test_what_the_driver_asks_for_is_read_by_exporters_of_v26_3_and_later() -> None:
    late = {alert.name: alert.since for alert in error_alerts.of_errors() if alert.since != OLDEST_LINE}
    assert late == {"GpuRecoveryAction": (26, 3)} and OLDEST_LINE == (25, 10)
