# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How a bundle's size is divided: small sources are whole, and large ones get equal shares of the rest. Pure."""

from __future__ import annotations

import typing as t


def shares(sizes: t.Sequence[int], limit: int) -> list[int]:
    """Return how much of each source fits into the limit. What a small source does not need, the others share."""
    given = [0] * len(sizes)
    left = max(limit, 0)
    for place, index in enumerate(sorted(range(len(sizes)), key=lambda index: sizes[index])):
        given[index] = min(sizes[index], left // (len(sizes) - place))
        left -= given[index]
    return given


def ends(sizes: t.Sequence[int], limit: int, wanted: t.Collection[int] = ()) -> list[int]:
    """Return the places of what is kept of a sequence: what is wanted, and then the first and the last in turn."""
    kept, left, first, last, is_front = set[int](), limit, 0, len(sizes) - 1, True
    for place in wanted:
        if sizes[place] <= left:
            kept.add(place)
            left -= sizes[place]
    while first <= last:
        place = first if is_front else last
        first, last = (first + 1, last) if is_front else (first, last - 1)
        is_front = not is_front
        if place in kept:
            continue
        if sizes[place] > left:
            break
        kept.add(place)
        left -= sizes[place]
    return sorted(kept)
