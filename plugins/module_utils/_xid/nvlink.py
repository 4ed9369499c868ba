# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What to do about an error of NVLink 1 to 4 (Xid 74): NVIDIA's decoding of the registers in its message.

The workflow is WORKFLOW_NVLINK_ERR of the Xid catalog. The message has seven registers, of which the first, the third,
the fourth and the fifth count. What is said of bits here is said of each link by itself.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

_LINK = re.compile(r"\blinks?\s+(?P<link>\d+)", re.IGNORECASE)
_REGISTERS = re.compile(r"\((0x[0-9a-fA-F]{1,8}(?:,\s*0x[0-9a-fA-F]{1,8}){4,6})\)")

Sign = t.Literal[
    "harmless", "secondary", "parity", "mechanical", "signal", "bug", "repeated bug", "diagnose", "unknown"
]
"""What a bit means. A secondary error follows from another; a repeated bug counts from the second time on."""

_BITS: tuple[tuple[int, Sign, tuple[int, ...]], ...] = (
    (0, "harmless", (0, 23, 30)),
    (0, "secondary", (1, 20)),
    (0, "parity", (4, 5)),
    (0, "mechanical", (8, 9, 12, 16, 17, 24, 28)),
    (0, "signal", (21, 22)),
    (0, "repeated bug", (27, 29)),
    (2, "parity", (0, 1, 2, 6)),
    (2, "bug", (13,)),
    (2, "diagnose", (16, 19)),
    (2, "repeated bug", (17, 18)),
    (3, "secondary", (16, 17, 18)),
    (4, "parity", (18, 19, 21, 22, 24, 25, 27, 28)),
    (4, "harmless", (20, 23, 26, 29)),
)
_COUNTING = (0, 2, 3, 4)
_MEANINGS = {(register, bit): sign for register, sign, bits in _BITS for bit in bits}


@dataclasses.dataclass(frozen=True)
class LinkError:
    """The link that a message names, and what its bits mean. Without registers there are no signs."""

    link: int | None
    signs: frozenset[Sign]


def decode(message: str) -> LinkError:
    """Return what a message of an Xid 74 says."""
    link, found = _LINK.search(message), _REGISTERS.search(message)
    registers = [int(number, 16) for number in found[1].replace(",", " ").split()] if found else []
    signs: set[Sign] = set()
    for index, value in enumerate(registers):
        if index in _COUNTING:
            signs |= {_MEANINGS.get((index, bit), "unknown") for bit in range(32) if value >> bit & 1}
    return LinkError(int(link["link"]) if link else None, frozenset(signs))
