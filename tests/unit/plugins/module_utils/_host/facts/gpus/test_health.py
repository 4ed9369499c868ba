# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import health
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import recovery


def test_actions_in_nvidia_smis_words_and_in_nvmls_numbers_have_the_same_names() -> None:
    names = ["None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"]
    assert [health.recovery_action_of_text(name) for name in names] == [
        recovery.recovery_action(number) for number in range(5)
    ]
    assert health.recovery_action_of_text(None) is None


def test_the_same_verdict_from_a_mask_and_from_texts() -> None:
    texts = {"bandwidth": "Full", "route_unhealthy": "True", "summary": "Unhealthy"}
    assert health.of_texts(texts.get) == health.of_mask(0b10_01_10_10, 2)
    assert health.of_mask(0b10_01_10_10, 2) == {"health": "Unhealthy", "problems": ["unhealthy route"]}


@pytest.mark.parametrize(
    ("mask", "summary", "verdict", "problems"),
    [
        (0, 0, None, []),  # the driver knows nothing
        (0, 3, "Limited Capacity", []),
        (0b10, 0, "Healthy", []),
        (0b01, 0, "Unhealthy", ["degraded bandwidth"]),
        (0b01 << 2, 1, "Healthy", ["route recovery in progress"]),
        (0b01 << 6, 0, "Unhealthy", ["access timeout recovery"]),
        (0b11, 0, "Healthy", []),
        (1 << 8, 0, "Healthy", []),  # the configuration has no fault
        (2 << 8, 0, "Unhealthy", ["incorrect configuration (system GUID)"]),
        (8 << 8, 0, "Unhealthy", ["incorrect configuration (invalid GPU state)"]),
        (15 << 8, 0, "Unhealthy", ["incorrect configuration (15)"]),
        (1 << 12, 0, None, []),  # bits beyond the configuration
    ],
)
def test_the_verdict_of_a_mask(mask: int, summary: int, verdict: str | None, problems: list[str]) -> None:
    assert health.of_mask(mask, summary) == {"health": verdict, "problems": problems}


@pytest.mark.parametrize(
    ("texts", "verdict", "problems"),
    [
        ({}, None, []),
        ({"incorrect_configuration": "None"}, "Healthy", []),
        ({"bandwidth": "Full"}, "Healthy", []),
        ({"bandwidth": "Degraded"}, "Unhealthy", ["degraded bandwidth"]),
        ({"incorrect_configuration": "Invalid Location"}, "Unhealthy", ["incorrect configuration (Invalid Location)"]),
        ({"summary": "Healthy", "route_unhealthy": "True"}, "Healthy", ["unhealthy route"]),
    ],
)
def test_the_verdict_of_texts(texts: dict[str, str], verdict: str | None, problems: list[str]) -> None:
    assert health.of_texts(texts.get) == {"health": verdict, "problems": problems}
