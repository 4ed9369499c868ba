# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The progress of the operands' DaemonSets."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import PodRow

from tests.unit.fakes.stack import ready
from tests.unit.plugins.module_utils._cluster.readiness.judged import observed, roll, verdict

EXPORTER = "nvidia-dcgm-exporter"


def test_a_generation_that_the_controller_has_not_seen() -> None:
    assert verdict(roll(ready(2), EXPORTER, 2, 2, 2, 2, generation=2)).state == "progressing"


def test_only_operands_with_a_lagging_rollout_are_suspects() -> None:
    assert rollouts.suspects(observed(ready(3)).daemonsets) == []
    stack = roll(ready(2), EXPORTER, 2, 2, 2, 1)
    stranger = roll(ready(2), EXPORTER, 2, 2, 2, 1).daemonsets[EXPORTER]
    stranger["metadata"]["name"] = "node-exporter"
    found = rollouts.suspects([*stack.daemonsets.values(), stranger])
    assert [item["metadata"]["name"] for item in found] == [EXPORTER]


def test_a_rollout_counts_nodes() -> None:
    rollout = next(
        rollout
        for rollout in rollouts.of_operands(observed(roll(ready(4), EXPORTER, 4, 4, 2, 3)), ready(4).nodes)
        if rollout.daemonset == EXPORTER
    )
    assert (rollout.state, rollout.expected, rollout.desired, rollout.updated, rollout.available) == (
        "progressing",
        4,
        4,
        2,
        3,
    )
    assert rollout.images == ("nvcr.io/nvidia/dcgm-exporter:1.0",)


@pytest.mark.parametrize(
    ("row", "never"),
    [
        (PodRow("x", "", "ImagePullBackOff", 0, current=True), True),
        (PodRow("x", "", "Init:ErrImagePull", 0, current=True), True),
        (PodRow("x", "", "ImagePullBackOff", 0, current=False), False),
        (PodRow("x", "", "CrashLoopBackOff", 2, current=True), False),
        (PodRow("x", "", "CrashLoopBackOff", 3, current=True), True),
        (PodRow("x", "", "ContainerCreating", 0, current=True), False),
    ],
)
def test_which_pods_never_start(row: PodRow, never: bool) -> None:
    assert rollouts.never_starts(row) is never
