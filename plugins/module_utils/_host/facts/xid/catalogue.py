# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's meaning of each Xid and the action that it recommends.

The table follows "Analyzing Xid Errors with the Xid Catalog", as of October 2025:
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
Each row has NVIDIA's description and the "immediate action" of its resolution bucket. Codes that the catalog calls
unused have the name from the older list (https://docs.nvidia.com/deploy/xid-errors/index.html) and no action.
"""

from __future__ import annotations

XIDS: dict[int, tuple[str, str | None]] = {
    6: ("Invalid or corrupted push buffer stream", None),
    7: ("Invalid or corrupted push buffer address", None),
    8: ("GPU stopped processing", "RESTART_APP"),
    11: ("Invalid or corrupted push buffer stream", "RESTART_APP"),
    12: ("Driver error handling GPU exception", None),
    13: ("Graphics Engine Exception", "RESTART_APP"),
    16: ("Display engine hung", None),
    18: ("Bus mastering disabled in PCI Config Space", None),
    24: ("GPU semaphore timeout", None),
    25: ("Invalid or illegal push buffer stream", "RESTART_APP"),
    26: ("Framebuffer timeout", None),
    30: ("GPU semaphore access error", None),
    31: ("GPU memory page fault", "RESTART_APP"),
    32: ("Invalid or corrupted push buffer stream", "RESTART_APP"),
    33: ("Internal micro-controller error", None),
    37: ("Driver firmware error", "IGNORE"),
    38: ("Driver firmware error", "IGNORE"),
    39: ("Copy Engine Exception", "RESTART_APP"),
    40: ("Copy Engine Exception", "RESTART_APP"),
    41: ("Copy Engine Exception", "RESTART_APP"),
    43: ("GPU stopped processing", "IGNORE"),
    44: ("Graphics Engine fault during context switch", "IGNORE"),
    45: ("Preemptive cleanup, due to previous errors", "WORKFLOW_XID_45"),
    46: ("GPU stopped processing", "RESET_GPU"),
    48: ("Double Bit ECC Error", "WORKFLOW_XID_48"),
    54: ("Auxiliary power is not connected to the GPU board", "CHECK_MECHANICALS"),
    56: ("Display Engine error", None),
    57: ("Error programming video memory interface", None),
    58: ("Unstable video memory interface detected", None),
    59: ("Internal micro-controller error (older drivers)", None),
    60: ("Video processor exception", "RESTART_APP"),
    61: ("Internal micro-controller breakpoint/warning", None),
    62: ("Internal micro-controller halt", "RESET_GPU"),
    63: ("GPU memory remapping event", "IGNORE"),
    64: ("GPU memory remapping failure", "RESET_GPU"),
    65: ("Video processor exception", None),
    66: ("Illegal access by driver", "IGNORE"),
    67: ("Illegal access by driver", "IGNORE"),
    68: ("NVDEC0 Exception", "RESTART_APP"),
    69: ("Graphics Engine class error", "RESTART_APP"),
    70: ("CE3: Unknown Error", "RESTART_APP"),
    71: ("CE4: Unknown Error", "RESTART_APP"),
    72: ("CE5: Unknown Error", "RESTART_APP"),
    73: ("NVENC2 Error", None),
    74: ("NVLINK Error", "WORKFLOW_NVLINK_ERR"),
    75: ("CE6: Unknown Error", "RESTART_APP"),
    76: ("CE7: Unknown Error", "RESTART_APP"),
    77: ("CE8: Unknown Error", "RESTART_APP"),
    78: ("vGPU Start Error", "UPDATE_SWFW"),
    79: ("GPU has fallen off the bus", "RESTART_BM"),
    80: ("Corrupted data sent to GPU", "RESTART_APP"),
    81: ("VGA Subsystem Error", None),
    82: ("NVJPG0 Error", "RESTART_APP"),
    83: ("NVDEC1 Error", "RESTART_APP"),
    84: ("NVDEC2 Error", "RESTART_APP"),
    85: ("CE9: Unknown Error", "RESTART_APP"),
    86: ("OFA Exception", "RESTART_APP"),
    88: ("NVDEC3 Error", "RESTART_APP"),
    89: ("NVDEC4 Error", "RESTART_APP"),
    92: ("High single-bit ECC error rate", "IGNORE"),
    93: ("Non-fatal violation of provisioned InfoROM wear limit", "IGNORE"),
    94: ("Contained memory error", "RESTART_APP"),
    95: ("Uncontained memory error", "RESET_GPU"),
    96: ("NVDEC5 Error", "RESTART_APP"),
    97: ("NVDEC6 Error", "RESTART_APP"),
    98: ("NVDEC7 Error", "RESTART_APP"),
    99: ("NVJPG1 Error", "RESTART_APP"),
    100: ("NVJPG2 Error", "RESTART_APP"),
    101: ("NVJPG3 Error", "RESTART_APP"),
    102: ("NVJPG4 Error", "RESTART_APP"),
    103: ("NVJPG5 Error", "RESTART_APP"),
    104: ("NVJPG6 Error", "RESTART_APP"),
    105: ("NVJPG7 Error", "RESTART_APP"),
    106: ("SMBPBI Test Message", "IGNORE"),
    107: ("SMBPBI Test Message Silent", "IGNORE"),
    109: ("Context Switch Timeout Error", "RESET_GPU"),
    110: ("Security Fault Error", "RESET_GPU"),
    119: ("GSP RPC Timeout", "RESET_GPU"),
    120: ("GSP Error", "RESET_GPU"),
    121: ("C2C Error", "IGNORE"),
    122: ("SPI PMU RPC Read Failure", None),
    123: ("SPI PMU RPC Write Failure", None),
    124: ("SPI PMU RPC Erase Failure", None),
    125: ("Inforom FS Failure", None),
    126: ("CE10: Unknown Error", "RESTART_APP"),
    127: ("CE11: Unknown Error", "RESTART_APP"),
    128: ("CE12: Unknown Error", "RESTART_APP"),
    129: ("CE13: Unknown Error", "RESTART_APP"),
    130: ("CE14: Unknown Error", "RESTART_APP"),
    131: ("CE15: Unknown Error", "RESTART_APP"),
    132: ("CE16: Unknown Error", "RESTART_APP"),
    133: ("CE17: Unknown Error", "RESTART_APP"),
    134: ("CE18: Unknown Error", "RESTART_APP"),
    135: ("CE19: Unknown Error", "RESTART_APP"),
    136: ("Link Training Failed", "RESET_GPU"),
    137: ("NVLink Privilege Error", "IGNORE"),
    139: ("OFA1 Error", "RESTART_APP"),
    140: ("ECC Unrecovered Error", "RESET_GPU"),
    141: ("CUDA Fast Path Error", "IGNORE"),
    142: ("NVENC3 Error", "CONTACT_SUPPORT"),
    143: ("GPU Initialization Error", "RESET_GPU"),
    144: ("NVLINK: SAW Error", "WORKFLOW_NVLINK5_ERR"),
    145: ("NVLINK: RLW Error", "WORKFLOW_NVLINK5_ERR"),
    146: ("NVLINK: TLW Error", "WORKFLOW_NVLINK5_ERR"),
    147: ("NVLINK: TREX Error", "WORKFLOW_NVLINK5_ERR"),
    148: ("NVLINK: NVLPW_CTRL Error", "WORKFLOW_NVLINK5_ERR"),
    149: ("NVLINK: NETIR Error", "WORKFLOW_NVLINK5_ERR"),
    150: ("NVLINK: MSE Error", "WORKFLOW_NVLINK5_ERR"),
    151: ("Key rotation Error", "RESTART_VM"),
    152: ("DLA SMMU Error", "IGNORE"),
    153: ("DLA timeout Error", "IGNORE"),
    154: ("GPU Recovery Action Changed", "XID_154"),
    155: ("NVLINK: SW Defined Error", "RESET_GPU"),
    156: ("Resource Retirement Event", "RESET_GPU"),
    157: ("Resource Retirement Failure", "IGNORE"),
    158: ("GPU Fatal Timeout", "RESET_GPU"),
    159: ("CHI Non-Data Error", "CHECK_UVM"),
    160: ("Channel Retirement Event", "IGNORE"),
    161: ("Channel Retirement Failure", "IGNORE"),
    162: ("Power Smoothing HW Circuitry capability reengaged", None),
    163: ("Power Smoothing HW Circuitry capability disengaged", None),
    164: ("Power Smoothing HW Circuitry low lifetime reached", None),
    165: ("Power Smoothing HW Circuitry lifetime exhausted", None),
    166: ("CC traffic seen prior to link properly being configured for encrypted traffic", None),
    167: ("PCIe fatal timeout", None),
    168: ("Errors found in WPR (write protected region)", None),
    169: ("Internal micro-controller halt", None),
    170: ("Interrupt seen in CC mode", None),
    171: ("Details of Xid 48 that tell DRAM from SRAM", None),
    172: ("Details of Xid 48 that tell DRAM from SRAM", None),
    173: ("C2C Fatal Link Failure", None),
}

NVLINK5 = frozenset(range(144, 151))
"""The Xids of NVLink 5, whose message says whether the error is fatal."""

RECOVERY_ACTION_CHANGED = 154
"""The Xid of every change of the action that the driver recommends, including the change back to none."""

OFF_THE_BUS = 79

GPU_ACTIONS = frozenset(
    {
        "CHECK_MECHANICALS",
        "CHECK_UVM",
        "CONTACT_SUPPORT",
        "RESET_GPU",
        "RESTART_BM",
        "RESTART_VM",
        "WORKFLOW_NVLINK5_ERR",
        "WORKFLOW_NVLINK_ERR",
        "WORKFLOW_XID_48",
        "XID_154",
    }
)
"""The actions that concern the GPU or the host. After any other action, restarting the application is enough."""


def action(code: int, severity: str | None) -> str | None:
    """Return the recommended action, or None for a code without one.

    NVIDIA's table of the errors of NVLink 5 has 94 rows. Of the fatal ones, all but two say RESET_GPU; the others say
    IGNORE, or to follow the Xid 154 that comes with them.
    """
    recommended = XIDS.get(code, ("", None))[1]
    if code in NVLINK5 and severity:
        return "RESET_GPU" if severity == "fatal" else "XID_154_EVAL"
    return recommended
