# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import refused_pods, unplaced_pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit import diagnosed

RULES = (*unplaced_pods.RULES, *refused_pods.RULES)

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TOLERATED = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
CPU_NODE = {
    "metadata": {"name": "cpu-0", "labels": {}},
    "spec": {},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
BUSY = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity/selector."


def node(name: str = "gpu-0", *taints: Json, ready: str = "True", cordoned: bool = False, **gpus: int) -> Json:
    """Return a node that offers 8 GPUs, or what is given (``mig_1g_10gb`` for ``nvidia.com/mig-1g.10gb``)."""
    offered = {
        f"nvidia.com/{key.replace('_', '-', 1).replace('_', '.')}": str(n) for key, n in (gpus or {"gpu": 8}).items()
    }
    return {
        "metadata": {"name": name, "labels": H100},
        "spec": {"taints": list(taints), "unschedulable": cordoned},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(message: str = BUSY, asks: t.Mapping[str, int] | None = None, **spec: t.Any) -> Json:
    """Return a pod that waits for a GPU."""
    limits = {f"nvidia.com/{name}": str(number) for name, number in (asks or {"gpu": 1}).items()}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}], **spec},
        "status": {"phase": "Pending", "conditions": [condition] if message else []},
    }


def codes(waiting: Json, *nodes: Json) -> list[str]:
    objects = {"nodes": [*(nodes or [node()]), CPU_NODE]}
    return list(diagnosed.found(RULES, pods=[waiting], objects=objects))


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-A100"]}]}
            ]
        }
    }
}

CASES: dict[str, tuple[Json, list[Json]]] = {
    "PodAsksUnknownResource": (pod(asks={"mig-1g.10gb": 1}), [node()]),
    "PodAsksTooManyGPUs": (pod(asks={"gpu": 16}), [node()]),
    "PodSelectsNoGPUNode": (pod(nodeSelector={"nvidia.com/gpu.product": "H100"}), [node()]),
    "PodToleratesNoGPUNode": (pod(), [node("gpu-0", TAINT), node("gpu-1", TAINT)]),
    "PodWaitsForNodes": (pod(), [node(cordoned=True), node("gpu-1", ready="Unknown")]),
    "PodWaitsForStack": (pod(), [node(gpu=0)]),
    "PodHeldByPodRules": (
        # https://github.com/loft-sh/devpod-provider-kubernetes/issues/63
        pod("0/4 nodes are available: 1 node(s) didn't match pod affinity rules, 3 Insufficient nvidia.com/gpu."),
        [node()],
    ),
    "PodLacksOtherResources": (pod("0/2 nodes are available: 1 Insufficient memory, 1 Insufficient cpu."), [node()]),
    "PodWaitsForVolume": (
        pod("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
        [node()],
    ),
    "PodGated": (pod("", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), [node()]),
    "PodWaitsForGPU": (pod(), [node()]),
}


@pytest.mark.parametrize("code", CASES)
def test_a_pod_that_waits_has_one_cause(code: str) -> None:
    waiting, nodes = CASES[code]
    assert codes(waiting, *nodes) == [code]


def test_what_a_node_affinity_demands_is_named() -> None:
    found = diagnosed.found(RULES, pods=[pod(affinity=AFFINITY)], objects={"nodes": [node()]})
    assert "nvidia.com/gpu.product In NVIDIA-A100" in found["PodSelectsNoGPUNode"].cause


@pytest.mark.parametrize(
    "waiting, nodes",
    [
        (pod(tolerations=TOLERATED, message=""), [node("gpu-0", TAINT)]),
        (pod(message="", nodeSelector=H100), [node()]),
        (pod(message="", asks={"mig-1g.10gb": 1}), [node(mig_1g_10gb=7)]),
        (pod(message=""), [node(cordoned=True), node("gpu-1")]),
        ({**pod(asks={"gpu": 16}), "status": {"phase": "Running"}}, [node()]),
        (pod(asks={"gpu": 16}, nodeName="gpu-0"), [node()]),
        (pod(asks={"gpu": 0}), [node()]),
    ],
)
def test_a_pod_that_fits_or_asks_for_no_gpu_gives_nothing(waiting: Json, nodes: list[Json]) -> None:
    assert codes(waiting, *nodes) == []


def test_without_the_nodes_nothing_is_concluded_from_their_absence() -> None:
    assert list(diagnosed.found(RULES, pods=[pod(asks={"gpu": 16})])) == []


def test_of_two_pods_with_one_cause_both_are_named() -> None:
    other = {**pod(asks={"gpu": 16}), "metadata": {"name": "other", "namespace": "team-b"}}
    found = diagnosed.found(RULES, pods=[pod(asks={"gpu": 16}), other], objects={"nodes": [node()]})
    assert found["PodAsksTooManyGPUs"].objects == ("pod team-a/train", "pod team-b/other")


MESSAGES = {
    # https://github.com/NVIDIA/k8s-device-plugin/issues/421
    "PodToleratesNoGPUNode": "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: }. preemption: 0/1 nodes "
    "are available: 1 Preemption is not helpful for scheduling..",
    # https://github.com/NVIDIA/k8s-device-plugin/issues/585
    "PodWaitsForGPU": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu",
    "PodHeldByPodRules": "0/4 nodes are available: 1 node(s) didn't match pod affinity rules, 3 Insufficient "
    "nvidia.com/gpu. preemption: 0/4 nodes are available: 1 Preemption is not helpful for scheduling.",
    # https://github.com/NVIDIA/k8s-device-plugin/issues/2038
    "LostGPUBlocksAdmission": "Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc "
    "error: code = Unknown desc = error getting list of preferred allocation devices: unable to get device link "
    "information: failed to get device handle",
    # https://github.com/openshift/instaslice-operator/issues/140
    "NoHealthyGPUForPod": "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate "
    "unhealthy devices nvidia.com/mig-1g.5gb, which is unexpected",
    "DevicePluginForgotten": "Allocate failed due to can't allocate unregistered device nvidia.com/gpu, which is "
    "unexpected",
    # https://github.com/kubernetes/kubernetes/issues/130145
    "DevicesTakenForPod": "Pod Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
    "Requested:1, Available: 0, which is unexpected",
    "GPUsNotYetThereForPod": "gpu-replicaset-bxbc2   0/1   OutOfnvidia.com/gpu   0   2h   <none>",
    "PodAsksForSeveralShares": "Allocate failed due to rpc error: code = Unknown desc = invalid request: maximum "
    "request size for shared resources is 1; found 2, which is unexpected",
}


@pytest.mark.parametrize("code", MESSAGES)
def test_a_message_alone_gives_the_code(code: str) -> None:
    assert list(diagnosed.found(RULES, MESSAGES[code])) == [code]


@pytest.mark.parametrize(
    "text",
    [
        # https://github.com/trueforge-org/truecharts/issues/19201
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices amd.com/gpu",
        "0/5 nodes are available: 5 Insufficient cpu.",
        "0/3 nodes are available: 3 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }.",
        "0/3 nodes are available: 1 node(s) had untolerated taint {a: }, 2 node(s) didn't match Pod's node affinity.",
        "0/3 nodes are available: 3 node(s) had untolerated taint {dedicated: web}.",
        "nvml: GPU is lost",
    ],
)
def test_other_messages_give_nothing(text: str) -> None:
    assert diagnosed.found(RULES, text) == {}


def test_a_message_about_no_pod_is_about_a_pod_and_one_with_a_pod_is_about_that() -> None:
    text = MESSAGES["PodToleratesNoGPUNode"]
    known = TextLine(text, "event", "event of pod team-a/train", "", "pod team-a/train")
    for line, name in ((TextLine(text), ""), (known, "pod team-a/train")):
        found = diagnosed.found(RULES, line)["PodToleratesNoGPUNode"]
        assert found.objects == ((name,) if name else ())
        assert "gpu" in found.cause + found.remedy
    two = diagnosed.found(RULES, known, dataclasses.replace(known, object="pod team-b/other"))
    assert two["PodToleratesNoGPUNode"].objects == ("pod team-a/train", "pod team-b/other")


@pytest.mark.parametrize(("message", "quote"), [("", "asks for 16 nvidia.com/gpu"), ("0/2 nodes", "0/2 nodes")])
def test_the_evidence_is_the_message_of_the_scheduler_or_what_the_pod_asks_for(message: str, quote: str) -> None:
    (found,) = diagnosed.found(RULES, pods=[pod(message, {"gpu": 16})], objects={"nodes": [node()]}).values()
    assert [each.text for each in found.quotes] == [quote]


def test_one_tainted_node_is_enough_to_name_its_taint() -> None:
    found = diagnosed.found(RULES, pods=[pod()], objects={"nodes": [node("gpu-0", TAINT)]})["PodToleratesNoGPUNode"]
    assert str(TAINT["key"]) in found.cause + found.remedy


def test_another_scheduler_has_no_gpu_left() -> None:
    # https://github.com/kai-scheduler/KAI-Scheduler/issues/39
    text = "No nodes with enough resources were found: 2 node(s) didn't have enough resources: {}."
    (finding,) = diagnosed.found(RULES, text.format("GPUs")).values()
    assert (finding.code, finding.certainty) == ("PodWaitsForGPU", "possible")
    assert diagnosed.found(RULES, text.format("CPU cores")) == {}
    known = TextLine(text.format("GPUs"), "event", "event of pod team-a/train", "", "pod team-a/train")
    found = diagnosed.found(RULES, known, pods=[pod(asks={"gpu": 16})], objects={"nodes": [node()]})
    assert list(found) == ["PodAsksTooManyGPUs"]


def test_a_message_about_a_pod_that_is_known_whole_is_not_judged_again() -> None:
    event = TextLine(MESSAGES["PodWaitsForGPU"], "event", "event of pod team-a/train", "", "pod team-a/train")
    found = diagnosed.found(RULES, event, pods=[pod(asks={"gpu": 16})], objects={"nodes": [node()]})
    assert list(found) == ["PodAsksTooManyGPUs"]


def test_every_rule_has_a_case() -> None:
    assert {rule.code for rule in RULES} == {*CASES, *MESSAGES}


@pytest.mark.parametrize("code", ["NoHealthyGPUForPod", "DevicePluginForgotten", "GPUsNotYetThereForPod"])
def test_a_restart_and_a_disagreement_say_how_to_tell_them_apart(code: str) -> None:
    lines = [
        TextLine(MESSAGES[each], "event", "event of pod team-a/x", "gpu-0") for each in (code, "DevicesTakenForPod")
    ]
    found = diagnosed.found(RULES, *lines)
    assert {*found} == {code, "DevicesTakenForPod"}
    for each in found.values():
        (text,) = each.tell_apart
        assert "systemctl status kubelet" in text
    elsewhere = diagnosed.found(RULES, lines[0], dataclasses.replace(lines[1], node="gpu-1"))
    assert elsewhere[code].tell_apart == ()


def test_one_taint_beside_nodes_without_gpus_may_be_that_of_the_gpu_nodes() -> None:
    # https://github.com/NVIDIA/gpu-operator/issues/156
    text = "0/10 nodes are available: 1 node(s) had taint {workload: aiml}, that the pod didn't tolerate, 9 "
    found = diagnosed.found(RULES, f"{text}Insufficient nvidia.com/gpu.")
    assert {code: each.certainty for code, each in found.items()} == {"PodToleratesNoGPUNode": "possible"}
    assert "workload: aiml" in found["PodToleratesNoGPUNode"].cause
    assert diagnosed.found(RULES, f"{text}Insufficient cpu.") == {}
