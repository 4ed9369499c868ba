# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reasons why operands' DaemonSets and pods keep a stack from being ready."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.operands import OPERANDS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import operand_reasons

from tests.unit.fakes.stack import Json, daemonset, ready
from tests.unit.plugins.module_utils._cluster.readiness.judged import codes, reason, roll, troubled, verdict

DRIVER = "nvidia-driver-daemonset"
EXPORTER = "nvidia-dcgm-exporter"


def test_every_state_that_never_ends_has_a_remedy() -> None:
    assert set(operand_reasons.REMEDIES) == set(pods.NEVER_STARTS)


def test_the_daemonset_controller_has_not_acted_yet() -> None:
    """The status is all zeros, and the operator calls that ready."""
    stack = ready(2)
    for item in stack.daemonsets.values():
        item["status"] = {}
    found = verdict(stack)
    assert found.state == "progressing" and reason(found, "NotScheduled").operand == "driver"


def test_an_operand_without_a_daemonset() -> None:
    stack = ready()
    del stack.daemonsets[EXPORTER]
    found = verdict(stack)
    assert found.state == "progressing" and f"has not created DaemonSet {EXPORTER}" in found.message


def test_an_operand_that_was_switched_off_is_still_there() -> None:
    assert codes(verdict(ready(dcgmExporter={"enabled": False}))) == ["OperandNotRemoved"]


def test_a_driver_that_nothing_provides() -> None:
    stack = ready(driver={"useNvidiaDriverCRD": True})
    del stack.daemonsets[DRIVER]
    found = verdict(stack)
    assert codes(found) == ["NoNVIDIADriver"] and "Create an NVIDIADriver" in found.message


def test_a_driver_of_an_nvidiadriver() -> None:
    stack = ready(driver={"useNvidiaDriverCRD": True})
    own = stack.daemonsets.pop(DRIVER)
    own["metadata"] |= {
        "name": "nvidia-gpu-driver-ubuntu24.04-658cd9b8cf",
        "labels": {"app.kubernetes.io/component": "nvidia-driver"},
    }
    assert verdict(stack, daemonsets=[*stack.daemonsets.values(), own]).state == "ready"


IMAGE = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}


@pytest.mark.parametrize(
    ("running", "state"),
    [
        ("nvcr.io/nvidia/driver:595.91.07-ubuntu24.04", "ready"),
        ("nvcr.io/nvidia/driver:580.126.20-ubuntu24.04", "progressing"),
        ("nvcr.io/nvidia/driver:595.91.071-ubuntu24.04", "progressing"),
    ],
)
def test_the_image_is_the_one_in_the_spec(running: str, state: str) -> None:
    stack = ready(2, driver=IMAGE)
    stack.daemonsets[DRIVER] = daemonset(OPERANDS[0], 2, running)
    found = verdict(stack)
    assert found.state == state and codes(found) == ([] if state == "ready" else ["OldImage"])


def test_a_rollout_under_way() -> None:
    found = verdict(roll(ready(4), EXPORTER, 4, 4, 2, 4))
    assert found.state == "progressing" and "2 of 4 nodes run the new revision" in found.message
    assert (found.reasons[0].count, found.reasons[0].total) == (2, 4)
    found = verdict(roll(ready(4), EXPORTER, 4, 4, 4, 3))
    assert "3 of 4 nodes run an available pod" in found.message


UPGRADES = {"upgradePolicy": {"autoUpgrade": True}}


@pytest.mark.parametrize(
    ("driver", "numbers", "state"),
    [
        ({}, (4, 4, 1, 4), "failed"),
        (UPGRADES, (4, 4, 1, 4), "progressing"),
        ({}, (4, 1, 1, 1), "progressing"),  # pods have yet to be created; none is outdated
    ],
)
def test_driver_pods_that_nothing_replaces(driver: Json, numbers: tuple[int, ...], state: str) -> None:
    found = verdict(roll(ready(4, driver=driver), DRIVER, *numbers))
    assert found.state == state
    assert ("driver.upgradePolicy.autoUpgrade" in found.message) == (state == "failed")


def test_operands_that_nothing_replaces() -> None:
    stack = roll(ready(2), EXPORTER, 2, 2, 0, 2)
    stack.daemonsets[EXPORTER]["spec"]["updateStrategy"]["type"] = "OnDelete"
    assert "daemonsets.updateStrategy" in verdict(stack).message


@pytest.mark.parametrize(
    ("status", "restarts", "state"),
    [
        ("ImagePullBackOff", 0, "failed"),
        ("Init:ImagePullBackOff", 0, "failed"),
        ("CreateContainerConfigError", 0, "failed"),
        ("CrashLoopBackOff", 2, "progressing"),
        ("CrashLoopBackOff", 3, "failed"),
        ("Init:0/1", 0, "progressing"),
        ("Pending", 0, "progressing"),
    ],
)
def test_the_status_of_a_pod_is_a_reason(status: str, restarts: int, state: str) -> None:
    stack = roll(ready(2), DRIVER, 2, 2, 2, 1)
    found = verdict(stack, troubled=troubled(DRIVER, status, restarts))
    assert found.state == state
    assert found.message.startswith(
        f"driver: 1 of 2 nodes ready; pod {DRIVER}-abcde on gpu-0001 is {status}: container x: because."
    )
    assert (found.reasons[0].operand, found.reasons[0].node, found.reasons[0].pod) == (
        "driver",
        "gpu-0001",
        f"{DRIVER}-abcde",
    )
    assert next(rollout.state for rollout in found.operands if rollout.operand == "driver") == state


def test_a_failure_of_an_old_revision_is_not_about_the_new_spec() -> None:
    stack = roll(ready(2), DRIVER, 2, 2, 2, 1)
    assert verdict(stack, troubled=troubled(DRIVER, "ImagePullBackOff", current=False)).state == "progressing"
