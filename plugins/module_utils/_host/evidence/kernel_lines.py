# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The lines of the kernel log that a diagnosis reads, without repetitions."""

from __future__ import annotations

import collections
import re

WANTED = (
    "NVRM|SXid|nvidia|nouveau|nova|Nova|mlx5|pcieport|AER:|PCIe Bus Error|module verification|PKCS#7|Lockdown|"
    "Out of memory|blocked for more than|state:D|soft lockup|Hardware Error|EDAC|DMAR|AMD-Vi|IO_PAGE_FAULT|gdrdrv|avc:|"
    "vfio"
)
"""What journalctl looks for. Other sources are filtered here by the same words."""

KERNEL_LINE_LENGTH = 600
"""Longer lines are cut."""

PER_SHAPE = 4
"""How many of the lines that differ only in numbers are kept: the newest."""

_WANTED = re.compile(WANTED)
_PREFIX = re.compile(r"^(?:\S+T\S+ |[A-Z][a-z]{2} +\d+ [\d:]{8} )?(?:(?:\S+ )?kernel: ?)?(?:\[[^\]]{1,40}\] *)?")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]*\d[0-9a-fA-F]*\b")


def chosen(text: str, most: int) -> list[str]:
    """Return the lines that matter, in their order: of lines of one shape the newest few, and the newest of all."""
    lines = [line[:KERNEL_LINE_LENGTH] for line in text.splitlines() if _WANTED.search(line)]
    kept: list[str] = []
    counts: collections.Counter[str] = collections.Counter()
    for line in reversed(lines):
        shape = shape_of(line)
        counts[shape] += 1
        if counts[shape] <= PER_SHAPE and len(kept) < most:
            kept.append(line)
    return kept[::-1]


def shape_of(line: str) -> str:
    """Return a line without its time, and with ``#`` in place of each number."""
    return _NUMBER.sub("#", _PREFIX.sub("", line, count=1)).strip()
