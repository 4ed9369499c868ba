# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.filter.reboot_gate import FilterModule

FIT = {"gpus": [{"pci_address": "0000:18:00.0", "lost": False}], "reboot": {"required": False, "reasons": []}}


def test_a_healthy_host_passes() -> None:
    gate = FilterModule().filters()["reboot_gate"]
    assert gate(FIT, {"gpus": ["0000:18:00.0"]}) == [] and gate(FIT) == []


def test_every_problem_is_reported() -> None:
    facts = {
        "gpus": [{"pci_address": "0000:18:00.0", "lost": True}],
        "reboot": {
            "required": True,
            "reasons": [
                "The kernel runs without the configured arguments iommu=pt",
                "nouveau is loaded although it is blacklisted",
            ],
        },
    }
    assert FilterModule().filters()["reboot_gate"](facts, {"gpus": ["0000:18:00.0", "0000:9a:00.0"]}) == [
        "The GPUs 0000:9a:00.0 are no longer on the PCI bus.",
        "The GPUs 0000:18:00.0 have fallen off the bus.",
        "A reboot is still due: The kernel runs without the configured arguments iommu=pt. "
        "nouveau is loaded although it is blacklisted.",
    ]
