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
class Row:
    """A row of the table."""

    meaning: str
    severity: Class


SXIDS: dict[int, Row] = {
    10001: Row("Host priv error", "other"),
    10002: Row("Host priv timeout", "other"),
    10003: Row("Host unhandled interrupt", "other"),
    10004: Row("Host thermal event start", "other"),
    10005: Row("Host thermal event end", "other"),
    11001: Row("Ingress invalid command", "fatal"),
    11004: Row("Ingress invalid ACL", "nonfatal"),
    11009: Row("Ingress invalid VCSet", "fatal"),
    11012: Row("Single bit ECC error", "nonfatal"),
    11013: Row("Ingress header DBE", "fatal"),
    11018: Row("Ingress RID DBE", "fatal"),
    11019: Row("Ingress RLAN DBE", "fatal"),
    11020: Row("Ingress control parity", "fatal"),
    11021: Row("Single bit ECC error", "nonfatal"),
    11022: Row("Single bit ECC error", "nonfatal"),
    11023: Row("Single bit ECC error", "nonfatal"),
    12001: Row("Egress crossbar overflow", "fatal"),
    12002: Row("Egress packet route", "fatal"),
    12020: Row("Egress sequence ID error", "always"),
    12021: Row("Single bit ECC error", "nonfatal"),
    12022: Row("Egress input ECC DBE error", "fatal"),
    12023: Row("Single bit ECC error", "nonfatal"),
    12024: Row("Egress output ECC DBE error", "fatal"),
    12025: Row("Egress credit overflow", "fatal"),
    12026: Row("Egress destination request ID error", "fatal"),
    12027: Row("Egress destination response ID error", "fatal"),
    12028: Row("Egress nonposted PRIV error", "nonfatal"),
    12030: Row("Egress control parity error", "fatal"),
    12031: Row("Egress credit parity error", "fatal"),
    12032: Row("Egress flit type mismatch", "fatal"),
    14017: Row("TS ATO timeout", "fatal"),
    15001: Row("Route buffer over/underflow", "fatal"),
    15006: Row("Route transdone over/underflow", "fatal"),
    15008: Row("Single bit ECC error", "nonfatal"),
    15009: Row("Route GLT DBE", "fatal"),
    15010: Row("Route parity", "fatal"),
    15011: Row("Single bit ECC error", "nonfatal"),
    15012: Row("Route incoming DBE", "fatal"),
    15013: Row("Route credit parity", "fatal"),
    19047: Row("NCISOC HDR ECC DBE Error", "fatal"),
    19048: Row("NCISOC DAT ECC DBE Error", "fatal"),
    19049: Row("Single bit ECC error", "nonfatal"),
    19054: Row("HDR RAM ECC DBE Error", "fatal"),
    19055: Row("Single bit ECC error", "nonfatal"),
    19056: Row("DAT0 RAM ECC DBE Error", "fatal"),
    19057: Row("Single bit ECC error", "nonfatal"),
    19058: Row("DAT1 RAM ECC DBE Error", "fatal"),
    19059: Row("Single bit ECC error", "nonfatal"),
    19060: Row("CREQ RAM HDR ECC DBE Error", "fatal"),
    19061: Row("CREQ RAM DAT ECC DBE Error", "fatal"),
    19062: Row("Single bit ECC error", "nonfatal"),
    19063: Row("Response RAM HDR ECC DBE Error", "fatal"),
    19064: Row("Response RAM DAT ECC DBE Error", "fatal"),
    19065: Row("Single bit ECC error", "nonfatal"),
    19066: Row("COM RAM HDR ECC DBE Error", "fatal"),
    19067: Row("COM RAM DAT ECC DBE Error", "fatal"),
    19068: Row("Single bit ECC error", "nonfatal"),
    19069: Row("RSP1 RAM HDR ECC DBE Error", "fatal"),
    19070: Row("RSP1 RAM DAT ECC DBE Error", "fatal"),
    19071: Row("Single bit ECC error", "nonfatal"),
    19084: Row("AN1 Heartbeat Timeout Error", "nonfatal"),
    20001: Row("TX Replay Error", "nonfatal"),
    20009: Row("RX Short Error Rate", "other"),
    20012: Row("Broken/inconsistent connection", "nonfatal"),
    20034: Row("LTSSM Fault Up", "fatal"),
    22003: Row("Minion Halt", "always"),
    22011: Row("Minion exterror", "always"),
    22012: Row("Minion Link NA interrupt", "fatal"),
    22013: Row("Minion Link DLREQ interrupt", "nonfatal"),
    23001: Row("Ingress SRC-VC buffer overflow", "always"),
    23002: Row("Ingress SRC-VC buffer underflow", "always"),
    23003: Row("Egress DST-VC credit overflow", "always"),
    23004: Row("Egress DST-VC credit underflow", "always"),
    23005: Row("Ingress packet burst error", "always"),
    23006: Row("Ingress packet sticky error", "always"),
    23007: Row("Possible bubbles at ingress", "always"),
    23008: Row("Ingress packet invalid dst error", "always"),
    23009: Row("Ingress packet parity error", "always"),
    23010: Row("Ingress SRC-VC buffer overflow", "always"),
    23011: Row("Ingress SRC-VC buffer underflow", "always"),
    23012: Row("Egress DST-VC credit overflow", "always"),
    23013: Row("Egress DST-VC credit underflow", "always"),
    23014: Row("Ingress packet burst error", "always"),
    23015: Row("Ingress packet sticky error", "always"),
    23016: Row("Possible bubbles at ingress", "always"),
    23017: Row("Ingress credit parity error", "always"),
    24001: Row("Single bit ECC error", "nonfatal"),
    24002: Row("Single bit ECC error", "nonfatal"),
    24003: Row("Single bit ECC error", "nonfatal"),
    24004: Row("Sourcetrack TCEN0 crubmstore DBE", "fatal"),
    24005: Row("Sourcetrack TCEN0 TD crubmstore DBE", "fatal"),
    24006: Row("Sourcetrack TCEN1 crubmstore DBE", "fatal"),
    24007: Row("Sourcetrack timeout error", "fatal"),
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
"""What the guide asks for after an error that is not fatal. Anything else of them needs nothing."""


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
