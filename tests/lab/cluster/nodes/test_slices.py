# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A live lab: operands follow the MIG manager's pauses, and the device plugin shares GPUs by its ConfigMap."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab.cluster import Lab, Options, faults
from lab.cluster.api import Api
from tests.support.labs import running_lab

pytestmark = [pytest.mark.wide, pytest.mark.slow("GPUs are divided at the pace of a manager")]

Json = dict[str, t.Any]
NODE = "gpu-0000"
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
PAUSED = "paused-for-mig-change"
PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
CONFIG_MAPS = "/api/v1/namespaces/gpu-operator/configmaps"


class Node:
    """A node with a MIG manager, and what a client sees of it."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.api = lab, Api(str(lab.kubeconfig))

    @property
    def item(self) -> Json:
        return t.cast(Json, self.api.get(f"/api/v1/nodes/{NODE}"))

    @property
    def labels(self) -> dict[str, str]:
        return t.cast("dict[str, str]", self.item["metadata"]["labels"])

    @property
    def layout(self) -> t.Any:
        return json.loads(self.item["metadata"]["annotations"]["lab.gpuops.nvidia/mig"])

    def label(self, labels: t.Mapping[str, str | None]) -> None:
        self.api.merge(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": labels}})

    def until(self, condition: t.Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.labels, self.lab.component("agents").process.log_end())
            time.sleep(0.05)

    def change(self, layout: str, end: str) -> list[tuple[str | None, str]]:
        """Ask for a layout, wait for a state, and return the states and pauses on the way."""
        seen: list[tuple[str | None, str]] = []

        def arrived() -> bool:
            labels = self.labels
            now = labels.get(STATE), labels[PLUGIN]
            if now[0] is not None and now not in seen:
                seen.append(now)
            return now[0] == end

        self.label({CONFIG: layout, STATE: None})
        self.until(arrived)
        return seen

    def publish(self, keys: t.Mapping[str, str]) -> None:
        """Edit the ConfigMap of the device plugin, and wait until the pods show it."""
        self.api.merge(f"{CONFIG_MAPS}/shares", {"data": keys})
        time.sleep(1.5)

    def repair(self) -> None:
        self.label({key: "true" for key, value in self.labels.items() if value == PAUSED})

    def pods(self, app: str) -> list[str]:
        query = {"labelSelector": f"app={app}", "fieldSelector": f"spec.nodeName={NODE}"}
        items = self.api.list("/api/v1/namespaces/gpu-operator/pods", **query)
        return [item["metadata"]["name"] for item in items]

    def delete(self, namespace: str, pod: str) -> None:
        self.api.delete(f"/api/v1/namespaces/{namespace}/pods/{pod}")

    def allocatable(self) -> dict[str, str]:
        found = self.item["status"]["allocatable"]
        return {key: value for key, value in found.items() if key.startswith("nvidia.com/")}


@pytest.fixture(scope="module")
def node() -> t.Iterator[Node]:
    """One H100 node whose manager works fast. The tests follow one another on it."""
    options = Options(nodes=1, upgrade_tick=3, mig_seconds=0.3, mig_patience=2, reboot_seconds=2, map_delay=0.5)
    with running_lab("mig", options) as lab:
        lab.deploy()
        found = Node(lab)
        found.until(lambda: found.labels.get(STATE) == "success")
        yield found


def test_a_change_replaces_the_pods_of_the_operands(node: Node) -> None:
    before = {app: node.pods(app) for app in ("nvidia-device-plugin-daemonset", "nvidia-operator-validator")}
    seen = node.change("all-3g.40gb", "success")
    assert ("pending", PAUSED) in seen
    assert seen[-1] == ("success", "true")
    assert node.layout == [{"3g.40gb": 2}] * 8
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "16"})
    node.until(lambda: node.labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb")
    assert not [app for app, pods in before.items() if set(pods) & set(node.pods(app))]


def test_a_pod_with_a_gpu_fails_the_change_and_paused_operands_leave(node: Node) -> None:
    job = {"name": "job", "image": "x", "command": ["sleep", "1d"], "resources": {"limits": {"nvidia.com/gpu": 1}}}
    node.api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "job"}, "spec": {"containers": [job]}})
    node.until(lambda: _phase(node, "job") == "Running")
    assert node.change("all-2g.20gb", "failed")[-1] == ("failed", PAUSED)
    assert node.layout == [{"3g.40gb": 2}] * 8
    node.until(lambda: node.pods("nvidia-device-plugin-daemonset") == [])
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "0"})
    node.delete("default", "job")
    node.repair()
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "16"})


def test_a_permitted_reboot_brings_the_mode(node: Node) -> None:
    patch = {"spec": {"migManager": {"env": [{"name": "WITH_REBOOT", "value": "true"}]}}}
    before, (pod,) = node.item["status"]["nodeInfo"]["bootID"], node.pods("nvidia-mig-manager")
    node.label({CONFIG: "all-3g.40gb"})
    node.api.merge("/apis/nvidia.com/v1/clusterpolicies/cluster-policy", patch)
    node.until(lambda: node.pods("nvidia-mig-manager") not in ([pod], []) and node.labels.get(STATE) == "success")
    faults.mig(node.lab, NODE, "mode")
    assert faults.active(node.lab) == [f"mig {NODE}: mode"]
    states = [state for state, dummy in node.change("all-disabled", "success")]
    assert list(dict.fromkeys(states)) == ["pending", "rebooting", "success"]
    assert node.item["status"]["nodeInfo"]["bootID"] != before
    assert node.layout == [None] * 8
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "8"})


def test_a_config_map_that_does_not_exist_holds_the_plugin_back(node: Node) -> None:
    patch = {"spec": {"devicePlugin": {"config": {"name": "shares"}}}}
    node.api.merge("/apis/nvidia.com/v1/clusterpolicies/cluster-policy", patch)
    node.until(lambda: 'configmap "shares" not found' in _events(node, "FailedMount"))
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "0"})
    node.api.create(CONFIG_MAPS, {"metadata": {"name": "shares"}, "data": {"four": _shares("timeSlicing", 4)}})
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "8"})


def test_a_key_shares_the_gpus_and_an_edited_key_waits_for_new_pods(node: Node) -> None:
    node.label({PLUGIN_CONFIG: "four"})
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "32"})
    node.until(lambda: node.labels["nvidia.com/gpu.replicas"] == "4")
    assert node.labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-SHARED"
    node.publish({"four": _shares("timeSlicing", 5)})
    time.sleep(1)
    assert node.allocatable() == {"nvidia.com/gpu": "32"}
    node.delete("gpu-operator", node.pods("nvidia-device-plugin-daemonset")[0])
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "40"})


def test_a_request_for_several_shares_is_refused_where_the_key_says_so(node: Node) -> None:
    strict = _shares("timeSlicing", 3, failRequestsGreaterThanOne=True)
    node.publish({"strict": strict})
    node.label({PLUGIN_CONFIG: "strict"})
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "24"})
    time.sleep(1)
    greedy = {"name": "main", "image": "x", "command": ["sleep", "1d"], "resources": {"limits": {"nvidia.com/gpu": 2}}}
    pod = {"metadata": {"name": "greedy"}, "spec": {"containers": [greedy]}}
    node.api.create("/api/v1/namespaces/default/pods", pod)
    node.until(lambda: _phase(node, "greedy") == "Failed")
    node.delete("default", "greedy")


def test_a_key_that_does_not_exist_breaks_the_config_manager_and_wrong_content_the_plugin(node: Node) -> None:
    node.label({PLUGIN_CONFIG: "nothing"})
    node.until(lambda: _crashing(node) == ["config-manager"])
    assert node.allocatable() == {"nvidia.com/gpu": "24"}, "The plugin goes on with what it has read."
    node.delete("gpu-operator", node.pods("nvidia-device-plugin-daemonset")[0])
    node.until(lambda: _crashing(node) == ["config-manager-init"])
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "0"})
    node.publish({"bad": _shares("timeSlicing", 1)})
    node.label({PLUGIN_CONFIG: "bad"})
    node.until(lambda: _crashing(node) == ["nvidia-device-plugin"])
    assert node.allocatable() == {"nvidia.com/gpu": "0"}
    node.publish({"bad": _shares("timeSlicing", 2)})
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "16"})
    assert _crashing(node) == []


def test_mps_starts_its_daemon_before_the_plugin_offers_shares(node: Node) -> None:
    assert node.pods("nvidia-device-plugin-mps-control-daemon") == []
    node.publish({"mps": _shares("mps", 10)})
    node.label({PLUGIN_CONFIG: "mps"})
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "80"})
    assert node.labels["nvidia.com/mps.capable"] == "true"
    assert len(node.pods("nvidia-device-plugin-mps-control-daemon")) == 1
    node.label({PLUGIN_CONFIG: None})
    node.until(lambda: node.allocatable() == {"nvidia.com/gpu": "8"})
    node.until(lambda: node.pods("nvidia-device-plugin-mps-control-daemon") == [])


def _shares(strategy: str, replicas: int, **options: bool) -> str:
    resources = [{"name": "nvidia.com/gpu", "replicas": replicas}]
    return json.dumps({"version": "v1", "sharing": {strategy: {**options, "resources": resources}}})


def _crashing(node: Node) -> list[str]:
    """Return the containers of the device plugin's pods that crash again and again."""
    query = {"labelSelector": "app=nvidia-device-plugin-daemonset", "fieldSelector": f"spec.nodeName={NODE}"}
    found = []
    for pod in node.api.list("/api/v1/namespaces/gpu-operator/pods", **query):
        for kind in ("initContainerStatuses", "containerStatuses"):
            for status in pod["status"].get(kind) or []:
                if (status["state"].get("waiting") or {}).get("reason") == "CrashLoopBackOff":
                    found.append(status["name"])
    return found


def _phase(node: Node, pod: str) -> str | None:
    found = node.api.get(f"/api/v1/namespaces/default/pods/{pod}")
    return found and found["status"].get("phase")


def _events(node: Node, reason: str) -> str:
    items = node.api.list("/api/v1/namespaces/gpu-operator/events", fieldSelector=f"reason={reason}")
    return " ".join(item["message"] for item in items)
