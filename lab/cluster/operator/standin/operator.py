# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator: its watches and controllers, which run while its Deployment has an available pod."""

from __future__ import annotations

import functools
import threading
import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.operator.standin.cache import Cache, Loop
from lab.cluster.operator.standin.controllers.gpucluster import CLUSTERS, ClusterReconciler
from lab.cluster.operator.standin.controllers.labelling import Labeller, orphan
from lab.cluster.operator.standin.controllers.nvidiadriver import DRIVERS, DriverReconciler
from lab.cluster.operator.standin.controllers.policy import POLICIES, Reconciler
from lab.cluster.operator.standin.controllers.upgrade import Timing, Upgrader
from lab.cluster.operator.standin.drivers import COMPONENT
from lab.cluster.operator.standin.lines import V26_7, Line, line_of
from lab.cluster.operator.standin.nodes import SKIP, STATE, concerns_labelling, labels_of

LOOPS = {"labels": 0.1, "policy": 0.1, "drivers": 0.05, "cluster": 0.1, "upgrade": 0.1}
"""The controllers, and the seconds for which each collects changes before it runs.

The controller of NVIDIADrivers runs before the labels are written, as in NVIDIA's operator: it finds no nodes for a
new driver.
"""
Run = t.Callable[[], float | None]


class Operator:
    """Watches the cluster, and acts while its Deployment has an available pod."""

    def __init__(self, api: Api, timing: Timing) -> None:
        self._api = api
        self._timing = timing
        self._active = threading.Event()
        self._loops: dict[str, Loop] = {}
        self._caches: dict[str, Cache] = {}
        self._namespace: str | None = None
        self._env: dict[str, str] = {}
        self._image = ""
        self._line: Line = V26_7
        self._runs: dict[str, Run] = {}
        self._upgrader: Upgrader | None = None

    def run(self) -> t.NoReturn:
        """Follow the operator's Deployment forever."""
        changed = threading.Event()
        deployments = Cache(self._api, "/apis/apps/v1/deployments", lambda before, after: changed.set())
        while True:
            changed.wait()
            changed.clear()
            found = next(filter(_is_operator, deployments.items()), None)
            if found is None or not (found.get("status") or {}).get("availableReplicas"):
                if self._active.is_set():
                    print("the operator has no available pod", flush=True)
                self._active.clear()
                self._end()
            elif not self._active.is_set() or _taken_over(found, self._env, self._image):
                self._begin(found)

    def _begin(self, deployment: Json) -> None:
        namespace = deployment["metadata"]["namespace"]
        print(f"the operator has an available pod in {namespace}", flush=True)
        if namespace != self._namespace:
            self._watch(namespace)
        env = self._env = _environment(deployment)
        self._image, line = _image(deployment), line_of(deployment)
        self._line = line
        self._end()
        self._upgrader = Upgrader(self._api, namespace, self._caches, self._timing, line)
        # Like a new process, the controllers do not remember earlier checks.
        self._runs = {
            "labels": Labeller(self._api, self._caches, line),
            "policy": Reconciler(self._api, namespace, env, self._caches, line),
            "drivers": DriverReconciler(self._api, namespace, env, self._caches, line),
            "cluster": ClusterReconciler(self._api, namespace, env, self._caches),
            "upgrade": self._upgrader,
        }
        self._active.set()
        if not self._loops:
            self._loops = {
                name: Loop(name, functools.partial(self._run, name), self._active, settle)
                for name, settle in LOOPS.items()
            }
        self._wake(*LOOPS)

    def _end(self) -> None:
        """End what the previous process had begun."""
        if self._upgrader:
            self._upgrader.close()

    def _run(self, name: str) -> float | None:
        return self._runs[name]()

    def _watch(self, namespace: str) -> None:
        self._namespace = namespace
        pods = f"/api/v1/namespaces/{namespace}/pods"
        self._caches |= {
            "policies": Cache(self._api, POLICIES, self._policy_changed),
            "nvidiadrivers": Cache(self._api, DRIVERS, self._driver_changed),
            "gpuclusters": Cache(self._api, CLUSTERS, self._cluster_changed),
            "nodes": Cache(self._api, "/api/v1/nodes", self._node_changed),
            "daemonsets": Cache(self._api, f"/apis/apps/v1/namespaces/{namespace}/daemonsets", self._daemonset_changed),
            "drivers": Cache(self._api, pods, self._pod_changed, labelSelector="=".join(COMPONENT)),
            # A change of these objects starts no controller: the real operator does not watch them.
            "validators": Cache(self._api, pods, labelSelector="app=nvidia-operator-validator"),
        }
        for name in ("nodes", "daemonsets", "policies", "nvidiadrivers", "gpuclusters"):
            self._caches[name].wait(10)

    def _wake(self, *names: str) -> None:
        for name in names:
            if name in self._loops:
                self._loops[name].wake()

    def _policy_changed(self, before: Json | None, after: Json | None) -> None:
        if _generation(before) != _generation(after):
            self._wake("drivers", "labels", "policy", "upgrade")

    def _driver_changed(self, before: Json | None, after: Json | None) -> None:
        if _generation(before) != _generation(after):
            self._wake("drivers", "labels", "upgrade")

    def _cluster_changed(self, before: Json | None, after: Json | None) -> None:
        if _generation(before) != _generation(after):
            self._wake("cluster", "policy", "labels", "drivers")

    def _daemonset_changed(self, before: Json | None, after: Json | None) -> None:
        self._wake("policy")
        item = after or before or {}
        if any(owner["kind"] == "GPUCluster" for owner in item["metadata"].get("ownerReferences") or []):
            self._wake("cluster")
        if (item["metadata"].get("labels") or {}).get(COMPONENT[0]) != COMPONENT[1]:
            return
        self._wake("drivers")
        if _generation(before) != _generation(after):
            self._wake("upgrade")

    def _pod_changed(self, before: Json | None, after: Json | None) -> None:
        """Run the labeller when a driver pod is created, starts to run or loses its DaemonSet.

        NVIDIA's operator notices a lost DaemonSet only with the next change. This one reacts to it, so that a
        node is not missed if its pod loses its DaemonSet late.
        """
        drivers = self._caches.get("nvidiadrivers")
        if after is None or drivers is None or not drivers.items():
            return
        if before is None or _running(before) != _running(after) or orphan(before) != orphan(after):
            self._wake("labels")

    def _node_changed(self, before: Json | None, after: Json | None) -> None:
        if concerns_labelling(before, after):
            self._wake("labels")
        old, new = (labels_of(node) if node else {} for node in (before, after))
        if old != new:
            self._wake("drivers", "policy")
        if _starts_upgrades(self._line, old, new):
            self._wake("upgrade")


def _starts_upgrades(line: Line, before: t.Mapping[str, str], after: t.Mapping[str, str]) -> bool:
    """Return whether the controller of upgrades runs when the labels of a node have changed."""
    watched = {"labels": {*before, *after}, "state": {STATE}, "state and skip": {STATE, SKIP}}
    return any(before.get(key) != after.get(key) for key in watched[line.upgrade_watches])


def _environment(deployment: Json) -> dict[str, str]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", "") for container in containers for entry in container.get("env") or []}


def _image(deployment: Json) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def _taken_over(deployment: Json, env: dict[str, str], image: str) -> bool:
    """Return whether a new pod with another image or environment has taken the place of the old one.

    Until the new pod starts, the old one keeps running.
    """
    status = deployment.get("status") or {}
    numbers = {status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")}
    observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    changed = (_environment(deployment), _image(deployment)) != (env, image)
    return observed and len(numbers) == 1 and changed


def _generation(item: Json | None) -> int | None:
    return item["metadata"]["generation"] if item else None


def _running(pod: Json) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _is_operator(deployment: Json) -> bool:
    template = deployment["spec"]["template"]["metadata"].get("labels") or {}
    return bool(template.get("app") == "gpu-operator")
