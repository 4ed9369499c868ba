# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import time
import types
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import smoke_test
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.smoke_test import (
    SmokeTestRun,
    failure,
    summary,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import WorkloadVerdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.support.measured import measured
from tests.unit.plugins.module_utils._cluster.proof.workloads import node, options, pod

TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/gpu-operator/resourceclaimtemplates"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/gpu-operator/resourceclaims"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = "/api/v1/namespaces/gpu-operator/pods"
NOW = 4_000_000_000.0
"""The API server's time. The controller's clock plays no part."""

Play = t.Union[dict, GpuOpsError, "list[t.Any]"]


class FakeCluster:
    """Pods and PriorityClasses in memory.

    ``play`` maps a node to the status that its pod shows, to an error on its creation, or to a list of such errors that
    ends with a status: one for each attempt.
    """

    check_mode = False

    def __init__(self, **play: Play) -> None:
        self.play = play
        self.pods: dict[str, dict] = {}
        self.classes: dict[str, dict] = {}
        self.nodes: list[dict] = []
        self.created: list[str] = []
        self.bodies: list[dict] = []
        self.logs = {"pod-0": "first line\nTest PASSED\n\n"}
        self.most = 0
        self.polls = 0
        self.on_poll: t.Callable[[], None] = lambda: None
        self.refuses_classes = ""
        self.served: dict | None = None
        self.templates: dict[str, dict] = {}
        self.claims: list[dict] = []

    def now(self) -> float:
        return NOW

    def create(self, path: str, body: dict) -> dict:
        if path == CLASSES:
            self._refuse_classes()
            self.classes[body["metadata"]["name"]] = body
            return body
        if path == TEMPLATES:
            self.templates[body["metadata"]["name"]] = body
            return body
        assert path == PODS, path
        node_name = body["metadata"]["annotations"]["gpuops.nvidia/node"]
        answer = self.play[node_name]
        if isinstance(answer, list):
            self.play[node_name] = answer[1:] if len(answer) > 2 else answer[-1]
            answer = answer[0]
        if isinstance(answer, GpuOpsError):
            raise answer
        name = f"pod-{len(self.created)}"
        self.pods[name] = {**body, "metadata": {**body["metadata"], "name": name, "namespace": "gpu-operator"}}
        self.created.append(node_name)
        self.bodies.append(body)
        self.most = max(self.most, len(self.pods))
        return self.pods[name]

    def _refuse_classes(self) -> None:
        if self.refuses_classes:
            raise GpuOpsError("No permission.", reason=t.cast(t.Any, self.refuses_classes))

    def large_list(self, path: str, keep: t.Callable[[dict], dict]) -> tuple[list[dict], str]:
        assert path == "/api/v1/nodes"
        return list(map(keep, self.nodes)), "7"

    def list(self, path: str, **query: str) -> list[dict]:
        if path == CLASSES:
            self._refuse_classes()
            return self._matching(self.classes, query.get("labelSelector"))
        if path == TEMPLATES:
            return self._matching(self.templates, query.get("labelSelector"))
        if path == CLAIMS:
            return self.claims
        assert path == PODS, path
        self.polls += 1
        self.on_poll()
        return self._matching(self.pods, query["labelSelector"])

    def get(self, path: str, query: dict | None = None) -> dict | None:
        if path.startswith("/apis/resource.k8s.io/"):
            return self.served if path.endswith("/v1") else None
        if query is None:
            name = path.removeprefix(f"{PODS}/")
            return next((item for item in self._matching(self.pods, None) if item["metadata"]["name"] == name), None)
        return {"items": self._matching(self.pods, query["labelSelector"])}

    def _matching(self, objects: dict[str, dict], selector: str | None) -> list[dict]:
        wanted = dict(term.split("=") for term in selector.split(",")) if selector else {}
        found = [item for item in objects.values() if wanted.items() <= item["metadata"].get("labels", {}).items()]
        return [{**item, **self._shown(item)} for item in found]

    def _shown(self, item: dict) -> dict:
        shown = self.play.get((item["metadata"].get("annotations") or {}).get("gpuops.nvidia/node", ""), {})
        return shown if isinstance(shown, dict) else {}

    def text(self, path: str, query: dict) -> str:
        assert query == {"tailLines": 20, "limitBytes": 65536}
        name = path.split("/")[-2]
        if name in self.logs:
            return self.logs[name]
        raise GpuOpsError("no logs")

    def delete(self, path: str) -> bool:
        kind, dummy, name = path.rpartition("/")
        if kind == CLASSES:
            self._refuse_classes()
        return {CLASSES: self.classes, TEMPLATES: self.templates}.get(kind, self.pods).pop(name, None) is not None


def run(cluster: FakeCluster, nodes: str, **changes: t.Any) -> dict[str, WorkloadVerdict]:
    """Test the nodes (one letter each); return their verdicts."""
    resources = dict.fromkeys(nodes, "nvidia.com/gpu")
    return {verdict.node: verdict for verdict in SmokeTestRun(cluster, options(**changes)).test(resources)}


def test_the_answer_of_the_module_has_an_entry_for_each_node() -> None:
    cluster = FakeCluster(a=pod("Succeeded", terminated={"exitCode": 0}))
    cluster.nodes = [node("b", cordoned=True), node("a"), node("c", ready="False")]
    result = smoke_test.smoke_test(cluster, options(min_tested="3"))
    assert result["nodes"] == ["a", "b", "c"] and result["passed"] is False
    assert [(row["node"], row["passed"], row["skipped"], row["code"]) for row in result["results"]] == [
        ("a", True, False, ""),
        ("b", False, True, "Cordoned"),
        ("c", False, False, ""),
    ]
    assert result["summary"] == {"nodes": 3, "passed": 1, "failed": 1, "skipped": 1}
    assert result["too_few_tested"] == wording(
        "Only 1 of 3 nodes were tested, but at least 3 must be (b: Cordoned, c: NotTestable). Run the test when GPUs are free, or lower min_tested."
    )
    assert result["results"][0]["resource"] == "nvidia.com/gpu"
    assert result["results"][2]["reason"] == wording("The node is not Ready: container runtime is down.")


def test_a_fleet_that_nobody_tested_has_not_passed() -> None:
    cluster = FakeCluster()
    cluster.nodes = [node("a", cordoned=True), node("b", cordoned=True)]
    result = smoke_test.smoke_test(cluster, options())
    assert result["passed"] is False
    assert smoke_test.failure(result) == (
        wording(
            "0 of 2 nodes passed the GPU smoke test, and 2 were skipped. Only 0 of 2 nodes were tested, but at least 1 "
            "must be (a: Cordoned, b: Cordoned). Run the test when GPUs are free, or lower min_tested."
        )
    )
    assert smoke_test.smoke_test(cluster, options(min_tested="0"))["passed"] is True


def test_check_mode_creates_nothing_and_says_what_needs_no_pod() -> None:
    cluster = FakeCluster()
    cluster.check_mode, cluster.nodes = True, [node("a"), node("b", cordoned=True)]
    result = smoke_test.smoke_test(cluster, options())
    assert result["nodes"] == ["a", "b"] and [row["node"] for row in result["results"]] == ["b"]
    assert not {"passed", "too_few_tested"} & result.keys() and cluster.created == [] and cluster.classes == {}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke_test, "WORKLOAD_POLL_S", 0.001)
    monkeypatch.setattr(waiting, "POLL_S", 0.001)
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.05)


DONE = pod("Succeeded", terminated={"exitCode": 0})


def test_all_nodes_are_tested_within_the_limit_and_nothing_is_left() -> None:
    cluster = FakeCluster(a=DONE, b=DONE, c=pod("Failed", terminated={"exitCode": 3}), d=DONE, e=DONE)
    outcomes = run(cluster, "abcde", parallel=2)
    assert cluster.created == ["a", "b", "c", "d", "e"] and cluster.most == 2
    assert (cluster.pods, cluster.classes) == ({}, {})
    assert outcomes["a"].passed and outcomes["a"].log == "first line\nTest PASSED\n\n" and outcomes["a"].pod == "pod-0"
    assert outcomes["c"].exit_code == 3
    assert outcomes["c"].reason == wording("The workload ended with status 3: (no log: no logs)")


def test_the_reason_ends_with_the_last_line_that_the_workload_wrote() -> None:
    cluster = FakeCluster(a=pod("Failed", terminated={"exitCode": 3}), b=pod("Failed", terminated={"exitCode": 4}))
    cluster.logs = {"pod-0": "CUDA error: no device\n  \n\n", "pod-1": "\n"}
    outcomes = run(cluster, "ab")
    assert outcomes["a"].reason == wording("The workload ended with status 3: CUDA error: no device")
    assert outcomes["b"].reason == wording("The workload ended with status 4: it wrote no log")


def test_one_poll_covers_all_running_pods() -> None:
    cluster = FakeCluster(a=DONE, b=DONE, c=DONE)
    run(cluster, "abc")
    assert cluster.polls == 2  # one list of leftovers, and one of all three pods


def test_between_two_looks_there_is_a_pause_while_pods_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none before the next pods start when all have ended."""
    pauses: list[float] = []
    monkeypatch.setattr(smoke_test, "WORKLOAD_POLL_S", 0.5)
    monkeypatch.setattr(waiting.time, "sleep", pauses.append)
    cluster = FakeCluster(a=pod("Running"), b=DONE)
    cluster.on_poll = lambda: cluster.play.update(a=DONE) if cluster.polls == 4 else None
    run(cluster, "ab", parallel=1)
    assert pauses == [0.5, 0.5, 0]


# ---- the priority of the pods -------------------------------------------------------------------------------------


def test_the_pods_have_a_class_of_their_own_that_never_preempts() -> None:
    seen: list[dict] = []
    cluster = FakeCluster(a=DONE, b=DONE, c=DONE)
    cluster.on_poll = lambda: seen.extend(cluster.classes.values())
    run(cluster, "abc", parallel=2, timeout=100)
    made = seen[0]
    assert len(seen) == 2
    assert (made["preemptionPolicy"], made["value"]) == ("Never", -1000000)
    assert {body["spec"]["priorityClassName"] for body in cluster.bodies} == {made["metadata"]["name"]}
    assert made["metadata"]["annotations"] == {"gpuops.nvidia/expires": "4000000260"}
    assert made["metadata"]["labels"]["app.kubernetes.io/name"] == "gpu-smoke-test"


def test_a_class_that_the_user_names_is_used_and_stays() -> None:
    cluster = FakeCluster(a=DONE)
    cluster.classes = {"low": {"metadata": {"name": "low"}}}
    run(cluster, "a", priority_class_name="low")
    assert cluster.bodies[0]["spec"]["priorityClassName"] == "low" and list(cluster.classes) == ["low"]


def test_a_user_who_may_not_make_a_class_is_told_before_any_pod_starts() -> None:
    cluster = FakeCluster(a=DONE)
    cluster.refuses_classes = "Forbidden"
    with pytest.raises(GpuOpsError) as error:
        run(cluster, "a")
    assert error.value.reason == "Forbidden"
    assert error.value.msg == wording(
        "The test's pods could displace pods of lower priority, and this user may not create the PriorityClass that prevents it. Grant create and delete on priorityclasses.scheduling.k8s.io, or set priority_class_name to a class whose preemptionPolicy is Never. No permission."
    )
    assert cluster.created == []


def test_without_a_class_the_pods_are_tested_where_they_are_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke_test.priority, "make", lambda *args: False)
    cluster = FakeCluster(a=DONE)
    cluster.refuses_classes = "Forbidden"
    assert run(cluster, "a")["a"].passed
    assert "priorityClassName" not in cluster.bodies[0]["spec"]


def test_a_class_that_an_api_server_does_not_know_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke_test.uuid, "uuid4", lambda: type("Id", (), {"hex": "0123456789abcdef"}))
    unknown = GpuOpsError(
        'No permission: pods "gpu-smoke-test-" is forbidden: no PriorityClass with name gpu-smoke-test-0123456789ab '
        "was found.",
        reason="Forbidden",
    )
    assert run(FakeCluster(a=[unknown, unknown, DONE]), "a")["a"].passed
    monkeypatch.setattr(smoke_test, "NEW_CLASS_S", 0.0)
    late = run(FakeCluster(a=unknown), "a")["a"]
    assert not late.passed and "no PriorityClass with name" in late.reason


def test_other_failures_of_the_class_end_the_run() -> None:
    cluster = FakeCluster(a=DONE)
    cluster.refuses_classes = "Invalid"
    with pytest.raises(GpuOpsError, match="No permission"):
        run(cluster, "a")


# ---- what goes wrong ----------------------------------------------------------------------------------------------


def test_a_pod_that_vanishes_fails_its_node() -> None:
    cluster = FakeCluster(a=pod("Running"))
    cluster.on_poll = lambda: cluster.pods.clear() if cluster.polls == 3 else None
    assert run(cluster, "a")["a"].reason == wording(
        "The pod disappeared while it ran: it was deleted, or evicted from the node."
    )


def test_a_list_of_an_api_server_that_lags_is_not_believed() -> None:
    """Every other list is empty, as behind a load balancer; the pod itself is read from storage."""
    cluster = FakeCluster(a=pod("Running"))
    real = cluster.list

    def list_or_nothing(path: str, **query: str) -> list[dict]:
        found = real(path, **query)
        if path == PODS and cluster.polls == 6:
            cluster.play["a"] = DONE
        return found if cluster.polls % 2 else []

    cluster.list = list_or_nothing
    assert run(cluster, "a")["a"].passed


class FakeJobs(FakeCluster):
    """Jobs, which get no pod but that of the node a, at the fourth poll. ``refusal`` is said of every other one."""

    def __init__(self, refusal: str = "", **play: Play) -> None:
        super().__init__(**play)
        self.jobs: dict[str, dict] = {}
        self.refusal = refusal
        self.may_list_events = True
        self.on_poll = self.give_a_pod

    def give_a_pod(self) -> None:
        if self.polls == 4 and "job-a" in self.jobs:
            self.pods["job-a-x"] = {
                "metadata": {**self.jobs["job-a"]["spec"]["template"]["metadata"], "name": "job-a-x"}
            }
        if self.polls == 9:
            self.play["a"] = DONE

    def create(self, path: str, body: dict) -> dict:
        if not path.endswith("/jobs"):
            return super().create(path, body)
        name = f"job-{body['metadata']['annotations']['gpuops.nvidia/node']}"
        self.jobs[name] = {**body, "metadata": {**body["metadata"], "name": name}}
        return self.jobs[name]

    def get(self, path: str, query: dict | None = None) -> dict | None:
        return {"items": list(self.jobs.values())} if "/jobs" in path else super().get(path, query)

    def list(self, path: str, **query: str) -> list[dict]:
        return [] if "/jobs" in path else super().list(path, **query)

    def list_readable(self, path: str, **query: str) -> Listed:
        assert path == "/api/v1/namespaces/gpu-operator/events"
        assert query == {"fieldSelector": "reason=FailedCreate,involvedObject.kind=Job"}
        names = [name for name in ["job-of-others", *self.jobs] if self.refusal and f"{name}-x" not in self.pods]
        said = [{"involvedObject": {"name": name}, "message": self.refusal} for name in names]
        return Listed(said) if self.may_list_events else Listed([], refusal="No permission.")

    def delete(self, path: str) -> bool:
        if "/jobs" not in path:
            return super().delete(path)
        name = path.rpartition("/")[2]
        self.pods.pop(f"{name}-x", None)
        return self.jobs.pop(name, None) is not None


REFUSED = 'Error creating: pods "job-b-x" is forbidden: exceeded quota: gpus, requested: 1, used: 0, limited: 0'
INSECURE = 'Error creating: pods "job-b-x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'


def test_a_job_whose_pod_has_not_appeared_yet_is_waited_for() -> None:
    cluster = FakeJobs(a=pod("Running"))
    verdict = run(cluster, "a", kind="Job")["a"]
    assert verdict.passed and verdict.pod == "job-a-x" and cluster.jobs == {}


def test_a_job_whose_pod_is_refused_fails_at_once_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke_test, "REFUSAL_S", 0.0)
    verdict = run(FakeJobs(REFUSED), "b", kind="Job")["b"]
    remedy = "Raise the quota of namespace gpu-operator, or set namespace."
    assert (verdict.passed, verdict.reason) == (False, f"The pod of Job job-b is refused. {REFUSED}. {remedy}")
    reason = run(FakeJobs(INSECURE), "b", kind="Job")["b"].reason
    assert reason == wording(
        'The pod security of namespace gpu-operator refuses the workload. Change security_context or namespace. The pod of Job job-b is refused. Error creating: pods "job-b-x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
    )


def test_a_quota_that_other_jobs_of_this_test_fill_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke_test, "REFUSAL_S", 0.0)
    cluster = FakeJobs(REFUSED, a=pod("Running"))
    ends: list[int] = []

    def look() -> None:
        if cluster.polls == 1:
            template = cluster.jobs["job-a"]["spec"]["template"]
            cluster.pods["job-a-x"] = {"metadata": {**template["metadata"], "name": "job-a-x"}}
        if cluster.polls == 6:
            ends.append(len(cluster.jobs))
            cluster.play["a"] = DONE

    cluster.on_poll = look
    outcomes = run(cluster, "ab", kind="Job")
    assert ends == [2], "The Job that waits for the quota should not have been judged while another one worked."
    assert outcomes["a"].passed and "exceeded quota" in outcomes["b"].reason


def test_a_refusal_is_looked_for_only_after_a_while_and_with_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeJobs(REFUSED, a=pod("Running"))
    assert run(cluster, "a", kind="Job")["a"].passed
    monkeypatch.setattr(smoke_test, "REFUSAL_S", 0.0)
    cluster = FakeJobs(REFUSED, a=pod("Running"))
    cluster.may_list_events = False
    assert run(cluster, "a", kind="Job")["a"].passed


def test_a_container_is_stuck_from_the_moment_that_it_is_seen_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(smoke_test.time, "monotonic", lambda: clock[0])
    started = smoke_test._Started("p", "nvidia.com/gpu", 900.0)
    stuck = pod(waiting={"reason": "ErrImagePull"})
    assert (started.progress(stuck).age_s, started.progress(stuck).stuck_s) == (100, 0)
    clock[0] = 1050.0
    assert started.progress(stuck).stuck_s == 50
    assert started.progress(pod(waiting={"reason": "ContainerCreating"})).stuck_s == 0
    assert started.progress(stuck).stuck_s == 0


def test_an_interruption_cleans_up() -> None:
    cluster = FakeCluster(a=pod("Running"), b=pod("Running"))
    cluster.on_poll = lambda: os.kill(os.getpid(), signal.SIGTERM) if cluster.polls == 2 else None
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        run(cluster, "ab")
    assert cluster.created == ["a", "b"] and (cluster.pods, cluster.classes) == ({}, {})
    assert signal.getsignal(signal.SIGTERM) == before


NO_NAMESPACE = GpuOpsError('namespaces "x" not found', reason="NotFound")
POD_SECURITY = GpuOpsError('pods "x" is forbidden: violates PodSecurity "restricted"', reason="Forbidden")
NO_PERMISSION = GpuOpsError('No permission: pods is forbidden: User "x" cannot create resource', reason="Forbidden")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NO_NAMESPACE, wording("Namespace gpu-operator does not exist. Create it, or set namespace.")),
        (
            POD_SECURITY,
            wording(
                'The pod security of namespace gpu-operator refuses the workload. Change security_context or namespace. pods "x" is forbidden: violates PodSecurity "restricted"'
            ),
        ),
        (NO_PERMISSION, wording('No permission: pods is forbidden: User "x" cannot create resource')),
    ],
)
def test_a_refusal_that_concerns_every_node_ends_a_run_that_has_tested_none(error: GpuOpsError, words: str) -> None:
    cluster = FakeCluster(a=error, b=DONE)
    with pytest.raises(GpuOpsError) as raised:
        run(cluster, "ab")
    assert raised.value.msg == words
    assert (cluster.created, cluster.pods, cluster.classes) == ([], {}, {})


@pytest.mark.parametrize(
    "error",
    [
        GpuOpsError('admission webhook "x" denied the request: node b is reserved', reason="Forbidden"),
        GpuOpsError("The Kubernetes API refused POST (400): denied.", reason="Invalid"),
        NO_PERMISSION,
    ],
)
def test_a_refused_workload_is_the_verdict_on_its_node_only(error: GpuOpsError) -> None:
    cluster = FakeCluster(a=DONE, b=error, c=DONE)
    outcomes = run(cluster, "abc")
    assert outcomes["a"].passed and outcomes["c"].passed and cluster.pods == {}
    assert (outcomes["b"].passed, outcomes["b"].skipped, outcomes["b"].reason) == (False, False, error.msg)


QUOTA = GpuOpsError(
    "No permission: pods is forbidden: exceeded quota: gpus, requested: 1, used: 2.", reason="Forbidden"
)


def test_a_full_quota_is_waited_for_as_long_as_it_is_this_test_that_fills_it() -> None:
    cluster = FakeCluster(a=DONE, b=[QUOTA, DONE], c=DONE)
    assert all(outcome.passed for outcome in run(cluster, "abc").values()) and cluster.created == ["a", "b", "c"]


def test_a_quota_that_others_fill_is_the_verdict() -> None:
    outcomes = run(FakeCluster(a=QUOTA, b=QUOTA), "ab")
    remedy = " Raise the quota of namespace gpu-operator, or set namespace."
    assert [outcome.reason for outcome in outcomes.values()] == [QUOTA.msg + remedy] * 2


def test_a_short_outage_is_tolerated() -> None:
    cluster = FakeCluster(a=DONE, b=[GpuOpsError("Away.", reason="Unreachable"), DONE])

    def blink() -> None:
        if cluster.polls in (2, 3):
            raise GpuOpsError("Cannot reach the API.", reason="Unreachable")

    cluster.on_poll = blink
    outcomes = run(cluster, "ab", parallel=1)
    assert list(outcomes) == ["a", "b"] and all(outcome.passed for outcome in outcomes.values())


def test_pods_that_cannot_be_deleted_are_reported() -> None:
    cluster = FakeCluster(a=pod("Running"))

    def unreachable(*args: object, **kwargs: object) -> t.NoReturn:
        raise GpuOpsError("Cannot reach the API.", reason="Unreachable")

    def die() -> None:
        if cluster.polls == 2:
            cluster.delete = cluster.get = cluster.list = cluster.create = unreachable

    cluster.on_poll = die
    with pytest.raises(GpuOpsError) as e:
        run(cluster, "a")
    assert e.value.reason == "Unreachable"
    assert measured(e.value.msg) == wording(
        "Cannot reach the API. Its last answer was N s ago. Pods of the test may be left; they end by themselves, and the next run deletes them."
    )


def test_a_short_outage_during_the_cleanup_is_tolerated() -> None:
    """The deletion of the last pod fails twice."""
    cluster = FakeCluster(a=pod("Running"), b=pod("Running"))
    cluster.on_poll = lambda: os.kill(os.getpid(), signal.SIGTERM) if cluster.polls == 2 else None
    real, failures = cluster.delete, [2]

    def delete(path: str) -> bool:
        if len(cluster.pods) == 1 and failures[0]:
            failures[0] -= 1
            raise GpuOpsError("Cannot reach the API.", reason="Unreachable")
        return real(path)

    cluster.delete = delete
    with pytest.raises(KeyboardInterrupt):
        run(cluster, "ab")
    assert failures == [0] and (cluster.pods, cluster.classes) == ({}, {})


def test_without_a_testable_node_nothing_is_created() -> None:
    cluster = FakeCluster()
    assert run(cluster, "") == {} and cluster.created == [] and cluster.classes == {}


# ---- what earlier runs have left ----------------------------------------------------------------------------------

OURS = {"app.kubernetes.io/name": "gpu-smoke-test", "app.kubernetes.io/managed-by": "gpuops.nvidia"}


def leftover(expires: str | None, labels: t.Mapping[str, str] = types.MappingProxyType(OURS)) -> dict:
    annotations = None if expires is None else {"gpuops.nvidia/expires": expires}
    return {"metadata": {"name": f"left-{expires}", "labels": dict(labels), "annotations": annotations}}


def test_leftovers_are_deleted_once_they_have_expired_by_the_clock_of_the_api_server() -> None:
    cluster = FakeCluster(a=DONE)
    assert time.time() < 3_999_999_999, "The test tells the clocks apart by a time that is still to come."
    times = ("100", "3999999999", "4000000001", None, "junk")
    cluster.pods = {f"left-{expires}": leftover(expires) for expires in times}
    cluster.classes = {f"left-{expires}": leftover(expires) for expires in times}
    run(cluster, "a")
    assert list(cluster.pods) == list(cluster.classes) == ["left-4000000001"]


def test_other_objects_of_this_collection_stay() -> None:
    cluster = FakeCluster(a=DONE)
    cluster.pods = {"left-100": leftover("100", {"app.kubernetes.io/managed-by": "gpuops.nvidia"})}
    cluster.classes = {"left-100": leftover("100", {"app.kubernetes.io/name": "gpu-smoke-test"})}
    run(cluster, "a")
    assert list(cluster.pods) == list(cluster.classes) == ["left-100"]


def test_a_pod_expires_a_minute_after_its_time_limit() -> None:
    cluster = FakeCluster(a=DONE)
    run(cluster, "a", timeout=100)
    assert cluster.bodies[0]["metadata"]["annotations"]["gpuops.nvidia/expires"] == "4000000160"


def test_summary_and_failure() -> None:
    outcomes = [
        WorkloadVerdict("a", passed=True),
        WorkloadVerdict("b", skipped=True, reason="busy"),
        *(WorkloadVerdict(f"n{number}", reason="broken.") for number in range(6)),
    ]
    counts = summary(outcomes, 8)
    assert counts == {"nodes": 8, "passed": 1, "failed": 6, "skipped": 1}
    rows = [vars(outcome) for outcome in outcomes]
    text = failure({"results": rows, "summary": counts, "too_few_tested": ""})
    assert text == (
        wording(
            "1 of 8 nodes passed the GPU smoke test, and 1 were skipped. "
            "n0: broken; n1: broken; n2: broken; n3: broken; n4: broken; and 1 more."
        )
    )
