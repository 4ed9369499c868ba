# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver manager of each node: the first init container of a driver pod (k8s-driver-manager v0.12.0).

If a driver is loaded, it pauses the operands, waits until their pods are gone, and unloads the driver, unless the new
one is the same. It evicts GPU pods itself if the operator does not upgrade drivers on the node. A failure ends the
container, which starts again after a while.
"""

from __future__ import annotations

import json
import time
import typing as t
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lab.cluster.api import Api, ApiError, Json
from lab.cluster.nodes.agents.device_plugin import holds_a_gpu, requests
from lab.cluster.nodes.agents.drivers import labels
from lab.cluster.nodes.agents.drivers.pulls import Pulls
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.pods import (
    HOST_DRIVER,
    claims_a_gpu,
    crash,
    crashes,
    environment,
    is_driver,
    is_ready,
    path,
    recover,
    running_init,
    statuses,
    version_of_image,
    with_app,
)
from lab.cluster.nodes.fleet import NOTE

CONTAINER = "k8s-driver-manager"
_AUTOMATIC = "nvidia.com/gpu-driver-upgrade-enabled"
_DRIVER = "nvidia.com/gpu.deploy.driver"
_AWAITED = (
    "nvidia-operator-validator",
    "nvidia-container-toolkit-daemonset",
    "nvidia-device-plugin-daemonset",
    "gpu-feature-discovery",
    "nvidia-dcgm-exporter",
    "nvidia-dcgm",
    "nvidia-mig-manager",
    "nvidia-dcgm-exporter-dra",
    "nvidia-dcgm-dra",
)
_PLUGIN = "nvidia-dra-driver-kubelet-plugin"
_NODES = "/api/v1/nodes"
_LONGEST_BACK_OFF_S = 10.0
"""A kubelet waits up to 5 minutes."""
Later = t.Callable[[float, str], None]


@dataclass
class Run:
    """A manager's process. Its container starts again after a failure, and has another run then."""

    container: tuple[str, int]
    """The uid of its pod, and the number of its restarts."""
    awaited: list[str] = field(default_factory=lambda: list(_AWAITED))
    until: float = 0
    """When its patience with the pods of an operand ends."""


class ManagerError(Exception):
    """The manager cannot go on."""


class DriverManager:
    """The managers of all nodes."""

    def __init__(self, api: Api, patience: float, later: Later, pulls: Pulls) -> None:
        self._api, self._patience, self._later, self._pulls = api, patience, later, pulls
        self._runs: dict[str, Run] = {}
        self._ended: dict[str, tuple[str, int]] = {}
        """The last run of each node that has ended. The watches may still show its beginning."""
        self._again: dict[str, float] = {}
        """When a container that has failed starts again, by the uid of its pod."""

    def play(self, node: Json, pods: list[Json]) -> None:
        """Do what the manager of a node does next."""
        for pod in filter(is_driver, pods):
            if pod["metadata"].get("deletionTimestamp"):
                continue
            if crashes(pod, CONTAINER, init=True):
                self._start_again(node, pod)
            elif running_init(pod) == CONTAINER and self._ended.get(node["metadata"]["name"]) != _id(pod):
                self._try(node, pods, pod)
        self._remember(node, pods)

    def _remember(self, node: Json, pods: list[Json]) -> None:
        """Note which driver is loaded. It stays so when its pod is gone, until the node boots again."""
        running = next((pod for pod in pods if is_driver(pod) and is_ready(pod)), None)
        if running is not None:
            known = {"driver": _digest(running), "boot": _boot(node), "version": version_of_image(running)}
            loaded = json.dumps(known)
            if note(node, "loaded") != loaded:
                self._annotate(node, loaded)

    # ---- a run ------------------------------------------------------------------------------------------------------

    def _try(self, node: Json, pods: list[Json], pod: Json) -> None:
        try:
            self._run(node, pods, pod)
        except ManagerError as error:
            print(f"{pod['metadata']['name']}: {error}", flush=True)
            self._fail(node, pod)

    def _run(self, node: Json, pods: list[Json], pod: Json) -> None:
        if note(node, "host-driver") == "true":
            self._leave_to_the_host(node)
            return
        fault = _fault(pod)
        if fault == "crash":
            raise ManagerError("the manager fails by order")
        loaded = _loaded(node)
        if not loaded and fault != "hangs":
            if self._plugin_is_gone(node, pods):
                self._finish(node, pod, uncordon=_clears(node, pod))
            return
        if not self._operands_are_gone(node, pods, pod) or fault == "hangs":
            return
        if loaded == _digest(pod):
            if self._plugin_is_gone(node, pods):
                self._finish(node, pod, uncordon=False)
        elif self._gpus_are_free(node, pods, pod) and self._plugin_is_gone(node, pods):
            self._annotate(node, None)
            self._finish(node, pod, uncordon=_clears(node, pod))

    def _leave_to_the_host(self, node: Json) -> None:
        """Give the driver up: the label makes the DaemonSet take the pod away."""
        wanted = labels.changes(node, {_DRIVER: "pre-installed"})
        if wanted:
            self._label(node, wanted)

    def _operands_are_gone(self, node: Json, pods: list[Json], pod: Json) -> bool:
        name = node["metadata"]["name"]
        run = self._runs.get(name)
        if run is None or run.container != _id(pod):
            run = self._runs[name] = Run(_id(pod))
            # The watch may still show what the manager of an earlier pod has put back by now.
            self._label(node, labels.paused(self._api.get(f"{_NODES}/{name}") or node))
            self._wait(run, name)
            return False
        while run.awaited and not with_app(pods, run.awaited[0]):
            run.awaited.pop(0)
            self._wait(run, name)
        if run.awaited and time.monotonic() >= run.until:
            raise ManagerError(f"pods of {run.awaited[0]} do not go")
        return not run.awaited and not any(map(_is_client, pods))

    def _plugin_is_gone(self, node: Json, pods: list[Json]) -> bool:
        """Pause the plugin of the DRA driver, which sees a new driver only at its start. Return whether it has gone."""
        wanted = labels.changes(node, labels.plugin_paused(node))
        if wanted:
            self._label(node, wanted)
        return not wanted and not with_app(pods, _PLUGIN)

    def _wait(self, run: Run, name: str) -> None:
        run.until = time.monotonic() + self._patience
        self._later(self._patience, name)

    def _gpus_are_free(self, node: Json, pods: list[Json], pod: Json) -> bool:
        """Evict GPU pods if that is the manager's task. Return whether the driver can be unloaded."""
        if _evicts(node, pod):
            if not node["spec"].get("unschedulable"):
                self._patch(node, {"spec": {"unschedulable": True}})
            if not self._evicted(node, pods, pod):
                return False
        busy = [item for item in pods if holds_a_gpu(item)]
        if busy:
            # A drain in its place would fail too: it does not ignore DaemonSets.
            raise ManagerError(f"the driver is in use by {busy[0]['metadata']['name']}")
        holders = [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in pods if claims_a_gpu(item)]
        if holders:
            words = "cannot drain the DRA kubelet-plugin: pod(s) still hold GPU resource claims"
            raise ManagerError(f"{words}: {', '.join(holders)}")
        return True

    def _evicted(self, node: Json, pods: list[Json], pod: Json) -> bool:
        left = [item for item in pods if requests(item) or claims_a_gpu(item)]
        for item in left:
            if _stays(item, pod):
                raise ManagerError(f"pod {item['metadata']['name']} may not be evicted")
        for item in left:
            if not item["metadata"].get("deletionTimestamp"):
                self._evict(item)
        if left:
            self._later(1.0, node["metadata"]["name"])
        return not left

    def _evict(self, pod: Json) -> None:
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        try:
            self._api.create(f"{path(pod)}/eviction", body)
        except ApiError as error:
            # A disruption budget does not allow it yet, or the pod is gone.
            if error.status not in (404, 429):
                raise

    # ---- the end of a run -------------------------------------------------------------------------------------------

    def _finish(self, node: Json, pod: Json, *, uncordon: bool) -> None:
        """Put the node back, and let the driver container start as soon as its image is there."""
        self._put_back(node, pod, uncordon=uncordon)
        passed = ",".join([*filter(None, note(pod, "passed").split(",")), CONTAINER])
        notes = {NOTE + "passed": passed, **self._pulls.notes(pod)}
        self._api.merge(path(pod), {"metadata": {"annotations": notes}})
        self._end(node, pod)

    def _fail(self, node: Json, pod: Json) -> None:
        self._put_back(node, pod, uncordon=_clears(node, pod))
        crash(self._api, pod, CONTAINER, init=True, restarts=0)
        self._end(node, pod)
        self._start_again(node, pod)

    def _end(self, node: Json, pod: Json) -> None:
        """Note that a run has ended, after all that it does at its end: what the API refuses is tried again."""
        name = node["metadata"]["name"]
        self._runs.pop(name, None)
        self._ended[name] = _id(pod)

    def _put_back(self, node: Json, pod: Json, *, uncordon: bool) -> None:
        name = node["metadata"]["name"]
        # The labels may be newer than the watch: the manager has just written them itself.
        present = self._api.get(f"{_NODES}/{name}") or node
        if uncordon and present["spec"].get("unschedulable"):
            self._patch(node, {"spec": {"unschedulable": None}})
        wanted = labels.changes(present, labels.restored(present))
        if wanted:
            self._label(node, wanted)

    def _start_again(self, node: Json, pod: Json) -> None:
        name, uid = node["metadata"]["name"], pod["metadata"]["uid"]
        if uid not in self._again:
            seconds = 1.0 if _fault(pod) else min(2.0 ** _restarts(pod), _LONGEST_BACK_OFF_S)
            self._again[uid] = time.monotonic() + seconds
            self._later(seconds, name)
        elif time.monotonic() >= self._again[uid]:
            del self._again[uid]
            recover(self._api, pod, CONTAINER, init=True)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def _label(self, node: Json, wanted: t.Mapping[str, str]) -> None:
        self._patch(node, {"metadata": {"labels": wanted}})

    def _annotate(self, node: Json, loaded: str | None) -> None:
        self._patch(node, {"metadata": {"annotations": {f"{NOTE}loaded": loaded}}})

    def _patch(self, node: Json, body: Json) -> None:
        self._api.merge(f"{_NODES}/{node['metadata']['name']}", body)


def _digest(pod: Json) -> str:
    """Return what tells a driver's configuration from another's."""
    found = next((env["value"] for env in environment(pod, "DRIVER_CONFIG_DIGEST")), None)
    return str(found or pod["spec"]["containers"][0]["image"])


def _boot(node: Json) -> str:
    return str((node["status"].get("nodeInfo") or {}).get("bootID", ""))


def _loaded(node: Json, what: str = "driver") -> str:
    """Return the digest, or the version, of the driver that is loaded; an empty string if none is."""
    known = json.loads(note(node, "loaded", "{}"))
    return str(known.get(what, "")) if known.get("boot") == _boot(node) else ""


def loaded_version(node: Json) -> str:
    """Return the version of the driver that is loaded, as NVML reports it; an empty string if none is."""
    return HOST_DRIVER if note(node, "host-driver") == "true" else _loaded(node, "version")


def _fault(pod: Json) -> str:
    """Return the trouble that a test has ordered, unless it has healed."""
    age = datetime.now(UTC) - datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    healed = note(pod, "heals-after") and age.total_seconds() >= float(note(pod, "heals-after").rstrip("s"))
    return "" if healed else note(pod, "manager-fault")


def _id(pod: Json) -> tuple[str, int]:
    return str(pod["metadata"]["uid"]), _restarts(pod)


def _restarts(pod: Json) -> int:
    entries = [entry for entry in statuses(pod, init=True) if entry["name"] == CONTAINER]
    return int(entries[0].get("restartCount", 0)) if entries else 0


def _set(pod: Json, name: str, default: str = "false") -> bool:
    """Return whether a variable of the manager's container is true."""
    mine = [item for item in pod["spec"].get("initContainers") or [] if item["name"] == CONTAINER]
    values = [env.get("value", "") for item in mine for env in item.get("env") or [] if env["name"] == name]
    return (values[-1] if values else default) == "true"


def _automatic(node: Json) -> bool:
    return bool((node["metadata"].get("annotations") or {}).get(_AUTOMATIC) == "true")


def _evicts(node: Json, pod: Json) -> bool:
    """Return whether the manager evicts GPU pods itself: the operator does so if it upgrades drivers."""
    return not _automatic(node) and _set(pod, "ENABLE_GPU_POD_EVICTION", "true")


def _clears(node: Json, pod: Json) -> bool:
    """Return whether the manager uncordons the node in the end, whoever has cordoned it."""
    return _evicts(node, pod) or (not _automatic(node) and _set(pod, "ENABLE_AUTO_DRAIN", "true"))


def _is_client(pod: Json) -> bool:
    """Return whether a pod is of a DaemonSet that leaves the nodes whose GPU clients are paused."""
    owners = pod["metadata"].get("ownerReferences") or []
    by_label = f"{labels.DEPLOY}client" in (pod["spec"].get("nodeSelector") or {})
    return by_label and any(owner["kind"] == "DaemonSet" for owner in owners)


def _stays(pod: Json, manager: Json) -> bool:
    """Return whether the manager may not evict a GPU pod."""
    owners = pod["metadata"].get("ownerReferences") or []
    if any(owner["kind"] == "DaemonSet" for owner in owners):
        return True
    bare = not any(owner.get("controller") for owner in owners)
    keeps_data = any("emptyDir" in volume for volume in pod["spec"].get("volumes") or [])
    forced = _set(manager, "DRAIN_USE_FORCE")
    return (bare and not forced) or (keeps_data and not _set(manager, "DRAIN_DELETE_EMPTYDIR_DATA"))
