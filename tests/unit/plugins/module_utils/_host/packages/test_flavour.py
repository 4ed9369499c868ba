# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.flavour import choose


def gpu(architecture: str | None, device_id: str = "10de:0001") -> dict[str, t.Any]:
    name = f"{architecture} card" if architecture else None
    return {"architecture": architecture, "device_id": device_id, "name": name}


@pytest.mark.parametrize(
    ("gpus", "wanted", "branch", "flavour"),
    [
        ([gpu("Volta")], "auto", "", "proprietary"),
        ([gpu("Volta")], "auto", "580", "proprietary"),
        ([gpu("Volta"), gpu("Ampere")], "auto", "", "proprietary"),
        ([gpu("Turing"), gpu("Hopper")], "auto", "595", "open"),
        ([gpu("Blackwell")], "open", "570", "open"),
        ([gpu("Hopper")], "proprietary", "535", "proprietary"),
        ([gpu(None)], "auto", "", "open"),
        ([], "auto", "590", "open"),
    ],
)
def test_the_gpu_generation_determines_the_flavour(
    gpus: list[dict[str, t.Any]], wanted: str, branch: str, flavour: str
) -> None:
    assert choose(gpus, wanted, branch) == (flavour, "")


@pytest.mark.parametrize(
    ("gpus", "wanted", "branch", "sentence"),
    [
        ([gpu("Kepler")], "auto", "", "No supported driver works with Kepler card."),
        (
            [gpu("Volta"), gpu("Blackwell")],
            "auto",
            "",
            "Volta card needs the proprietary modules and Blackwell card the open ones",
        ),
        ([gpu("Pascal")], "open", "", "The open modules do not support Pascal card."),
        ([gpu("Hopper", "10de:2342")], "proprietary", "", "The proprietary modules do not support Hopper card."),
        ([gpu("Volta")], "auto", "590", "The driver branch 590 does not support Volta card. 580 is the last branch"),
        ([gpu("Blackwell")], "auto", "550", "The driver branch 550 does not support Blackwell card. Use 570 or"),
    ],
)
def test_no_flavour_supports_all_gpus(gpus: list[dict[str, t.Any]], wanted: str, branch: str, sentence: str) -> None:
    choice = choose(gpus, wanted, branch)
    assert choice.flavour == "" and choice.failure.startswith(sentence)
