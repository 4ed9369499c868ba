# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Errors of NVSwitches (SXid) by their code: NVIDIA's names, and what each of them means for the fabric.

The table is that of the Fabric Manager user guide, appendix "NVLink topology and error handling":
https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html
A message says by itself whether the error is fatal. The table is for messages that do not, for errors that are always
fatal to the whole fabric, and for those that ask for something though they are not fatal.
"""

from __future__ import annotations

import dataclasses
import typing as t

GUIDE_PAGE = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html"

Class = t.Literal["nonfatal", "fatal", "always", "other"]
"""Whether an error is fatal to a link, always fatal to the whole fabric, or of another kind."""


@dataclasses.dataclass(frozen=True)
class SxidRow:
    """A row of the table."""

    meaning: str
    severity: Class


SXIDS: dict[int, SxidRow] = {
    10001: SxidRow("Host priv error", "other"),
    10002: SxidRow("Host priv timeout", "other"),
    10003: SxidRow("Host unhandled interrupt", "other"),
    10004: SxidRow("Host thermal event start", "other"),
    10005: SxidRow("Host thermal event end", "other"),
    11001: SxidRow("Ingress invalid command", "fatal"),
    11004: SxidRow("Ingress invalid ACL", "nonfatal"),
    11009: SxidRow("Ingress invalid VCSet", "fatal"),
    11012: SxidRow("Single bit ECC error", "nonfatal"),
    11013: SxidRow("Ingress header DBE", "fatal"),
    11018: SxidRow("Ingress RID DBE", "fatal"),
    11019: SxidRow("Ingress RLAN DBE", "fatal"),
    11020: SxidRow("Ingress control parity", "fatal"),
    11021: SxidRow("Single bit ECC error", "nonfatal"),
    11022: SxidRow("Single bit ECC error", "nonfatal"),
    11023: SxidRow("Single bit ECC error", "nonfatal"),
    12001: SxidRow("Egress crossbar overflow", "fatal"),
    12002: SxidRow("Egress packet route", "fatal"),
    12020: SxidRow("Egress sequence ID error", "always"),
    12021: SxidRow("Single bit ECC error", "nonfatal"),
    12022: SxidRow("Egress input ECC DBE error", "fatal"),
    12023: SxidRow("Single bit ECC error", "nonfatal"),
    12024: SxidRow("Egress output ECC DBE error", "fatal"),
    12025: SxidRow("Egress credit overflow", "fatal"),
    12026: SxidRow("Egress destination request ID error", "fatal"),
    12027: SxidRow("Egress destination response ID error", "fatal"),
    12028: SxidRow("Egress nonposted PRIV error", "nonfatal"),
    12030: SxidRow("Egress control parity error", "fatal"),
    12031: SxidRow("Egress credit parity error", "fatal"),
    12032: SxidRow("Egress flit type mismatch", "fatal"),
    14017: SxidRow("TS ATO timeout", "fatal"),
    15001: SxidRow("Route buffer over/underflow", "fatal"),
    15006: SxidRow("Route transdone over/underflow", "fatal"),
    15008: SxidRow("Single bit ECC error", "nonfatal"),
    15009: SxidRow("Route GLT DBE", "fatal"),
    15010: SxidRow("Route parity", "fatal"),
    15011: SxidRow("Single bit ECC error", "nonfatal"),
    15012: SxidRow("Route incoming DBE", "fatal"),
    15013: SxidRow("Route credit parity", "fatal"),
    19047: SxidRow("NCISOC HDR ECC DBE Error", "fatal"),
    19048: SxidRow("NCISOC DAT ECC DBE Error", "fatal"),
    19049: SxidRow("Single bit ECC error", "nonfatal"),
    19054: SxidRow("HDR RAM ECC DBE Error", "fatal"),
    19055: SxidRow("Single bit ECC error", "nonfatal"),
    19056: SxidRow("DAT0 RAM ECC DBE Error", "fatal"),
    19057: SxidRow("Single bit ECC error", "nonfatal"),
    19058: SxidRow("DAT1 RAM ECC DBE Error", "fatal"),
    19059: SxidRow("Single bit ECC error", "nonfatal"),
    19060: SxidRow("CREQ RAM HDR ECC DBE Error", "fatal"),
    19061: SxidRow("CREQ RAM DAT ECC DBE Error", "fatal"),
    19062: SxidRow("Single bit ECC error", "nonfatal"),
    19063: SxidRow("Response RAM HDR ECC DBE Error", "fatal"),
    19064: SxidRow("Response RAM DAT ECC DBE Error", "fatal"),
    19065: SxidRow("Single bit ECC error", "nonfatal"),
    19066: SxidRow("COM RAM HDR ECC DBE Error", "fatal"),
    19067: SxidRow("COM RAM DAT ECC DBE Error", "fatal"),
    19068: SxidRow("Single bit ECC error", "nonfatal"),
    19069: SxidRow("RSP1 RAM HDR ECC DBE Error", "fatal"),
    19070: SxidRow("RSP1 RAM DAT ECC DBE Error", "fatal"),
    19071: SxidRow("Single bit ECC error", "nonfatal"),
    19084: SxidRow("AN1 Heartbeat Timeout Error", "nonfatal"),
    20001: SxidRow("TX Replay Error", "nonfatal"),
    20009: SxidRow("RX Short Error Rate", "other"),
    20012: SxidRow("Broken/inconsistent connection", "nonfatal"),
    20034: SxidRow("LTSSM Fault Up", "fatal"),
    22003: SxidRow("Minion Halt", "always"),
    22011: SxidRow("Minion exterror", "always"),
    22012: SxidRow("Minion Link NA interrupt", "fatal"),
    22013: SxidRow("Minion Link DLREQ interrupt", "nonfatal"),
    23001: SxidRow("Ingress SRC-VC buffer overflow", "always"),
    23002: SxidRow("Ingress SRC-VC buffer underflow", "always"),
    23003: SxidRow("Egress DST-VC credit overflow", "always"),
    23004: SxidRow("Egress DST-VC credit underflow", "always"),
    23005: SxidRow("Ingress packet burst error", "always"),
    23006: SxidRow("Ingress packet sticky error", "always"),
    23007: SxidRow("Possible bubbles at ingress", "always"),
    23008: SxidRow("Ingress packet invalid dst error", "always"),
    23009: SxidRow("Ingress packet parity error", "always"),
    23010: SxidRow("Ingress SRC-VC buffer overflow", "always"),
    23011: SxidRow("Ingress SRC-VC buffer underflow", "always"),
    23012: SxidRow("Egress DST-VC credit overflow", "always"),
    23013: SxidRow("Egress DST-VC credit underflow", "always"),
    23014: SxidRow("Ingress packet burst error", "always"),
    23015: SxidRow("Ingress packet sticky error", "always"),
    23016: SxidRow("Possible bubbles at ingress", "always"),
    23017: SxidRow("Ingress credit parity error", "always"),
    24001: SxidRow("Single bit ECC error", "nonfatal"),
    24002: SxidRow("Single bit ECC error", "nonfatal"),
    24003: SxidRow("Single bit ECC error", "nonfatal"),
    24004: SxidRow("Sourcetrack TCEN0 crubmstore DBE", "fatal"),
    24005: SxidRow("Sourcetrack TCEN0 TD crubmstore DBE", "fatal"),
    24006: SxidRow("Sourcetrack TCEN1 crubmstore DBE", "fatal"),
    24007: SxidRow("Sourcetrack timeout error", "fatal"),
}

LINK_DOWN = frozenset({20012, 20034, 22012, 22013})
"""A link went away, which also happens if the GPU at its other end does."""

ACTIONS = {
    10003: "RESET_ALL",
    10004: "CHECK_COOLING",
    11004: "CHECK_PARTITIONS",
    12028: "RESTART_APP",
    19084: "RESET_ALL",
    20012: "CHECK_LINK",
}
"""What the guide asks for after an error that is not fatal. Their other errors need no action."""


def action(code: int, severity: str | None) -> str | None:
    """Return what is to be done, or None for a code without a severity that the guide does not know."""
    row = SXIDS.get(code)
    if row and row.severity == "always" and severity != "nonfatal":
        return "RESTART_BM"
    if severity == "fatal" or (severity is None and row and row.severity == "fatal"):
        return "RESET_ALL"
    if severity is None and row is None:
        return None
    return ACTIONS.get(code, "IGNORE")
