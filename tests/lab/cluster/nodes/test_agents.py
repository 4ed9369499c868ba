# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the agents of a node write for given pods."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from lab.cluster.nodes.agents import device_plugin
from lab.cluster.nodes.agents.agents import Agents
from lab.cluster.nodes.agents.exporter import metrics
from lab.cluster.nodes.agents.managers.mig_manager import Timing
from lab.cluster.nodes.agents.sharing import Sharing

Json = dict[str, t.Any]
NODE_PATH = "/api/v1/nodes/gpu-0000"


class Notes:
    """An API that only records the requests to write."""

    def __init__(self) -> None:
        self.written: list[tuple[str, Json]] = []

    def merge(self, path: str, body: Json) -> None:
        self.written.append((path, body))

    strategic = create = merge

    def get(self, path: str, **query: t.Any) -> None:
        return None

    def apply(self, path: str, body: Json, manager: str) -> None:
        self.written.append((path, body))


@pytest.fixture
def api() -> Notes:
    return Notes()


def play(api: Notes, node: Json, *pods: Json) -> dict[str, Json]:
    """Run the agents of a node once, and return what they wrote, by path."""
    Agents(t.cast(t.Any, api), Timing(0, 0, 0), Path())._play(node, list(pods))
    return dict(api.written)


def make_node(
    *, gpus: int = 8, capacity: str | None = None, labels: dict[str, str] | None = None, **notes: str
) -> Json:
    quantities = (
        {}
        if capacity is None
        else {"capacity": {"nvidia.com/gpu": capacity}, "allocatable": {"nvidia.com/gpu": capacity}}
    )
    notes = {"nfd": "preset", "model": "H100", "gpus": str(gpus), **notes}
    return {
        "metadata": {
            "name": "gpu-0000",
            "labels": labels or {},
            "annotations": {f"lab.gpuops.nvidia/{key.replace('_', '-')}": value for key, value in notes.items()},
        },
        "status": quantities,
    }


def make_pod(
    app: str,
    *,
    ready: bool = True,
    init: str = "",
    passed: str = "",
    image: str = "x",
    container: str = "main",
    **labels: str,
) -> Json:
    statuses = [{"name": init, "state": {"running": {}}}] if init else []
    return {
        "metadata": {
            "name": f"{app}-1",
            "namespace": "gpu-operator",
            "uid": app,
            "labels": {
                "app": app,
                **{key.replace("__", "/").replace("_", "."): value for key, value in labels.items()},
            },
            "annotations": {"lab.gpuops.nvidia/passed": passed} if passed else {},
            "creationTimestamp": "2026-11-23T00:00:00Z",
        },
        "spec": {"containers": [{"name": container, "image": image}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "initContainerStatuses": statuses,
        },
    }


def driver(*, ready: bool = True) -> Json:
    pod = make_pod(
        "nvidia-driver-daemonset",
        ready=ready,
        image="nvcr.io/nvidia/driver:595.91.07-ubuntu24.04",
        container="nvidia-driver-ctr",
    )
    pod["metadata"]["labels"]["app.kubernetes.io/component"] = "nvidia-driver"
    return pod


def passed(written: dict[str, Json], pod: Json) -> str | None:
    body = written.get(f"/api/v1/namespaces/gpu-operator/pods/{pod['metadata']['name']}")
    return body and body["metadata"]["annotations"]["lab.gpuops.nvidia/passed"]


def test_a_driver_is_found_when_its_pod_is_ready(api: Notes) -> None:
    toolkit = make_pod("nvidia-container-toolkit-daemonset", ready=False, init="driver-validation")
    assert passed(play(api, make_node(), driver(ready=False), toolkit), toolkit) is None
    assert passed(play(api, make_node(), driver(), toolkit), toolkit) == "driver-validation"


def test_a_driver_on_the_host_is_found_without_a_pod(api: Notes) -> None:
    toolkit = make_pod("nvidia-container-toolkit-daemonset", ready=False, init="driver-validation")
    assert passed(play(api, make_node(host_driver="true"), toolkit), toolkit) == "driver-validation"


@pytest.mark.parametrize(("ready", "found"), [(False, None), (True, "toolkit-validation")])
def test_the_toolkit_is_found_when_its_pod_is_ready(api: Notes, ready: bool, found: str | None) -> None:
    plugin = make_pod("nvidia-device-plugin-daemonset", ready=False, init="toolkit-validation")
    toolkit = make_pod("nvidia-container-toolkit-daemonset", ready=ready)
    assert passed(play(api, make_node(), driver(), toolkit, plugin), plugin) == found


def test_earlier_findings_are_kept(api: Notes) -> None:
    validator = make_pod(
        "nvidia-operator-validator", ready=False, init="toolkit-validation", passed="driver-validation"
    )
    assert passed(play(api, make_node(), driver(), validator), validator) == "driver-validation,toolkit-validation"


def test_the_cuda_validation_runs_a_workload_and_waits_for_it(api: Notes) -> None:
    validator = make_pod("nvidia-operator-validator", ready=False, init="cuda-validation")
    written = play(api, make_node(), driver(), validator)
    workload = written["/api/v1/namespaces/gpu-operator/pods"]
    assert workload["spec"]["nodeName"] == "gpu-0000"
    assert workload["metadata"]["ownerReferences"][0]["uid"] == "nvidia-operator-validator"
    assert passed(written, validator) is None
    done = make_pod("nvidia-cuda-validator", ready=False)
    done["metadata"]["ownerReferences"] = workload["metadata"]["ownerReferences"]
    done["status"]["phase"] = "Succeeded"
    api.written.clear()
    written = play(api, make_node(), driver(), validator, done)
    assert passed(written, validator) == "cuda-validation"
    assert "/api/v1/namespaces/gpu-operator/pods" not in written, "A second workload."


@pytest.mark.parametrize(("capacity", "found"), [(None, None), ("0", None), ("8", "plugin-validation")])
def test_the_plugin_is_found_by_the_nodes_capacity(api: Notes, capacity: str | None, found: str | None) -> None:
    validator = make_pod("nvidia-operator-validator", ready=False, init="plugin-validation")
    plugin = make_pod("nvidia-device-plugin-daemonset")
    written = play(api, make_node(capacity=capacity), driver(), validator, plugin)
    assert passed(written, validator) == found


def test_gpus_appear_with_the_device_plugin_and_are_not_allocatable_after_it(api: Notes) -> None:
    status = f"{NODE_PATH}/status"
    assert play(api, make_node(), make_pod("nvidia-device-plugin-daemonset"))[status] == {
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}
    }
    api.written.clear()
    assert play(api, make_node(capacity="8"))[status] == {
        "status": {"capacity": {}, "allocatable": {"nvidia.com/gpu": "0"}}
    }
    api.written.clear()
    assert status not in play(api, make_node()), "Without a plugin there is no resource."


def test_a_device_plugin_of_the_image_offers_the_gpus_while_no_other_one_runs(api: Notes) -> None:
    status = f"{NODE_PATH}/status"
    offered = {"status": {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}}}
    assert play(api, make_node(gpus=2, own_plugin="true"))[status] == offered
    api.written.clear()
    assert status not in play(api, make_node(gpus=2, capacity="2", own_plugin="true"))


def test_unhealthy_devices_stay_in_the_capacity_and_are_not_allocatable() -> None:
    four = Sharing("time-slicing", {"nvidia.com/gpu": 4})
    assert device_plugin.healthy({"nvidia.com/gpu": 32}, 1, four) == {"nvidia.com/gpu": 28}
    assert device_plugin.healthy({"nvidia.com/gpu.shared": 32}, 1, four) == {"nvidia.com/gpu.shared": 28}
    assert device_plugin.healthy({"nvidia.com/mig-1g.10gb": 7}, 9, Sharing()) == {"nvidia.com/mig-1g.10gb": 0}
    assert device_plugin.healthy({"nvidia.com/gpu": 8}, 0, Sharing()) == {"nvidia.com/gpu": 8}
    assert device_plugin.healthy({}, 1, Sharing()) == {}


def test_the_agents_report_unhealthy_devices(api: Notes) -> None:
    sick = make_node(unhealthy="1")
    assert play(api, sick, make_pod("nvidia-device-plugin-daemonset"))[f"{NODE_PATH}/status"] == {
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"}}
    }


def test_gpu_feature_discovery_describes_the_gpus_once(api: Notes) -> None:
    gfd = make_pod("gpu-feature-discovery")
    known = {"driver": "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04", "boot": "", "version": "595.91.07"}
    loaded = json.dumps(known)
    labels = play(api, make_node(loaded=loaded), driver(), gfd)[NODE_PATH]["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/cuda.driver-version.full"] == "595.91.07"
    api.written.clear()
    labelled = make_node(labels=labels, capacity="8", loaded=loaded)
    assert play(api, labelled, driver(), gfd, make_pod("nvidia-device-plugin-daemonset")) == {}


def test_gpu_feature_discovery_asks_the_loaded_driver_and_not_the_pod_that_is_to_bring_another(api: Notes) -> None:
    gfd, coming = make_pod("gpu-feature-discovery"), driver(ready=False)
    old = make_node(loaded=json.dumps({"driver": "before", "boot": "", "version": "580.126.20"}))
    labels = play(api, old, coming, gfd)[NODE_PATH]["metadata"]["labels"]
    assert labels["nvidia.com/cuda.driver-version.full"] == "580.126.20"
    api.written.clear()
    gone = make_node(loaded=json.dumps({"driver": "before", "boot": "an earlier one", "version": "580.126.20"}))
    assert play(api, gone, coming, gfd).get(NODE_PATH) is None
    on_host = make_node(host_driver="true")
    assert play(api, on_host, gfd)[NODE_PATH]["metadata"]["labels"]["nvidia.com/cuda.driver-version.major"] == "580"


def test_node_feature_discovery_labels_once_its_worker_is_ready(api: Notes) -> None:
    worker = {"app_kubernetes_io__name": "node-feature-discovery", "role": "worker"}
    notes = {"nfd": "chart", "os": "ubuntu 24.04", "kernel": "6.8.0-60-generic"}
    assert NODE_PATH not in play(api, make_node(**notes), make_pod("nfd", ready=False, **worker))
    labels = play(api, make_node(**notes), make_pod("nfd", **worker))[NODE_PATH]["metadata"]["labels"]
    assert labels["feature.node.kubernetes.io/kernel-version.full"] == "6.8.0-60-generic"


def test_a_cpu_node_has_no_gpu_agents(api: Notes) -> None:
    pods = [driver(), make_pod("gpu-feature-discovery"), make_pod("nvidia-device-plugin-daemonset")]
    assert play(api, make_node(gpus=0), *pods) == {}


def test_metrics_have_a_line_for_each_gpu() -> None:
    lines = metrics(make_node(gpus=3)).splitlines()
    assert len([line for line in lines if line.startswith("DCGM_FI_DEV_GPU_TEMP{")]) == 3
    assert len({line.split('UUID="')[1].split('"')[0] for line in lines if "UUID" in line}) == 3
