# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How the GPUs of a node are drawn: a bar for each GPU, with a box for each MIG instance or share. Pure.

The API says how many devices of a node pods hold, and not which ones. So boxes are filled from the left: they count.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import draw, placement, table
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import printable
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

State = t.Literal["held", "free", "lost", "empty", "unknown"]
"""Pods hold it; pods can get it; pods cannot get it; MIG has no instance there; not counted."""

SEGMENTS = 8
"""A GPU that more pods share is drawn with so many boxes, each for several pods."""

LABEL = 24
"""How much of the name of a profile is shown."""

GPUS = 16
"""How many GPUs of a node are drawn."""


@dataclasses.dataclass(frozen=True)
class Box:
    """A part of a GPU. ``width`` is relative to the other parts of it."""

    state: State
    width: int = 1
    label: str = ""


Bar = tuple[Box, ...]


def bars(row: Json, gpus: t.Sequence[Json]) -> list[Bar]:
    """Return a bar for each GPU of a node: ``row`` is of gpu_stack_info, ``gpus`` are those that the host names."""
    parts = row.get("slices") or []
    divided = [part for part in parts if part["profile"]]
    found = [each for part in parts if not part["profile"] for each in _whole(part, row)]
    if divided:
        found = [*_divided(divided, row, gpus), *found]
    if not found:
        state: State = "unknown" if row.get("claimable") else "lost"
        found = [(Box(state),)] * (row.get("gpus") or len(gpus))
    return found[:GPUS]


def _whole(part: Json, row: Json) -> list[Bar]:
    """Return the GPUs that MIG does not divide."""
    replicas = max(1, part["replicas"] or 1)
    devices = max(part["devices"] or 0, -(-max(part["expected"], part["allocatable"]) // replicas))
    held, usable = part["allocated"], part["allocatable"]
    found = []
    for dummy in range(devices):
        room = max(0, min(replicas, usable))
        taken = None if held is None else min(replicas, held)
        found.append(_shared(replicas, room, taken))
        usable -= room
        held = None if held is None or taken is None else held - taken
    return found


def _shared(replicas: int, room: int, taken: int | None) -> Bar:
    """Return a GPU of which so many pods can have a share, and so many have one."""
    segments = min(replicas, SEGMENTS)
    if not room and not taken:
        return (Box("lost"),) * segments
    if taken is None:
        return (Box("unknown"),) * segments
    filled, open_ = -(-taken * segments // replicas), -(-max(room, taken) * segments // replicas)
    return tuple(Box("held" if n < filled else "free" if n < open_ else "lost") for n in range(segments))


# ---- MIG ------------------------------------------------------------------------------------------------------------


class _Stock:
    """Tells the state of one instance after the other: those that are held come first, those that are missing last."""

    def __init__(self, parts: t.Sequence[Json]) -> None:
        self._left = {part["profile"]: self._numbers(part) for part in parts}

    @staticmethod
    def _numbers(part: Json) -> tuple[int | None, int]:
        replicas = max(1, part["replicas"] or 1)
        held = None if part["allocated"] is None else -(-part["allocated"] // replicas)
        return held, part["allocatable"] // replicas

    def next(self, profile: str) -> State:
        held, usable = self._left.get(profile, (0, 0))
        self._left[profile] = (None if held is None else max(0, held - 1), max(0, usable - 1))
        if held:
            return "held"
        if not usable:
            return "lost"
        return "unknown" if held is None else "free"


def _divided(parts: t.Sequence[Json], row: Json, gpus: t.Sequence[Json]) -> list[Bar]:
    """Return the GPUs that MIG divides: as the host says, else as the layout must be, else all instances in a row."""
    model, stock = table.model_of(row.get("product")), _Stock(parts)
    layouts = _seen(model, gpus) or _even(model, parts, row)
    if model and layouts:
        return [tuple(_box(name, width, stock) for name, width in draw.pieces(model, each)) for each in layouts]
    return [tuple(_box(part["profile"], 1, stock) for part in parts for dummy in range(_count(part)))]


def _count(part: Json) -> int:
    return int(part["devices"] or -(-part["expected"] // max(1, part["replicas"] or 1)))


def _box(name: str, width: int, stock: _Stock) -> Box:
    return Box("empty", width) if name == draw.FREE else Box(stock.next(name), width, printable(name[:LABEL]))


def _seen(model: table.Model | None, gpus: t.Sequence[Json]) -> list[tuple[placement.Placed, ...]]:
    """Return where the instances of each divided GPU lie, if the host knows it of all of them."""
    divided = [gpu["mig"] for gpu in gpus if (gpu.get("mig") or {}).get("mode")]
    if model is None or not divided or any(mig.get("gpu_instances") is None for mig in divided):
        return []
    found = []
    for mig in divided:
        named = [(model.profile(each["profile"]), each["start"]) for each in mig["gpu_instances"]]
        if any(profile is None for profile, start in named):
            return []
        found.append(tuple(placement.Placed(profile, start) for profile, start in named if profile))
    return found


def _even(model: table.Model | None, parts: t.Sequence[Json], row: Json) -> list[tuple[placement.Placed, ...]]:
    """Return where the instances lie if all GPUs are divided alike, which the counts must allow."""
    counts = tuple((part["profile"], _count(part)) for part in parts)
    return _alike(model, counts, row.get("gpus") or 0) if model else []


@functools.lru_cache(maxsize=64)
def _alike(model: table.Model, counts: tuple[tuple[str, int], ...], number: int) -> list[tuple[placement.Placed, ...]]:
    """Return the same layout for each of so many GPUs, or an empty list. A fleet has few layouts, but many nodes."""
    try:
        if len(counts) == 1 and number == counts[0][1]:
            # With the strategy single, feature discovery counts the instances as GPUs.
            number = -(-number // max(1, placement.as_many(model, counts[0][0])))
        if not number or any(count % number for name, count in counts):
            return []
        placed = placement.place(model, {name: count // number for name, count in counts})
    except GpuOpsError:
        return []
    return [placed] * number if placed else []
