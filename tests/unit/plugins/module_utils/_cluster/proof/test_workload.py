# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import workload
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import Verdict, judge, manifest

from tests.unit.plugins.module_utils._cluster.proof.workloads import options, pod


def test_the_pod_is_placed_by_the_scheduler_and_meets_the_restricted_standard() -> None:
    pod = manifest("gpu-0000", "run1", options(), now=1000.5)
    spec = pod["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert pod["kind"] == "Pod" and pod["metadata"]["generateName"] == "gpu-smoke-test-"
    assert "nodeName" not in spec and terms == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-0000"]}]}
    ]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["activeDeadlineSeconds"] == 300
    assert pod["metadata"]["annotations"] == {"gpuops.nvidia/node": "gpu-0000", "gpuops.nvidia/expires": "1360"}
    assert not {"runtimeClassName", "priorityClassName"} & set(spec) and not {"command", "args"} & set(
        spec["containers"][0]
    )


def test_every_option_reaches_the_pod() -> None:
    chosen = options(
        image="i",
        command=["c"],
        args=["a"],
        resource="nvidia.com/mig-1g.10gb",
        count=2,
        runtime_class_name="nvidia",
        priority_class_name="low",
        security_context={},
        image_pull_secrets=["s"],
        image_pull_policy="Always",
        tolerations=[],
    )
    spec = manifest("n", "r", chosen, 0)["spec"]
    assert (spec["runtimeClassName"], spec["priorityClassName"], spec["imagePullSecrets"], spec["tolerations"]) == (
        "nvidia",
        "low",
        [{"name": "s"}],
        [],
    )
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
    pod, job = manifest("n", "r", options(), 0), manifest("n", "r", options(kind="Job"), 0)
    assert job["kind"] == "Job" and job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"] == pod["spec"]
    assert job["spec"]["template"]["metadata"]["labels"] == pod["metadata"]["labels"] == job["metadata"]["labels"]
    assert "generateName" not in job["spec"]["template"]["metadata"]


BUSY = "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."


def test_success_is_a_pass() -> None:
    assert judge(pod("Succeeded", terminated={"exitCode": 0}), 1, options()) == Verdict(
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
    assert judge(failed, 1, options()) == Verdict("", phase="Failed", exit_code=code, reason=reason)


@pytest.mark.parametrize("reason", pods.NEVER_STARTS)
def test_a_container_that_never_starts_ends_the_test_at_once(reason: str) -> None:
    verdict = judge(pod(waiting={"reason": reason, "message": "the kubelet's words"}), 0, options())
    assert verdict and verdict.reason.startswith(f"{reason}: the kubelet's words. ") and not verdict.skipped


def test_a_container_that_never_starts_without_a_message_has_a_remedy() -> None:
    verdict = judge(pod(waiting={"reason": "ImagePullBackOff"}), 0, options())
    assert verdict and verdict.reason.startswith("ImagePullBackOff. Check image")


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
    assert verdict and verdict.skipped and verdict.reason.startswith("Other pods hold the node's nvidia.com/gpu")


def test_a_busy_node_is_waited_for_on_request_and_then_fails() -> None:
    chosen = options(skip_busy=False, timeout=60)
    assert judge(pod(unschedulable=BUSY), 59, chosen) is None
    verdict = judge(pod(unschedulable=BUSY), 60, chosen)
    assert (
        verdict
        and not verdict.skipped
        and verdict.reason.startswith(
            "The pod was not placed after 60 s, because other pods held the node's nvidia.com/gpu."
        )
    )


def test_a_pod_that_cannot_be_scheduled_for_another_reason_fails() -> None:
    verdict = judge(
        pod(unschedulable="0/4 nodes are available: 1 Insufficient cpu."), workload.UNSCHEDULABLE_S, options()
    )
    assert (
        verdict
        and not verdict.skipped
        and verdict.reason == "The scheduler cannot place the pod: 0/4 nodes are available: 1 Insufficient cpu."
    )


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
