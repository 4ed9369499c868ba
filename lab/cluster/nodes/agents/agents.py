# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One process that simulates the programs inside the pods of every node.

It watches nodes, pods and ConfigMaps. Whenever something changes on a node, it does what the node's programs would do
next: Node Feature Discovery labels the node, waiting init containers end when their condition is met, GPU Feature
Discovery describes the GPUs, the device plugin offers them, and the MIG manager divides them. It recognizes pods by the
labels and container names of NVIDIA's manifests, so it works with an external operator too.
"""

from __future__ import annotations

import heapq
import json
import queue
import threading
import time
import traceback
import typing as t
from pathlib import Path

import urllib3

from lab.cluster.api import Api, ApiError, Json
from lab.cluster.nodes.agents import device_plugin, feature_discovery
from lab.cluster.nodes.agents.dra.domains import DomainController
from lab.cluster.nodes.agents.dra.kubelet import WIPE_S, Claims, awaits_claims
from lab.cluster.nodes.agents.drivers.manager import CONTAINER, DriverManager, loaded_version
from lab.cluster.nodes.agents.drivers.pulls import Pulls
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.machines import GATES, MachineAgents
from lab.cluster.nodes.agents.managers.config_manager import (
    INIT,
    ConfigManager,
    read_at,
    sharing_of,
    started,
    strategy_of,
)
from lab.cluster.nodes.agents.managers.mig_manager import MigManager, Timing
from lab.cluster.nodes.agents.metrics import Metrics
from lab.cluster.nodes.agents.mig import layout_of
from lab.cluster.nodes.agents.mounts import MAP_DELAY_S, Mounts
from lab.cluster.nodes.agents.pods import (
    chosen_config_maps,
    crash,
    crashes,
    fail,
    hold,
    is_driver,
    is_nfd_worker,
    is_ready,
    labels_of,
    path,
    ready_condition,
    ready_conditions,
    recover,
    release,
    running_init,
    volumes,
    with_app,
)
from lab.cluster.nodes.agents.real import INTERVAL, RealAgents
from lab.cluster.nodes.agents.sharing import ConfigError, Sharing
from lab.cluster.nodes.fleet import NOTE, nfd_labels

WORKERS = 16
NODES = "/api/v1/nodes"
PLUGIN, DISCOVERY = "nvidia-device-plugin-daemonset", "gpu-feature-discovery"
MPS = "nvidia-device-plugin-mps-control-daemon"
EXPORTERS = ("nvidia-dcgm-exporter", "nvidia-dcgm-exporter-dra")
WAITING = (CONTAINER, "driver-validation", "toolkit-validation", "cuda-validation", "plugin-validation", INIT, *GATES)
"""Init containers that wait for a condition. The pod stages end the containers that the annotation `passed` names."""


class Agents:
    """The agents of all nodes."""

    def __init__(
        self,
        api: Api,
        timing: Timing,
        logs: Path,
        real: RealAgents | None = None,
        manager_patience: float = 300,
        map_delay: float = MAP_DELAY_S,
        wipe_delay: float = WIPE_S,
    ) -> None:
        """Make the agents.

        ``logs`` is the folder for what their containers say, ``manager_patience`` is how long a driver manager waits
        for the pods of an operand, ``map_delay`` how long an edited ConfigMap takes to a pod that runs, and
        ``wipe_delay`` how long the slices of a DRA driver stay without it, in seconds.
        """
        self._api, self._metrics, self._real = api, Metrics(api, self._text), real
        self._stop = threading.Event()
        self._nodes: dict[str, Json] = {}
        self._pods: dict[str, dict[str, Json]] = {}
        self._texts: dict[tuple[str, str], Json] = {}
        self._due: queue.Queue[str] = queue.Queue()
        self._queued: set[str] = set()
        self._playing: set[str] = set()
        self._lock = threading.Lock()
        self._clock = Clock(self._enqueue)
        mounts = Mounts(self._text, self._clock.later, map_delay)
        self._configs = ConfigManager(api, mounts, self._clock.later, logs)
        self._pulls = Pulls(api, self._clock.later)
        self._drivers = DriverManager(api, manager_patience, self._clock.later, self._pulls)
        self._mig = MigManager(api, timing, self._clock.later, mounts)
        self._claims = Claims(api, self._clock.later, logs, wipe_delay)
        self._domains = DomainController(api)
        self._machines = MachineAgents(api)

    def run(self) -> None:
        """Run until the process ends."""
        watches = [self._watch_nodes, self._watch_pods, self._watch_config_maps]
        claims = [lambda: self._claims.watch(self._stop), lambda: self._domains.run(self._stop)]
        for target in [*watches, *claims, self._clock.run, *[self._work] * WORKERS]:
            threading.Thread(target=target, daemon=True).start()
        self._stop.wait()

    # ---- watches ----------------------------------------------------------------------------------------------------

    def _watch_nodes(self) -> None:
        def seen(kind: str, node: Json) -> None:
            if kind == "SYNCED":
                return
            name = node["metadata"]["name"]
            self._mig.saw(node)
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

    def _watch_config_maps(self) -> None:
        def seen(kind: str, item: Json) -> None:
            if kind == "SYNCED":
                return
            meta = item["metadata"]
            with self._lock:
                if kind == "DELETED":
                    self._texts.pop((meta["namespace"], meta["name"]), None)
                else:
                    self._texts[meta["namespace"], meta["name"]] = item.get("data") or {}
                mounting = [name for name, pods in self._pods.items() if _mounts(pods.values(), meta["name"])]
            for name in mounting:
                self._enqueue(name)

        # The MIG managers publish one for each node, which no program reads.
        others = "app.kubernetes.io/component!=nvidia-mig-manager"
        self._api.watch("/api/v1/configmaps", seen, self._stop, labelSelector=others)

    def _text(self, namespace: str, name: str) -> Json | None:
        """Return the data of a ConfigMap; None if there is none. The watch may not have seen a new one yet."""
        with self._lock:
            found = self._texts.get((namespace, name))
        if found is not None:
            return found
        item = self._api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        return item and (item.get("data") or {})

    def _enqueue(self, node: str) -> None:
        with self._lock:
            if node in self._queued:
                return
            self._queued.add(node)
            if node in self._playing:
                return
        self._due.put(node)

    def _work(self) -> None:
        while True:
            name = self._due.get()
            with self._lock:
                self._queued.discard(name)
                self._playing.add(name)
                node, pods = self._nodes.get(name), list(self._pods.get(name, {}).values())
            if node is not None:
                self._try_to_play(name, node, pods)
            with self._lock:
                self._playing.discard(name)
                again = name in self._queued
            if again:
                self._due.put(name)

    def _try_to_play(self, name: str, node: Json, pods: list[Json]) -> None:
        try:
            self._play(node, pods)
        except (ApiError, urllib3.exceptions.HTTPError, OSError):
            # The API server is down, or the object has changed in the meantime: try again soon.
            self._clock.later(1.0, name)
        except Exception:
            # A pod with an unexpected shape must not stop the agents of other nodes.
            traceback.print_exc()

    # ---- the programs of one node -----------------------------------------------------------------------------------

    def _play(self, node: Json, pods: list[Json]) -> None:
        if note(node, "fault") == "down":
            return
        if ready_condition(node) == "True":
            self._kubelet_is_back(pods)
        self._nfd(node, pods)
        if not int(note(node, "gpus", "0")):
            return
        for app in (PLUGIN, DISCOVERY, MPS):
            for pod in with_app(pods, app):
                self._configs.play(node, pod)
        self._drivers.play(node, pods)
        self._pulls.play(node, pods)
        self._claims.play(node, pods)
        self._gates(node, [pod for pod in pods if not awaits_claims(pod)])
        self._run_real_agents(node, pods)
        if self._is_own("gpu-feature-discovery"):
            self._gfd(node, pods)
        self._device_plugin(node, pods)
        self._machines.play(node, pods)
        if self._is_own("mig-manager"):
            self._mig.play(node, pods)
        self._metrics.serve(node, [pod for app in EXPORTERS for pod in with_app(pods, app) if is_ready(pod)], pods)
        reporting = [pod for pod in with_app(pods, "nvidia-node-status-exporter") if is_ready(pod)]
        if reporting:
            is_validated = any(map(is_ready, with_app(pods, "nvidia-operator-validator")))
            self._metrics.serve_status(node, reporting, is_validated)

    def _is_own(self, agent: str) -> bool:
        return self._real is None or not self._real.replaces(agent)

    def _run_real_agents(self, node: Json, pods: list[Json]) -> None:
        """Run the vendor's programs, and take over what they have done: no watch tells when they are ready."""
        if self._real is None or not self._real.play(node, pods):
            return
        name, layout = node["metadata"]["name"], self._real.layout(node)
        if layout != layout_of(node):
            body = {"metadata": {"annotations": {NOTE + "mig": json.dumps(layout)}}}
            self._api.merge(f"{NODES}/{name}", body)
        wanted = self._real.labels(node)
        if wanted:
            self._label(node, {**wanted, **dict.fromkeys(feature_discovery.stale(node, wanted))})
        self._clock.later(INTERVAL, name)

    def _kubelet_is_back(self, pods: list[Json]) -> None:
        """Report pods as ready again if the node controller marked them as not ready while their node was down."""
        for pod in pods:
            statuses = (pod.get("status") or {}).get("containerStatuses") or []
            marked = pod["status"].get("phase") == "Running" and ready_condition(pod) == "False"
            if marked and statuses and all(status["ready"] for status in statuses):
                conditions = ready_conditions()
                self._api.strategic(f"{path(pod)}/status", {"status": {"conditions": conditions}})

    def _nfd(self, node: Json, pods: list[Json]) -> None:
        if note(node, "nfd") != "chart" or not any(is_ready(pod) and is_nfd_worker(pod) for pod in pods):
            return
        self._label(node, nfd_labels(note(node, "os"), note(node, "kernel"), int(note(node, "gpus", "0")) > 0))

    def _gates(self, node: Json, pods: list[Json]) -> None:
        for pod in pods:
            name = running_init(pod)
            if self._lacks_a_volume(pod, name):
                continue
            passed = [item for item in note(pod, "passed").split(",") if item]
            if name in WAITING and name not in passed and self._finds(name, node, pod, pods):
                self._api.merge(path(pod), {"metadata": {"annotations": {NOTE + "passed": ",".join([*passed, name])}}})

    def _lacks_a_volume(self, pod: Json, running: str) -> bool:
        """Hold a pod back while a ConfigMap that a user chose does not exist."""
        namespace = pod["metadata"]["namespace"]
        absent = [name for name in chosen_config_maps(pod) if self._text(namespace, name) is None]
        if absent and running:
            hold(self._api, pod, absent[0])
        elif not absent and not running:
            release(self._api, pod)
        return bool(absent)

    def _finds(self, name: str, node: Json, pod: Json, pods: list[Json]) -> bool:
        """Return whether the condition that an init container waits for is met."""
        if name == INIT:
            return started(pod)
        if name == CONTAINER or name in GATES:
            # The driver managers of driver pods have work to do first.
            return self._machines.finds(name, node, pod, pods) if name in GATES else not is_driver(pod)
        driver = note(node, "host-driver") == "true" or any(is_ready(item) and is_driver(item) for item in pods)
        if name == "driver-validation" or not driver:
            return driver
        if name == "toolkit-validation":
            # Without a toolkit pod, the host has its own toolkit.
            return all(map(is_ready, with_app(pods, "nvidia-container-toolkit-daemonset")))
        if name == "cuda-validation":
            return self._cuda_workload(node, pod, pods)
        capacity = node["status"].get("capacity") or {}
        return any(int(count) for name, count in capacity.items() if device_plugin.is_gpu(name))

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
        own, driver = next(filter(_runs, with_app(pods, DISCOVERY)), None), loaded_version(node)
        if own is None or not driver:  # without a driver it finds nothing, and its labels stay as they are
            return
        try:
            sharing = sharing_of(own)
            wanted = feature_discovery.labels(node, driver, strategy_of(own, sharing), sharing)
        except (ConfigError, feature_discovery.DiscoveryError):
            crash(self._api, own, "gpu-feature-discovery")
            return
        recover(self._api, own, "gpu-feature-discovery")
        have = labels_of(node)
        left = feature_discovery.stale(node, wanted)
        # The time stamp always differs, so it is written only together with another change.
        if left or any(have.get(key) != value for key, value in wanted.items() if not key.endswith("timestamp")):
            self._label(node, {**wanted, **dict.fromkeys(left)})

    def _device_plugin(self, node: Json, pods: list[Json]) -> None:
        own = next(filter(_runs, with_app(pods, PLUGIN)), None)
        offered: dict[str, int] = {}
        healthy: dict[str, int] = {}
        if own is None and note(node, "own-plugin") == "true":
            offered = healthy = {device_plugin.GPU: int(note(node, "gpus"))}
        if own is not None:
            try:
                offered = self._offered(node, own, pods)
                healthy = device_plugin.healthy(offered, int(note(node, "unhealthy", "0")), sharing_of(own))
                recover(self._api, own, "nvidia-device-plugin")
            except (ConfigError, device_plugin.PluginError):
                crash(self._api, own, "nvidia-device-plugin")
        self._offer(node, _quantities(offered), _quantities(healthy))

    def _offered(self, node: Json, plugin: Json, pods: list[Json]) -> dict[str, int]:
        sharing = sharing_of(plugin)
        offered = device_plugin.offered(layout_of(node), strategy_of(plugin, sharing), sharing)
        self._refuse([pod for pod in pods if pod["metadata"]["creationTimestamp"] > read_at(plugin)], sharing)
        # With MPS, the plugin starts once the control daemon is there.
        waits = sharing.strategy == "mps" and not any(is_ready(pod) for pod in with_app(pods, MPS))
        return {} if waits else offered

    def _refuse(self, pods: list[Json], sharing: Sharing) -> None:
        for pod in pods:
            words = device_plugin.refusal(pod, sharing) if device_plugin.starts(pod) else None
            if words:
                fail(self._api, pod, "UnexpectedAdmissionError", words)

    def _offer(self, node: Json, offered: dict[str, str], healthy: dict[str, str]) -> None:
        """Report the resources: the capacity counts unhealthy devices too, and pods get the healthy ones only.

        After its plugin is gone, a resource stays in the capacity, with 0 allocatable.
        """
        status = node["status"]
        have, left = status.get("capacity") or {}, status.get("allocatable") or {}
        known = {name for name in have if device_plugin.is_gpu(name)}
        allocatable = {name: healthy.get(name, "0") for name in known | offered.keys()}
        if all(left.get(name) == count for name, count in allocatable.items()) and offered.items() <= have.items():
            return
        body = {"status": {"capacity": offered, "allocatable": allocatable}}
        self._api.merge(f"{NODES}/{node['metadata']['name']}/status", body)

    def _label(self, node: Json, wanted: t.Mapping[str, str | None]) -> None:
        have = labels_of(node)
        missing = {key: value for key, value in wanted.items() if have.get(key) != value}
        if missing:
            self._api.merge(f"{NODES}/{node['metadata']['name']}", {"metadata": {"labels": missing}})


def _quantities(counts: t.Mapping[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in counts.items()}


class Clock:
    """Plays nodes again at a later time, all from one thread."""

    def __init__(self, play: t.Callable[[str], None]) -> None:
        self._play = play
        self._entries: list[tuple[float, str]] = []
        self._changed = threading.Condition()

    def later(self, seconds: float, node: str) -> None:
        """Play a node after some seconds."""
        with self._changed:
            heapq.heappush(self._entries, (time.monotonic() + seconds, node))
            self._changed.notify()

    def run(self) -> None:
        """Wait for the next moment, forever."""
        while True:
            with self._changed:
                while not self._entries or self._entries[0][0] > time.monotonic():
                    pause = self._entries[0][0] - time.monotonic() if self._entries else None
                    self._changed.wait(pause)
                node = heapq.heappop(self._entries)[1]
            self._play(node)


def _runs(pod: Json) -> bool:
    """Return whether a pod's first container runs or fails, with its configuration read."""
    if pod["metadata"].get("deletionTimestamp") or not started(pod):
        return False
    return is_ready(pod) or any(crashes(pod, item["name"]) for item in pod["spec"]["containers"])


def _mounts(pods: t.Iterable[Json], config_map: str) -> bool:
    return any(config_map in volumes(pod).values() for pod in pods)


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
