# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One life of the operator, from the moment that its Deployment has an available pod until it has none."""

from __future__ import annotations

import concurrent.futures
import threading
import typing as t

from ..api import Api, Json
from .cache import Cache, Loop
from .nodes import STATE, annotation_patch, concerns_labelling, label_patch, labels_of
from .policy import POLICIES, Reconciler, oldest
from .upgrade import SKIP, Upgrader

WRITERS = 16
"""Nodes that are labelled at the same time."""


class Operator:
    """Watches the cluster, and acts while it may."""

    def __init__(self, api: Api, tick: float) -> None:
        self._api = api
        self._tick = tick
        self._active = threading.Event()
        self._loops: dict[str, Loop] = {}
        self._writers = concurrent.futures.ThreadPoolExecutor(WRITERS)
        self._caches: dict[str, Cache] = {}
        self._namespace: str | None = None
        self._reconcile: Reconciler | None = None
        self._upgrade: Upgrader | None = None

    def run(self) -> t.NoReturn:
        """Follow the operator's Deployment for ever."""
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
            elif not self._active.is_set():
                self._begin(found)

    def _begin(self, deployment: Json) -> None:
        namespace = deployment["metadata"]["namespace"]
        print(f"the operator has an available pod in {namespace}", flush=True)
        if namespace != self._namespace:
            self._watch(namespace)
        containers = deployment["spec"]["template"]["spec"]["containers"]
        env = {entry["name"]: entry.get("value", "") for container in containers for entry in container.get("env") or []}
        # A new process knows nothing of what the one before it has checked.
        self._reconcile = Reconciler(self._api, namespace, env, self._caches)
        self._upgrade = Upgrader(self._api, namespace, self._caches, self._tick)
        self._active.set()
        if not self._loops:
            runs: dict[str, t.Callable[[], float | None]] = {
                "labels": self._label,
                "policy": lambda: self._reconcile() if self._reconcile else None,
                "upgrade": lambda: self._upgrade() if self._upgrade else None,
            }
            self._loops = {name: Loop(name, run, self._active) for name, run in runs.items()}
        self._wake("labels", "policy", "upgrade")

    def _watch(self, namespace: str) -> None:
        self._namespace = namespace
        pods = f"/api/v1/namespaces/{namespace}/pods"
        self._caches |= {
            "policies": Cache(self._api, POLICIES, self._policy_changed),
            "gpuclusters": Cache(self._api, "/apis/nvidia.com/v1alpha1/gpuclusters", lambda before, after: self._wake("policy")),
            "nodes": Cache(self._api, "/api/v1/nodes", self._node_changed),
            "daemonsets": Cache(self._api, f"/apis/apps/v1/namespaces/{namespace}/daemonsets", self._daemonset_changed),
            # Pods wake nobody: the operator does not watch them either.
            "drivers": Cache(self._api, pods, labelSelector="app.kubernetes.io/component=nvidia-driver"),
            "validators": Cache(self._api, pods, labelSelector="app=nvidia-operator-validator"),
        }
        for name in ("nodes", "daemonsets", "policies", "gpuclusters"):
            self._caches[name].wait(10)

    def _wake(self, *names: str) -> None:
        for name in names:
            if name in self._loops:
                self._loops[name].wake()

    def _policy_changed(self, before: Json | None, after: Json | None) -> None:
        if _generation(before) != _generation(after):
            self._wake("labels", "policy", "upgrade")

    def _daemonset_changed(self, before: Json | None, after: Json | None) -> None:
        self._wake("policy")
        driver = (after or before or {})["metadata"]["name"].startswith("nvidia-driver-daemonset")
        if driver and _generation(before) != _generation(after):
            self._wake("upgrade")

    def _node_changed(self, before: Json | None, after: Json | None) -> None:
        if concerns_labelling(before, after):
            self._wake("labels")
        old, new = (labels_of(node) if node else {} for node in (before, after))
        if old != new:
            self._wake("policy")
        if any(old.get(key) != new.get(key) for key in (STATE, SKIP)):
            self._wake("upgrade")

    def _label(self) -> float | None:
        """Label the nodes; labels first and annotations second, as two controllers would."""
        policy = oldest(self._caches["policies"].items())
        if policy is None:
            return None
        nodes = self._caches["nodes"].items()
        patches = [(node, {"labels": patch}) for node in nodes if (patch := label_patch(node, policy["spec"]))]
        patches += [(node, {"annotations": patch}) for node in nodes if (patch := annotation_patch(node, policy["spec"]))]
        list(self._writers.map(lambda item: self._api.merge(f"/api/v1/nodes/{item[0]['metadata']['name']}", {"metadata": item[1]}), patches))
        return None


def _generation(item: Json | None) -> int | None:
    return item["metadata"]["generation"] if item else None


def _is_operator(deployment: Json) -> bool:
    template = deployment["spec"]["template"]["metadata"].get("labels") or {}
    return bool(template.get("app") == "gpu-operator")
