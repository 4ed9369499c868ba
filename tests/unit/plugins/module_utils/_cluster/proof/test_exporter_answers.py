# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import port_forward
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.exporter_answers import (
    ExporterAnswer,
    ExporterFleet,
    ask_each,
    expected_gpus,
    read_fleet,
    targets,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

DEPLOY_LABEL = "nvidia.com/gpu.deploy.dcgm-exporter"


def node(name: str = "a", **labels: str) -> dict:
    return {
        "metadata": {
            "name": name,
            "labels": {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()},
        }
    }


@pytest.mark.parametrize(
    ("item", "count"),
    [
        (node(nvidia_com__gpu_count="8"), 8),
        (node(nvidia_com__gpu_count="14", nvidia_com__gpu_product="NVIDIA-H100-MIG-1g.10gb"), None),
        (node(nvidia_com__gpu_count="many"), None),
        (node(), None),
        ({"metadata": {"labels": None}}, None),
        (None, None),
    ],
)
def test_expected_gpus(item: dict | None, count: int | None) -> None:
    assert expected_gpus(item) == count


def row(name: str, node_name: str, ready: str = "1/1", status: str = "Running") -> dict:
    return {"name": name, "node": node_name, "ready": ready, "status": status}


def test_targets_are_the_labelled_nodes_and_those_with_a_pod() -> None:
    nodes = {
        name: {"metadata": {"name": name, "labels": {DEPLOY_LABEL: value}}}
        for name, value in (("a", "true"), ("b", "false"), ("c", "true"))
    }
    nodes["d"] = {"metadata": {"name": "d"}}
    pods = [
        row("new", "a"),
        row("old", "a", "0/1", "Terminating"),
        row("extra", "d"),
        row("nowhere", "<none>", "0/1", "Pending"),
    ]
    fleet = ExporterFleet(nodes, pods)
    found = targets(fleet, None)
    assert {name: pod and pod["name"] for name, pod in found.items()} == {"a": "new", "c": None, "d": "extra"}
    assert list(targets(fleet, ["b"])) == ["b"]


class FakeCluster:
    """One node for each way that an exporter can answer."""

    answers: t.ClassVar[dict[str, t.Any]] = {
        "good": (200, b"up 1\xff"),
        "denied": GpuOpsError(
            'No permission: pods "denied" is forbidden: User "x" cannot create resource "pods/portforward".'
        ),
    }

    def large_list(self, path: str, keep: t.Callable[[dict], dict]) -> tuple[list[dict], str]:
        assert path == "/api/v1/nodes"
        nodes = [
            {"metadata": {"name": name, "labels": {DEPLOY_LABEL: "true", "nvidia.com/gpu.count": "2"}}, "status": {}}
            for name in ("good", "denied", "bare", "crashing")
        ]
        return list(map(keep, nodes)), "7"

    def table(self, path: str, **query: str) -> list[dict]:
        assert (path, query) == ("/api/v1/namespaces/ns/pods", {"labelSelector": "app=x"})
        return [row("good", "good"), row("denied", "denied"), row("crashing", "crashing", "0/1", "CrashLoopBackOff")]


@pytest.fixture(autouse=True)
def answering_exporters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fake's pods answer instead of a forwarded port."""

    def get(
        cluster: FakeCluster, namespace: str, pod: str, port: int, path: str, timeout_s: float
    ) -> tuple[int, bytes]:
        assert (namespace, port, path, timeout_s) == ("ns", 9400, "/metrics", 5)
        if isinstance(cluster.answers[pod], Exception):
            raise cluster.answers[pod]
        return cluster.answers[pod]

    monkeypatch.setattr(port_forward, "get", get)


def ask(nodes: list[str] | None = None) -> dict[str, ExporterAnswer]:
    options = {
        "namespace": "ns",
        "label_selector": "app=x",
        "nodes": nodes,
        "parallel": 2,
        "port": 9400,
        "timeout": 5,
    }
    cluster = FakeCluster()
    answers = ask_each(cluster, options, read_fleet(cluster, options), lambda answer: answer)  # type: ignore[arg-type]
    return {answer.node: answer for answer in answers}


def test_every_node_gets_its_own_answer() -> None:
    rows = ask()
    assert rows["good"] == ExporterAnswer("good", 2, "good", 200, "up 1\ufffd")
    assert "cannot create resource" in rows["denied"].reason and rows["denied"].pod == "denied"
    assert (
        rows["bare"].reason
        == wording(
            "No DCGM exporter runs on this node. Check that its label nvidia.com/gpu.deploy.dcgm-exporter is true."
        )
        and rows["bare"].expected_gpus == 2
    )
    assert rows["crashing"].pod == "crashing" and rows["crashing"].reason == wording(
        "The exporter is not ready: CrashLoopBackOff."
    )


def test_a_named_node_that_does_not_exist_is_reported() -> None:
    assert ask(["gone"])["gone"].reason == wording("There is no such node.")
