# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import port_forward
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.metrics import (
    NodeMetrics,
    ask_all,
    expected_gpus,
    judge,
    parse,
    targets,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

DEPLOY_LABEL = "nvidia.com/gpu.deploy.dcgm-exporter"

# As dcgm-exporter 4.6 writes it.
SAMPLE = """# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-aaa",pci_bus_id="00000000:1B:00.0",device="nvidia0",\
modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-0000"} 1980
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-bbb",pci_bus_id="00000000:43:00.0",device="nvidia1",\
modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-0000"} 1980
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-aaa",device="nvidia0"} 31
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-aaa",device="nvidia0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 31
DCGM_FI_DRIVER_VERSION{Hostname="gpu-0000"} 1
go_goroutines 12
"""


def test_parse_counts_gpus_not_samples() -> None:
    assert parse(SAMPLE) == (2, ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DRIVER_VERSION"])
    assert parse("") == (0, [])


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


@pytest.mark.parametrize(
    ("status", "text", "expected", "wanted", "reason"),
    [
        (200, SAMPLE, 2, ["DCGM_FI_DEV_GPU_TEMP"], ""),
        (200, SAMPLE, None, [], ""),
        (503, SAMPLE, 2, [], wording("The exporter answered with HTTP status 503.")),
        (
            200,
            "go_goroutines 1",
            2,
            [],
            wording("The exporter reports no GPU. Look at its log; DCGM may not reach the driver."),
        ),
        (200, SAMPLE, 8, [], wording("The exporter reports 2 GPUs, but the node has 8.")),
        (
            200,
            SAMPLE,
            2,
            ["DCGM_X", "DCGM_Y"],
            wording("The exporter does not report DCGM_X, DCGM_Y. Check dcgmExporter.config."),
        ),
    ],
)
def test_judge(status: int, text: str, expected: int | None, wanted: list[str], reason: str) -> None:
    row = judge("a", "p", status, text, expected=expected, wanted=wanted)
    assert (row.ok, row.reason, row.pod) == (not reason, reason, "p")


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
    found = targets(nodes, pods, None)
    assert {name: pod and pod["name"] for name, pod in found.items()} == {"a": "new", "c": None, "d": "extra"}
    assert list(targets(nodes, pods, ["b"])) == ["b"]


class FakeCluster:
    """One node for each way that an exporter can answer."""

    answers: t.ClassVar[dict[str, t.Any]] = {
        "good": (200, SAMPLE.encode()),
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


def ask(nodes: list[str] | None = None) -> dict[str, NodeMetrics]:
    options = {
        "namespace": "ns",
        "label_selector": "app=x",
        "nodes": nodes,
        "parallel": 2,
        "port": 9400,
        "timeout": 5,
        "metrics": [],
    }
    return {item.node: item for item in ask_all(FakeCluster(), options)}


def test_every_node_gets_its_own_answer() -> None:
    rows = ask()
    assert rows["good"].ok and rows["good"].gpus == rows["good"].expected_gpus == 2
    assert "cannot create resource" in rows["denied"].reason and not rows["denied"].ok
    assert (
        rows["bare"].reason
        == wording(
            "No DCGM exporter runs on this node. Check that its label nvidia.com/gpu.deploy.dcgm-exporter is true."
        )
        and rows["bare"].expected_gpus == 2
    )
    assert rows["crashing"].reason == wording("The exporter is not ready: CrashLoopBackOff.")


def test_a_named_node_that_does_not_exist_is_reported() -> None:
    assert ask(["gone"])["gone"].reason == wording("There is no such node.")
