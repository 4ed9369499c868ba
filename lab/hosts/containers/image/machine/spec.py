# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hardware of the simulated machine. PID 1 gets it in the environment and saves it for the other commands."""

from __future__ import annotations

import dataclasses
import json
import os

HOME = "/var/lib/machine"
SPEC = f"{HOME}/spec.json"


@dataclasses.dataclass(frozen=True)
class Model:
    """A GPU model, with the values in its PCI header and those that its driver reports."""

    device: int
    subsystem: int
    name: str
    memory_mib: int
    power_w: int
    pcie_generation: int
    links: int = 0
    link_speed: str = ""
    """The speed of a link as nvidia-smi writes it."""


MODELS = {
    "a100-sxm": Model(0x20B2, 0x1463, "NVIDIA A100-SXM4-80GB", 81920, 400, 4, 12, "25 GB/s"),
    "h100-sxm": Model(0x2330, 0x16C1, "NVIDIA H100 80GB HBM3", 81559, 700, 5, 18, "26.562 GB/s"),
    "h200-sxm": Model(0x2335, 0x18BE, "NVIDIA H200", 143771, 700, 5, 18, "26.562 GB/s"),
    "b200-sxm": Model(0x2901, 0x1999, "NVIDIA B200", 183359, 1000, 6, 18, "53.125 GB/s"),
    "h100-pcie": Model(0x2331, 0x1626, "NVIDIA H100 PCIe", 81559, 350, 5),
    "l40s": Model(0x26B9, 0x1851, "NVIDIA L40S", 46068, 350, 4),
}
NVSWITCHES = {"a100-sxm": 0x1AF1, "h100-sxm": 0x22A3, "h200-sxm": 0x22A3}


@dataclasses.dataclass(frozen=True)
class Machine:
    """The hardware of one machine."""

    model: str = "h100-sxm"
    gpus: int = 2
    nvswitches: int = 0
    cpu: str = "intel"

    def save(self) -> None:
        """Save the hardware for the commands, which do not see the environment of PID 1."""
        with open(SPEC, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file)


def from_environment() -> Machine:
    """Return the hardware that the container was started with."""
    return Machine(**json.loads(os.environ.get("MACHINE", "{}")))


def load() -> Machine:
    """Return the hardware that PID 1 saved."""
    with open(SPEC, encoding="utf-8") as file:
        return Machine(**json.load(file))
