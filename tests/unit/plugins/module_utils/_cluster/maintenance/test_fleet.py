# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import os
import signal
import threading
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import conflicts, waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.support.clock import Clock
from tests.unit.fakes.stack import node, workload
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import asked

ALL_UNFINISHED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


class FakeCluster:
    """Nodes and pods in memory. ``errors`` are raised, in order, by the next patches of a node."""

    def __init__(self, *pods: dict, **errors: list[GpuOpsError]) -> None:
        self.all_nodes = {item["metadata"]["name"]: item for item in (node(0), node(1))}
        self.all_pods = list(pods)
        self.errors = errors
        self.reads: list[dict[str, str] | None] = []

    def get(self, path: str, query: dict[str, str] | None = None) -> dict | None:
        if path == "/api/v1/pods":
            self.reads.append(query)
            wanted = (query or {})["fieldSelector"].removeprefix("spec.nodeName=")
            return {"items": [pod for pod in self.all_pods if pod["spec"]["nodeName"] == wanted]}
        return self.all_nodes.get(path.rsplit("/", 1)[-1])

    def pages(self, path: str, **query: str) -> t.Iterator[dict]:
        assert (path, query) == ("/api/v1/pods", {"fieldSelector": ALL_UNFINISHED})
        yield from self.all_pods

    def merge(self, path: str, body: dict) -> dict:
        name = path.rsplit("/", 1)[-1]
        errors = self.errors.get(name.replace("-", "_"), [])
        if errors:
            raise errors.pop(0)
        return {**self.all_nodes[name], **body}


def away() -> GpuOpsError:
    return GpuOpsError("Cannot reach the Kubernetes API.", reason="Unreachable")


def mark(item: dict) -> dict:
    return {"marked": item["metadata"]["name"]}


def patch_all(cluster: FakeCluster, *names: str) -> tuple[dict, dict]:
    return fleet.Fleet(cluster, asked()).patch_all(dict.fromkeys(names, mark))


def test_nodes_are_patched_and_those_without_a_patch_are_unchanged() -> None:
    patches = {"gpu-0000": mark, "gpu-0001": lambda item: None}
    done, failed = fleet.Fleet(FakeCluster(), asked()).patch_all(patches)
    assert done["gpu-0000"][0]["marked"] == "gpu-0000" and done["gpu-0000"][1] is True
    assert done["gpu-0001"] == (node(1), False) and failed == {}


def test_a_short_outage_is_tolerated(clock: Clock) -> None:
    done, failed = patch_all(FakeCluster(gpu_0000=[away(), away()]), "gpu-0000", "gpu-0001")
    assert list(done) == ["gpu-0001", "gpu-0000"] and failed == {} and clock.now_s == 1004


def test_an_outage_of_almost_a_minute_is_tolerated() -> None:
    errors = {"gpu_0000": [away() for dummy in range(30)], "gpu_0001": [away() for dummy in range(30)]}
    assert patch_all(FakeCluster(**errors), "gpu-0000", "gpu-0001")[1] == {}


def test_the_error_states_the_length_of_a_longer_outage() -> None:
    done, failed = patch_all(FakeCluster(gpu_0000=[away() for dummy in range(99)]), "gpu-0000")
    assert done == {}
    assert failed["gpu-0000"].msg == wording("Cannot reach the Kubernetes API. Its last answer was 62 s ago.")


def test_another_error_is_reported_at_once(clock: Clock) -> None:
    refused = GpuOpsError("No permission.", reason="Forbidden")
    done, failed = patch_all(FakeCluster(gpu_0000=[refused]), "gpu-0000", "gpu-0001", "gone")
    assert list(done) == ["gpu-0001"] and failed["gpu-0000"] is refused and clock.now_s == 1000
    assert failed["gone"].msg == wording("Node gone was deleted in the meantime.")


def test_a_conflict_is_tried_again_a_few_times() -> None:
    refused = [GpuOpsError("modified", reason="Conflict") for dummy in range(conflicts.ATTEMPTS)]
    assert patch_all(FakeCluster(gpu_0000=refused[1:]), "gpu-0000")[1] == {}
    assert "changes faster" in patch_all(FakeCluster(gpu_0000=refused), "gpu-0000")[1]["gpu-0000"].msg


def test_few_nodes_are_read_one_by_one_and_many_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    def names(cluster: FakeCluster) -> dict[str, list[str]]:
        found = fleet.Fleet(cluster, asked()).pods([node(0), node(1)])
        return {name: [pod["metadata"]["name"] for pod in pods] for name, pods in found.items()}

    pods = (workload("a"), workload("b", 1), workload("web", gpus=0), workload("other", 7))
    one_by_one = FakeCluster(*pods)
    assert names(one_by_one) == {"gpu-0000": ["a"], "gpu-0001": ["b"]} and len(one_by_one.reads) == 2
    monkeypatch.setattr(fleet, "FEW_NODES", 1)
    in_pages = FakeCluster(*pods)
    assert names(in_pages) == {"gpu-0000": ["a"], "gpu-0001": ["b"]} and in_pages.reads == []


def test_an_empty_answer_from_the_cache_is_verified() -> None:
    cluster = FakeCluster()
    assert fleet.Fleet(cluster, asked()).pods_on("gpu-0000") == []
    selector = {"fieldSelector": "spec.nodeName=gpu-0000"}
    assert cluster.reads == [{**selector, "resourceVersion": "0"}, selector]


# ---- other maintainers, and interruptions -------------------------------------------------------------------------

LOCK = '{"nodeID": "gpu-0000", "metadata": {"unschedulable": true}}'
KURED = {"metadata": {"name": "kured", "annotations": {"weave.works/kured-node-lock": LOCK}}}


class Others:
    """What lists of other objects answer: objects, None for a kind that does not exist, or an error."""

    def __init__(self, daemonsets: t.Any, maintenances: t.Any) -> None:
        self.answers = {
            "/apis/apps/v1/daemonsets": daemonsets,
            "/apis/maintenance.nvidia.com/v1alpha1/nodemaintenances": maintenances,
        }

    def now(self) -> float:
        return 0.0

    def get(self, path: str) -> dict | None:
        answer = self.answers[path]
        if isinstance(answer, GpuOpsError):
            raise answer
        return None if answer is None else {"items": answer}


def looked(daemonsets: t.Any, maintenances: t.Any) -> fleet.Fleet:
    made = fleet.Fleet(Others(daemonsets, maintenances), asked())
    made.look_elsewhere()
    return made


def test_other_objects_say_who_works_on_a_node() -> None:
    found = looked([KURED], [])
    assert [str(holder) for holder in found.holders_of(node(0))] == ["kured (lock on DaemonSet kured)"]
    assert found.holders_of(node(1)) == [] and found.unread == []


def test_a_second_look_is_worth_while_only_if_such_a_maintainer_is_installed() -> None:
    assert not looked([{"metadata": {"name": "calico"}}], None).can_appear_elsewhere
    assert looked([{"metadata": {"name": "my-kured"}}], None).can_appear_elsewhere
    assert looked([], []).can_appear_elsewhere and looked([KURED], None).can_appear_elsewhere


def test_what_may_not_be_listed_is_named_and_other_errors_are_raised() -> None:
    refused = GpuOpsError("No permission.", reason="Forbidden")
    found = looked(refused, refused)
    found.look_elsewhere()
    assert (
        found.unread
        == [
            wording("DaemonSets, and so not kured's lock"),
            "NodeMaintenances of maintenance.nvidia.com",
        ]
        and not found.can_appear_elsewhere
    )
    with pytest.raises(GpuOpsError):
        looked(away(), None)


def test_a_signal_in_the_middle_of_the_thread_pool_leaves_it_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that raises there leaves a lock of the pool taken: its threads, and so the module, never end."""
    real, sent, main = threading.Condition.__enter__, [], threading.get_ident()

    def enter(self: threading.Condition) -> t.Any:
        entered = real(self)
        if threading.get_ident() == main and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return entered

    with waiting.signals_noted() as interruption:
        made = fleet.Fleet(FakeCluster(), asked(), interruption)
        assert made.each(abs, range(8)) == list(range(8))
        monkeypatch.setattr(threading.Condition, "__enter__", enter)
        with pytest.raises(KeyboardInterrupt, match="SIGINT"):
            for dummy in range(2):
                made.each(lambda item: item, range(8))
        monkeypatch.undo()
        interruption.disregard()
        ended = threading.Thread(target=made.finish, daemon=True)
        ended.start()
        ended.join(10)
        assert sent and not ended.is_alive()
        assert made.each(lambda item: item + 1, [1, 2]) == [2, 3]


# ---- nodes as the last look has seen them -------------------------------------------------------------------------


class Versioned(FakeCluster):
    """Nodes with versions, which refuses a patch for another version. It counts the reads of nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        for item in self.all_nodes.values():
            item["metadata"]["resourceVersion"] = "7"

    def get(self, path: str, query: dict[str, str] | None = None) -> dict | None:
        self.read.append(path.rsplit("/", 1)[-1])
        return super().get(path, query)

    def merge(self, path: str, body: dict) -> dict:
        name = path.rsplit("/", 1)[-1]
        if name not in self.all_nodes:
            raise GpuOpsError("not found", reason="NotFound")
        if body["metadata"]["resourceVersion"] != self.all_nodes[name]["metadata"]["resourceVersion"]:
            raise GpuOpsError("the object has been modified", reason="Conflict")
        return super().merge(path, body)


def seen_by(cluster: Versioned) -> fleet.Fleet:
    """A fleet that has seen all nodes of a cluster."""
    made = fleet.Fleet(cluster, asked())  # type: ignore[arg-type]
    made.seen = copy.deepcopy(cluster.all_nodes)
    return made


def cordon(item: dict) -> dict | None:
    """The patch of somebody who wants a node closed, and says who closed it before."""
    if item["spec"].get("unschedulable"):
        return None
    return {"metadata": {"resourceVersion": item["metadata"].get("resourceVersion")}, "by": "us"}


def test_a_node_that_was_seen_is_patched_without_another_read() -> None:
    cluster = Versioned()
    node_after, changed = seen_by(cluster).patch("gpu-0000", cordon)
    assert (node_after["by"], changed, cluster.read) == ("us", True, [])


def test_what_somebody_did_to_a_node_since_it_was_seen_counts() -> None:
    cluster = Versioned()
    made = seen_by(cluster)
    now = cluster.all_nodes["gpu-0000"]
    now["spec"]["unschedulable"], now["metadata"]["resourceVersion"] = True, "8"
    assert made.patch("gpu-0000", cordon) == (now, False) and cluster.read == ["gpu-0000"]
    now["spec"].pop("unschedulable")
    assert made.patch("gpu-0000", cordon)[1] is True, "a patch for the newest version"


def test_a_node_that_was_seen_with_nothing_to_do_is_read_anew() -> None:
    cluster = Versioned()
    made = seen_by(cluster)
    made.seen["gpu-0000"]["spec"]["unschedulable"] = True
    assert made.patch("gpu-0000", cordon)[1] is True and cluster.read == ["gpu-0000"]


def test_only_a_look_that_was_late_enough_tells_about_a_node() -> None:
    made = seen_by(Versioned())
    mine = copy.deepcopy(made.seen["gpu-0000"])
    seen: list[dict | None] = []
    for version in ("6", "7", "8"):
        made.seen["gpu-0000"]["metadata"]["resourceVersion"] = version
        mine["metadata"]["resourceVersion"] = "7"
        seen.append(made.seen_after(mine))
    assert seen == [None, made.seen["gpu-0000"], made.seen["gpu-0000"]]
    del made.seen["gpu-0000"]
    assert made.seen_after(mine) is None


def test_whoever_was_in_the_way_may_be_gone() -> None:
    cluster = Versioned()
    made = seen_by(cluster)
    made.seen["gpu-0000"]["metadata"]["labels"]["busy"] = "true"

    def unless_busy(item: dict) -> dict | None:
        if "busy" in item["metadata"]["labels"]:
            raise GpuOpsError("somebody is at work", reason="NodesBusy")
        return cordon(item)

    assert made.patch("gpu-0000", unless_busy)[1] is True and cluster.read == ["gpu-0000"]
    cluster.all_nodes["gpu-0000"]["metadata"]["labels"]["busy"] = "true"
    with pytest.raises(GpuOpsError, match="somebody is at work"):
        made.patch("gpu-0000", unless_busy)


def test_a_patch_for_any_version_is_made_for_the_newest() -> None:
    cluster = Versioned()
    made = seen_by(cluster)
    del made.seen["gpu-0000"]["metadata"]["resourceVersion"]
    assert made.patch("gpu-0000", cordon)[1] is True and cluster.read == ["gpu-0000"]


def test_a_node_that_was_seen_and_is_gone_is_said_to_be_deleted() -> None:
    cluster = Versioned()
    made = seen_by(cluster)
    del cluster.all_nodes["gpu-0000"]
    with pytest.raises(GpuOpsError) as error:
        made.patch("gpu-0000", cordon)
    assert error.value.reason == "NodeDeleted"
    assert error.value.msg == wording("Node gpu-0000 was deleted in the meantime.")


def test_a_failure_of_the_api_server_is_not_taken_for_a_change_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Versioned()

    def refuse(path: str, body: dict) -> dict:
        raise away()

    monkeypatch.setattr(cluster, "merge", refuse)
    with pytest.raises(GpuOpsError, match="Cannot reach"):
        seen_by(cluster).patch("gpu-0000", cordon)
    assert cluster.read == []


def test_a_node_on_which_no_pod_is_expected_is_asked_about_once_and_not_from_the_cache() -> None:
    cluster = FakeCluster()
    made = fleet.Fleet(cluster, asked())  # type: ignore[arg-type]
    assert made.pods_on("gpu-0000", expects_none=True) == [] and cluster.reads == [
        {"fieldSelector": "spec.nodeName=gpu-0000"}
    ]
    assert made.pods_on("gpu-0000") == [] and [query.get("resourceVersion") for query in cluster.reads if query] == [
        None, "0", None,
    ]  # fmt: skip
