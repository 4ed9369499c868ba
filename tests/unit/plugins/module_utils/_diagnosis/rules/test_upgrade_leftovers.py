# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.upgrade_leftovers import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit import diagnosed

PAUSED = {"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"}


def labelled(row: Json) -> t.Any:
    """Return what is found on a node of which an operand is paused."""
    node = {"metadata": {"name": row["name"], "labels": PAUSED}, "spec": {}}
    return diagnosed.found(RULES, stack=diagnosed.stack(row), objects={"nodes": [node]})


def test_operands_that_stay_paused_without_a_change_are_named() -> None:
    row = diagnosed.row()
    found = labelled(row)["OperandsLeftPaused"]
    assert (found.nodes, found.certainty) == ((row["name"],), "likely")


@pytest.mark.parametrize(
    "more",
    [
        {"upgrade_state": "pod-restart-required"},
        {"mig": {"state": "pending"}},
        {"waiting_for": {"driver": "Init:0/1"}},
    ],
)
def test_operands_that_are_paused_during_a_change_give_nothing(more: Json) -> None:
    row = diagnosed.row(**more)
    assert "OperandsLeftPaused" not in labelled(row)


def test_paused_labels_in_a_text_are_possibly_left_behind() -> None:
    # https://github.com/NVIDIA/gpu-operator/issues/316
    text = "  nvidia.com/gpu.deploy.container-toolkit=paused-for-driver-upgrade"
    assert diagnosed.found(RULES, text)["OperandsLeftPaused"].certainty == "possible"
    assert diagnosed.found(RULES, text, stack=diagnosed.stack(diagnosed.row())) == {}


NOTE = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"


@pytest.mark.parametrize(
    ("more", "notes", "expected"),
    [
        ({}, {NOTE: "true"}, ["UpgradeWouldLeaveCordoned"]),
        ({"upgrade_state": None}, {NOTE: "true"}, ["UpgradeWouldLeaveCordoned"]),
        ({}, {}, []),
        ({"cordoned": True}, {NOTE: "true"}, []),
        ({"upgrade_state": "pod-restart-required"}, {NOTE: "true"}, []),
    ],
)
def test_a_note_of_a_cordon_that_is_gone_is_named(more: Json, notes: dict[str, str], expected: list[str]) -> None:
    row = diagnosed.row(**more)
    node = {"metadata": {"name": row["name"], "labels": {}, "annotations": notes}, "spec": {}}
    assert list(diagnosed.found(RULES, stack=diagnosed.stack(row), objects={"nodes": [node]})) == expected
