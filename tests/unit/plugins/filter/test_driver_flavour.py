# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.filter.driver_flavour import FilterModule


def gpu(architecture: str | None, device_id: str = "10de:0001") -> dict[str, str | None]:
    return {
        "architecture": architecture,
        "device_id": device_id,
        "name": f"{architecture} card" if architecture else None,
    }


@pytest.mark.parametrize(
    ("gpus", "wanted", "flavour"),
    [
        ([gpu("Volta")], "auto", "proprietary"),
        ([gpu("Volta"), gpu("Ampere")], "auto", "proprietary"),
        ([gpu("Turing"), gpu("Hopper")], "auto", "open"),
        ([gpu("Blackwell")], "open", "open"),
        ([gpu("Hopper")], "proprietary", "proprietary"),
        ([gpu(None)], "auto", "open"),
        ([], "auto", "open"),
    ],
)
def test_the_gpu_generation_determines_the_flavour(
    gpus: list[dict[str, str | None]], wanted: str, flavour: str
) -> None:
    assert FilterModule().filters()["driver_flavour"](gpus, wanted) == {"flavour": flavour, "failure": ""}


@pytest.mark.parametrize(
    ("gpus", "wanted", "sentence"),
    [
        ([gpu("Kepler")], "auto", "No supported driver works with Kepler card."),
        (
            [gpu("Volta"), gpu("Blackwell")],
            "auto",
            "Volta card needs the proprietary modules and Blackwell card the open ones",
        ),
        ([gpu("Pascal")], "open", "The open modules do not support Pascal card."),
        ([gpu("Hopper", "10de:2342")], "proprietary", "The proprietary modules do not support Hopper card."),
    ],
)
def test_no_flavour_supports_all_gpus(gpus: list[dict[str, str | None]], wanted: str, sentence: str) -> None:
    choice = FilterModule().filters()["driver_flavour"](gpus, wanted)
    assert choice["flavour"] == "" and choice["failure"].startswith(sentence)
