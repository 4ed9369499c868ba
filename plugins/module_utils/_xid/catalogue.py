# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's meaning of each Xid, the actions that it recommends, and the GPUs that it speaks of.

The table follows "Analyzing Xid Errors with the Xid Catalog", as of November 2025:
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
Each row has NVIDIA's description, the "immediate action" and the "investigatory action" of its resolution buckets, the
GPUs that it applies to, and the branch of the driver from which an Xid 154 follows with the driver's own order. Codes
that the catalog calls unused have the name from the older list
(https://docs.nvidia.com/deploy/xid-errors/archive/index.html), no action and no GPU.
"""

from __future__ import annotations

import dataclasses

CATALOG_PAGE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"

_NONE: frozenset[str] = frozenset()
_AMPERE, _HOPPER, _BLACKWELL = frozenset({"Ampere"}), frozenset({"Hopper"}), frozenset({"Blackwell"})
_GRACE = _BLACKWELL
"""The catalog names GB200 for these codes, and not B100."""
_UNTIL_HOPPER, _HOPPER_ON, _ALL = _AMPERE | _HOPPER, _HOPPER | _BLACKWELL, _AMPERE | _HOPPER | _BLACKWELL


@dataclasses.dataclass(frozen=True)
class XidRow:
    """A row of the catalog.

    ``linked`` is the first branch of the driver that sends an Xid 154 after this one, or None if none does.
    """

    meaning: str
    action: str | None
    investigation: str | None
    architectures: frozenset[str]
    linked: int | None = None

    def applies_to(self, architecture: str) -> bool:
        """Return whether the catalog speaks of GPUs of this architecture. Ada is between Ampere and Hopper."""
        return bool({*_NEAR.get(architecture, (architecture,))} & self.architectures)


_NEAR = {"Ada Lovelace": ("Ampere", "Hopper")}


XIDS: dict[int, XidRow] = {
    6: XidRow("Invalid or corrupted push buffer stream", None, "CONTACT_SUPPORT", _NONE),
    7: XidRow("Invalid or corrupted push buffer address", None, "CONTACT_SUPPORT", _NONE),
    8: XidRow("GPU stopped processing", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    11: XidRow("Invalid or corrupted push buffer stream", "RESTART_APP", "CHECK_APP", _ALL),
    12: XidRow("Driver error handling GPU exception", None, "CONTACT_SUPPORT", _NONE),
    13: XidRow("Graphics Engine Exception", "RESTART_APP", "WORKFLOW_XID_13", _ALL),
    14: XidRow("Fake or injected error", "IGNORE", "CONTACT_SUPPORT", _ALL),
    16: XidRow("Display engine hung", None, "CONTACT_SUPPORT", _NONE),
    18: XidRow("Bus mastering disabled in PCI Config Space", None, "CONTACT_SUPPORT", _NONE),
    24: XidRow("GPU semaphore timeout", None, "CONTACT_SUPPORT", _NONE),
    25: XidRow("Invalid or illegal push buffer stream", "RESTART_APP", "CHECK_APP", _ALL),
    26: XidRow("Framebuffer timeout", None, "CONTACT_SUPPORT", _NONE),
    30: XidRow("GPU semaphore access error", None, "CONTACT_SUPPORT", _NONE),
    31: XidRow("GPU memory page fault", "RESTART_APP", "WORKFLOW_XID_31", _ALL),
    32: XidRow("Invalid or corrupted push buffer stream", "RESTART_APP", "CHECK_APP", _ALL),
    33: XidRow("Internal micro-controller error", None, "CONTACT_SUPPORT", _NONE),
    37: XidRow("Driver firmware error", "IGNORE", "CHECK_APP", _ALL),
    38: XidRow("Driver firmware error", "IGNORE", "CONTACT_SUPPORT", _ALL),
    39: XidRow("Copy Engine Exception", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    40: XidRow("Copy Engine Exception", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    41: XidRow("Copy Engine Exception", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    43: XidRow("GPU stopped processing", "IGNORE", "CONTACT_SUPPORT", _ALL),
    44: XidRow("Graphics Engine fault during context switch", "IGNORE", "CONTACT_SUPPORT", _ALL),
    45: XidRow("Preemptive cleanup, due to previous errors", "WORKFLOW_XID_45", "RESTART_FM_IF_ALONE", _ALL),
    46: XidRow("GPU stopped processing", "RESET_GPU", "CONTACT_SUPPORT", _ALL),
    48: XidRow("Double Bit ECC Error", "WORKFLOW_XID_48", "WORKFLOW_XID_48", _ALL, 565),
    54: XidRow("Auxiliary power is not connected to the GPU board", "CHECK_MECHANICALS", "CONTACT_SUPPORT", _ALL),
    56: XidRow("Display Engine error", None, "CONTACT_SUPPORT", _NONE),
    57: XidRow("Error programming video memory interface", None, "CONTACT_SUPPORT", _NONE),
    58: XidRow("Unstable video memory interface detected", None, "CONTACT_SUPPORT", _NONE),
    59: XidRow("Internal micro-controller error (older drivers)", None, "CONTACT_SUPPORT", _NONE),
    60: XidRow("Video processor exception", "RESTART_APP", "INVESTIGATE_SW", _ALL),
    61: XidRow("Internal micro-controller breakpoint/warning", None, "CONTACT_SUPPORT", _NONE),
    62: XidRow("Internal micro-controller halt", "RESET_GPU", "CONTACT_SUPPORT", _ALL, 565),
    63: XidRow("GPU memory remapping event", "IGNORE", "IGNORE", _ALL, 565),
    64: XidRow("GPU memory remapping failure", "RESET_GPU", "CONTACT_SUPPORT", _ALL, 565),
    65: XidRow("Video processor exception", None, "CONTACT_SUPPORT", _NONE),
    66: XidRow("Illegal access by driver", "IGNORE", "INVESTIGATE_SW", _ALL),
    67: XidRow("Illegal access by driver", "IGNORE", "CONTACT_SUPPORT", _ALL),
    68: XidRow("NVDEC0 Exception", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    69: XidRow("Graphics Engine class error", "RESTART_APP", "CHECK_APP", _ALL),
    70: XidRow("CE3: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    71: XidRow("CE4: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    72: XidRow("CE5: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    73: XidRow("NVENC2 Error", None, "CONTACT_SUPPORT", _NONE),
    74: XidRow("NVLINK Error", "WORKFLOW_NVLINK_ERR", "CONTACT_SUPPORT", _UNTIL_HOPPER, 565),
    75: XidRow("CE6: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    76: XidRow("CE7: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    77: XidRow("CE8: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    78: XidRow("vGPU Start Error", "UPDATE_SWFW", "UPDATE_SWFW", _ALL),
    79: XidRow("GPU has fallen off the bus", "RESTART_BM", "CONTACT_SUPPORT", _ALL, 565),
    80: XidRow("Corrupted data sent to GPU", "RESTART_APP", "CHECK_APP", _UNTIL_HOPPER),
    81: XidRow("VGA Subsystem Error", None, "CONTACT_SUPPORT", _NONE),
    82: XidRow("NVJPG0 Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    83: XidRow("NVDEC1 Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    84: XidRow("NVDEC2 Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    85: XidRow("CE9: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    86: XidRow("OFA Exception", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    88: XidRow("NVDEC3 Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    89: XidRow("NVDEC4 Error", "RESTART_APP", "CONTACT_SUPPORT", _ALL),
    92: XidRow("High single-bit ECC error rate", "IGNORE", "CONTACT_SUPPORT", _ALL),
    93: XidRow("Non-fatal violation of provisioned InfoROM wear limit", "IGNORE", "CONTACT_SUPPORT", _AMPERE),
    94: XidRow("Contained memory error", "RESTART_APP", "IGNORE_SYMPATHETIC", _ALL, 565),
    95: XidRow("Uncontained memory error", "RESET_GPU", "IGNORE_SYMPATHETIC", _ALL, 565),
    96: XidRow("NVDEC5 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    97: XidRow("NVDEC6 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    98: XidRow("NVDEC7 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    99: XidRow("NVJPG1 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    100: XidRow("NVJPG2 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    101: XidRow("NVJPG3 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    102: XidRow("NVJPG4 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    103: XidRow("NVJPG5 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    104: XidRow("NVJPG6 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    105: XidRow("NVJPG7 Error", "RESTART_APP", "CONTACT_SUPPORT", _HOPPER_ON),
    106: XidRow("SMBPBI Test Message", "IGNORE", "IGNORE", _ALL),
    107: XidRow("SMBPBI Test Message Silent", "IGNORE", "IGNORE", _ALL),
    108: XidRow("NVLink remote translation error", "IGNORE", "XID_137_FLOW", _ALL),
    109: XidRow("Context Switch Timeout Error", "RESET_GPU", "CONTACT_SUPPORT", _ALL, 570),
    110: XidRow("Security Fault Error", "RESET_GPU", "INVESTIGATE_SW", _HOPPER_ON, 565),
    119: XidRow("GSP RPC Timeout", "RESET_GPU", "INVESTIGATE_SW", _ALL),
    120: XidRow("GSP Error", "RESET_GPU", "INVESTIGATE_SW", _ALL, 565),
    121: XidRow("C2C Error", "IGNORE", "CONTACT_SUPPORT", _GRACE),
    122: XidRow("SPI PMU RPC Read Failure", None, "CONTACT_SUPPORT", _NONE),
    123: XidRow("SPI PMU RPC Write Failure", None, "CONTACT_SUPPORT", _NONE),
    124: XidRow("SPI PMU RPC Erase Failure", None, "CONTACT_SUPPORT", _NONE),
    125: XidRow("Inforom FS Failure", None, "CONTACT_SUPPORT", _NONE),
    126: XidRow("CE10: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    127: XidRow("CE11: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    128: XidRow("CE12: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    129: XidRow("CE13: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    130: XidRow("CE14: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    131: XidRow("CE15: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    132: XidRow("CE16: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    133: XidRow("CE17: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    134: XidRow("CE18: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    135: XidRow("CE19: Unknown Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    136: XidRow("Link Training Failed", "RESET_GPU", "INVESTIGATE_LINK_SI", _HOPPER, 565),
    137: XidRow("NVLink Privilege Error", "IGNORE", "XID_137_FLOW", _ALL),
    139: XidRow("OFA1 Error", "RESTART_APP", "CONTACT_SUPPORT", _BLACKWELL),
    140: XidRow("ECC Unrecovered Error", "RESET_GPU", "CONTACT_SUPPORT", _ALL),
    141: XidRow("CUDA Fast Path Error", "IGNORE", "CONTACT_SUPPORT", _HOPPER_ON),
    142: XidRow("NVENC3 Error", "CONTACT_SUPPORT", None, _GRACE),
    143: XidRow("GPU Initialization Error", "RESET_GPU", "CONTACT_SUPPORT", _HOPPER_ON, 575),
    144: XidRow("NVLINK: SAW Error", "WORKFLOW_NVLINK5_ERR", "WORKFLOW_NVLINK5_ERR", _BLACKWELL, 565),
    145: XidRow("NVLINK: RLW Error", "WORKFLOW_NVLINK5_ERR", "WORKFLOW_NVLINK5_ERR", _BLACKWELL, 565),
    146: XidRow("NVLINK: TLW Error", "WORKFLOW_NVLINK5_ERR", "WORKFLOW_NVLINK5_ERR", _BLACKWELL, 565),
    147: XidRow("NVLINK: TREX Error", "WORKFLOW_NVLINK5_ERR", "WORKFLOW_NVLINK5_ERR", _BLACKWELL, 565),
    148: XidRow("NVLINK: NVLPW_CTRL Error", "WORKFLOW_NVLINK5_ERR", "WORKFLOW_NVLINK5_ERR", _BLACKWELL, 565),
    149: XidRow("NVLINK: NETIR Error", "WORKFLOW_NVLINK5_ERR", "WORKFLOW_NVLINK5_ERR", _BLACKWELL, 565),
    150: XidRow("NVLINK: MSE Error", "WORKFLOW_NVLINK5_ERR", "WORKFLOW_NVLINK5_ERR", _BLACKWELL, 565),
    151: XidRow("Key rotation Error", "RESTART_VM", "CONTACT_SUPPORT", _HOPPER_ON),
    152: XidRow("DLA SMMU Error", "IGNORE", "CONTACT_SUPPORT", _NONE),
    153: XidRow("DLA timeout Error", "IGNORE", "CONTACT_SUPPORT", _NONE),
    154: XidRow("GPU Recovery Action Changed", "XID_154", "FOLLOW_OTHER", _ALL),
    155: XidRow("NVLINK: SW Defined Error", "RESET_GPU", "INVESTIGATE_SW_USER", _BLACKWELL, 565),
    156: XidRow("Resource Retirement Event", "RESET_GPU", "IGNORE", _HOPPER_ON, 565),
    157: XidRow("Resource Retirement Failure", "IGNORE", "CONTACT_SUPPORT", _HOPPER_ON),
    158: XidRow("GPU Fatal Timeout", "RESET_GPU", "CONTACT_SUPPORT", _ALL, 565),
    159: XidRow("CHI Non-Data Error", "CHECK_UVM", "SYMPATHETIC_REPORT_SOLO", _BLACKWELL, 565),
    160: XidRow("Channel Retirement Event", "IGNORE", "INVESTIGATE_SW", _BLACKWELL, 575),
    161: XidRow("Channel Retirement Failure", "IGNORE", "INVESTIGATE_SW", _BLACKWELL, 575),
    162: XidRow("Power Smoothing HW Circuitry capability reengaged", None, None, _BLACKWELL),
    163: XidRow("Power Smoothing HW Circuitry capability disengaged", None, None, _BLACKWELL),
    164: XidRow("Power Smoothing HW Circuitry low lifetime reached", None, None, _BLACKWELL),
    165: XidRow("Power Smoothing HW Circuitry lifetime exhausted", None, None, _BLACKWELL),
    166: XidRow(
        "CC traffic seen prior to link properly being configured for encrypted traffic", None, None, _BLACKWELL
    ),
    167: XidRow("PCIe fatal timeout", None, None, _HOPPER_ON),
    168: XidRow("Errors found in WPR (write protected region)", None, None, _ALL),
    169: XidRow("Internal micro-controller halt", None, None, _HOPPER_ON),
    170: XidRow("Interrupt seen in CC mode", None, None, _BLACKWELL),
    171: XidRow("Details of Xid 48 that tell DRAM from SRAM", None, None, _ALL),
    172: XidRow("Details of Xid 48 that tell DRAM from SRAM", None, None, _ALL),
    173: XidRow("C2C Fatal Link Failure", None, None, _GRACE),
}

NVLINK5 = frozenset(range(144, 151))
"""The Xids of NVLink 5, whose message says whether the error is fatal."""

RECOVERY_ACTION_CHANGED = 154
"""The Xid of every change of the action that the driver recommends, including the end of a recommendation."""

OFF_THE_BUS = 79

CLEANUP = 45
"""The Xid of an application whose work the driver ends because of another error."""

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
    row = XIDS.get(code)
    if code in NVLINK5 and severity:
        return "RESET_GPU" if severity == "fatal" else "XID_154_EVAL"
    return row.action if row else None


def meaning(code: int) -> str | None:
    """Return NVIDIA's description of a code, or None for a code that the catalog does not know."""
    row = XIDS.get(code)
    return row.meaning if row else None
