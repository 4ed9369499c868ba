# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The kind of NVLink fabric that connects a host's GPUs, which decides what must run on the host."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci_ids import (
    MELLANOX,
    NVIDIA,
    NVL72,
    NVLINK_5,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SWITCHED = "Switch Connected"
"""What the driver says of a GPU whose NVLinks lead to switches. Those of GB200 NVL4 lead to other GPUs."""

_WHOLE_BOARD = 8
"""GPUs on a board with NVLink 5. A machine that has fewer of them is a guest that was given a part of a board."""


def fabric_kind(facts: Json) -> str:
    """Return the kind: ``none``, ``nvswitch``, ``nvlink5`` or ``nvl72``.

    The GPUs alone do not tell it. The switches of a guest with a part of a board belong to the machine that made it.
    """
    gpus, switches = facts["gpus"], facts["nvswitches"]
    in_racks = _with_id(gpus, NVL72)
    if in_racks:
        # The switches of a rack are in trays of their own. Without a driver, such a GPU counts as one of a rack.
        return "none" if all(map(_is_apart, in_racks)) else "nvl72"
    on_boards = _with_id(gpus, NVLINK_5)
    if on_boards:
        managed = any(switch["device_id"].startswith(f"{MELLANOX}:") for switch in switches)
        return "nvlink5" if managed or len(on_boards) >= _WHOLE_BOARD else "none"
    return "nvswitch" if switches else "none"


def _is_apart(gpu: Json) -> bool:
    """Return whether the driver knows neither switches nor a fabric of a GPU."""
    return gpu.get("peer_type") not in (None, SWITCHED) and not gpu.get("fabric")


def _with_id(gpus: t.Iterable[Json], ids: t.Collection[str]) -> list[Json]:
    return [gpu for gpu in gpus if str(gpu.get("device_id")).replace(f"{NVIDIA}:", "") in ids]


def fabric(gpus: Section, nvswitches: Section) -> Section:
    """Return the fact."""
    facts = {"gpus": gpus.facts, "nvswitches": nvswitches.facts}
    return Section({"kind": fabric_kind(facts)}, {"kind": known_from("gpus, nvswitches")})
