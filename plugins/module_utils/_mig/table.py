# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The GPUs that MIG divides: their profiles, and where on the GPU an instance of each profile may lie.

Sources, read in November 2026:

- The profiles, their attributes, engines and most instances: NVIDIA's Multi-Instance GPU User Guide, "Supported MIG
  Profiles" and "Supported GPUs" (v580 to v620).
- The placements: ``nvidia-smi mig -lgipp`` as published from an A30, A100 40 GB, H100 80 GB, H100 NVL and RTX PRO 6000.
  The guide gives the other models with seven compute slices the same fractions of memory and the same counts as the
  H100. The mocks of H100, H200 and B200 in go-nvml v0.13.3 place differently, and no GPU does so.
- The numbers of the profiles: ``nvml.h`` (``NVML_GPU_INSTANCE_PROFILE_*``).
- The PCI devices: the filters of the operator's own layouts (gpu-operator v26.7.0,
  ``assets/state-mig-manager/0400_configmap.yaml``), the list in the README of open-gpu-kernel-modules (595.45.04), and
  pci.ids. A GPU that these filters leave out is a model of its own, also where its profiles are those of another one.
- The H100 with 64 GB: NVIDIA's vGPU types of the H100 SXM5 64GB. No placements are published of the RTX PRO 5000 and
  4500, which the guide divides into halves.
- The size in a profile's name is an eighth, quarter, half or all of the GPU's memory, rounded, as go-nvlib computes it.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

# The possible sizes of compute instances in a GPU instance of so many compute slices, and their possible starts.
COMPUTE_SIZES = {1: (1,), 2: (1, 2), 3: (1, 2, 3), 4: (1, 2, 4), 7: (1, 2, 3, 4, 7)}
COMPUTE_STARTS = {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)}


@dataclasses.dataclass(frozen=True)
class Profile:
    """A GPU instance profile of one model.

    ``gi`` is NVML's number. ``slots`` is how much of the placement axis an instance takes, from one of the ``starts``.
    ``ofa`` and ``media`` say how many optical flow accelerators and sets of media engines it takes, where they limit
    what fits beside it. ``aliases`` are names that other drivers give the same profile.
    """

    name: str
    gi: int
    compute: int
    memory: int
    slots: int
    starts: tuple[int, ...]
    most: int
    attribute: str = ""
    ofa: int = 0
    media: int = 0
    aliases: tuple[str, ...] = ()

    @property
    def computes(self) -> tuple[int, ...]:
        """The sizes of compute instances that it can be divided into."""
        return COMPUTE_SIZES[self.compute]


@dataclasses.dataclass(frozen=True)
class Model:
    """A GPU model: how wide its placement axis is, its profiles, and the PCI device numbers under which it is sold."""

    name: str
    slots: int
    profiles: tuple[Profile, ...]
    devices: tuple[int, ...]
    media: int = 0

    def profile(self, name: str) -> Profile | None:
        """Return the GPU instance profile of this name, or None."""
        return next((each for each in self.profiles if name == each.name or name in each.aliases), None)

    def by_gi(self, gi: int) -> Profile | None:
        """Return the profile with this NVML number, or None."""
        return next((each for each in self.profiles if each.gi == gi), None)

    @property
    def compute(self) -> int:
        """The compute slices of the whole GPU."""
        return max(each.compute for each in self.profiles)


class _Shape(t.NamedTuple):
    """A row of a family's table: the same on each of its models but for the memory."""

    gi: int
    compute: int
    eighths: int
    slots: int
    starts: tuple[int, ...]
    most: int
    attribute: str = ""
    ofa: int = 0
    media: int = 0


_ONES = (0, 1, 2, 3, 4, 5, 6)
_SEVEN = (
    _Shape(0, 1, 1, 1, _ONES, 7),
    _Shape(7, 1, 1, 1, _ONES, 1, "+me", ofa=1),
    _Shape(9, 1, 2, 2, (0, 2, 4, 6), 4),
    _Shape(1, 2, 2, 2, (0, 2, 4), 3),
    _Shape(2, 3, 4, 4, (0, 4), 2),
    _Shape(3, 4, 4, 4, (0,), 1),
    _Shape(4, 7, 8, 8, (0,), 1, ofa=1),
)
_A30 = (
    _Shape(0, 1, 2, 1, (0, 1, 2, 3), 4),
    _Shape(7, 1, 2, 1, (0, 1, 2, 3), 1, "+me", ofa=1),
    _Shape(1, 2, 4, 2, (0, 2), 2),
    _Shape(8, 2, 4, 2, (0, 2), 1, "+me", ofa=1),
    _Shape(3, 4, 8, 4, (0,), 1, ofa=1),
)
_QUARTERS, _HALVES, _BOTH = (0, 3, 6, 9), (0, 6), (0, 1)
_RTX_PRO = (
    _Shape(0, 1, 2, 3, _QUARTERS, 4, media=1),
    _Shape(7, 1, 2, 3, _QUARTERS, 1, "+me", ofa=1, media=1),
    _Shape(10, 1, 2, 3, _QUARTERS, 4, "+gfx", media=1),
    _Shape(15, 1, 2, 3, _QUARTERS, 1, "+me.all", ofa=1, media=4),
    _Shape(13, 1, 2, 3, _QUARTERS, 4, "-me"),
    _Shape(1, 2, 4, 6, _HALVES, 2, media=2),
    _Shape(11, 2, 4, 6, _HALVES, 2, "+gfx", media=2),
    _Shape(16, 2, 4, 6, _HALVES, 1, "+me.all", ofa=1, media=4),
    _Shape(14, 2, 4, 6, _HALVES, 2, "-me"),
    _Shape(3, 4, 8, 12, (0,), 1, ofa=1, media=4),
    _Shape(12, 4, 8, 12, (0,), 1, "+gfx", ofa=1, media=4),
)
_RTX_PRO_4500 = (
    _Shape(0, 1, 4, 1, _BOTH, 2, media=1),
    _Shape(10, 1, 4, 1, _BOTH, 2, "+gfx", media=1),
    _Shape(15, 1, 4, 1, _BOTH, 1, "+me.all", ofa=1, media=3),
    _Shape(13, 1, 4, 1, _BOTH, 2, "-me"),
    _Shape(1, 2, 8, 2, (0,), 1, ofa=1, media=3),
    _Shape(11, 2, 8, 2, (0,), 1, "+gfx", ofa=1, media=3),
)
_RTX_PRO_5000 = (*_RTX_PRO_4500, _Shape(7, 1, 4, 1, _BOTH, 1, "+me", ofa=1, media=1))


def _profile(shape: _Shape, memory: int, other: int | None) -> Profile:
    def gigabytes(total: int) -> int:
        return (total * shape.eighths * 2 + 8) // 16

    def name(total: int) -> str:
        return f"{shape.compute}g.{gigabytes(total)}gb{shape.attribute}"

    aliases = () if other is None or name(other) == name(memory) else (name(other),)
    gi, compute, dummy, slots, starts, most, attribute, ofa, media = shape
    size = gigabytes(memory)
    return Profile(name(memory), gi, compute, size, slots, starts, most, attribute, ofa, media, aliases)


def _model(
    name: str, memory: int, shapes: tuple[_Shape, ...], devices: tuple[int, ...], other_memory: int | None = None
) -> Model:
    """Return a model with so many gigabytes. Drivers that report ``other_memory`` name the profiles by that."""
    profiles = tuple(_profile(shape, memory, other_memory) for shape in shapes)
    slots = max(each.slots for each in profiles)
    return Model(name, slots, profiles, devices, max(each.media for each in profiles))


MODELS = (
    _model("A30", 24, _A30, (0x20B7,)),
    _model("A30X", 24, _A30, (0x20B9,)),
    _model("A100-40GB", 40, _SEVEN, (0x20B0, 0x20B1, 0x20F1, 0x20F6)),
    _model("A800-SXM4-40GB", 40, _SEVEN, (0x20BD,)),
    _model("A100-64GB", 64, _SEVEN, (0x20B3,)),
    _model("A100X", 80, _SEVEN, (0x20B8,)),
    _model("A100-80GB", 80, _SEVEN, (0x20B2, 0x20B5, 0x20F3, 0x20F5)),
    _model("H100-64GB", 64, _SEVEN, (0x2339,)),
    _model("H100-80GB", 80, _SEVEN, (0x2330, 0x2331, 0x2322, 0x2324)),
    _model("H100-94GB", 94, _SEVEN, (0x2321, 0x233A)),
    _model("H100-96GB", 96, _SEVEN, (0x2342, 0x233D, 0x2329, 0x20B6)),
    _model("H20-3e", 141, _SEVEN, (0x232C,)),
    _model("H200", 141, _SEVEN, (0x2335, 0x233B)),
    _model("GH200-144GB", 144, _SEVEN, (0x2348,)),
    _model("B200", 180, _SEVEN, (0x2901,)),
    _model("GB200", 186, _SEVEN, (0x2941,), 189),
    _model("B300", 269, _SEVEN, (0x3182,)),
    _model("GB300", 278, _SEVEN, (0x31C2,)),
    _model("RTX-PRO-6000", 96, _RTX_PRO, (0x2BB5, 0x2BB1, 0x2BB4)),
    _model("RTX-PRO-5000", 48, _RTX_PRO_5000, (0x2BB3,)),
    _model("RTX-PRO-4500", 32, _RTX_PRO_4500, (0x2C31,)),
)

# The names that nvidia-smi prints, with dashes for spaces, as in the label of GPU Feature Discovery.
_PRODUCTS = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"A30", "A30"),
        (r"A30X", "A30X"),
        (r"A800-SXM4-40GB", "A800-SXM4-40GB"),
        (r"A[18]00-(.*-)?40GB(-.*)?|A100-PG509-200", "A100-40GB"),
        (r"A100-SXM-64GB", "A100-64GB"),
        (r"A100X", "A100X"),
        (r"A[18]00-(.*-)?80GB(-.*)?|PG509-210", "A100-80GB"),
        (r"H100-(.*-)?64GB(-.*)?", "H100-64GB"),
        (r"H[18]00-NVL|H100-(.*-)?94GB(-.*)?", "H100-94GB"),
        (r"H20|PG506-232|H100-(.*-)?96GB(-.*)?|GH200-(120|480)GB", "H100-96GB"),
        (r"H800|H[18]00-PCIE|H[18]00-(.*-)?80GB(-.*)?", "H100-80GB"),
        (r"H20-3E", "H20-3e"),
        (r"H200(-NVL|-141GB.*)?", "H200"),
        (r"GH200-144G(-.*)?", "GH200-144GB"),
        (r"B200(-.*)?", "B200"),
        (r"GB200(-.*)?", "GB200"),
        (r"B300(-.*)?", "B300"),
        (r"GB300(-.*)?", "GB300"),
        # Feature discovery may cut the end of this name off, so that the label fits (NVIDIA/k8s-device-plugin#1880).
        (r"RTX-PRO-6000-BLACKWELL-.*", "RTX-PRO-6000"),
        (r"RTX-PRO-5000-BLACKWELL", "RTX-PRO-5000"),
        (r"RTX-PRO-4500-BLACKWELL", "RTX-PRO-4500"),
    )
)
_SUFFIX = re.compile(r"-(SHARED|MIG-.*)$")
_NVIDIA = 0x10DE


def named(name: str) -> Model:
    """Return the model of this name in the table."""
    return next(model for model in MODELS if model.name == name)


def device_number(device_id: int) -> int:
    """Return the PCI device number alone: NVML packs it as ``0x20B010DE``, with NVIDIA's number after it."""
    return device_id >> 16 if device_id >> 16 and device_id & 0xFFFF == _NVIDIA else device_id


def model_of(product: str | None = None, device_id: int | None = None) -> Model | None:
    """Return the model with this PCI device, or with this product name or label; None if MIG cannot divide it.

    The label of GPU Feature Discovery may end in ``-SHARED`` or ``-MIG-1g.10gb``.
    """
    if device_id is not None:
        number = device_number(device_id)
        return next((model for model in MODELS if number in model.devices), None)
    text = re.sub(r"\s+", "-", (product or "").strip()).upper().removeprefix("NVIDIA-")
    while _SUFFIX.search(text):
        text = _SUFFIX.sub("", text)
    return next((named(name) for pattern, name in _PRODUCTS if pattern.fullmatch(text)), None)
