# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import host_nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.support.measured import measured
from tests.unit.fakes.stack import node

KUBELET = {"present": True, "active": True, "by": "the process kubelet"}
AWAY = GpuOpsError("Cannot reach the Kubernetes API: refused.", reason="Unreachable")


class FakeCluster:
    """Answers with each of these in turn, and then with the last one again: lists of nodes, or errors."""

    def __init__(self, *answers: list[dict[str, t.Any]] | GpuOpsError) -> None:
        self._answers = list(answers)
        self.paths: list[str] = []

    def connect(self) -> t.Any:
        return self

    def get(self, path: str) -> dict[str, t.Any] | None:
        self.paths.append(path)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, GpuOpsError):
            raise answer
        if path == "/api/v1/nodes":
            return {"items": answer}
        return next((item for item in answer if path == f"/api/v1/nodes/{item['metadata']['name']}"), None)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLL_S", "POLL_MAX_S"):
        monkeypatch.setattr(waiting, name, 0.01)
    for name in (*(f"K8S_AUTH_{word}" for word in ("KUBECONFIG", "CONTEXT", "HOST")), "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


def booted(boot_id: str, ready: str = "True") -> dict[str, t.Any]:
    made = node(0)
    made["status"]["nodeInfo"]["bootID"] = boot_id
    made["status"]["conditions"][0]["status"] = ready
    return made


def find(cluster: FakeCluster, *hosts: dict[str, t.Any], wait_timeout: float = 0) -> dict[str, t.Any]:
    defaults = {"addresses": [], "names": []}
    options = {"hosts": [defaults | host for host in hosts], "wait_timeout": wait_timeout}
    return host_nodes.find(options, cluster.connect)["nodes"]


GPU = {"name": "gpu1", "node": "gpu-0000"}


def test_the_row_of_a_node_says_how_it_is_held() -> None:
    held = booted("b1")
    held["spec"] = {"unschedulable": True}
    held["metadata"]["annotations"] = {"gpuops.nvidia/maintenance.change": "since from run"}
    assert find(FakeCluster([held]), GPU)["gpu1"] == {
        "node": "gpu-0000",
        "by": ["your word"],
        "failure": "",
        "ready": True,
        "boot_id": "b1",
        "unschedulable": True,
        "purposes": ["change"],
    }


def test_named_nodes_are_read_alone_and_others_are_listed() -> None:
    named, listed = FakeCluster([booted("b1")]), FakeCluster([booted("b1")])
    find(named, GPU)
    find(listed, GPU, {"name": "gpu-0001", "names": ["gpu-0001"]})
    assert (named.paths, listed.paths) == (["/api/v1/nodes/gpu-0000"], ["/api/v1/nodes"])


def test_a_host_that_is_no_node_has_an_empty_row() -> None:
    row = find(FakeCluster([]), {"name": "bare"})["bare"]
    assert (row["node"], row["failure"], row["ready"], row["purposes"]) == (None, "", False, [])


def test_a_wait_ends_when_the_node_is_ready_in_a_new_boot() -> None:
    cluster = FakeCluster([booted("old")], [booted("new", ready="Unknown")], [booted("new")])
    row = find(cluster, GPU | {"former_boot_id": "old"}, wait_timeout=5)["gpu1"]
    assert (row["ready"], row["boot_id"], len(cluster.paths)) == (True, "new", 3)


def test_the_api_may_be_away_while_the_node_comes_back() -> None:
    """A host that was rebooted may be the only control plane of its cluster."""
    cluster = FakeCluster(AWAY, AWAY, AWAY, [booted("new")])
    assert find(cluster, GPU, wait_timeout=5)["gpu1"]["ready"] is True


def test_a_node_that_does_not_come_back_is_named() -> None:
    with pytest.raises(GpuOpsError) as raised:
        find(FakeCluster([booted("old")]), GPU | {"former_boot_id": "old"}, wait_timeout=0.05)
    assert raised.value.msg == (
        wording(
            "The nodes are not Ready 0.05 s after the reboot of their hosts: gpu-0000. "
            "Look at the kubelet on the host (journalctl --unit kubelet)."
        )
    )


def test_without_an_answer_nobody_knows_what_a_host_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "OUTAGE_S", 0.05)
    with pytest.raises(GpuOpsError) as raised:
        find(FakeCluster(AWAY), {"name": "gpu1"})
    assert measured(raised.value.msg) == wording(
        "Cannot tell whether gpu1 is a node: Cannot reach the Kubernetes API: refused. Its last answer was N s ago."
    )


def test_a_refusal_is_not_waited_for() -> None:
    cluster = FakeCluster(GpuOpsError("No permission: no.", reason="Forbidden"))
    with pytest.raises(GpuOpsError) as error:
        find(cluster, {"name": "gpu1"}, wait_timeout=5)
    assert error.value.reason == "Forbidden"
    assert error.value.msg == wording("Cannot tell whether gpu1 is a node: No permission: no.")
    assert len(cluster.paths) == 1


UNCONFIGURED = GpuOpsError("Invalid kube-config file. No configuration found.", reason="BadConnectionSettings")


def test_where_no_cluster_is_configured_only_a_host_with_a_kubelet_is_a_failure() -> None:
    rows = find(FakeCluster(UNCONFIGURED), {"name": "bare"}, {"name": "gpu1", "kubelet": KUBELET})
    assert rows["bare"]["failure"] == "" and rows["bare"]["node"] is None
    assert rows["gpu1"]["failure"].startswith("Cannot tell which node gpu1 is: it runs a kubelet")


@pytest.mark.parametrize("name", ["K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "K8S_AUTH_HOST", "KUBECONFIG"])
def test_a_cluster_that_is_named_and_not_found_is_a_mistake(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "missing")
    with pytest.raises(GpuOpsError) as error:
        find(FakeCluster(UNCONFIGURED), {"name": "bare"})
    assert error.value.reason == "BadConnectionSettings"
    assert error.value.msg == wording(
        "Cannot tell whether bare is a node: Invalid kube-config file. No configuration found."
    )
