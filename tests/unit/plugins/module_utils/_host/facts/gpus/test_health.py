# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import health


def test_actions_in_nvidia_smis_words_and_in_nvmls_numbers_have_the_same_names() -> None:
    names = ["None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"]
    assert [health.recovery_action_of_text(name) for name in names] == [
        health.recovery_action(number) for number in range(5)
    ]
    assert health.recovery_action_of_text(None) is None


def test_the_same_verdict_from_a_mask_and_from_texts() -> None:
    texts = {"bandwidth": "Full", "route_unhealthy": "True", "summary": "Unhealthy"}
    assert health.of_texts(texts.get) == health.of_mask(0b10_01_10_10, 2)
    assert health.of_mask(0b10_01_10_10, 2) == {"health": "Unhealthy", "problems": ["unhealthy route"]}
