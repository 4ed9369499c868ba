# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics import metrics_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.metrics_info import NodeReport
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import exporter_answers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.exporter_answers import (
    ExporterAnswer,
    ExporterFleet,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from inline_snapshot import snapshot as wording

from tests.unit.fakes.prometheus import NOW, FakePrometheus, serving

Json = dict[str, t.Any]
SERVER = {
    "range": "1h", "match": {}, "token": None, "username": None, "password": None, "headers": {}, "secret_headers": {},
    "ca_cert": None, "validate_certs": True, "timeout": 5,
}  # fmt: skip
ENDS = range(NOW - 3300, NOW + 1, 300)
IDLE = {"namespace": "ml", "pod": "idle-0", "container": "main"}
BUSY = {"namespace": "web", "pod": "busy-0", "container": "main"}


def node(name: str, gpus: int = 2) -> Json:
    labels = {"nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.deploy.dcgm-exporter": "true"}
    return {"metadata": {"name": name, "labels": labels}}


FLEET = ExporterFleet(
    {name: node(name) for name in ("a", "b", "c")},
    [{"name": f"exporter-{name}abcd", "node": name, "ready": "1/1", "status": "Running"} for name in "ab"],
)


def line(gpu: int, metric: str = "DCGM_FI_DEV_GPU_UTIL", value: float = 0, **labels: str) -> str:
    pairs = {"gpu": str(gpu), "UUID": f"GPU-{gpu}", "modelName": "H100", "Hostname": "a", **labels}
    block = ",".join(f'{name}="{text}"' for name, text in pairs.items())
    return f"{metric}{{{block}}} {value}\n"


class Scene:
    """A fleet whose exporters and API server give prepared answers."""

    def __init__(self) -> None:
        self.answers: list[ExporterAnswer] = []
        self.pods: list[GpuPod] | None = []

    def read(self, prometheus: Json | None = None, **options: t.Any) -> Json:
        """Return the module's result."""
        given: Json = {"namespace": "gpu-operator", "nodes": None, "parallel": 1, "timeout": 1, "port": 1}
        given |= {"allocated": True, "idle_below": 1.0, "price_per_gpu_hour": None}
        server = None if prometheus is None else {**SERVER, **prometheus}
        return metrics_info.metrics_info(None, {**given, "prometheus": server, **options})  # type: ignore[arg-type]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene()

    def ask_each(
        cluster: object, options: Json, fleet: ExporterFleet, read: t.Callable[[ExporterAnswer], t.Any]
    ) -> list[t.Any]:
        assert fleet is FLEET
        return [read(answer) for answer in made.answers]

    def gpu_pods(cluster: object, namespace: str) -> list[GpuPod]:
        assert namespace == "gpu-operator" and made.pods is not None
        return made.pods

    monkeypatch.setattr(exporter_answers, "read_fleet", lambda cluster, options: FLEET)
    monkeypatch.setattr(exporter_answers, "ask_each", ask_each)
    monkeypatch.setattr(metrics_info, "gpu_pods", gpu_pods)
    return made


@pytest.fixture
def prometheus() -> t.Iterator[FakePrometheus]:
    with serving() as server:
        yield server


# ---- the exporters ------------------------------------------------------------------------------------------------


def test_each_exporter_has_its_report_and_none_fails_the_others(scene: Scene) -> None:
    scene.answers = [
        ExporterAnswer("a", 2, "pa", 200, line(0, value=40, **BUSY) + line(1) + "broken{\n"),
        ExporterAnswer("b", 2, "pb", 200, line(0, "DCGM_FI_DEV_OTHER")),
        ExporterAnswer("c", 2, "pc", 503, line(0)),
        ExporterAnswer("d", 2, "pd", reason="Port 9400 of pod pd does not answer."),
        ExporterAnswer("e", reason="There is no such node."),
    ]
    result = scene.read()
    assert [(row["node"], row["ok"], row["gpus"], row["unread_lines"]) for row in result["nodes"]] == [
        ("a", True, 2, 1),
        ("b", False, 1, 0),
        ("c", False, 0, 0),
        ("d", False, 0, 0),
        ("e", False, 0, 0),
    ]
    assert [row["pod"] for row in result["nodes"]] == ["pa", "pb", "pc", "pd", None]
    assert result["nodes"][1]["reason"] == wording("The exporter reports 1 GPUs, but the node has 2.")
    assert result["nodes"][2]["reason"] == wording("The exporter answered with HTTP status 503.")
    assert [(row["node"], row["gpu"]) for row in result["gpus"]] == [("a", 0), ("a", 1)]
    assert (result["source"], result["time_range"], result["warnings"]) == ("exporters", None, [])
    assert (result["summary"]["nodes"], result["summary"]["nodes_without_metrics"]) == (5, 3)


def test_an_idle_gpu_of_now(scene: Scene) -> None:
    scene.answers = [ExporterAnswer("a", 2, "pa", 200, line(0, **IDLE) + line(1, value=40, **BUSY))]
    result = scene.read(price_per_gpu_hour=2.0)
    assert [row["pods"] for row in result["idle_holders"]] == [[IDLE]]
    assert [result["idle_holders"][0][name] for name in ("hours", "cost", "cost_per_hour")] == [None, None, 2.0]
    assert {row["namespace"]: row["idle"] for row in result["namespaces"]} == {"ml": 1, "web": 0}


def test_pods_that_no_exporter_names(scene: Scene) -> None:
    """As with time-slicing, of whose pods the exporter names one at most."""
    scene.answers = [ExporterAnswer("a", 2, "pa", 200, line(0, **IDLE) + line(1))]
    scene.pods = [GpuPod("ml", name, "a", {"nvidia.com/gpu": 1}) for name in ("idle-0", "idle-1")]
    scene.pods.append(GpuPod("ml", "elsewhere", "z", {"nvidia.com/gpu": 1}))
    result = scene.read()
    assert result["unnamed_pods"] == [{"namespace": "ml", "name": "idle-1", "node": "a", "gpus": {"nvidia.com/gpu": 1}}]
    assert [row["pods"] for row in result["gpus"]] == [[IDLE], None]
    assert [row["field"] for row in result["unknown"]][-1] == "pods" and result["summary"]["free"] == 0
    assert result["namespaces"][0]["unnamed_pods"] == 1


def test_the_api_servers_pods_are_read_only_if_asked_for(scene: Scene) -> None:
    scene.answers, scene.pods = [ExporterAnswer("a", 2, "pa", 200, line(0) + line(1))], None
    result = scene.read(allocated=False)
    assert [row["pods"] for row in result["gpus"]] == [[], []] and result["unnamed_pods"] == []


# ---- a Prometheus -------------------------------------------------------------------------------------------------


def labels(gpu: int, name: str = "a", **more: str) -> dict[str, str]:
    return {"gpu": str(gpu), "UUID": f"GPU-{gpu}", "modelName": "H100", "Hostname": name, **more}


def util(gpu: int, value: float, name: str = "a", **more: str) -> tuple[dict[str, str], float]:
    return {"__name__": "DCGM_FI_DEV_GPU_UTIL", **labels(gpu, name, **more)}, value


def test_a_prometheus_knows_the_time_range(scene: Scene, prometheus: FakePrometheus) -> None:
    prometheus.now = [util(0, 0, **IDLE), util(1, 0, **BUSY), util(0, 0, "b")]
    prometheus.highest = [
        (labels(0, **IDLE), dict.fromkeys(ENDS, 0.5)),
        (labels(1, **BUSY), {**dict.fromkeys(ENDS, 0.0), ENDS[3]: 80.0}),
        (labels(0, "b"), dict.fromkeys(ENDS, 0.0)),
        (labels(0, "c"), {ENDS[0]: 9.0, ENDS[2]: 9.0}),
    ]
    prometheus.means = [(labels(0, **IDLE), dict.fromkeys(ENDS, 0.25))]
    result = scene.read({"url": prometheus.url}, price_per_gpu_hour=2.0)
    assert (result["source"], result["time_range"]) == (
        "prometheus",
        {"begin": "2025-11-27T11:00:00Z", "end": "2025-11-27T12:00:00Z", "step_s": 300},
    )
    fields = ("node", "gpu", "highest_utilisation", "mean_utilisation", "held_hours", "idle")
    assert [tuple(row[field] for field in fields) for row in result["gpus"]] == [
        ("a", 0, 0.5, 0.25, 1.0, True),
        ("a", 1, 80.0, None, 1.0, False),
        ("b", 0, 0.0, None, None, False),
    ]
    (idle,) = result["idle_holders"]
    assert (idle["pods"], idle["hours"], idle["cost"]) == ([IDLE], 1.0, 2.0)
    assert result["summary"]["idle_cost"] == 2.0
    assert [(row["node"], row["ok"], row["pod"]) for row in result["nodes"]] == [
        ("a", True, "exporter-aabcd"),
        ("b", False, "exporter-babcd"),
        ("c", False, None),
    ]
    assert result["nodes"][1]["reason"] == wording("Prometheus has metrics of 1 GPUs, but the node has 2.")
    assert result["nodes"][2]["reason"] == wording(
        "Prometheus has had no metrics of the node's GPUs since 2025-11-27T11:15:00Z. Look at its exporter."
    )


def test_a_node_that_a_prometheus_has_never_seen(scene: Scene, prometheus: FakePrometheus) -> None:
    result = scene.read({"url": prometheus.url}, nodes=["c", "gone"])
    assert [row["reason"] for row in result["nodes"]] == [
        wording("Prometheus has no metrics of the node's GPUs. Look at its target, and at prometheus.match."),
        wording("There is no such node."),
    ]
    assert result["summary"]["nodes_without_metrics"] == 2 and result["gpus"] == []


def test_named_nodes_are_reported_alone(scene: Scene, prometheus: FakePrometheus) -> None:
    prometheus.now = [util(0, 0), util(0, 0, "b")]
    result = scene.read({"url": prometheus.url}, nodes=["b"])
    assert [row["node"] for row in result["gpus"]] == [row["node"] for row in result["nodes"]] == ["b"]


def test_a_node_with_metrics_is_reported_without_a_label(
    scene: Scene, prometheus: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = ExporterFleet({"a": {"metadata": {"name": "a"}}}, [])
    monkeypatch.setattr(exporter_answers, "read_fleet", lambda cluster, options: bare)
    prometheus.now = [util(0, 0)]
    (report,) = scene.read({"url": prometheus.url})["nodes"]
    assert NodeReport(**report) == NodeReport("a", True, "", None, 1, None)


def test_what_a_prometheus_warns_about_is_a_warning(scene: Scene, prometheus: FakePrometheus) -> None:
    prometheus.now, prometheus.warnings = [util(0, 0), util(0, 0, "other")], ["No StoreAPIs matched for this query."]
    assert scene.read({"url": prometheus.url})["warnings"] == [
        wording("Prometheus warns: No StoreAPIs matched for this query. What it answers may be incomplete."),
        wording("Prometheus has GPUs of nodes that this cluster does not have, which are left out: other."),
    ]
    assert [row["node"] for row in scene.read({"url": prometheus.url})["gpus"]] == ["a"]
