# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import workload
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import (
    Outcome,
    Run,
    judge,
    manifest,
    select,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.gpu_smoke_test import OPTIONS, failure, summary

DEFAULTS: dict[str, t.Any] = {name: option.get("default") for name, option in OPTIONS.items()}


def options(**changes: t.Any) -> dict[str, t.Any]:
    return {**DEFAULTS, **changes}


def node(
    name: str, gpus: int | None = 8, *, ready: str = "True", cordoned: bool = False, labels: dict | None = None
) -> dict:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": {} if gpus is None else {"nvidia.com/gpu": str(gpus)},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": ready, "message": "container runtime is down"},
            ],
        },
    }


def test_by_default_every_open_node_with_the_resource_is_tested() -> None:
    nodes = [node("a"), node("cordoned", cordoned=True), node("cpu", None), node("none-left", 0), node("b")]
    selection = select(nodes, options())
    assert (selection.names, selection.outcomes, selection.testable) == (["a", "b"], [], ["a", "b"])


def test_named_nodes_are_tested_also_when_cordoned_and_only_once() -> None:
    selection = select([node("a", cordoned=True), node("b")], options(nodes=["a", "a"]))
    assert selection.testable == ["a"]


def test_a_selector_leaves_out_cordoned_nodes_but_not_broken_ones() -> None:
    labels = {"pool": "1"}
    nodes = [
        node("a", labels=labels),
        node("b", 0, labels=labels),
        node("c", labels=labels, cordoned=True),
        node("d", labels={"pool": "2"}),
        node("e"),
    ]
    selection = select(nodes, options(node_selector={"pool": 1}))
    assert selection.testable == ["a"]
    assert [outcome.reason for outcome in selection.outcomes] == [
        "The node offers 0 nvidia.com/gpu, the test asks for 1. Check the device plugin on this node."
    ]


def test_what_no_workload_can_run_on_is_settled_without_a_pod() -> None:
    unreported = node("new")
    unreported["status"]["conditions"] = []
    outcomes = select(
        [node("down", ready="Unknown"), unreported, node("small", 2)],
        options(nodes=["down", "new", "small", "gone"], count=4),
    ).outcomes
    assert {outcome.node: outcome.reason for outcome in outcomes} == {
        "down": "The node is not Ready: container runtime is down.",
        "new": "The node is not Ready: its kubelet has not reported yet.",
        "small": "The node offers 2 nvidia.com/gpu, the test asks for 4. Check the device plugin on this node.",
        "gone": "There is no such node.",
    }
    assert not any(outcome.passed or outcome.skipped for outcome in outcomes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({}, "no schedulable node offers nvidia.com/gpu"), ({"node_selector": {"a": "b"}}, "among those with the labels")],
)
def test_nothing_to_test_is_an_error(changes: dict, words: str) -> None:
    with pytest.raises(GpuOpsError, match=words) as e:
        select([node("cpu", None)], options(**changes))
    assert e.value.reason == "NoGpuNodes"


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


def test_a_job_wraps_the_same_pod_and_never_repeats_it() -> None:
    pod, job = manifest("n", "r", options(), 0), manifest("n", "r", options(kind="Job"), 0)
    assert job["kind"] == "Job" and job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"] == pod["spec"]
    assert job["spec"]["template"]["metadata"]["labels"] == pod["metadata"]["labels"] == job["metadata"]["labels"]
    assert "generateName" not in job["spec"]["template"]["metadata"]


def pod(
    phase: str = "Pending",
    *,
    waiting: dict | None = None,
    terminated: dict | None = None,
    unschedulable: str | None = None,
    **status: t.Any,
) -> dict:
    state = {"waiting": waiting} if waiting else {"terminated": terminated} if terminated else {}
    conditions = (
        [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unschedulable}]
        if unschedulable
        else []
    )
    return {"status": {"phase": phase, "containerStatuses": [{"state": state}], "conditions": conditions, **status}}


BUSY = "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."


def test_success_is_a_pass() -> None:
    assert judge(pod("Succeeded", terminated={"exitCode": 0}), 1, options()) == Outcome(
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
def test_failures_say_why(failed: dict, code: int | None, reason: str) -> None:
    assert judge(failed, 1, options()) == Outcome("", phase="Failed", exit_code=code, reason=reason)


@pytest.mark.parametrize(
    "reason",
    ["ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "RunContainerError"],
)
def test_hopeless_waits_end_at_once(reason: str) -> None:
    verdict = judge(pod(waiting={"reason": reason, "message": "the kubelet's words"}), 0, options())
    assert verdict and verdict.reason.startswith(f"{reason}: the kubelet's words. ") and not verdict.skipped


def test_a_hopeless_wait_without_words_still_names_the_remedy() -> None:
    verdict = judge(pod(waiting={"reason": "ImagePullBackOff"}), 0, options())
    assert verdict and verdict.reason.startswith("ImagePullBackOff. Check image")


@pytest.mark.parametrize(
    "waits",
    [
        None,
        pod(),
        pod("Running"),
        pod(waiting={"reason": "ContainerCreating"}),
        pod(waiting={"reason": "ErrImagePull"}),
        pod(unschedulable=BUSY),
    ],
)
def test_what_may_still_pass_is_not_judged(waits: dict | None) -> None:
    assert judge(waits, workload.SETTLE_S - 1, options()) is None


def test_a_busy_node_is_skipped_after_a_moment() -> None:
    verdict = judge(pod(unschedulable=BUSY), workload.SETTLE_S, options())
    assert verdict and verdict.skipped and verdict.reason.startswith("Other pods hold the node's nvidia.com/gpu")


def test_a_busy_node_is_waited_for_on_request_and_then_fails() -> None:
    chosen = options(skip_busy=False, timeout=60)
    assert judge(pod(unschedulable=BUSY), 59, chosen) is None
    verdict = judge(pod(unschedulable=BUSY), 60, chosen)
    assert verdict and not verdict.skipped and verdict.reason.startswith("Other pods held the node's nvidia.com/gpu")


def test_a_pod_that_fits_nowhere_for_another_reason_fails() -> None:
    verdict = judge(pod(unschedulable="0/4 nodes are available: 1 Insufficient cpu."), workload.SETTLE_S, options())
    assert (
        verdict
        and not verdict.skipped
        and verdict.reason == "The scheduler cannot place the pod: 0/4 nodes are available: 1 Insufficient cpu."
    )


@pytest.mark.parametrize(
    ("late", "reason"),
    [
        (pod("Running"), "The workload still ran after 300 s"),
        (pod(waiting={"reason": "ContainerCreating"}), "The pod was Pending (ContainerCreating) after 300 s"),
        (pod(), "The pod was Pending (no reason given) after 300 s"),
        (None, "The pod did not appear after 300 s"),
    ],
)
def test_time_out(late: dict | None, reason: str) -> None:
    verdict = judge(late, 300, options())
    assert verdict and verdict.reason.startswith(reason)


class FakeCluster:
    """Pods in memory. ``play`` maps a node to the status that its pod shows, or to an error on creation."""

    def __init__(self, **play: t.Any) -> None:
        self.play = play
        self.objects: dict[str, dict] = {}
        self.created: list[str] = []
        self.most = 0
        self.polls = 0
        self.on_poll: t.Callable[[], None] = lambda: None

    def create(self, path: str, body: dict) -> dict:
        node_name = body["metadata"]["annotations"]["gpuops.nvidia/node"]
        if isinstance(self.play[node_name], GpuOpsError):
            raise self.play[node_name]
        name = f"pod-{len(self.created)}"
        self.objects[name] = {**body, "metadata": {**body["metadata"], "name": name}}
        self.created.append(node_name)
        self.most = max(self.most, len(self.objects))
        return self.objects[name]

    def list(self, path: str, **query: str) -> list[dict]:
        self.polls += 1
        self.on_poll()
        return self._matching(query["labelSelector"])

    def get(self, path: str, query: dict) -> dict:
        return {"items": self._matching(query["labelSelector"])}

    def _matching(self, selector: str) -> list[dict]:
        wanted = dict(term.split("=") for term in selector.split(","))
        found = [item for item in self.objects.values() if wanted.items() <= item["metadata"]["labels"].items()]
        return [
            {**item, **self.play.get(item["metadata"]["annotations"].get("gpuops.nvidia/node", ""), {})}
            for item in found
        ]

    def text(self, path: str, query: dict) -> str:
        if path.endswith("/pod-0/log"):
            return "first line\nTest PASSED\n\n"
        raise GpuOpsError("no logs")

    def delete(self, path: str) -> bool:
        return self.objects.pop(path.rsplit("/", 1)[-1], None) is not None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "POLL_S", 0.001)
    monkeypatch.setattr(workload, "OUTAGE_S", 0.05)


DONE = pod("Succeeded", terminated={"exitCode": 0})


def test_all_nodes_are_tested_with_a_limit_and_nothing_stays() -> None:
    cluster = FakeCluster(a=DONE, b=DONE, c=pod("Failed", terminated={"exitCode": 3}), d=DONE, e=DONE)
    outcomes = {outcome.node: outcome for outcome in Run(cluster, options(parallel=2)).test(["a", "b", "c", "d", "e"])}
    assert cluster.created == ["a", "b", "c", "d", "e"] and cluster.most == 2 and cluster.objects == {}
    assert outcomes["a"].passed and outcomes["a"].log == "first line\nTest PASSED\n\n" and outcomes["a"].pod == "pod-0"
    assert outcomes["c"].exit_code == 3
    assert outcomes["c"].reason == "The workload ended with status 3: (no log: no logs)"


def test_one_poll_covers_all_running_pods() -> None:
    cluster = FakeCluster(a=DONE, b=DONE, c=DONE)
    Run(cluster, options()).test(["a", "b", "c"])
    assert cluster.polls == 2  # leftovers, and one look at all three


def test_a_pod_that_vanishes_fails_its_node() -> None:
    cluster = FakeCluster(a=pod("Running"))
    cluster.on_poll = lambda: cluster.objects.clear() if cluster.polls == 3 else None
    (outcome,) = Run(cluster, options()).test(["a"])
    assert "The pod vanished while it ran" in outcome.reason


def test_an_interruption_cleans_up() -> None:
    cluster = FakeCluster(a=pod("Running"), b=pod("Running"))
    cluster.on_poll = lambda: os.kill(os.getpid(), signal.SIGTERM) if cluster.polls == 2 else None
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        Run(cluster, options()).test(["a", "b"])
    assert cluster.created == ["a", "b"] and cluster.objects == {}
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            GpuOpsError('namespaces "x" not found', reason="NotFound"),
            "Namespace gpu-operator does not exist. Create it",
        ),
        (
            GpuOpsError('pods "x" is forbidden: violates PodSecurity "restricted"', reason="Forbidden"),
            "The pod security of namespace gpu-operator refuses",
        ),
        (GpuOpsError("exceeded quota", reason="Forbidden"), "exceeded quota"),
    ],
)
def test_a_refused_creation_ends_the_run_and_cleans_up(error: GpuOpsError, words: str) -> None:
    cluster = FakeCluster(a=pod("Running"), b=error)
    with pytest.raises(GpuOpsError, match=words):
        Run(cluster, options()).test(["a", "b"])
    assert cluster.objects == {}


def test_a_short_outage_is_sat_out() -> None:
    cluster = FakeCluster(a=DONE, b=DONE)

    def blink() -> None:
        if cluster.polls in (2, 3):
            raise GpuOpsError("Cannot reach the API.", reason="Unreachable")

    cluster.on_poll = blink
    outcomes = Run(cluster, options(parallel=1)).test(["a", "b"])
    assert [outcome.node for outcome in outcomes] == ["a", "b"] and all(outcome.passed for outcome in outcomes)


def test_pods_that_cannot_be_deleted_are_owned_up_to() -> None:
    cluster = FakeCluster(a=pod("Running"))

    def unreachable(*args: object, **kwargs: object) -> t.NoReturn:
        raise GpuOpsError("Cannot reach the API.", reason="Unreachable")

    def die() -> None:
        if cluster.polls == 2:
            cluster.delete = cluster.get = cluster.list = cluster.create = unreachable

    cluster.on_poll = die
    with pytest.raises(
        GpuOpsError, match=r"Cannot reach the API. Pods of the test may be left; they end by themselves"
    ) as e:
        Run(cluster, options()).test(["a"])
    assert e.value.reason == "Unreachable"


def leftover(expires: str | None) -> dict:
    annotations = None if expires is None else {"gpuops.nvidia/expires": expires}
    return {"metadata": {"name": f"left-{expires}", "labels": dict(workload.OURS), "annotations": annotations or {}}}


def test_leftovers_are_deleted_once_they_expired() -> None:
    cluster = FakeCluster(a=DONE)
    cluster.objects = {
        "left-100": leftover("100"),
        "left-99999999999": leftover("99999999999"),
        "left-None": leftover(None),
    }
    Run(cluster, options()).test(["a"])
    assert list(cluster.objects) == ["left-99999999999"]


def test_summary_and_failure() -> None:
    outcomes = [
        Outcome("a", passed=True),
        Outcome("b", skipped=True, reason="busy"),
        *(Outcome(f"n{number}", reason="broken.") for number in range(6)),
    ]
    counts = summary(outcomes, 8)
    assert counts == {"nodes": 8, "passed": 1, "failed": 6, "skipped": 1}
    rows = [{"node": outcome.node, "passed": outcome.passed, "reason": outcome.reason} for outcome in outcomes]
    text = failure({"results": rows, "summary": counts, "nodes": [""] * 8})
    assert text.startswith("1 of 8 nodes passed the GPU smoke test. b: busy n0: broken.") and text.endswith(
        " And 2 more."
    )
