# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Queries for GPUs with faults, and what the codes in them mean."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.catalogue import XIDS

from .promql import GPU, Scope

XIDS_NOW = "DCGM_EXP_XID_ERRORS_COUNT"
"""How often each Xid came within the exporter's window, which is 5 minutes unless XID_COUNT_WINDOW_SIZE differs. It has
the label xid, and one series without it for a GPU that had none."""
CLOCKS_NOW = "DCGM_EXP_CLOCK_EVENTS_COUNT"
"""In how many samples of the exporter's window each reason kept the clocks down, by the label clock_event."""
ECC_UNCORRECTABLE, REMAP_FAILED = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_FAILURE"
REMAP_PENDING, REMAPPED = "DCGM_FI_DEV_ROW_REMAP_PENDING", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"

_LEFT_ALONE = {None, "RESTART_APP", "IGNORE", "CHECK_UVM", "WORKFLOW_XID_45", "XID_154"}
"""NVIDIA's actions for Xids after which the machine is left alone, or that go along with another Xid."""
SERIOUS = "|".join(str(code) for code, row in sorted(XIDS.items()) if row.action not in _LEFT_ALONE)
MEANINGS = {str(code): f"{code}: {row.meaning}" for code, row in sorted(XIDS.items())}
HEALTH = {"0": "pass", "10": "warning", "20": "failure"}
"""The values of DCGM's health checks."""

SLOWDOWNS = "hw_slowdown|hw_thermal|hw_power_brake|sw_thermal"
"""The reasons that mean trouble with heat or with power. Idle clocks and a reached power limit are everyday life."""
NVLINK = {
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": "CRC errors of flits",
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": "CRC errors of data",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "replays",
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": "recoveries",
    "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS": "errors after correction (Blackwell)",
    "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS": "failed recoveries (Blackwell)",
}
"""The counters of errors on NVLinks. The fifth generation counts other things than those before."""


def serious(scope: Scope) -> str:
    """Return the query for GPUs with a recent Xid of hardware, firmware or driver."""
    codes = f'xid=~"{SERIOUS}"'
    return f"({scope.each(XIDS_NOW, codes)} > 0)"


def bad_memory(scope: Scope) -> str:
    """Return the query for GPUs whose memory has errors that ECC could not correct, or that remapping left."""
    return (
        "(" + " or ".join(f"{scope.each(each)} > 0" for each in (ECC_UNCORRECTABLE, REMAP_FAILED, REMAP_PENDING)) + ")"
    )


def slowed_down(scope: Scope) -> str:
    """Return the query for GPUs that were slowed down by heat or power within the exporter's window."""
    reasons = f'clock_event=~"{SLOWDOWNS}"'
    return f"({scope.each(CLOCKS_NOW, reasons)} > 0)"


def xids_in_range(scope: Scope, by: str) -> str:
    """Return the query for the number of Xids in the time range.

    Each window of 5 minutes is read once at its end, so each Xid counts once.
    """
    each = scope.each(XIDS_NOW, 'xid!=""', by=f"{GPU}, xid")
    return f"sum by ({by}) (sum_over_time(({each})[$__range:5m])) > 0"


def nvlink_errors(scope: Scope) -> str:
    """Return the query for the errors per second on the NVLinks of each GPU, whatever their generation counts."""
    rates = (f'label_replace({scope.rate(metric)}, "kind", "{kind}", "", "")' for metric, kind in NVLINK.items())
    return f"({' or '.join(rates)})"
