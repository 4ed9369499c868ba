# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Alerts about errors of GPUs, and about GPUs that are slow."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import OF_GPU, Alert, Thresholds
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.promql import by_gpu, has_bits
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.catalogue import XIDS


def _codes(*actions: str) -> str:
    """Return a pattern of the Xids for which NVIDIA's catalogue recommends one of these actions."""
    return "|".join(str(code) for code, row in sorted(XIDS.items()) if row.action in actions)


def _xids(*actions: str) -> str:
    return by_gpu(f'DCGM_EXP_XID_ERRORS_COUNT{{xid=~"{_codes(*actions)}"}} > 0', "xid")


_XID_PAGE = "`gpuops.nvidia.explain` with the line of the kernel log says what NVIDIA's catalogue knows of the code."


def of_errors() -> tuple[Alert, ...]:
    """Return the alerts about errors of GPUs, their memory and their links."""
    kernel_log = "The kernel log of the node (`dmesg`, lines with NVRM) has the error with its details. " + _XID_PAGE
    return (
        Alert(
            "GpuXidReboot",
            "critical",
            _xids("RESTART_BM", "RESTART_VM"),
            "0m",
            f"{OF_GPU} needs a restart of its machine (Xid {{{{ $labels.xid }}}}).",
            "The driver lost the GPU, or cannot bring it back by itself.",
            kernel_log,
            "Drain the node, and restart the machine. If the error returns, have the GPU and its slot checked.",
            is_silent_in_maintenance=False,
            keeps_firing="30m",
        ),
        Alert(
            "GpuXidHardware",
            "critical",
            _xids("CONTACT_SUPPORT", "CHECK_MECHANICALS"),
            "0m",
            f"{OF_GPU} has an error of its hardware (Xid {{{{ $labels.xid }}}}).",
            "The GPU, its power supply or its firmware failed.",
            kernel_log,
            "Drain the node. Check power cables and seating, then contact the vendor's support.",
            is_silent_in_maintenance=False,
            keeps_firing="30m",
        ),
        Alert(
            "GpuXidReset",
            "warning",
            _xids("RESET_GPU", "WORKFLOW_XID_48"),
            "0m",
            f"{OF_GPU} needs a reset (Xid {{{{ $labels.xid }}}}).",
            "The GPU stopped a program after an error that it cannot clear while it is in use.",
            kernel_log,
            "Drain the node, and reset the GPU or restart the machine.",
            keeps_firing="30m",
        ),
        Alert(
            "GpuXidNvlink",
            "warning",
            _xids("WORKFLOW_NVLINK_ERR", "WORKFLOW_NVLINK5_ERR"),
            "0m",
            f"{OF_GPU} has an error of an NVLink (Xid {{{{ $labels.xid }}}}).",
            "A link between GPUs or to a switch failed, or was trained again.",
            kernel_log + " `nvidia-smi nvlink --errorcounters` shows the links.",
            "Drain the node, and reset all GPUs that the link connects. If the error returns, contact support.",
            keeps_firing="30m",
        ),
        Alert(
            "GpuXidApplication",
            "info",
            _xids("RESTART_APP"),
            "0m",
            "A program on GPU {{ $labels.gpu }} of node {{ $labels.node }} failed (Xid {{ $labels.xid }}).",
            "A program did what the GPU does not allow, such as reading memory that is not its own.",
            "The pod's log, and the kernel log of the node. " + _XID_PAGE,
            "Have the program's owner look at it. If several programs fail on this GPU only, drain and reset it.",
            keeps_firing="30m",
        ),
        Alert(
            "GpuRecoveryAction",
            "warning",
            by_gpu("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION > 0"),
            "5m",
            "The driver asks for a recovery of GPU {{ $labels.gpu }} of node {{ $labels.node }}.",
            "After an error, the driver says itself what the GPU needs: 1 reset, 2 reboot, 3 drain of peers, "
            "4 drain and reset.",
            "`nvidia-smi --query` on the node shows the action under GPU Recovery Action.",
            "Drain the node, and do what the driver asks for.",
            since=(26, 3),
        ),
        Alert(
            "GpuEccUncorrectable",
            "warning",
            by_gpu("increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[1h]) > 0"),
            "0m",
            "The memory of GPU {{ $labels.gpu }} of node {{ $labels.node }} had an uncorrectable error.",
            "Two bits of a word changed. The program that used the memory was stopped.",
            "`nvidia-smi --query --display=ECC,ROW_REMAPPER` on the node.",
            "Reset the GPU when it is free, so that it replaces the row. If the errors return, have it replaced.",
            is_silent_in_maintenance=False,
        ),
        Alert(
            "GpuRowRemapFailed",
            "critical",
            by_gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE > 0"),
            "0m",
            f"{OF_GPU} has no spare rows left for a bad row of its memory.",
            "The GPU could not replace a bad row of its memory.",
            "`nvidia-smi --query --display=ROW_REMAPPER` on the node.",
            "Drain the node, and have the GPU replaced: NVIDIA's policy for returns names this state.",
            is_silent_in_maintenance=False,
        ),
        Alert(
            "GpuRowRemapPending",
            "warning",
            by_gpu("DCGM_FI_DEV_ROW_REMAP_PENDING > 0"),
            "10m",
            f"{OF_GPU} waits for a reset to replace a bad row of its memory.",
            "The GPU has found a bad row, and replaces it at its next reset.",
            "`nvidia-smi --query --display=ROW_REMAPPER` on the node.",
            "Drain the node when its work allows that, and reset the GPU or restart the machine.",
        ),
        Alert(
            "GpuNvlinkRecovered",
            "warning",
            by_gpu("increase(DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL[1h]) > 0"),
            "0m",
            "NVLinks of GPU {{ $labels.gpu }} of node {{ $labels.node }} were trained again.",
            "A link lost its connection and found it again. Programs that used it may have failed.",
            "`nvidia-smi nvlink --errorcounters` on the node.",
            "Look at cables, switches and the fabric manager of the node.",
        ),
    )


def of_clocks(limits: Thresholds) -> tuple[Alert, ...]:
    """Return the alerts about heat and power."""
    reasons = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
    return (
        Alert(
            "GpuSlowFromHeat",
            "warning",
            by_gpu(has_bits(reasons, 32, 2)),
            "10m",
            f"{OF_GPU} is slower because it is too hot.",
            "The GPU lowers its clocks to stay below its limit (reasons 32 and 64 of the clock events).",
            "`nvidia-smi --query --display=PERFORMANCE,TEMPERATURE` on the node, and its fans and air.",
            "Check cooling. A job over many GPUs is as slow as this one.",
        ),
        Alert(
            "GpuSlowFromPowerBrake",
            "warning",
            by_gpu(has_bits(reasons, 128)),
            "5m",
            f"{OF_GPU} is slower because the machine limits its power.",
            "The power brake, a signal of the machine, halves the clocks or more (reason 128 of the clock events).",
            "Power supplies and their load in the machine's management controller.",
            "Check that all power supplies work, and the power budget of the rack.",
        ),
        Alert(
            "GpuNearTemperatureLimit",
            "warning",
            by_gpu(f"DCGM_FI_DEV_GPU_TEMP_LIMIT < {limits.temperature_margin}"),
            "10m",
            f"{OF_GPU} is {{{{ $value }}}} degrees from the temperature at which it slows down.",
            "The GPU is near its own limit, which differs between models.",
            "`nvidia-smi --query --display=TEMPERATURE` on the node, and its fans and air.",
            "Check cooling.",
        ),
    )
