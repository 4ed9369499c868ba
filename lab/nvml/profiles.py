# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The MIG profiles of each model and where their instances may lie, as drivers report them.

The numbers are those that ``nvidia-smi mig -lgip`` and ``-lgipp`` print. tests/lab/nvml/recorded.json has such outputs
from real GPUs with their sources. A start counts memory slices, of which an A30 has four and the others eight. Of a
B200, NVIDIA's guide has names, counts and copy engines, and users of its 1g.23gb report 20,992 MiB: the other memory
sizes, the multiprocessors and the decoders are estimates.
"""

from __future__ import annotations

import dataclasses

_ANYWHERE = (0, 1, 2, 3, 4, 5, 6)


@dataclasses.dataclass(frozen=True)
class Profile:
    """A GPU instance profile.

    ``number`` is NVML's index (``NVML_GPU_INSTANCE_PROFILE_*``), ``id`` the driver's own, ``size`` the memory slices,
    ``most`` the instances that fit on an empty GPU. ``engines`` are copy engines, decoders, JPEG and OFA engines.
    """

    name: str
    number: int
    id: int
    most: int
    memory_mib: int
    multiprocessors: int
    engines: tuple[int, int, int, int]
    starts: tuple[int, ...]
    size: int

    @property
    def slices(self) -> int:
        """The compute slices: the number before the ``g``."""
        return int(self.name.split("g.")[0])


def _eighths(gb: tuple[int, ...], mib: tuple[int, ...], sm: tuple[int, ...], engines: str) -> tuple[Profile, ...]:
    """The seven profiles of a GPU with eight memory slices.

    ``gb`` and ``mib`` are the memory of an eighth, a quarter, a half and the whole, ``sm`` and ``engines`` those of
    each profile in the order of the table: 1g, 1g+me, 1g of a quarter, 2g, 3g, 4g and 7g.
    """
    eighth, quarter, half, whole = gb
    shapes = (
        (f"1g.{eighth}gb", 0, 19, 7, mib[0], _ANYWHERE, 1),
        (f"1g.{eighth}gb+me", 7, 20, 1, mib[0], _ANYWHERE, 1),
        (f"1g.{quarter}gb", 9, 15, 4, mib[1], (0, 2, 4, 6), 2),
        (f"2g.{quarter}gb", 1, 14, 3, mib[1], (0, 2, 4), 2),
        (f"3g.{half}gb", 2, 9, 2, mib[2], (0, 4), 4),
        (f"4g.{half}gb", 3, 5, 1, mib[2], (0,), 4),
        (f"7g.{whole}gb", 4, 0, 1, mib[3], (0,), 8),
    )
    counts = [tuple(int(count) for count in counts.split("/")) for counts in engines.split()]
    return tuple(
        Profile(name, number, id_, most, memory, multiprocessors, (copy, decoder, jpeg, ofa), starts, size)
        for (name, number, id_, most, memory, starts, size), multiprocessors, (copy, decoder, jpeg, ofa) in zip(
            shapes, sm, counts, strict=True
        )
    )


_AMPERE = "1/0/0/0 1/1/1/1 1/1/0/0 2/1/0/0 3/2/0/0 4/2/0/0 7/5/1/1"
_HOPPER = "1/1/1/0 1/1/1/1 1/1/1/0 2/2/2/0 3/3/3/0 4/4/4/0 8/7/7/1"
_AMPERE_SM = (14, 14, 14, 28, 42, 56, 98)
_HOPPER_SM = (16, 16, 26, 32, 60, 64, 132)

TABLES: dict[str, tuple[Profile, ...]] = {
    "a30": (
        Profile("1g.6gb", 0, 14, 4, 5952, 14, (1, 1, 0, 0), (0, 1, 2, 3), 1),
        Profile("1g.6gb+me", 7, 21, 1, 5952, 14, (1, 1, 1, 1), (0, 1, 2, 3), 1),
        Profile("2g.12gb", 1, 5, 2, 11968, 28, (2, 2, 0, 0), (0, 2), 2),
        Profile("2g.12gb+me", 8, 6, 1, 11968, 28, (2, 2, 1, 1), (0, 2), 2),
        Profile("4g.24gb", 3, 0, 1, 24000, 56, (4, 4, 1, 1), (0,), 4),
    ),
    "a100-40gb": _eighths((5, 10, 20, 40), (4864, 9984, 20096, 40448), _AMPERE_SM, _AMPERE),
    "a100-80gb": _eighths((10, 20, 40, 80), (9728, 19968, 40192, 80896), _AMPERE_SM, _AMPERE),
    "h100": _eighths((10, 20, 40, 80), (9984, 20096, 40448, 81152), _HOPPER_SM, _HOPPER),
    "h200": _eighths((18, 35, 71, 141), (16384, 33280, 71424, 143360), _HOPPER_SM, _HOPPER),
    "b200": _eighths(
        (23, 45, 90, 180),
        (20992, 45312, 91136, 182272),
        (18, 18, 30, 36, 70, 72, 148),
        "2/1/1/0 2/1/1/1 2/1/1/0 3/2/2/0 6/3/3/0 8/4/4/0 16/7/7/1",
    ),
}


def find(table: str, name: str) -> Profile:
    """Return the profile of a table with a name."""
    return next(profile for profile in TABLES[table] if profile.name == name)


def header() -> str:
    """Return the tables as an array of C."""
    rows = "".join(f"    {_row(table, profile)},\n" for table, profiles in TABLES.items() for profile in profiles)
    return f"static const Profile PROFILES[] = {{\n{rows}}};\n"


def _row(table: str, profile: Profile) -> str:
    starts = sum(1 << start for start in profile.starts)
    numbers = (profile.number, profile.id, profile.slices, profile.size, profile.most, profile.memory_mib)
    values = ", ".join(map(str, (*numbers, profile.multiprocessors, *profile.engines, starts)))
    return f'{{"{table}", "{profile.name}", {values}}}'
