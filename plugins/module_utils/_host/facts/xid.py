# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Errors of GPUs (Xid) and of NVSwitches (SXid) in the kernel log, with NVIDIA's meaning and action for each Xid.

The table follows "Analyzing Xid Errors with the Xid Catalog", as of October 2025:
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
Each row has NVIDIA's description and the "immediate action" of its resolution bucket. Codes that the catalog calls
unused have the name from the older list (https://docs.nvidia.com/deploy/xid-errors/index.html) and no action.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import normal_address
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import Section, known_from, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LIMIT = 100
"""The number of messages to return. The newest messages count, since a broken GPU writes thousands."""

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

_TIME = r"(?P<time>\d{4}-\d\d-\d\d[T ][\d:.,]+(?:[+-]\d\d:?\d\d|Z)?)"
_PREFIX = rf"^(?:\[\s*(?P<uptime>[\d.]+)\]|{_TIME})?\s*(?:\S+ kernel: |kernel: )?\s*"
_KIND = r"(?:NVRM: (?P<kind>Xid)|nvidia-nvswitch\d+: SXid)"
# On a GPU with MIG, the instance follows the address: (PCI:0000:01:00 GPU-I:05).
_DEVICE = r"\((?:PCI:)?(?P<gpu>[0-9a-fA-F:.]+)(?: [^)]*)?\)"
_MESSAGE = re.compile(rf"{_PREFIX}{_KIND} {_DEVICE}: (?P<code>\d+)(?:, )?(?P<message>.*)$")
# If a GPU is gone when the driver loads, the driver writes a message of several lines instead of an Xid.
_GONE_GPU = re.compile(_PREFIX + r"NVRM: The NVIDIA GPU (?P<gpu>[0-9a-fA-F]+:[0-9a-fA-F:.]+)")
_GONE = "fallen off the bus and is not responding"
_OFF_THE_BUS = 79
# This Xid reports every change of the recommended action, including the change back to none.
_RECOVERY_ACTION_CHANGED = 154
_NO_ACTION = re.compile(r"to 0x0\b")


@dataclasses.dataclass(frozen=True)
class Event:
    """One message of the kernel log.

    ``kind`` is ``xid`` or ``sxid``. ``meaning`` and ``action`` are NVIDIA's words, and None for a code without an entry
    in the catalog.
    """

    time: str | None
    kind: str
    gpu: str
    code: int
    meaning: str | None
    action: str | None
    message: str


def needs_attention(event: Json) -> bool:
    """Return whether NVIDIA recommends an action on the GPU or the host, rather than on the application, for an Xid."""
    if event["kind"] != "xid":
        return False
    if event["code"] == _RECOVERY_ACTION_CHANGED and _NO_ACTION.search(event.get("message") or ""):
        return False
    return XIDS.get(event["code"], ("", None))[1] in GPU_ACTIONS


def parse_log(text: str) -> list[Event]:
    """Return every Xid and SXid of a kernel log, in the order of the log."""
    events = []
    gone: re.Match[str] | None = None
    for line in text.splitlines():
        message = _MESSAGE.match(line) if "Xid (" in line else None
        gone = _GONE_GPU.match(line) or gone
        if message:
            kind = "xid" if message["kind"] else "sxid"
            events.append(_event(message, kind, int(message["code"]), message["message"]))
        elif gone and _GONE in line:
            events.append(_event(gone, "xid", _OFF_THE_BUS, f"{_GONE} to commands"))
            gone = None
    return events


def _event(match: re.Match[str], kind: str, code: int, message: str) -> Event:
    meaning, action = XIDS.get(code, (None, None)) if kind == "xid" else (None, None)
    time = match["time"] or (f"{match['uptime']} s after the boot" if match["uptime"] else None)
    return Event(time, kind, normal_address(match["gpu"]), code, meaning, action, message.strip())


def kernel_log(host: Host) -> tuple[Output, str]:
    """Return the driver's messages since the boot, and the command that read them: journalctl, or else dmesg."""
    only_the_driver = ["--dmesg", "--boot", "--grep=NVRM|SXid", "--lines=5000"]
    journal = host.run(["journalctl", *only_the_driver, "--output=short-iso", "--no-hostname", "--no-pager", "--quiet"])
    # journalctl exits with 1 and prints nothing if no message matches.
    nothing_found = not journal.stdout and not journal.stderr and "ended with 1:" in str(journal.error)
    if (journal.ok or nothing_found) and "No journal files" not in journal.stderr:
        return Output(journal.stdout), "journalctl"
    return host.run(["dmesg", "--time-format=iso"]), "dmesg"


def xid(log: Output, source: str) -> Section:
    """Return the newest messages as facts."""
    if not log.ok:
        return Section(None, {"": unknown(str(log.error))})
    events: t.Sequence[Event] = parse_log(log.stdout)
    return Section([dataclasses.asdict(event) for event in events[-LIMIT:]], {"": known_from(source)})
