# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reasons why operands' DaemonSets and pods keep a stack from being ready."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import operand_reasons
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import OPERANDS
from inline_snapshot import snapshot as wording

from tests.unit.fakes.judged import codes, reason, roll, row, troubled, verdict
from tests.unit.fakes.stack import Json, daemonset, ready

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


@pytest.mark.parametrize("driver", [{}, UPGRADES])
def test_operands_that_nothing_replaces(driver: Json) -> None:
    stack = roll(ready(2, driver=driver), EXPORTER, 2, 2, 0, 2)
    stack.daemonsets[EXPORTER]["spec"]["updateStrategy"]["type"] = "OnDelete"
    found = verdict(stack)
    assert codes(found) == ["PodsOutdated"] and "daemonsets.updateStrategy" in found.message


@pytest.mark.parametrize(
    ("status", "restarts", "state", "code"),
    [
        ("ImagePullBackOff", 0, "failed", "ImagePullBackOff"),
        ("Init:ImagePullBackOff", 0, "failed", "ImagePullBackOff"),
        ("CreateContainerConfigError", 0, "failed", "CreateContainerConfigError"),
        ("CrashLoopBackOff", 2, "progressing", "PodsNotReady"),
        ("CrashLoopBackOff", 3, "failed", "CrashLoopBackOff"),
        ("Init:0/1", 0, "progressing", "PodsNotReady"),
        ("Pending", 0, "progressing", "PodsNotReady"),
    ],
)
def test_the_status_of_a_pod_is_a_reason(status: str, restarts: int, state: str, code: str) -> None:
    stack = roll(ready(2), DRIVER, 2, 2, 1, 1)
    found = verdict(stack, troubled=troubled(DRIVER, status, restarts))
    assert found.state == state
    assert found.message.startswith(
        f"driver: 1 of 2 nodes ready; pod {DRIVER}-abcd1 on gpu-0001 is {status}: container x: because."
    )
    first = found.reasons[0]
    assert (first.code, first.operand, first.node, first.pod) == (code, "driver", "gpu-0001", f"{DRIVER}-abcd1")
    assert next(rollout.state for rollout in found.operands if rollout.operand == "driver") == state


def test_the_remedy_is_about_the_status() -> None:
    stack = roll(ready(2), DRIVER, 2, 2, 1, 1)
    pull = verdict(stack, troubled=troubled(DRIVER, "Init:ImagePullBackOff")).reasons[0]
    assert pull.remedy == wording(
        "Check the image, its tag and the pull secret, and that the node can reach the registry."
    )
    crash = verdict(stack, troubled=troubled(DRIVER, "CrashLoopBackOff", 9)).reasons[0]
    assert crash.remedy == f"See `kubectl logs -n gpu-operator {DRIVER}-abcd1 --all-containers`."
    assert verdict(stack, troubled=troubled(DRIVER, "Init:0/1")).reasons[0].remedy == ""


PLUGIN = "nvidia-device-plugin-daemonset"
CONFIGURED = {"devicePlugin": {"config": {"name": "gpuops-sharing", "default": "plain"}}}


def crashing(cause: str, label: str = "", **spec: Json) -> str:
    """Return the remedy for a device plugin's pod that ends again and again."""
    stack = roll(ready(2, **spec), PLUGIN, 2, 2, 1, 1)
    if label:
        stack.nodes[1]["metadata"]["labels"]["nvidia.com/device-plugin.config"] = label
    return (
        verdict(stack, troubled={PLUGIN: (row(PLUGIN, 1, "Init:CrashLoopBackOff", 9, cause=cause),)}).reasons[0].remedy
    )


def test_a_config_manager_that_finds_no_configuration_names_label_and_config_map() -> None:
    cause = "container config-manager-init exited with 1"
    assert crashing(cause, "missing", **CONFIGURED) == (
        wording(
            "The label nvidia.com/device-plugin.config=missing must name a key of ConfigMap gpu-operator/gpuops-sharing: "
            "correct it, or publish the key with gpu_sharing."
        )
    )
    assert crashing(cause, **CONFIGURED) == wording(
        "The devicePlugin.config.default=plain must name a key of ConfigMap gpu-operator/gpuops-sharing: correct it, or publish the key with gpu_sharing."
    )
    assert crashing(cause) == f"See `kubectl logs -n gpu-operator {PLUGIN}-abcd1 --all-containers`."


def test_a_device_plugin_that_refuses_its_configuration_names_it() -> None:
    assert crashing("container nvidia-device-plugin exited with 1", "four", **CONFIGURED) == (
        wording(
            "See `kubectl logs -n gpu-operator nvidia-device-plugin-daemonset-abcd1 --all-containers`. Its configuration is in ConfigMap gpu-operator/gpuops-sharing (label nvidia.com/device-plugin.config=four); gpu_sharing checks what it publishes."
        )
    )


def test_the_worst_of_several_pods_decides() -> None:
    stack = roll(ready(2), DRIVER, 2, 2, 2, 0)
    for restarts in ((1, 5), (5, 1)):
        rows = tuple(row(DRIVER, number, "CrashLoopBackOff", each) for number, each in enumerate(restarts))
        found = verdict(stack, troubled={DRIVER: rows})
        assert found.state == "failed" and (found.reasons[0].code, found.reasons[0].count) == ("CrashLoopBackOff", 2)


def test_each_status_has_its_own_reason_and_the_final_one_comes_first() -> None:
    stack = roll(ready(3), DRIVER, 3, 3, 3, 0)
    rows = (row(DRIVER, 0, "Init:0/1"), row(DRIVER, 1, "ImagePullBackOff"), row(DRIVER, 2, "ErrImagePull", cause=""))
    found = verdict(stack, troubled={DRIVER: rows})
    assert [(item.level, item.code, item.pod) for item in found.reasons] == [
        ("failed", "ImagePullBackOff", f"{DRIVER}-abcd1"),
        ("failed", "ErrImagePull", f"{DRIVER}-abcd2"),
        ("progressing", "PodsNotReady", f"{DRIVER}-abcd0"),
    ]


def test_a_flaky_registry_on_one_node_ends_nothing() -> None:
    stack = roll(ready(4), DRIVER, 4, 4, 4, 3)
    found = verdict(stack, troubled=troubled(DRIVER, "ImagePullBackOff", message="429 Too Many Requests"))
    assert (found.state, found.reasons[0].code) == ("progressing", "PodsNotReady")


# Pods that are refused at creation

FORBIDDEN = 'Error creating: pods "nvidia-driver-daemonset-" is forbidden: violates PodSecurity "baseline:latest"'


@pytest.mark.parametrize(
    ("refusal", "waited_s", "state"),
    [
        (Refusal(FORBIDDEN, age_s=5, seen_s=60), 100, "failed"),
        (Refusal(FORBIDDEN, age_s=5, seen_s=59), 100, "progressing"),
        (Refusal(FORBIDDEN, age_s=200, seen_s=90), 100, "progressing"),  # from before the wait: it may be corrected
        (Refusal("admission webhook x denied the request: no", age_s=5, seen_s=60), 100, "failed"),
        (Refusal("failed calling webhook x: connection refused", age_s=5, seen_s=600), 700, "progressing"),
    ],
)
def test_pods_that_are_refused(refusal: Refusal, waited_s: float, state: str) -> None:
    stack = roll(ready(2), DRIVER, 2, 0, 0, 0)
    found = verdict(stack, refusals={DRIVER: refusal}, waited_s=waited_s)
    assert (found.state, found.reasons[0].code, found.reasons[0].operand) == (state, "PodsRefused", "driver")
    assert found.message.startswith("driver: 0 of 2") and refusal.message in found.message
    remedy = "Start that webhook's service" if "failed calling" in refusal.message else "Exempt namespace gpu-operator"
    assert found.reasons[0].remedy.startswith(remedy)


def test_a_refusal_in_the_past_does_not_matter() -> None:
    assert verdict(ready(2), refusals={DRIVER: Refusal(FORBIDDEN)}).state == "ready"


# Images behind a mirror


@pytest.mark.parametrize(
    ("running", "state", "expected"),
    [
        ("mirror.example.com/nvcr.io/nvidia/driver:595.91.07-ubuntu24.04", "ready", ["OtherRegistry"]),
        ("mirror.example.com/nvidia/driver:580.126.20-ubuntu24.04", "progressing", ["OldImage"]),
        ("mirror.example.com/nvidia/other:595.91.07-ubuntu24.04", "progressing", ["OldImage"]),
    ],
)
def test_an_image_from_another_registry_is_the_same_image(running: str, state: str, expected: list[str]) -> None:
    stack = ready(2, driver=IMAGE)
    stack.daemonsets[DRIVER] = daemonset(OPERANDS[0], 2, running)
    found = verdict(stack)
    assert found.state == state and codes(found) == expected


def test_a_digest_must_be_the_same() -> None:
    block = {"repository": "nvcr.io/nvidia/k8s", "image": "dcgm-exporter", "version": "sha256:" + "a" * 64}
    for digest, expected in (("a", ["OtherRegistry"]), ("b", ["OldImage"])):
        stack = ready(2, dcgmExporter=block)
        image = f"mirror.example.com/k8s/dcgm-exporter@sha256:{digest * 64}"
        stack.daemonsets[EXPORTER] = daemonset(OPERANDS[5], 2, image)
        assert codes(verdict(stack)) == expected


def test_a_failure_of_an_old_revision_is_not_about_the_new_spec() -> None:
    stack = roll(ready(2), DRIVER, 2, 2, 2, 1)
    assert verdict(stack, troubled=troubled(DRIVER, "ImagePullBackOff", current=False)).state == "progressing"


def test_the_image_of_an_nvidiadriver_is_not_compared_with_that_of_the_clusterpolicy() -> None:
    stack = ready(2, driver={**IMAGE, "useNvidiaDriverCRD": True})
    own = daemonset(OPERANDS[0], 2, "nvcr.io/nvidia/driver:580.126.20-ubuntu24.04")
    del stack.daemonsets[DRIVER]
    own["metadata"]["name"] = "nvidia-gpu-driver-ubuntu24.04-658cd9b8cf"
    own["metadata"]["labels"] = {"app.kubernetes.io/component": "nvidia-driver"}
    driver = {"metadata": {"name": "default"}, "spec": {"default": True}, "status": {"state": "ready"}}
    found = verdict(stack, daemonsets=[*stack.daemonsets.values(), own], nvidiadrivers=[driver])
    assert "OldImage" not in codes(found) and "OtherRegistry" not in codes(found)


def test_an_operator_that_has_never_written_a_status_is_to_be_looked_at() -> None:
    stack = ready(2)
    del stack.daemonsets[PLUGIN]
    missing = [each for each in verdict(stack).reasons if each.code == "OperandMissing"]
    assert [each.remedy for each in missing] == [""]
    del stack.policies[0]["status"]
    missing = [each for each in verdict(stack).reasons if each.code == "OperandMissing"]
    assert [each.remedy for each in missing] == [
        wording(
            "The operator has not written a status yet. If that lasts, its process does not work: see `kubectl logs -n gpu-operator deployment/gpu-operator`."
        )
    ]
