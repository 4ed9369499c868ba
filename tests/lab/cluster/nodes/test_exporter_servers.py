# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers that answer for the exporters."""

from __future__ import annotations

import typing as t
import urllib.error
import urllib.request

import pytest

from lab.cluster.nodes.agents.metrics import FORWARDS, Metrics

Json = dict[str, t.Any]
LISTS = {"mine": {"dcgm-metrics.csv": "DCGM_FI_DEV_GPU_TEMP, gauge, Heat.\n"}, "empty": {}}


class Written(dict[str, Json]):
    """An API that remembers what is written, by path."""

    def merge(self, path: str, body: Json) -> None:
        self[path] = body

    def apply(self, path: str, body: Json, manager: str) -> None:
        self[path] = body


def node(name: str, gpus: str = "2") -> Json:
    notes = {"gpus": gpus, "model": "H100"}
    annotations = {f"lab.gpuops.nvidia/{key}": notes[key] for key in notes}
    return {"metadata": {"name": name, "annotations": annotations}, "status": {"nodeInfo": {"bootID": "1"}}}


def exporter(uid: str, config_map: str = "") -> Json:
    volumes = [{"name": "metrics-config", "configMap": {"name": config_map}}] if config_map else []
    spec = {"containers": [{"name": "main", "image": "x/dcgm-exporter:4.6.0-4.8.3"}], "volumes": volumes}
    return {"metadata": {"name": f"exporter-{uid}", "namespace": "gpu-operator", "uid": uid}, "spec": spec}


def workload() -> Json:
    metadata = {"name": "job", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": "Running"}}


class Fleet:
    """The servers, and what they write and read."""

    def __init__(self) -> None:
        self.written, self.read = Written(), list[str]()
        self._metrics = Metrics(t.cast(t.Any, self.written), self._text)

    def _text(self, namespace: str, name: str) -> Json | None:
        self.read.append(f"{namespace}/{name}")
        return LISTS.get(name)

    def serve(self, node: Json, *pods: Json, workloads: t.Iterable[Json] = ()) -> None:
        self._metrics.serve(node, list(pods), list(workloads))

    def serve_status(self, node: Json, pod: Json, is_validated: bool = True) -> None:
        self._metrics.serve_status(node, [pod], is_validated)

    def port(self, pod: Json, own: int = 9400) -> int:
        forward = self.written[f"{FORWARDS.format('gpu-operator')}/{pod['metadata']['name']}"]
        assert forward["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
        (only,) = forward["spec"]["forwards"]
        assert only["ports"] == [own]
        return int(only["target"]["port"])

    def ask(self, pod: Json, path: str = "/metrics", own: int = 9400) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port(pod, own)}{path}", timeout=10) as reply:
            return str(reply.read().decode())


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_a_node_is_told_its_port_and_answers_with_its_own_metrics(fleet: Fleet) -> None:
    one, two = exporter("1"), exporter("2")
    fleet.serve(node("gpu-0000"), one)
    fleet.serve(node("gpu-0001"), two)
    assert 'hostname="gpu-0000"' in fleet.ask(one) and 'hostname="gpu-0001"' in fleet.ask(two, "/metrics/")
    notes = fleet.written["/api/v1/nodes/gpu-0000"]["metadata"]["annotations"]
    assert notes == {"lab.gpuops.nvidia/metrics-port": str(fleet.port(one))} and fleet.port(one) != fleet.port(two)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fleet.ask(one, "/")


def test_a_list_is_read_once_for_each_pod(fleet: Fleet) -> None:
    pod = exporter("1", "mine")
    for _again in range(2):
        fleet.serve(node("gpu-0000"), pod)
    assert fleet.read == ["gpu-operator/mine"]
    assert "DCGM_FI_DEV_GPU_TEMP{" in fleet.ask(pod) and "DCGM_FI_DEV_POWER_USAGE" not in fleet.ask(pod)
    later = exporter("2")
    fleet.serve(node("gpu-0000"), later)
    assert fleet.port(later) == fleet.port(pod) and "DCGM_FI_DEV_POWER_USAGE{" in fleet.ask(later)


@pytest.mark.parametrize("config_map", ["empty", "gone"])
def test_without_a_text_the_exporter_has_its_own_list(fleet: Fleet, config_map: str) -> None:
    pod = exporter("1", config_map)
    fleet.serve(node("gpu-0000"), pod)
    assert "DCGM_FI_DEV_POWER_USAGE{" in fleet.ask(pod)


def test_what_changes_on_a_node_is_seen_without_another_forward(fleet: Fleet) -> None:
    pod = exporter("1", "mine")
    fleet.serve(node("gpu-0000"), pod)
    forwards = len(fleet.written)
    fleet.serve(node("gpu-0000", "1"), pod, workloads=[workload()])
    assert len(fleet.written) == forwards
    (series,) = [line for line in fleet.ask(pod).splitlines() if not line.startswith("#")]
    assert 'namespace="team",pod="job"' in series


def test_a_node_has_a_server_for_its_status_beside_that_for_its_gpus(fleet: Fleet) -> None:
    gpus, status = exporter("1"), exporter("2")
    fleet.serve(node("gpu-0000"), gpus)
    fleet.serve_status(node("gpu-0000"), status)
    assert fleet.port(gpus) != fleet.port(status, 8000)
    answer = fleet.ask(status, own=8000).splitlines()
    assert 'gpu_operator_node_driver_validation{node="gpu-0000"} 0' in answer and "DCGM_" not in "".join(answer)
    assert 'gpu_operator_node_cuda_ready{node="gpu-0000"} 1' in answer
    fleet.serve_status(node("gpu-0000"), status, is_validated=False)
    assert 'gpu_operator_node_cuda_ready{node="gpu-0000"} 0' in fleet.ask(status, own=8000)
    loaded = node("gpu-0000")
    loaded["metadata"]["annotations"]["lab.gpuops.nvidia/host-driver"] = "true"
    loaded["status"]["allocatable"] = {"nvidia.com/gpu": "2"}
    fleet.serve_status(loaded, status)
    answer = fleet.ask(status, own=8000).splitlines()
    assert 'gpu_operator_node_driver_validation{node="gpu-0000"} 1' in answer
    assert 'gpu_operator_node_device_plugin_devices_total{node="gpu-0000"} 2' in answer
    loaded["metadata"]["annotations"]["lab.gpuops.nvidia/driver-silent"] = "true"
    fleet.serve_status(loaded, status)
    assert 'gpu_operator_node_driver_validation{node="gpu-0000"} 0' in fleet.ask(status, own=8000)
