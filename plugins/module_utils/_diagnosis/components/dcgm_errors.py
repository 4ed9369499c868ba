# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The errors of DCGM's health checks and diagnostics: their numbers, what DCGM advises, and what they mean. Pure.

From dcgmlib/dcgm_errors.h and dcgmlib/src/dcgm_errors.c of NVIDIA/DCGM at 72fa3fea (2026-07-06), without those that are
deprecated or about DCGM itself. Monitors of nodes, such as NVSentinel and the agent of EKS, report them by name or by
number.
"""

from __future__ import annotations

import dataclasses
import typing as t

Advice = t.Literal["isolate", "reset", "triage", "monitor", "configure"]
"""What DCGM advises: take the GPU out of service, reset it, look closer, watch it, or change a setting."""


@dataclasses.dataclass(frozen=True)
class DCGMError:
    """An error of DCGM."""

    name: str
    """Without its prefix ``DCGM_FR_``."""
    number: int
    advice: Advice
    meaning: str


_ROWS: tuple[tuple[int, Advice, str, str], ...] = (
    (3, "isolate", "PCI_REPLAY_RATE", "too many repeated transfers over PCIe"),
    (4, "isolate", "VOLATILE_DBE_DETECTED", "an uncorrectable memory error"),
    (5, "monitor", "VOLATILE_SBE_DETECTED", "many corrected memory errors"),
    (6, "reset", "PENDING_PAGE_RETIREMENTS", "memory pages that a reset will retire"),
    (7, "isolate", "RETIRED_PAGES_LIMIT", "too many retired memory pages"),
    (8, "isolate", "RETIRED_PAGES_DBE_LIMIT", "too many memory pages retired for uncorrectable errors"),
    (9, "triage", "CORRUPT_INFOROM", "a damaged InfoROM"),
    (10, "monitor", "CLOCKS_EVENT_THERMAL", "lower clocks because of heat"),
    (11, "monitor", "POWER_UNREADABLE", "a power draw that cannot be read"),
    (12, "monitor", "CLOCKS_EVENT_POWER", "lower clocks because of the power limit"),
    (13, "isolate", "NVLINK_ERROR_THRESHOLD", "too many NVLink errors"),
    (14, "triage", "NVLINK_DOWN", "an NVLink that is down"),
    (15, "isolate", "NVSWITCH_FATAL_ERROR", "a fatal error of an NVSwitch"),
    (16, "monitor", "NVSWITCH_NON_FATAL_ERROR", "an error of an NVSwitch that is not fatal"),
    (18, "configure", "NO_ACCESS_TO_FILE", "a device file that DCGM cannot open"),
    (20, "configure", "DEVICE_COUNT_MISMATCH", "fewer or more GPUs in NVML than below /dev"),
    (22, "triage", "CANNOT_OPEN_LIB", "a library that DCGM cannot open"),
    (23, "configure", "DENYLISTED_DRIVER", "nouveau in place of NVIDIA's driver"),
    (25, "reset", "GRAPHICS_PROCESSES", "graphics programs on the GPU"),
    (28, "configure", "BAD_CUDA_ENV", "variables in the environment that disturb CUDA"),
    (29, "configure", "PERSISTENCE_MODE", "persistence mode that is off"),
    (30, "triage", "LOW_BANDWIDTH", "too little bandwidth"),
    (31, "triage", "HIGH_LATENCY", "too much latency"),
    (33, "isolate", "FIELD_VIOLATION", "an error counter above zero"),
    (40, "monitor", "THERMAL_VIOLATIONS", "slowdown because of heat"),
    (41, "monitor", "THERMAL_VIOLATIONS_TS", "slowdown because of heat"),
    (42, "monitor", "TEMP_VIOLATION", "too high a temperature"),
    (43, "monitor", "CLOCKS_EVENT_VIOLATION", "clocks that are held down"),
    (45, "triage", "PCIE_GENERATION", "a PCIe link of too low a generation"),
    (46, "configure", "PCIE_WIDTH", "a PCIe link with too few lanes"),
    (50, "triage", "STRESS_LEVEL", "too little performance under load"),
    (51, "monitor", "CUDA_API", "a call of CUDA that failed"),
    (52, "isolate", "FAULTY_MEMORY", "faulty memory"),
    (55, "configure", "ECC_DISABLED", "ECC that is off"),
    (56, "triage", "MEMORY_ALLOC", "memory of the GPU that cannot be allocated"),
    (57, "isolate", "CUDA_DBE", "an uncorrectable memory error that CUDA saw"),
    (58, "isolate", "MEMORY_MISMATCH", "memory that returns other data than was written"),
    (59, "triage", "CUDA_DEVICE", "a GPU that CUDA does not find"),
    (62, "triage", "MEMORY_BANDWIDTH", "too little memory bandwidth"),
    (63, "triage", "TARGET_POWER", "a power draw that stays below its target"),
    (64, "triage", "API_FAIL", "a call that failed"),
    (65, "triage", "API_FAIL_GPU", "a call for this GPU that failed"),
    (66, "triage", "CUDA_CONTEXT", "a CUDA context that cannot be created"),
    (70, "isolate", "NVLINK_CRC_ERROR_THRESHOLD", "too many checksum errors of an NVLink"),
    (71, "isolate", "NVLINK_ERROR_CRITICAL", "a critical NVLink error"),
    (72, "configure", "ENFORCED_POWER_LIMIT", "a power limit that is too low"),
    (73, "triage", "MEMORY_ALLOC_HOST", "memory of the host that cannot be allocated"),
    (79, "isolate", "L1TAG_MISCOMPARE", "a faulty cache"),
    (80, "reset", "ROW_REMAP_FAILURE", "a memory row that could not be remapped"),
    (81, "isolate", "UNCONTAINED_ERROR", "an uncontained memory error (Xid 95)"),
    (83, "reset", "DBE_PENDING_PAGE_RETIREMENTS", "memory pages that a reset will retire"),
    (84, "reset", "UNCORRECTABLE_ROW_REMAP", "memory rows remapped for uncorrectable errors"),
    (85, "reset", "PENDING_ROW_REMAP", "a memory row that a reset will remap"),
    (86, "isolate", "BROKEN_P2P_MEMORY_DEVICE", "faulty copies to this GPU"),
    (87, "isolate", "BROKEN_P2P_WRITER_DEVICE", "faulty copies from this GPU"),
    (95, "isolate", "EUD_TEST_FAILED", "a failed extended diagnostic"),
    (98, "isolate", "PCIE_H_REPLAY_VIOLATION", "corrected PCIe errors"),
    (99, "triage", "GPU_EXPECTED_NVLINKS_UP", "fewer NVLinks than the GPU should have"),
    (100, "triage", "NVSWITCH_EXPECTED_NVLINKS_UP", "fewer NVLinks than the NVSwitch should have"),
    (102, "isolate", "SBE_VIOLATION", "corrected memory errors"),
    (103, "isolate", "DBE_VIOLATION", "uncorrectable memory errors"),
    (104, "isolate", "PCIE_REPLAY_VIOLATION", "repeated transfers over PCIe"),
    (105, "isolate", "SBE_THRESHOLD_VIOLATION", "too many corrected memory errors"),
    (106, "isolate", "DBE_THRESHOLD_VIOLATION", "too many uncorrectable memory errors"),
    (107, "isolate", "PCIE_REPLAY_THRESHOLD_VIOLATION", "too many repeated transfers over PCIe"),
    (108, "monitor", "CUDA_FM_NOT_INITIALIZED", "a fabric manager that has not finished"),
    (109, "isolate", "SXID_ERROR", "a fatal error of an NVSwitch (SXid)"),
    (110, "triage", "GFLOPS_THRESHOLD_VIOLATION", "too little computing performance"),
    (111, "isolate", "NAN_VALUE", "results that are no numbers"),
    (112, "configure", "FABRIC_MANAGER_TRAINING_ERROR", "NVLinks that the fabric manager could not train"),
    (118, "isolate", "SRAM_THRESHOLD", "too many errors of on-chip memory"),
    (119, "isolate", "NVLINK_EFFECTIVE_BER_THRESHOLD", "too many bit errors of an NVLink"),
    (120, "isolate", "FALLEN_OFF_BUS", "a GPU that has fallen off the bus"),
    (121, "isolate", "NVLINK_SYMBOL_BER_THRESHOLD", "too many symbol errors of an NVLink"),
    (122, "isolate", "IMEX_UNHEALTHY", "IMEX that is not ready"),
    (123, "monitor", "FABRIC_PROBE_STATE", "a GPU that has not joined the NVLink fabric"),
    (125, "reset", "GPU_RECOVERY_RESET", "a GPU that needs a reset"),
    (126, "isolate", "GPU_RECOVERY_REBOOT", "a GPU that needs a reboot of its node"),
    (127, "reset", "GPU_RECOVERY_DRAIN_P2P", "a GPU whose transfers to other GPUs must end"),
    (128, "reset", "GPU_RECOVERY_DRAIN_RESET", "a GPU with less capacity that needs a reset"),
    (129, "reset", "NCCL_ERROR", "an error of NCCL"),
    (131, "monitor", "CONTAINED_ERROR", "a contained memory error"),
    (132, "triage", "UNCORRECTABLE_ROW_REMAP_LIMIT", "too many memory rows remapped for uncorrectable errors"),
)

ERRORS: tuple[DCGMError, ...] = tuple(
    DCGMError(name, number, advice, meaning) for number, advice, name, meaning in _ROWS
)
BY_NAME: t.Mapping[str, DCGMError] = {each.name: each for each in ERRORS}
BY_NUMBER: t.Mapping[int, DCGMError] = {each.number: each for each in ERRORS}
