# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One process that simulates the programs inside the pods of every node.

It watches nodes and pods. Whenever something changes on a node, it does what the node's programs would do next: Node
Feature Discovery labels the node, waiting init containers end when their condition is met, GPU Feature Discovery
describes the GPUs, and the device plugin offers them. It recognizes pods by the labels and container names of NVIDIA's
manifests, so it works with an external operator too.
"""

from __future__ import annotations

import queue
import threading
import traceback
import typing as t

import urllib3

from lab.cluster.api import Api, ApiError, Json, now
from lab.cluster.nodes.agents.facts import gfd_labels, note
from lab.cluster.nodes.agents.metrics import Metrics
from lab.cluster.nodes.fleet import NOTE, nfd_labels

WORKERS = 16
NODES = "/api/v1/nodes"
RESOURCE = "nvidia.com/gpu"
WAITING = ("driver-validation", "toolkit-validation", "cuda-validation", "plugin-validation")
"""Init containers that wait for a condition. The pod stages end the containers that the annotation `passed` names."""


class Agents:
    """The agents of all nodes."""

    def __init__(self, api: Api) -> None:
        self._api, self._metrics = api, Metrics(api)
        self._stop = threading.Event()
        self._nodes: dict[str, Json] = {}
        self._pods: dict[str, dict[str, Json]] = {}
        self._due: queue.Queue[str] = queue.Queue()
        self._queued: set[str] = set()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Run until the process ends."""
        for target in [self._watch_nodes, self._watch_pods, *[self._work] * WORKERS]:
            threading.Thread(target=target, daemon=True).start()
        self._stop.wait()

    # ---- watches ----------------------------------------------------------------------------------------------------

    def _watch_nodes(self) -> None:
        def seen(kind: str, node: Json) -> None:
            if kind == "SYNCED":
                return
            name = node["metadata"]["name"]
            with self._lock:
                if kind == "DELETED":
                    self._nodes.pop(name, None)
                else:
                    self._nodes[name] = node
            self._enqueue(name)

        self._api.watch(NODES, seen, self._stop)

    def _watch_pods(self) -> None:
        def seen(kind: str, pod: Json) -> None:
            node = pod["spec"].get("nodeName") if kind != "SYNCED" else None
            if not node:
                return
            with self._lock:
                mine = self._pods.setdefault(node, {})
                if kind == "DELETED":
                    mine.pop(pod["metadata"]["uid"], None)
                else:
                    mine[pod["metadata"]["uid"]] = pod
            self._enqueue(node)

        self._api.watch("/api/v1/pods", seen, self._stop)

    def _enqueue(self, node: str) -> None:
        with self._lock:
            if node in self._queued:
                return
            self._queued.add(node)
        self._due.put(node)

    def _work(self) -> None:
        while True:
            name = self._due.get()
            with self._lock:
                self._queued.discard(name)
                node, pods = self._nodes.get(name), list(self._pods.get(name, {}).values())
            if node is None:
                continue
            try:
                self._play(node, pods)
            except (ApiError, urllib3.exceptions.HTTPError, OSError):
                # The API server is down, or the object has changed in the meantime: try again soon.
                threading.Timer(1.0, self._enqueue, [name]).start()
            except Exception:
                # A pod with an unexpected shape must not stop the agents of other nodes.
                traceback.print_exc()

    # ---- the programs of one node -----------------------------------------------------------------------------------

    def _play(self, node: Json, pods: list[Json]) -> None:
        if ready_condition(node) == "True":
            self._kubelet_is_back(pods)
        self._nfd(node, pods)
        if not int(note(node, "gpus", "0")):
            return
        self._gates(node, pods)
        self._gfd(node, pods)
        self._device_plugin(node, pods)
        self._mig_manager(node, pods)
        self._metrics.serve(node, [pod for pod in with_app(pods, "nvidia-dcgm-exporter") if is_ready(pod)])

    def _kubelet_is_back(self, pods: list[Json]) -> None:
        """Report pods as ready again if the node controller marked them as not ready while their node was down."""
        for pod in pods:
            statuses = (pod.get("status") or {}).get("containerStatuses") or []
            marked = pod["status"].get("phase") == "Running" and ready_condition(pod) == "False"
            if marked and statuses and all(status["ready"] for status in statuses):
                conditions = [
                    {"type": kind, "status": "True", "lastTransitionTime": now()}
                    for kind in ("Ready", "ContainersReady")
                ]
                self._api.strategic(f"{path(pod)}/status", {"status": {"conditions": conditions}})

    def _nfd(self, node: Json, pods: list[Json]) -> None:
        if note(node, "nfd") != "chart" or not any(is_ready(pod) and is_nfd_worker(pod) for pod in pods):
            return
        self._label(node, nfd_labels(note(node, "os"), note(node, "kernel"), int(note(node, "gpus", "0")) > 0))

    def _gates(self, node: Json, pods: list[Json]) -> None:
        for pod in pods:
            name = running_init(pod)
            passed = [item for item in note(pod, "passed").split(",") if item]
            if name in WAITING and name not in passed and self._finds(name, node, pod, pods):
                self._api.merge(path(pod), {"metadata": {"annotations": {NOTE + "passed": ",".join([*passed, name])}}})

    def _finds(self, name: str, node: Json, pod: Json, pods: list[Json]) -> bool:
        """Return whether the condition that an init container waits for is met."""
        driver = note(node, "host-driver") == "true" or any(is_ready(item) and is_driver(item) for item in pods)
        if name == "driver-validation" or not driver:
            return driver
        if name == "toolkit-validation":
            # Without a toolkit pod, the host has its own toolkit.
            return all(map(is_ready, with_app(pods, "nvidia-container-toolkit-daemonset")))
        if name == "cuda-validation":
            return self._cuda_workload(node, pod, pods)
        return bool(int((node["status"].get("capacity") or {}).get(RESOURCE, "0")))

    def _cuda_workload(self, node: Json, pod: Json, pods: list[Json]) -> bool:
        """Run a workload as the validator does, and return whether it has succeeded."""
        mine = [
            item
            for item in pods
            if any(owner["uid"] == pod["metadata"]["uid"] for owner in item["metadata"].get("ownerReferences") or [])
        ]
        if not mine:
            self._api.create(path(pod).rpartition("/")[0], workload(node, pod))
        return any(item["status"].get("phase") == "Succeeded" for item in mine)

    def _gfd(self, node: Json, pods: list[Json]) -> None:
        own = with_app(pods, "gpu-feature-discovery")
        if not any(map(is_ready, own)):
            return
        have = node["metadata"].get("labels") or {}
        strategies = [env["value"] for pod in own for env in environment(pod, "MIG_STRATEGY")]
        wanted = gfd_labels(node, driver_version(pods), next(iter(strategies), "single"))
        # The time stamp always differs, so it is written only together with another change.
        if any(have.get(key) != value for key, value in wanted.items() if not key.endswith("timestamp")):
            self._label(node, wanted)

    def _device_plugin(self, node: Json, pods: list[Json]) -> None:
        plugins = with_app(pods, "nvidia-device-plugin-daemonset")
        offered = note(node, "gpus") if any(map(is_ready, plugins)) else "0"
        status = node["status"]
        have = (status.get("capacity") or {}).get(RESOURCE), (status.get("allocatable") or {}).get(RESOURCE)
        # After a plugin is removed, its resource stays in the capacity with nothing allocatable.
        if have == (offered, offered) or (have == (None, None) and offered == "0"):
            return
        capacity = offered if offered != "0" else have[0]
        self._api.merge(
            f"{NODES}/{node['metadata']['name']}/status",
            {"status": {"capacity": {RESOURCE: capacity}, "allocatable": {RESOURCE: offered}}},
        )

    def _mig_manager(self, node: Json, pods: list[Json]) -> None:
        labels = node["metadata"].get("labels") or {}
        if labels.get("nvidia.com/mig.config") and any(map(is_ready, with_app(pods, "nvidia-mig-manager"))):
            self._label(node, {"nvidia.com/mig.config.state": "success"})

    def _label(self, node: Json, wanted: dict[str, str]) -> None:
        have = node["metadata"].get("labels") or {}
        missing = {key: value for key, value in wanted.items() if have.get(key) != value}
        if missing:
            self._api.merge(f"{NODES}/{node['metadata']['name']}", {"metadata": {"labels": missing}})


def path(pod: Json) -> str:
    """Return the path of a pod in the API."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def label(item: Json, key: str) -> str:
    """Return a label, or an empty string."""
    return str((item["metadata"].get("labels") or {}).get(key, ""))


def with_app(pods: list[Json], app: str) -> list[Json]:
    """Return the pods with a given label ``app``."""
    return [pod for pod in pods if label(pod, "app") == app]


def ready_condition(item: Json) -> str:
    """Return the status of the condition Ready of a node or pod."""
    return next((c["status"] for c in (item.get("status") or {}).get("conditions") or [] if c["type"] == "Ready"), "")


def is_ready(pod: Json) -> bool:
    """Return whether a pod is Ready and not being deleted."""
    return ready_condition(pod) == "True" and not pod["metadata"].get("deletionTimestamp")


def is_driver(pod: Json) -> bool:
    """Return whether a pod is a driver pod, of a ClusterPolicy or of an NVIDIADriver."""
    return label(pod, "app.kubernetes.io/component") == "nvidia-driver"


def is_nfd_worker(pod: Json) -> bool:
    """Return whether a pod is a worker of Node Feature Discovery, by the labels of either chart."""
    return label(pod, "app.kubernetes.io/name") == "node-feature-discovery" and "worker" in (
        label(pod, "role"),
        label(pod, "app.kubernetes.io/component"),
    )


def running_init(pod: Json) -> str:
    """Return the name of the init container that is running, or an empty string."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return next((str(item["name"]) for item in statuses if "running" in item.get("state", {})), "")


def environment(pod: Json, name: str) -> t.Iterator[Json]:
    """Yield an environment variable of the pod's containers."""
    for container in pod["spec"]["containers"]:
        yield from (env for env in container.get("env") or [] if env["name"] == name and "value" in env)


def driver_version(pods: list[Json]) -> str:
    """Return the version in the tag of the driver pod's image, or a typical version of a driver on the host."""
    for pod in filter(is_driver, pods):
        image = next((c["image"] for c in pod["spec"]["containers"] if c["name"] == "nvidia-driver-ctr"), "")
        tag = image.rpartition(":")[2]
        if tag[:1].isdigit():
            return str(tag.split("-")[0])
    return "580.126.20"


def workload(node: Json, pod: Json) -> Json:
    """Return the CUDA workload of the validator."""
    meta = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    container = {
        "name": "nvidia-cuda-validator",
        "image": pod["spec"]["containers"][0]["image"],
        "command": ["sh", "-c"],
        "args": ["echo cuda workload validation is successful"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "nvidia-cuda-validator-",
            "namespace": meta["namespace"],
            "labels": {"app": "nvidia-cuda-validator"},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node["metadata"]["name"],
            "restartPolicy": "OnFailure",
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        },
    }
