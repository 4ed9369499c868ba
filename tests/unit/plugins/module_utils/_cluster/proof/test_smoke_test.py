# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import smoke_test, workload
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.smoke_test import (
    Run,
    failure,
    select,
    summary,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import Verdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.plugins.module_utils._cluster.proof.workloads import options, pod


def node(
    name: str, gpus: int | str | None = 8, *, ready: str = "True", cordoned: bool = False, labels: dict | None = None
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


def test_by_default_every_schedulable_node_with_the_resource_is_tested() -> None:
    nodes = [node("a"), node("cordoned", cordoned=True), node("cpu", None), node("none-left", 0), node("b")]
    selection = select(nodes, options())
    assert (selection.names, selection.verdicts, selection.testable) == (["a", "b"], [], ["a", "b"])


def test_a_thousand_shared_gpus_are_a_quantity_with_a_suffix() -> None:
    """The API server writes 1000 as 1k."""
    assert select([node("shared", "1k")], options(count=1000)).testable == ["shared"]
    (verdict,) = select([node("shared", "1k")], options(count=1001)).verdicts
    assert verdict.reason.startswith("The node offers 1000 nvidia.com/gpu, but the test needs 1001.")


def test_named_nodes_are_tested_once_each_even_if_cordoned() -> None:
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
    assert [outcome.reason for outcome in selection.verdicts] == [
        "The node offers 0 nvidia.com/gpu, but the test needs 1. Check the node's device plugin."
    ]


def test_a_node_that_cannot_run_a_workload_gets_its_verdict_without_a_pod() -> None:
    unreported = node("new")
    unreported["status"]["conditions"] = []
    outcomes = select(
        [node("down", ready="Unknown"), unreported, node("small", 2)],
        options(nodes=["down", "new", "small", "gone"], count=4),
    ).verdicts
    assert {outcome.node: outcome.reason for outcome in outcomes} == {
        "down": "The node is not Ready: container runtime is down.",
        "new": "The node is not Ready: its kubelet has not reported yet.",
        "small": "The node offers 2 nvidia.com/gpu, but the test needs 4. Check the node's device plugin.",
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
    monkeypatch.setattr(smoke_test, "WORKLOAD_POLL_S", 0.001)
    monkeypatch.setattr(waiting, "POLL_S", 0.001)
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.05)


DONE = pod("Succeeded", terminated={"exitCode": 0})


def test_all_nodes_are_tested_within_the_limit_and_no_pod_is_left() -> None:
    cluster = FakeCluster(a=DONE, b=DONE, c=pod("Failed", terminated={"exitCode": 3}), d=DONE, e=DONE)
    outcomes = {outcome.node: outcome for outcome in Run(cluster, options(parallel=2)).test(["a", "b", "c", "d", "e"])}
    assert cluster.created == ["a", "b", "c", "d", "e"] and cluster.most == 2 and cluster.objects == {}
    assert outcomes["a"].passed and outcomes["a"].log == "first line\nTest PASSED\n\n" and outcomes["a"].pod == "pod-0"
    assert outcomes["c"].exit_code == 3
    assert outcomes["c"].reason == "The workload ended with status 3: (no log: no logs)"


def test_one_poll_covers_all_running_pods() -> None:
    cluster = FakeCluster(a=DONE, b=DONE, c=DONE)
    Run(cluster, options()).test(["a", "b", "c"])
    assert cluster.polls == 2  # one list of leftovers, and one of all three pods


def test_a_pod_that_vanishes_fails_its_node() -> None:
    cluster = FakeCluster(a=pod("Running"))
    cluster.on_poll = lambda: cluster.objects.clear() if cluster.polls == 3 else None
    (outcome,) = Run(cluster, options()).test(["a"])
    assert "The pod disappeared while it ran" in outcome.reason


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


def test_a_short_outage_is_tolerated() -> None:
    cluster = FakeCluster(a=DONE, b=DONE)

    def blink() -> None:
        if cluster.polls in (2, 3):
            raise GpuOpsError("Cannot reach the API.", reason="Unreachable")

    cluster.on_poll = blink
    outcomes = Run(cluster, options(parallel=1)).test(["a", "b"])
    assert [outcome.node for outcome in outcomes] == ["a", "b"] and all(outcome.passed for outcome in outcomes)


def test_pods_that_cannot_be_deleted_are_reported() -> None:
    cluster = FakeCluster(a=pod("Running"))

    def unreachable(*args: object, **kwargs: object) -> t.NoReturn:
        raise GpuOpsError("Cannot reach the API.", reason="Unreachable")

    def die() -> None:
        if cluster.polls == 2:
            cluster.delete = cluster.get = cluster.list = cluster.create = unreachable

    cluster.on_poll = die
    with pytest.raises(
        GpuOpsError,
        match=r"^Cannot reach the API\. Its last answer was \d s ago\. Pods of the test may be left; "
        r"they end by themselves",
    ) as e:
        Run(cluster, options()).test(["a"])
    assert e.value.reason == "Unreachable"


def test_a_short_outage_during_the_cleanup_is_tolerated() -> None:
    """The deletion of the last pod fails twice."""
    cluster = FakeCluster(a=pod("Running"), b=pod("Running"))
    cluster.on_poll = lambda: os.kill(os.getpid(), signal.SIGTERM) if cluster.polls == 2 else None
    real, failures = cluster.delete, [2]

    def delete(path: str) -> bool:
        if len(cluster.objects) == 1 and failures[0]:
            failures[0] -= 1
            raise GpuOpsError("Cannot reach the API.", reason="Unreachable")
        return real(path)

    cluster.delete = delete
    with pytest.raises(KeyboardInterrupt):
        Run(cluster, options()).test(["a", "b"])
    assert failures == [0] and cluster.objects == {}


def test_without_a_testable_node_no_pod_is_created() -> None:
    cluster = FakeCluster()
    assert Run(cluster, options()).test([]) == [] and cluster.created == []


def leftover(expires: str | None) -> dict:
    annotations = None if expires is None else {"gpuops.nvidia/expires": expires}
    return {
        "metadata": {"name": f"left-{expires}", "labels": dict(workload.TEST_LABELS), "annotations": annotations or {}}
    }


def test_leftovers_are_deleted_once_they_have_expired() -> None:
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
        Verdict("a", passed=True),
        Verdict("b", skipped=True, reason="busy"),
        *(Verdict(f"n{number}", reason="broken.") for number in range(6)),
    ]
    counts = summary(outcomes, 8)
    assert counts == {"nodes": 8, "passed": 1, "failed": 6, "skipped": 1}
    rows = [{"node": outcome.node, "passed": outcome.passed, "reason": outcome.reason} for outcome in outcomes]
    text = failure({"results": rows, "summary": counts, "nodes": [""] * 8})
    assert text == (
        "1 of 8 nodes passed the GPU smoke test. b: busy; n0: broken; n1: broken; n2: broken; n3: broken; and 2 more."
    )
