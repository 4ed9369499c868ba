# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.driver_manager import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit import diagnosed

WAITING = diagnosed.stack(diagnosed.row(waiting_for={"driver": "Init:0/1"}))


def said(*texts: str, run: str = "") -> list[TextLine]:
    """Return the log of a driver's manager, in the format of logrus without a terminal."""
    return [
        diagnosed.log(
            f'time="2026-11-23T20:00:{number:02}Z" level=info msg="{text}"',
            "nvidia-driver-daemonset-x7k2p",
            f"k8s-driver-manager{run}",
        )
        for number, text in enumerate(texts)
    ]


def found(*lines: TextLine, stack: Json | None = WAITING) -> dict[str, t.Any]:
    return diagnosed.found(RULES, *lines, stack=stack)


BEGINNING = (
    "Starting driver uninstallation process",
    "Shutting down all GPU clients on the current node by disabling their component-specific nodeSelector labels",
    "Waiting for nvidia-operator-validator to shutdown",
    "Waiting for nvidia-container-toolkit-daemonset to shutdown",
)


@pytest.mark.parametrize(
    ("texts", "code", "certainty"),
    [
        (BEGINNING, "OperandDoesNotEnd", "possible"),
        (
            (
                *BEGINNING,
                "Failed to wait for nvidia-container-toolkit-daemonset to shutdown: context deadline exceeded",
            ),
            "OperandDoesNotEnd",
            "certain",
        ),
        (
            (*BEGINNING, "Failed to wait for GPU client pods to terminate: context deadline exceeded"),
            "OperandDoesNotEnd",
            "certain",
        ),
        (
            (*BEGINNING, "Unbinding vfio-pci driver from all devices", "Waiting for MOFED to be installed..."),
            "DriverWaitsForNetwork",
            "certain",
        ),
        (
            (*BEGINNING, "Cordoning node gpu-0000", "cannot proceed until all GPU pods are drained from the node"),
            "GPUPodsNotDrained",
            "certain",
        ),
    ],
)
def test_what_a_manager_waits_for_is_named(texts: tuple[str, ...], code: str, certainty: str) -> None:
    (finding,) = found(*said(*texts)).values()
    assert (finding.code, finding.certainty, finding.nodes) == (code, certainty, (diagnosed.NODE,))


def test_the_operand_that_does_not_end_is_named() -> None:
    assert "until nvidia-container-toolkit-daemonset has ended" in found(*said(*BEGINNING))["OperandDoesNotEnd"].cause


@pytest.mark.parametrize(
    "texts",
    [
        (*BEGINNING, "Unbinding vfio-pci driver from all devices"),
        (*BEGINNING, "Waiting for MOFED to be installed...", "Rescheduling all GPU clients on the current node"),
        ("No NVIDIA driver loaded, skipping eviction of GPU clients and workloads",),
        ("failed to wait for MOFED driver: context canceled",),
    ],
)
def test_a_manager_that_goes_on_gives_no_cause(texts: tuple[str, ...]) -> None:
    assert list(found(*said(*texts))) == ["OperandWaiting"]


def test_a_driver_that_runs_has_waited() -> None:
    lines = said(
        *BEGINNING, "Failed to wait for nvidia-dcgm to shutdown: timeout", "Waiting for MOFED to be installed..."
    )
    lines += said("cannot proceed until all GPU pods are drained from the node")
    assert found(*lines, stack=diagnosed.stack(diagnosed.row())) == {}


def test_the_last_words_of_a_former_run_are_no_wait() -> None:
    assert list(found(*said(*BEGINNING, run=", previous run"))) == ["OperandWaiting"]


def test_a_pasted_log_needs_no_cluster() -> None:
    assert list(found(*said(*BEGINNING), stack=None)) == ["OperandDoesNotEnd"]
