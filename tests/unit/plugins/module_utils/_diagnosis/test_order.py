# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.order import (
    may_follow,
    operand_of,
    waits_for,
    with_stage,
)
from inline_snapshot import snapshot as wording


@pytest.mark.parametrize(
    ("operand", "other", "waits"),
    [
        ("driver", "container-toolkit", False),
        ("container-toolkit", "driver", True),
        ("container-toolkit", "device-plugin", False),
        ("dcgm", "driver", True),
        ("dcgm", "container-toolkit", True),
        ("dcgm", "device-plugin", False),
        ("operator-validator", "device-plugin", True),
        ("dcgm", "dcgm", False),
    ],
)
def test_which_operand_waits_for_which(operand: str, other: str, waits: bool) -> None:
    assert waits_for(operand, other) == waits


@pytest.mark.parametrize(
    ("cause", "effect", "status", "follows"),
    [
        ("", "dcgm", "CrashLoopBackOff", True),
        ("driver", "", "", True),
        ("dcgm", "dcgm", "CrashLoopBackOff", True),
        ("driver", "dcgm", "Init:0/1", True),
        ("driver", "dcgm", "CrashLoopBackOff", False),
        ("dcgm", "dcgm-exporter", "Init:0/1", False),
    ],
)
def test_what_may_follow_from_a_cause(cause: str, effect: str, status: str, follows: bool) -> None:
    symptom = Sighting("gpu-1", operand=effect, values={"status": status})
    assert may_follow(symptom, Sighting("gpu-1", operand=cause)) == follows


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("pod gpu-operator/nvidia-dcgm-x7k2p", "dcgm"),
        ("pod gpu-operator/nvidia-dcgm-exporter-x7k2p", "dcgm-exporter"),
        ("pod gpu-operator/nvidia-driver-daemonset-5.15-x7k2p", "driver"),
        ("pod gpu-operator/nvidia-gpu-driver-ubuntu22.04-x7k2p", "driver"),
        ("pod gpu-operator/nvidia-cuda-validator-x7k2p", "operator-validator"),
        ("daemonset gpu-operator/nvidia-device-plugin-daemonset", "device-plugin"),
        ("operand mig-manager", "mig-manager"),
        ("pod gpu-operator/gpu-operator-68b8b4-x7k2p", ""),
        ("pod default/train-1", "train-1"),
        ("GPU 0000:01:00.0", ""),
    ],
)
def test_the_operand_of_a_text(text: str, operand: str) -> None:
    assert operand_of(text) == operand


@pytest.mark.parametrize(
    ("operand", "status", "words"),
    [
        ("operator-validator", "Init:0/4", "Init:0/4 (it waits for the driver)"),
        ("operator-validator", "Init:2/4", wording("Init:2/4 (it waits for a CUDA program that runs)")),
        ("operator-validator", "Init:3/4", wording("Init:3/4 (it waits for a GPU that is offered)")),
        ("operator-validator", "Init:4/4", "Init:4/4"),
        ("container-toolkit", "Init:0/1", "Init:0/1 (it waits for the driver)"),
        ("dcgm", "Init:0/1", "Init:0/1 (it waits for the toolkit)"),
        ("device-plugin", "Init:1/2", "Init:1/2"),
        ("driver", "Init:0/1", "Init:0/1"),
        ("dcgm", "CrashLoopBackOff", "CrashLoopBackOff"),
    ],
)
def test_a_status_says_what_is_awaited(operand: str, status: str, words: str) -> None:
    assert with_stage(operand, status) == words
