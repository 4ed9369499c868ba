# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import workload
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import (
    WorkloadProgress,
    WorkloadRequest,
    WorkloadVerdict,
    is_stuck,
    manifest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._cluster.proof.workloads import options, pod

GPU = "nvidia.com/gpu"


def judge(pod: dict | None, age_s: float, chosen: dict, stuck_s: float = 0) -> WorkloadVerdict | None:
    return workload.judge(pod, WorkloadProgress(GPU, age_s, stuck_s), chosen)


def test_the_pod_is_placed_by_the_scheduler_and_meets_the_restricted_standard() -> None:
    pod = manifest(WorkloadRequest("gpu-0000", GPU), "run1", options(), now=1000.5)
    spec = pod["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert pod["kind"] == "Pod" and pod["metadata"]["generateName"] == "gpu-smoke-test-"
    assert "nodeName" not in spec and terms == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-0000"]}]}
    ]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["metadata"]["labels"] == {
        "app.kubernetes.io/name": "gpu-smoke-test",
        "app.kubernetes.io/managed-by": "gpuops.nvidia",
        "gpuops.nvidia/run": "run1",
    }
    assert spec["activeDeadlineSeconds"] == 300
    assert pod["metadata"]["annotations"] == {"gpuops.nvidia/node": "gpu-0000", "gpuops.nvidia/expires": "1360"}
    assert not {"runtimeClassName", "priorityClassName", "serviceAccountName"} & set(spec) and not {
        "command",
        "args",
    } & set(spec["containers"][0])


def test_every_option_reaches_the_pod() -> None:
    chosen = options(
        image="i",
        command=["c"],
        args=["a"],
        count=2,
        runtime_class_name="nvidia",
        service_account_name="tester",
        security_context={},
        image_pull_secrets=["s"],
        image_pull_policy="Always",
        tolerations=[],
    )
    spec = manifest(WorkloadRequest("n", "nvidia.com/mig-1g.10gb", "low"), "r", chosen, 0)["spec"]
    assert (spec["runtimeClassName"], spec["priorityClassName"]) == ("nvidia", "low")
    assert (spec["imagePullSecrets"], spec["tolerations"], spec["serviceAccountName"]) == (
        [{"name": "s"}],
        [],
        "tester",
    )
    assert spec["automountServiceAccountToken"] is False
    assert spec["containers"] == [
        {
            "name": "workload",
            "image": "i",
            "imagePullPolicy": "Always",
            "command": ["c"],
            "args": ["a"],
            "resources": {"limits": {"nvidia.com/mig-1g.10gb": "2"}},
            "securityContext": {},
        }
    ]


def test_a_job_wraps_the_same_pod_and_never_retries_it() -> None:
    request = WorkloadRequest("n", GPU)
    pod, job = manifest(request, "r", options(), 0), manifest(request, "r", options(kind="Job"), 0)
    assert job["kind"] == "Job" and job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"] == pod["spec"]
    assert job["spec"]["template"]["metadata"]["labels"] == pod["metadata"]["labels"] == job["metadata"]["labels"]
    assert "generateName" not in job["spec"]["template"]["metadata"]


BUSY = "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."


def test_success_is_a_pass() -> None:
    assert judge(pod("Succeeded", terminated={"exitCode": 0}), 1, options()) == WorkloadVerdict(
        "", passed=True, phase="Succeeded", exit_code=0
    )


@pytest.mark.parametrize(
    ("failed", "code", "reason"),
    [
        (pod("Failed", terminated={"exitCode": 1, "reason": "Error"}), 1, "The workload ended with status 1"),
        (
            pod("Failed", terminated={"exitCode": 137, "reason": "OOMKilled"}),
            137,
            "The workload ended with status 137 (OOMKilled)",
        ),
        (
            {
                "status": {
                    "phase": "Failed",
                    "reason": "UnexpectedAdmissionError",
                    "message": "Allocate failed: devices unavailable",
                }
            },
            None,
            "The node refused or ended the pod (UnexpectedAdmissionError): Allocate failed: devices unavailable.",
        ),
        ({"status": {"phase": "Failed"}}, None, "The node refused or ended the pod (no reason given): no message."),
    ],
)
def test_a_failure_states_its_reason(failed: dict, code: int | None, reason: str) -> None:
    assert judge(failed, 1, options()) == WorkloadVerdict("", phase="Failed", exit_code=code, reason=reason)


def test_a_pod_that_made_way_for_another_is_skipped() -> None:
    for reason in ("PreemptionByScheduler", "EvictionByEvictionAPI"):
        gone = pod("Failed", terminated={"exitCode": 137})
        gone["status"]["conditions"] = [
            {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "preempted by pod x"}
        ]
        verdict = judge(gone, 1, options())
        assert verdict == WorkloadVerdict(
            "",
            skipped=True,
            code="Displaced",
            phase="Failed",
            reason=verdict.reason,
        )
        assert all(word in verdict.reason for word in (reason, "preempted by pod x"))


def test_a_pod_that_its_node_ended_has_failed() -> None:
    gone = pod("Failed", terminated={"exitCode": 137})
    gone["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]
    verdict = judge(gone, 1, options())
    assert verdict and not verdict.skipped and verdict.exit_code == 137


def test_a_node_whose_last_gpu_went_to_another_pod_is_busy() -> None:
    refused = {"status": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "Node didn't have enough"}}
    verdict = judge(refused, 1, options())
    assert verdict and verdict.skipped and verdict.code == "Busy"
    waited = judge(refused, 1, options(skip_busy=False))
    assert waited and not waited.skipped and "OutOfnvidia.com/gpu" in waited.reason


REMEDIES = {
    "ImagePullBackOff": "Check image and image_pull_secrets, and that the node reaches the registry.",
    "ErrImagePull": "Check image and image_pull_secrets, and that the node reaches the registry.",
    "InvalidImageName": "Correct image.",
    "ErrImageNeverPull": "The node does not have the image: change image_pull_policy.",
    "CreateContainerConfigError": "Check image_pull_secrets and security_context.",
    "CreateContainerError": "Check the node's container runtime and the NVIDIA container toolkit.",
    "RunContainerError": "Check command, the node's container runtime and the NVIDIA container toolkit.",
}


@pytest.mark.parametrize("reason", REMEDIES)
def test_a_container_that_never_starts_ends_the_test(reason: str) -> None:
    stuck = pod(waiting={"reason": reason, "message": "the kubelet's words"})
    verdict = judge(stuck, 200, options(), stuck_s=180)
    assert verdict == WorkloadVerdict("", phase="Pending", reason=f"{reason}: the kubelet's words. {REMEDIES[reason]}")
    assert is_stuck(stuck)


def test_every_state_that_never_ends_has_a_remedy() -> None:
    assert set(REMEDIES) == set(pods.NEVER_STARTS)


def test_an_image_that_does_not_exist_ends_the_test_at_once() -> None:
    verdict = judge(pod(waiting={"reason": "ErrImagePull", "message": "x: not found"}), 0, options())
    assert verdict and verdict.reason.startswith("ErrImagePull: x: not found. Check image")


def test_a_container_that_never_starts_without_a_message_has_a_remedy() -> None:
    verdict = judge(pod(waiting={"reason": "InvalidImageName"}), 0, options())
    assert verdict and verdict.reason == "InvalidImageName. Correct image."


def test_a_busy_registry_is_waited_for() -> None:
    throttled = pod(waiting={"reason": "ErrImagePull", "message": "429 Too Many Requests"})
    assert judge(throttled, 250, options(), stuck_s=179) is None and is_stuck(throttled)
    late = judge(throttled, 300, options(), stuck_s=179)
    assert late and late.reason.startswith("The pod was Pending (ErrImagePull: 429 Too Many Requests) after 300 s")
    assert not is_stuck(pod(waiting={"reason": "ContainerCreating"})) and not is_stuck(None)


def test_a_pod_behind_a_scheduling_gate_is_not_unschedulable() -> None:
    gated = pod()
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}
    gated["status"]["conditions"] = [condition, {"type": "Ready", "reason": "Unschedulable", "message": "x"}]
    assert judge(gated, 60, options()) is None
    late = judge(gated, 300, options())
    assert late and late.reason.startswith("The pod was Pending (no reason given) after 300 s")


@pytest.mark.parametrize(
    "waits",
    [
        None,
        pod(),
        pod("Running"),
        pod(waiting={"reason": "ContainerCreating"}),
        pod(unschedulable=BUSY),
    ],
)
def test_a_pod_that_may_still_pass_is_not_judged(waits: dict | None) -> None:
    assert judge(waits, workload.UNSCHEDULABLE_S - 1, options()) is None


def test_a_busy_node_is_skipped_after_a_moment() -> None:
    verdict = judge(pod(unschedulable=BUSY), workload.UNSCHEDULABLE_S, options())
    assert verdict and verdict.skipped and verdict.code == "Busy"
    assert verdict.reason == wording(
        "Other pods hold the node's nvidia.com/gpu. Test the node when it is idle, or wait for a free GPU with skip_busy: false."
    )


def test_a_busy_node_is_waited_for_on_request_and_then_fails() -> None:
    chosen = options(skip_busy=False, timeout=60)
    assert judge(pod(unschedulable=BUSY), 59, chosen) is None
    verdict = judge(pod(unschedulable=BUSY), 60, chosen)
    assert (
        verdict
        and not verdict.skipped
        and verdict.reason
        == wording(
            "The pod was not placed after 60 s, because other pods held the node's nvidia.com/gpu. Test the node when it is idle."
        )
    )


def test_a_pod_that_cannot_be_scheduled_for_another_reason_fails() -> None:
    verdict = judge(
        pod(unschedulable="0/4 nodes are available: 1 Insufficient cpu."), workload.UNSCHEDULABLE_S, options()
    )
    assert (
        verdict
        and not verdict.skipped
        and verdict.reason
        == wording("The scheduler cannot place the pod: 0/4 nodes are available: 1 Insufficient cpu.")
    )


def test_claims_that_cannot_be_allocated_mean_a_busy_node() -> None:
    """The scheduler's words of Kubernetes 1.36 for a node whose devices other claims have."""
    words = (
        "0/4 nodes are available: 1 cannot allocate all claims, 3 node(s) didn't match Pod's node affinity/selector."
    )
    progress = WorkloadProgress("gpu.nvidia.com", workload.UNSCHEDULABLE_S, 0)
    verdict = workload.judge(pod(unschedulable=words), progress, options())
    assert verdict and (verdict.skipped, verdict.code) == (True, "Busy") and "gpu.nvidia.com" in verdict.reason
    assert workload.judge(pod(unschedulable=words), progress, options(skip_busy=False)) is None


@pytest.mark.parametrize(
    ("late", "reason"),
    [
        (pod("Running"), "The workload was still running after 300 s"),
        (pod(waiting={"reason": "ContainerCreating"}), "The pod was Pending (ContainerCreating) after 300 s"),
        (pod(), "The pod was Pending (no reason given) after 300 s"),
        (None, "The pod did not appear after 300 s"),
    ],
)
def test_a_timeout_states_what_the_pod_was_doing(late: dict | None, reason: str) -> None:
    verdict = judge(late, 300, options())
    assert verdict and verdict.reason.startswith(reason)
