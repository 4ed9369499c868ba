# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each fault that the lab can inject in a cluster is named by a rule or by a reason of the judge, and by nothing else.

The evidence is made as on the lab: the judge's verdict, the pods in trouble with the words of the lab's stages, and
the labels that the faults leave. Integration tests do the same with a lab.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, node_rows
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import NOTHING
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import PodRow, Refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import MODELS
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from lab.cluster.faults import drivers, nodes, refusals
from lab.cluster.faults import operands as pod_faults
from lab.cluster.faults.mig import TROUBLES
from tests.unit import diagnosed
from tests.unit.fakes import judged
from tests.unit.fakes.stack import NAMESPACE, Stack, policy, ready

IMAGE = "nvcr.io/nvidia/cloud-native/dcgm:4.6.0"
DRIVER_IMAGE = "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"
NODE = "gpu-0000"


def codes(stack: Stack, pods: t.Sequence[Json] = (), **changes: t.Any) -> set[str]:
    """Return the codes of all findings about a stack, except those that are only for information."""
    observation = judged.observed(stack, **changes)
    result = node_rows.result_of(observation, NOTHING, None)
    reasons = judge.judge(observation, NOTHING).reasons
    result["verdict"]["reasons"] = [{**vars(each), "nodes": list(getattr(each, "nodes", ()))} for each in reasons]
    found = diagnosed.found(
        RULES,
        stack=result,
        spec=stack.policies[0]["spec"],
        pods=list(pods),
        objects={
            "nodes": stack.nodes,
            "clusterpolicies": stack.policies,
            "daemonsets": [
                {**item, "metadata": {**item["metadata"], "namespace": NAMESPACE}} for item in stack.daemonsets.values()
            ],
        },
    )
    return {code for code, each in found.items() if each.severity != "ok"}


# Pods in trouble


def pull(end: str, image: str) -> str:
    """Return the words of the lab's stage ``pod-err-image-pull``."""
    why = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {end}'
    return f'Back-off pulling image "{image}": ErrImagePull: rpc error: code = Unknown desc = {why}'


LOOKUP = (
    'failed to do request: Head "https://nvcr.io/v2/": dial tcp: lookup nvcr.io on 10.96.0.10:53: read udp '
    "10.0.0.1:41234->10.96.0.10:53: i/o timeout"
)
DENIED = (
    "failed to authorize: failed to fetch anonymous token: unexpected status from GET request to "
    "https://nvcr.io/proxy_auth: 401 Unauthorized"
)
BUSY = "unexpected status from HEAD request to https://nvcr.io/v2/: 429 Too Many Requests"
BAD_NAME = (
    f'Failed to apply default image tag "{IMAGE}": couldn\'t parse image name "{IMAGE}": invalid reference format'
)
POD_FAULTS = {
    "image-pull-backoff": ("ImagePullBackOff", "{image}: not found", "ImageNotFound"),
    "image-unauthorized": ("ImagePullBackOff", DENIED, "ImageUnauthorized"),
    "image-unreachable": ("ImagePullBackOff", LOOKUP, "RegistryNameUnknown"),
    "image-rate-limited": ("ImagePullBackOff", BUSY, "RegistryRateLimited"),
    "invalid-image-name": ("InvalidImageName", BAD_NAME, "ImageNameInvalid"),
    "config-error": ("CreateContainerConfigError", 'configmap "gpu-clients" not found', "ConfigMissing"),
    "create-error": ("CreateContainerError", "context deadline exceeded", "OperandWaiting"),
    "crash-loop": ("CrashLoopBackOff", "back-off restarting failed container=x", "OperandWaiting"),
    "hang-init": ("Init:0/1", "", "OperandWaiting"),
}
"""For each fault of a pod: its status, what its container says, and the code of the finding."""


def in_trouble(name: str, status: str, message: str, number: int = 0) -> tuple[Stack, dict[str, t.Any], Json]:
    """Return a stack of two nodes with one pod of an operand in trouble, and that pod."""
    operand = next(each for each in operands.OPERANDS if each.name == name)
    stack, pod = ready(), f"{operand.daemonset}-x7k2p"
    stack.daemonsets[operand.daemonset]["status"]["numberAvailable"] = 1
    row = PodRow(pod, f"gpu-{number:04}", status, 5, cause=message, message=message, age_s=600.0, current=True)
    waiting = {"reason": status, "message": message} if message else {}
    whole = {
        "metadata": {"name": pod, "namespace": NAMESPACE},
        "spec": {"nodeName": row.node},
        "status": {"containerStatuses": [{"name": operand.container, "state": {"waiting": waiting}}]},
    }
    return stack, {"troubled": {operand.daemonset: (row,)}}, whole


@pytest.mark.parametrize("fault", POD_FAULTS)
def test_a_pod_that_does_not_start_has_one_finding(fault: str) -> None:
    status, end, code = POD_FAULTS[fault]
    message = pull(end.format(image=IMAGE), IMAGE) if status == "ImagePullBackOff" else end
    stack, changes, pod = in_trouble("dcgm", status, message)
    assert codes(stack, [pod], **changes) == {code}


@pytest.mark.parametrize("fault", POD_FAULTS)
def test_without_the_pod_the_words_of_the_verdict_are_enough(fault: str) -> None:
    status, end, code = POD_FAULTS[fault]
    message = pull(end.format(image=IMAGE), IMAGE) if status == "ImagePullBackOff" else end
    stack, changes, dummy = in_trouble("dcgm", status, f"container x: {status}: {message}" if message else "")
    assert codes(stack, **changes) == {code}


def test_what_waits_for_a_driver_without_an_image_is_not_a_finding_of_its_own() -> None:
    stack, changes, pod = in_trouble("driver", "ImagePullBackOff", pull(f"{DRIVER_IMAGE}: not found", DRIVER_IMAGE))
    for name in ("nvidia-container-toolkit-daemonset", "nvidia-operator-validator", "nvidia-dcgm-exporter"):
        changes["troubled"][name] = (PodRow(f"{name}-x7k2p", NODE, "Init:0/4", 0),)
        stack.daemonsets[name]["status"]["numberAvailable"] = 1
    stack.nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert codes(stack, [pod], **changes) == {"DriverImageMissing"}


@pytest.mark.parametrize("first", ["image-pull-backoff", "config-error", "crash-loop"])
@pytest.mark.parametrize("second", ["image-unauthorized", "create-error", "crash-loop"])
def test_two_faults_on_one_node_are_two_findings(first: str, second: str) -> None:
    found: list[tuple[str, t.Any, Json]] = []
    for name, fault in (("dcgm", first), ("gpu-feature-discovery", second)):
        status, end, code = POD_FAULTS[fault]
        message = pull(end.format(image=IMAGE), IMAGE) if status == "ImagePullBackOff" else end
        found.append((code, *in_trouble(name, status, message)[1:]))
    stack = ready()
    for name in ("nvidia-dcgm", "gpu-feature-discovery"):
        stack.daemonsets[name]["status"]["numberAvailable"] = 1
    troubled = {name: rows for dummy, changes, pod in found for name, rows in changes["troubled"].items()}
    expected = {code for code, changes, pod in found}
    assert codes(stack, [pod for dummy, changes, pod in found], troubled=troubled) == expected


# Refusals, nodes, policies, MIG

REFUSED = 'pods "nvidia-dcgm-" is forbidden: '
REFUSALS = {
    "pod-security": (REFUSED + 'violates PodSecurity "restricted:latest": privileged', "PodSecurityRefuses"),
    "quota": (
        REFUSED + "exceeded quota: lab-refusal, requested: pods=1, used: pods=0, limited: pods=0",
        "QuotaRefuses",
    ),
    "kyverno": (
        'admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod/gpu-operator/nvidia-dcgm- was '
        "blocked due to the following policies",
        "PolicyRefuses",
    ),
    "webhook-down": (
        'Internal error occurred: failed calling webhook "validate.kyverno.svc-fail": failed to call webhook: Post '
        '"https://kyverno-svc.kyverno.svc:443/validate/fail?timeout=10s": service "kyverno-svc" not found',
        "WebhookDown",
    ),
}


@pytest.mark.parametrize("by", REFUSALS)
def test_a_refusal_has_one_finding(by: str) -> None:
    message, code = REFUSALS[by]
    assert refusals.WORDS[by] in message
    stack = judged.roll(ready(), "nvidia-dcgm", 2, 0, 0, 0)
    assert codes(stack, refusals={"nvidia-dcgm": Refusal(f"Error creating: {message}", 5.0)}) == {code}


def not_ready(stack: Stack) -> None:
    stack.nodes[0]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


def tainted(stack: Stack) -> None:
    for node in stack.nodes:
        node["spec"]["taints"] = [{"key": "lab.gpuops.nvidia/fault", "value": "tainted", "effect": "NoExecute"}]
        node["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    for name in stack.daemonsets:
        judged.roll(stack, name, 0, 0, 0, 0)


def second_policy(stack: Stack) -> None:
    stack.policies.insert(0, policy("older"))
    stack.policies[0]["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
    stack.policies.reverse()


def mig_state(state: str, **labels: str) -> t.Callable[[Stack], None]:
    """Return a function that leaves a node with a state of its MIG change, and with paused operands if so given."""

    def change(stack: Stack) -> None:
        judged.set_labels(stack, 1, **{"nvidia.com/mig.config.state": state, **labels})
        if labels:
            judged.roll(stack, "nvidia-device-plugin-daemonset", 1, 1, 1, 1)

    return change


PAUSED = {"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"}
STATES: dict[str, tuple[t.Callable[[Stack], None], set[str]]] = {
    "not-ready": (not_ready, {"NodeNotReady"}),
    "down": (not_ready, {"NodeNotReady"}),
    "taint": (tainted, {"FalseReady"}),
    "second-policy": (second_policy, {"NotInCharge"}),
    "busy": (mig_state("failed"), {"MIGFailed"}),
    "mode": (mig_state("failed"), {"MIGFailed"}),
    "left-paused": (mig_state("failed", **PAUSED), {"MIGFailed", "OperandsLeftPaused"}),
    "pods-stay": (mig_state("pending", **PAUSED), {"MIGChange", "OperandsPaused"}),
    "hangs": (mig_state("pending"), {"MIGChange"}),
    "mode-stays": (mig_state("rebooting"), {"MIGChange"}),
}
"""What other faults leave in the cluster, and the codes of the findings."""


@pytest.mark.parametrize("fault", STATES)
def test_what_a_fault_leaves_is_named_and_nothing_else(fault: str) -> None:
    change, expected = STATES[fault]
    stack = ready()
    change(stack)
    assert codes(stack) == expected


def test_a_bare_pod_that_holds_up_an_upgrade_is_named_from_the_words_of_the_verdict() -> None:
    """As in the recording upgrade-slow-driver.jsonl of NVIDIA's operator."""
    stack, state = ready(), {"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}
    judged.set_labels(stack, 1, **state).nodes[0]["spec"]["unschedulable"] = True
    words = (
        "Failed to delete workload pods on the node for the driver upgrade, cannot delete Pods that declare no "
        "controller (use --force to override): default/bare"
    )
    assert codes(stack, upgrade_failures={NODE: words}) == {"UpgradeNeedsForce"}
    assert codes(stack) == {"DriverUpgradeFailed"}


def test_every_fault_of_the_lab_is_in_a_table() -> None:
    assert set(POD_FAULTS) == set(pod_faults.POD_FAULTS)
    assert set(REFUSALS) == set(refusals.REFUSALS)
    assert set(nodes.NODE_FAULTS) <= set(STATES)
    # The container waits, crashes or runs without an end: all that can be known of these is the pod's status.
    assert set(drivers.TROUBLES) - set(POD_FAULTS) == {"slow-build", "never-ready", "manager-crash", "manager-hangs"}
    # A lost label, a validator that is not deleted and a missing manager leave no trace but an unchanged layout.
    assert set(TROUBLES) - set(STATES) == {"validator", "lost", "no-manager"}


# Healthy fleets


@pytest.mark.parametrize("model", [*MODELS, "Tesla T4", "L40S"], ids=str)
def test_a_healthy_node_of_each_model_gives_no_finding(model: t.Any) -> None:
    stack = ready(3)
    product = getattr(model, "name", None) or str(model)
    judged.set_labels(stack, 3, **{"nvidia.com/gpu.product": f"NVIDIA-{product}".replace(" ", "-")})
    assert codes(stack) == set()
