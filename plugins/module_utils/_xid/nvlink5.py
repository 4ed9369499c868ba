# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What to do about an error of NVLink 5 (Xid 144 to 150): NVIDIA's decoding of the registers in its message.

The table is the sheet "Xid 144-150 Decode" of the Xid catalog: each unit of NVLink, and what each of its errors asks
for. Names with a slash in the catalog are those before and since R575. Drivers before R575 also have another layout
of the first register, which matters for one bit only: whether the driver has promoted an error to a fatal one.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

_MESSAGE = re.compile(
    r"(?:^|, |\s)(?P<unit>[A-Z][A-Z0-9_]{2,20})\s+(?:Link-?)?(?:Fatal|Non-?fatal)\b[^(]*\((?P<registers>[^)]*)"
)
_REASON_SHIFT, _REASON_MASK = 20, 0x3F
_NEW_LAYOUT = 575
"""The branch of the driver that brought the second layout."""
_PROMOTED = {1: 10, 2: 7}
"""For each layout, the bit that says that an error was promoted to a fatal one."""


@dataclasses.dataclass(frozen=True)
class Decoded:
    """What the catalog says about an error: its immediate and its investigatory action."""

    action: str
    investigation: str


@dataclasses.dataclass(frozen=True)
class _Unit:
    """A unit of NVLink, and its errors.

    ``rows`` has the errors by the value that tells them apart: a bit of the error status, the number in it
    (``by="number"``), or the reason in the first register (``by="reason"``). An empty value stands for all errors.
    """

    rows: t.Mapping[tuple[int, ...], Decoded]
    by: str = "bit"
    promotable: int = 0


_NOTHING = Decoded("IGNORE", "IGNORE")
_WATCH = Decoded("IGNORE", "CONTACT_SUPPORT")
_RESET = Decoded("RESET_GPU", "CONTACT_SUPPORT")
_SOFTWARE = 0x80000000

_RECEIVER = _Unit({(0x1,): _NOTHING, (0x2, _SOFTWARE): _WATCH, (0x4,): _RESET})
_NETIR = _Unit({(): Decoded("RESET_GPU", "SYMPATHETIC_REPORT_SOLO")})
_LINK_DOWN = _Unit(
    {
        (0,): Decoded("RESET_GPU", "SYMPATHETIC_REPORT_SOLO"),
        (1,): Decoded("RESET_GPU", "REPORT_ISSUE"),
        (2, 4, 10): Decoded("RESET_GPU", "INVESTIGATE_LINK_SI"),
        (15, 17, 22): Decoded("RESET_GPU", "INVESTIGATE_SW_USER"),
        (16, 18): Decoded("RESET_GPU", "INVESTIGATE_SW_USER_LINK_SI"),
        (21, 32, 33, 34, 35, 36, 37): Decoded("RESET_GPU", "INVESTIGATE_PEER_DEVICE"),
        (38,): Decoded("IGNORE", "INVESTIGATE_SW_USER"),
        (40,): Decoded("IGNORE", "INVESTIGATE_HOST"),
        (42, 43): Decoded("RESET_GPU", "INVESTIGATE_LINK_SI_AND_CABLES"),
    },
    by="reason",
)
_WATCHDOG = _Unit({(): _RESET})

_UNITS: dict[tuple[int, str], _Unit] = {
    (144, "SAW_MVB"): _Unit({(0x1, 0x8): _WATCH, (0x2, 0x10): _RESET, (0x4, 0x20): _NOTHING}),
    (145, "RLW_CTRL"): _Unit({(_SOFTWARE,): _WATCH}),
    (145, "RLW_REMAP"): _Unit(
        {
            (0x1, 0x2): Decoded("XID_154_EVAL", "CONTACT_SUPPORT"),
            (0x4, 0x8, 0x10, 0x20): Decoded("XID_154_EVAL", "CHECK_NVLINK_FAILURE_FLOW"),
            (0x40, 0x80): _RESET,
            (0x100, 0x200): _NOTHING,
            (_SOFTWARE,): _WATCH,
        }
    ),
    (145, "RLW_RSPCOL"): _Unit({(0x1,): _NOTHING, (0x2,): _RESET, (_SOFTWARE,): _WATCH}),
    (145, "RLW_RXPIPE"): _Unit({(0x1, 0x2, 0x4, 0x8, _SOFTWARE): _WATCH}, promotable=0x7),
    (145, "RLW_SRC_TRACK"): _Unit(
        {
            (0x1, 0x10, 0x20): _RESET,
            (0x2,): _NOTHING,
            (0x4, 0x8): Decoded("XID_154_EVAL", "IGNORE"),
            (_SOFTWARE,): _WATCH,
        }
    ),
    (145, "RLW_TAGSTATE"): _Unit({(0x1, 0x10000): _NOTHING, (0x2, 0x20000, 0x100000): _RESET, (_SOFTWARE,): _WATCH}),
    (146, "TLW_CTRL"): _RECEIVER,
    (146, "TLW_RX"): _RECEIVER,
    (146, "TLW_RX_PIPE0"): _RECEIVER,
    (146, "TLW_RX_PIPE1"): _RECEIVER,
    (146, "TLW_TX"): _RECEIVER,
    (146, "TLW_TX_PIPE0"): _RECEIVER,
    (146, "TLW_TX_PIPE1"): _RECEIVER,
    (147, "TREX"): _Unit({(0x1, _SOFTWARE): _WATCH}),
    (148, "NVLPW_CTRL"): _Unit({(_SOFTWARE,): _WATCH}),
    (148, "NVLPW"): _Unit({(_SOFTWARE,): _WATCH}),
    (149, "NETIR"): _NETIR,
    (149, "NETIR_INT"): _NETIR,
    (149, "NETIR_LINK_EVT"): _LINK_DOWN,
    (149, "NETIR_LINK_DOWN"): _LINK_DOWN,
    (149, "NETIR_BER_EVENT"): _Unit({(0, 1, 2, 3): Decoded("IGNORE", "INVESTIGATE_LINK_SI_AND_CABLES")}, by="number"),
    (149, "NETIR_MFDE_EVENT"): _Unit({(1, 4, 5, 7): _RESET, (3,): _NOTHING}, by="number"),
    (150, "MSE_WATCHDOG"): _WATCHDOG,
    (150, "MSE"): _WATCHDOG,
}

GRAVITY = ("IGNORE", "XID_154_EVAL", "RESET_GPU")
"""The actions of the table, the gravest last."""


def decode(code: int, message: str, branch: int | None) -> Decoded | None:
    """Return what the catalog says, or None if it does not know the error. ``branch`` is that of the driver."""
    found = _MESSAGE.search(message)
    unit = _UNITS.get((code, found["unit"])) if found else None
    if found is None or unit is None:
        return None
    info, status = (*_numbers(found["registers"]), 0, 0)[:2]
    if unit.promotable & status and _is_promoted(info, branch):
        return _RESET
    rows = [row for values, row in unit.rows.items() if not values or _has(unit, values, info, status)]
    return max(rows, key=lambda row: GRAVITY.index(row.action)) if rows else None


def _has(unit: _Unit, values: tuple[int, ...], info: int, status: int) -> bool:
    if unit.by == "reason":
        return (info >> _REASON_SHIFT & _REASON_MASK) in values
    return status in values if unit.by == "number" else any(value & status for value in values)


def _is_promoted(info: int, branch: int | None) -> bool:
    layout = 1 if (info & 0x3FF) == 0b00110_00010 else 2
    if branch is not None:
        layout = 2 if branch >= _NEW_LAYOUT else 1
    return bool(info >> _PROMOTED[layout] & 1)


def _numbers(registers: str) -> list[int]:
    return [int(number, 16) for number in re.findall(r"0x([0-9a-fA-F]{1,8})\b", registers)]
