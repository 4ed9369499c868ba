# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kubelets and NVIDIA's DRA driver do on each node: slices, and the preparation of claims.

A pod with claims starts when its drivers have prepared them, and ends when they have taken them back. Without its
driver it waits, also in Terminating. The driver looks at the GPUs when it starts, and does not look again.
"""

from __future__ import annotations

import threading
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from lab.cluster.api import Api, Json, now
from lab.cluster.nodes import podlogs
from lab.cluster.nodes.agents.dra import devices, domains, gates, health, parameters
from lab.cluster.nodes.agents.dra.devices import Slice
from lab.cluster.nodes.agents.dra.slices import GROUP, SLICES, SliceWriter
from lab.cluster.nodes.agents.drivers.manager import loaded_version
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.pods import (
    PREPARED,
    crash,
    is_ready,
    labels_of,
    path,
    prepared,
    release,
    statuses,
    with_app,
)

PLUGIN = "nvidia-dra-driver-kubelet-plugin"
GPU, DOMAIN = "gpu.nvidia.com", "compute-domain.nvidia.com"
CONTAINERS = {GPU: "gpus", DOMAIN: "compute-domains"}
WIPE_S = 30.0
"""How long a kubelet keeps the slices of a driver that is away."""
RETRY_S = 2.0
PATIENCE_S = 45.0
"""How long the driver waits for the daemon of a ComputeDomain. Then it gives no answer for the claim."""


@dataclass
class Driver:
    """A driver that runs on a node: what it found at its start."""

    process: tuple[str, int]
    """The UID of its pod, and the restarts of its container."""
    gates: frozenset[str]
    slices: list[Slice]
    seen: health.Signs
    """The signs of trouble at its start, which it has not noticed."""
    published: t.Any = None


@dataclass
class _Node:
    drivers: dict[str, Driver] = field(default_factory=dict)
    away: dict[str, float] = field(default_factory=dict)
    """Since when each driver is away."""


class Claims:
    """The kubelets and drivers of all nodes."""

    def __init__(self, api: Api, later: t.Callable[[float, str], None], logs: Path, wipe_s: float = WIPE_S) -> None:
        self._api, self._later, self._logs, self._wipe_s = api, later, logs, wipe_s
        self._writer = SliceWriter(api)
        self._slices: dict[str, dict[str, Json]] = {}
        self._lock = threading.Lock()
        self._nodes: dict[str, _Node] = {}
        self._told: set[tuple[str, str]] = set()
        self._tried: dict[str, float] = {}
        """Since when the claims of a pod cannot be prepared, by its UID."""
        self._begun: set[str] = set()
        """The UIDs of the pods that have started. The watch may still show how they waited."""

    def watch(self, stop: threading.Event) -> None:
        """Follow the slices, until ``stop`` is set."""
        self._api.watch(SLICES, self._saw, stop)

    def _saw(self, kind: str, item: Json) -> None:
        node = item["spec"].get("nodeName") if kind != "SYNCED" else None
        if not node:
            return
        with self._lock:
            mine = self._slices.setdefault(node, {})
            if kind == "DELETED":
                mine.pop(item["metadata"]["uid"], None)
            else:
                mine[item["metadata"]["uid"]] = item

    def play(self, node: Json, pods: list[Json]) -> None:
        """Do what the programs of a node do next."""
        state = self._nodes.setdefault(node["metadata"]["name"], _Node())
        for driver, container in CONTAINERS.items():
            self._run(state, node, driver, _plugin_pod(pods, container), container)
        for pod in filter(is_ready, with_app(pods, domains.CONTROLLER)):
            self._check_controller(pod)
        for pod in pods:
            if pod["spec"].get("resourceClaims"):
                self._serve(state, node, pod)

    # ---- the drivers ------------------------------------------------------------------------------------------------

    def _run(self, state: _Node, node: Json, driver: str, pod: Json | None, container: str) -> None:
        name = node["metadata"]["name"]
        found = None if pod is None else self._started(state, node, driver, pod, container)
        if found is None:
            if state.drivers.pop(driver, None) and driver == DOMAIN and labels_of(node).get(domains.CLIQUE):
                self._label(name, {domains.CLIQUE: None})
            if driver not in state.away:
                state.away[driver] = time.monotonic()
                self._later(self._wipe_s, name)
            elif time.monotonic() >= state.away[driver] + self._wipe_s:
                self._writer.remove(self._present(name, driver))
            return
        state.drivers[driver] = found
        state.away.pop(driver, None)
        self._publish(node, driver, found)
        clique = note(node, "clique")
        if driver == DOMAIN and clique and labels_of(node).get(domains.CLIQUE) != clique:
            self._label(name, {domains.CLIQUE: clique})

    def _started(self, state: _Node, node: Json, driver: str, pod: Json, container: str) -> Driver | None:
        """Return a driver whose container runs. With gates that it refuses, its container crashes."""
        status = next((item for item in statuses(pod) if item["name"] == container), {})
        version = loaded_version(node)
        if not status.get("ready") or not version:
            return None
        spec = next(item for item in pod["spec"]["containers"] if item["name"] == container)
        try:
            on = gates.of(spec)
        except gates.GateError as error:
            refuse(self._api, self._logs, pod, container, f"Error: {error}")
            return None
        process = (pod["metadata"]["uid"], int(status.get("restartCount", 0)))
        before = state.drivers.get(driver)
        if before is not None and before.process == process:
            return before
        if driver == DOMAIN:
            return Driver(process, on, devices.domain_slices(), health.Signs())
        found = devices.gpu_slices(node, version, on, _value(spec, "CONSUMABLE_SHARES"))
        return Driver(process, on, found, health.signs(node))

    def _check_controller(self, pod: Json) -> None:
        container = pod["spec"]["containers"][0]
        try:
            gates.of(container)
        except gates.GateError as error:
            refuse(self._api, self._logs, pod, container["name"], f"Error: {error}")

    def _publish(self, node: Json, driver: str, found: Driver) -> None:
        fault = note(node, "slices") if driver == GPU else ""
        wanted = health.tainted(found.slices, found.seen, health.signs(node)) if driver == GPU else found.slices
        if driver == GPU and "NVMLDeviceHealthCheck" not in found.gates:
            wanted = found.slices
        if found.published != (fault, wanted):
            self._writer.publish(node, driver, self._present(node["metadata"]["name"], driver), wanted, fault)
            found.published = (fault, wanted)

    def _present(self, node: str, driver: str) -> list[Json]:
        with self._lock:
            mine = list(self._slices.get(node, {}).values())
        return [item for item in mine if item["spec"]["driver"] == driver]

    def _label(self, node: str, labels: Json) -> None:
        self._api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})

    # ---- the claims of a pod ----------------------------------------------------------------------------------------

    def _serve(self, state: _Node, node: Json, pod: Json) -> None:
        done = prepared(pod)
        has_ended = bool(pod["metadata"].get("deletionTimestamp")) or _phase(pod) in ("Succeeded", "Failed")
        if done is not None and has_ended:
            if all(entry.split("/")[0] in state.drivers for entry in done):
                self._leave(node, done)
                self._api.merge(path(pod), {"metadata": {"annotations": {PREPARED: None}}})
        elif done is None and not has_ended and _phase(pod) == "Pending":
            self._prepare(state, node, pod)

    def _prepare(self, state: _Node, node: Json, pod: Json) -> None:
        claims = None if pod["metadata"]["uid"] in self._begun else self._claims(pod)
        if claims is None:
            return
        try:
            drivers = self._prepared(state, node, pod, claims)
        except PrepareError as error:
            since = self._tried.setdefault(pod["metadata"]["uid"], time.monotonic())
            if time.monotonic() - since >= error.patience_s:
                self._tell(pod, f"Failed to prepare dynamic resources: prepare dynamic resources: {error}")
            self._later(RETRY_S, node["metadata"]["name"])
            return
        release(self._api, pod)
        self._api.merge(path(pod), {"metadata": {"annotations": {PREPARED: ",".join(sorted(drivers))}}})
        self._begun.add(pod["metadata"]["uid"])

    def _claims(self, pod: Json) -> list[Json] | None:
        """Return the claims of a pod; None if they are not all made yet."""
        made = {item["name"]: item.get("resourceClaimName") for item in _status(pod).get("resourceClaimStatuses") or []}
        found = []
        for entry in pod["spec"]["resourceClaims"]:
            name = entry.get("resourceClaimName") or made.get(entry["name"])
            if name is None and entry["name"] in made:
                continue  # The pod needs no claim here.
            namespace = pod["metadata"]["namespace"]
            claim = name and self._api.get(f"{GROUP}/namespaces/{namespace}/resourceclaims/{name}")
            if not claim:
                return None
            found.append(claim)
        return found

    def _prepared(self, state: _Node, node: Json, pod: Json, claims: list[Json]) -> set[str]:
        """Prepare claims, and return their drivers."""
        drivers = set()
        for claim in claims:
            _assert_reserved(pod, claim)
            for result in _results(claim):
                if result["driver"] not in state.drivers:
                    raise PrepareError(f"DRA driver {result['driver']} is not registered")
                drivers.add(result["driver"])
        for claim in claims:
            own = {result["driver"] for result in _results(claim)}
            if GPU in own:
                self._prepare_gpus(state.drivers[GPU], claim)
            drivers |= (
                {f"{DOMAIN}/{domain}" for domain in self._prepare_domain(node, claim)} if DOMAIN in own else set()
            )
        return drivers

    def _prepare_gpus(self, driver: Driver, claim: Json) -> None:
        try:
            parameters.of_devices(claim["status"]["allocation"], devices.types(driver.slices), driver.gates)
        except parameters.ParameterError as error:
            words = f"error preparing devices for claim {_named(claim)}: prepare devices failed: {error}"
            raise PrepareError(_failed(claim, words)) from None

    def _leave(self, node: Json, drivers: list[str]) -> None:
        """Take the node's label away when the channel of a domain is taken back: the domain's daemon leaves too."""
        if labels_of(node).get(domains.LABEL) in {entry.partition("/")[2] for entry in drivers}:
            self._label(node["metadata"]["name"], {domains.LABEL: None})

    def _prepare_domain(self, node: Json, claim: Json) -> list[str]:
        """Prepare a channel or a daemon, and return the domains of channels.

        A channel calls the daemon of its domain to the node, and waits for it.
        """
        found = []
        for config in (claim["status"]["allocation"]["devices"].get("config")) or []:
            given = config["opaque"]["parameters"]
            if config["opaque"]["driver"] == DOMAIN and given.get("kind") == "ComputeDomainChannelConfig":
                self._join(node, claim, given["domainID"])
                found.append(given["domainID"])
        return found

    def _join(self, node: Json, claim: Json, domain: str) -> None:
        found = next((item for item in self._api.list(domains.DOMAINS) if item["metadata"]["uid"] == domain), None)
        if found and found["metadata"]["namespace"] != claim["metadata"]["namespace"]:
            wrong = "the ResourceClaim's namespace is different than the ComputeDomain's namespace"
            words = (
                f"error preparing devices for claim '{_named(claim)}': prepare devices failed: error applying config: "
            )
            raise PrepareError(_failed(claim, f"{words}error asserting ComputeDomain's namespace: {wrong}"))
        name = node["metadata"]["name"]
        if found and labels_of(node).get(domains.LABEL) is None:
            self._label(name, {domains.LABEL: domain})
        if not found or labels_of(node).get(domains.LABEL) != domain or not _is_ready(found, name):
            raise PrepareError("NodePrepareResources skipped 1 ResourceClaims", PATIENCE_S)

    def _tell(self, pod: Json, message: str) -> None:
        """Write an event about a pod, once for each message."""
        meta, moment = pod["metadata"], now()
        if (meta["uid"], message) in self._told:
            return
        self._told.add((meta["uid"], message))
        about = {"apiVersion": "v1", "kind": "Pod", **{key: meta[key] for key in ("name", "namespace", "uid")}}
        event = {
            "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
            "involvedObject": about,
            "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
            "type": "Warning",
            "reason": "FailedPrepareDynamicResources",
            "message": message,
        }
        self._api.create(f"/api/v1/namespaces/{meta['namespace']}/events", event)


class PrepareError(Exception):
    """What keeps a kubelet from starting a pod, and how long the driver tries before it says so."""

    def __init__(self, message: str, patience_s: float = 0) -> None:
        super().__init__(message)
        self.patience_s = patience_s


def awaits_claims(pod: Json) -> bool:
    """Return whether a pod has claims that are not prepared."""
    return bool(pod["spec"].get("resourceClaims")) and prepared(pod) is None


def refuse(api: Api, logs: Path, pod: Json, container: str, words: str) -> None:
    """Let a program of the driver say why it exits, and crash. Its pod's other containers read the same gates."""
    meta = pod["metadata"]
    said = str(podlogs.log_file(logs, meta["name"], [words]))
    body = {
        "apiVersion": podlogs.API,
        "kind": "Logs",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        "spec": {"logs": [{"logsFile": said, "previousLogsFile": said}]},
    }
    api.apply(podlogs.path(meta["namespace"], meta["name"]), body, "lab-agents")
    crash(api, pod, container)


def _assert_reserved(pod: Json, claim: Json) -> None:
    meta, status = claim["metadata"], claim.get("status") or {}
    holders = {item.get("uid") for item in status.get("reservedFor") or []}
    if not status.get("allocation") or pod["metadata"]["uid"] not in holders:
        own = pod["metadata"]
        raise PrepareError(
            f"pod {own['name']} ({own['uid']}) is not allowed to use ResourceClaim {meta['name']} ({meta['uid']})"
        )


def _results(claim: Json) -> list[Json]:
    return claim["status"]["allocation"].get("devices", {}).get("results") or []


def _named(claim: Json) -> str:
    meta = claim["metadata"]
    return f"{meta['namespace']}/{meta['name']}:{meta['uid']}"


def _failed(claim: Json, words: str) -> str:
    return f"NodePrepareResources failed for ResourceClaim {claim['metadata']['name']}: {words}"


def _is_ready(domain: Json, node: str) -> bool:
    nodes = (domain.get("status") or {}).get("nodes") or []
    return any(item["name"] == node and item.get("status") == "Ready" for item in nodes)


def _plugin_pod(pods: list[Json], container: str) -> Json | None:
    """Return the pod that runs a container of the driver."""
    mine = [pod for pod in with_app(pods, PLUGIN) if not pod["metadata"].get("deletionTimestamp")]
    return next((pod for pod in mine if any(item["name"] == container for item in pod["spec"]["containers"])), None)


def _value(container: Json, name: str) -> str:
    return next((str(item.get("value", "")) for item in container.get("env") or [] if item["name"] == name), "")


def _status(pod: Json) -> Json:
    return pod.get("status") or {}


def _phase(pod: Json) -> str:
    return str(_status(pod).get("phase", "Pending"))
