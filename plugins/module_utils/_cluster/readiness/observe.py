# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Read what the judge needs, with one LIST request for each kind.

Pods are read only if a DaemonSet is not complete. A second look reads only the nodes that have changed since the first:
nodes are nearly all of the data (21 kB each).
"""

from __future__ import annotations

import dataclasses
import threading
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import (
    edits,
    rollouts,
    tolerance,
    troubles,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import Tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Leader, Observation
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes as node_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.following import Follower
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.slimmer import Slimmer
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CLUSTERPOLICIES_PATH = namespaced(names.CLUSTERPOLICY_API, None, names.CLUSTERPOLICIES)
GPUCLUSTERS_PATH = namespaced(names.GPUCLUSTER_API, None, names.GPUCLUSTERS)
NVIDIADRIVERS_PATH = namespaced(names.GPUCLUSTER_API, None, names.NVIDIADRIVERS)
NODES_PATH = namespaced("v1", None, "nodes")

POLICY = "cluster-policy"
"""The name that the chart gives to the ClusterPolicy; OLM's is gpu-cluster-policy."""

EXPLAINED_UPGRADES = 3
"""Of how many failed driver upgrades the cause is read."""


def observe(cluster: Cluster, namespace: str, name: str, limits: Tolerance = tolerance.NOTHING) -> Observation:
    """Look once. See `Observer`."""
    return Observer(cluster, namespace, name, limits).look()


def read_policies(cluster: Cluster) -> list[Json] | None:
    """Return every ClusterPolicy as it is now, or None without the CRD.

    This bypasses the API server's cache, which may lag and show the spec before our own edit.
    """
    return cluster.list(CLUSTERPOLICIES_PATH, resourceVersion="")


class Observer:
    """Looks at the stack. It keeps the nodes between two looks, and which APIs the cluster serves.

    An empty name means the only ClusterPolicy, and an empty namespace the one that its status names. ``slim`` says what
    is kept of each node.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        limits: Tolerance = tolerance.NOTHING,
        slim: t.Callable[[Json], Json] | None = None,
    ) -> None:
        self._cluster, self._namespace, self._name, self._limits = cluster, namespace, name, limits
        self._nodes = NodeReader(cluster, slim)
        self._devices = device_reader.DeviceReader(cluster)

    def look(self) -> Observation:
        """Read everything that the judge needs."""
        cluster = self._cluster
        # The nodes are nearly all of the data. The rest is read while the API server sends them.
        nodes = _Background(self._nodes.read)
        policies = read_policies(cluster)
        gpuclusters = cluster.list_readable(GPUCLUSTERS_PATH)
        name, namespace = found(policies, gpuclusters.items, self._name, self._namespace)
        drivers = cluster.list_readable(NVIDIADRIVERS_PATH)
        offered = self._devices.read()
        # An old DaemonSet would show the revision before our own edit as complete.
        daemonsets = cluster.list(namespaced("apps/v1", namespace, "daemonsets"), resourceVersion="") or []
        deployments = cluster.list(namespaced("apps/v1", namespace, "deployments"), resourceVersion="") or []
        unreadable = {
            "GPUClusters": gpuclusters.refusal,
            "NVIDIADrivers": drivers.refusal,
            "ResourceSlices": offered.refusal if gpuclusters.items else "",
        }
        observation = Observation(
            name=name,
            namespace=namespace,
            policies=policies,
            gpuclusters=gpuclusters.items,
            nvidiadrivers=drivers.items,
            daemonsets=daemonsets,
            operators=[item for item in deployments if operands.is_operator(item)],
            nodes=nodes.result(),
            offered=offered,
            now=cluster.now(),
            unreadable=tuple(kind for kind, refusal in unreadable.items() if refusal),
        )
        return _Details(cluster, observation, self._limits).added()


def found(policies: list[Json] | None, gpuclusters: list[Json], name: str, namespace: str) -> tuple[str, str]:
    """Return the name of the ClusterPolicy and the operator's namespace, with an empty option found in the cluster."""
    candidates = [item for item in policies or [] if name in ("", objects.name_of(item))]
    oldest = min(candidates, key=objects.seniority, default={})
    subject: Json = oldest or next(iter(gpuclusters), {})
    status = subject.get("status") or {}
    name = name or (objects.name_of(oldest) if oldest else POLICY)
    return name, namespace or str(status.get("namespace") or names.OPERATOR)


class _Background:
    """Calls a function in a thread that does not outlive the process.

    A thread pool could: a signal that ends the wait may leave the pool's locks taken, and Python waits for pools at its
    exit.
    """

    def __init__(self, function: t.Callable[[], list[Json]]) -> None:
        self._function = function
        self._answer: list[Json] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="nodes", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer = self._function()
        except Exception as e:  # handed over to the thread that asks for the answer
            self._error = e

    def result(self) -> list[Json]:
        """Wait for the function, and return its answer or raise its exception."""
        self._thread.join()
        if self._error:
            raise self._error
        return self._answer


class NodeReader(Follower[Json]):
    """Reads the parts of all nodes that this collection reads."""

    def __init__(self, cluster: Cluster, slim: t.Callable[[Json], Json] | None = None) -> None:
        super().__init__(cluster, NODES_PATH, slim or Slimmer())


class _Details:
    """Adds to an observation what is read only where something is not as it should be."""

    def __init__(self, cluster: Cluster, observation: Observation, limits: Tolerance) -> None:
        self._cluster, self._observation = cluster, observation
        self._scope = tolerance.scope_of(observation.nodes, observation.spec, limits)
        self._tolerates = bool(self._scope.outside) or limits.allowed(len(self._scope.judged)) > 0

    def added(self) -> Observation:
        """Return the observation with pods, revisions and events."""
        observation, scope = self._observation, self._scope
        has_gpu_nodes = bool(scope.judged or scope.outside)
        trouble = troubles.read(
            self._cluster, observation.namespace, observation.daemonsets, observation.operators, has_gpu_nodes
        )
        return dataclasses.replace(
            observation,
            troubled=trouble.operands,
            others=trouble.others,
            refusals=trouble.refusals,
            outdated=self._outdated(),
            upgrade_failures=self._upgrade_failures(),
            leader=self._leader(),
        )

    def _leader(self) -> Leader | None:
        """Return which operator acts, if the last edit has left no trace and the operator takes part in an election."""
        observation = self._observation
        if not edits.elects_leader(observation.operators) or edits.has_acted(observation):
            return None
        path = namespaced("coordination.k8s.io/v1", observation.namespace, "leases")
        leases = self._cluster.list_readable(path, fieldSelector=f"metadata.name={edits.LEASE}").items
        return edits.leader(leases[0]) if leases else None

    def _outdated(self) -> dict[str, frozenset[str]]:
        """Return the nodes with a pod of an old revision, by DaemonSet: only where such a pod may be tolerated."""
        rolling = [item for item in rollouts.suspects(self._observation.daemonsets) if rollouts.is_rolling(item)]
        may_tolerate = self._tolerates or any(map(node_objects.skips_upgrades, self._scope.judged))
        if not rolling or not may_tolerate:
            return {}
        namespace = self._observation.namespace
        newest = troubles.newest_revisions(self._cluster, namespace)
        named = {objects.name_of(item): item for item in rolling}
        return {
            name: troubles.on_old_revision(self._cluster, namespace, item, newest[name])
            for name, item in named.items()
            if name in newest
        }

    def _upgrade_failures(self) -> dict[str, str]:
        """Return what the operator says about failed driver upgrades, by node."""
        failed = [node for node in self._scope.judged if node_objects.upgrade_state(node) == names.UPGRADE_FAILED]
        causes = {}
        for name in [objects.name_of(node) for node in failed][:EXPLAINED_UPGRADES]:
            causes[name] = upgrade_failure(self._cluster, name)
        return causes


_TICK_S = 120.0
"""How often the operator looks. It says why an upgrade failed, and then writes the state."""


def upgrade_failure(cluster: Cluster, node: str) -> str:
    """Return what the operator said last about the failure of this driver upgrade of a node, or an empty string.

    Events stay for an hour. What it said about an upgrade before explains nothing.
    """
    began = _upgrade_began(cluster.get(f"{NODES_PATH}/{node}"))
    selector = f"involvedObject.kind=Node,involvedObject.name={node},type=Warning,reason={names.UPGRADE_EVENT}"
    events = cluster.list_readable(namespaced("v1", "default", "events"), fieldSelector=selector).items
    events = [event for event in events if objects.timestamp(troubles.last_seen(event)) >= began]
    return one_line(max(events, key=troubles.last_seen, default={}).get("message") or "")


def _upgrade_began(node: Json | None) -> float:
    """Return when a node's upgrade began: when we gave it its turn, or else shortly before its state was written."""
    note = driver_annotations.note_of(node) if node else None
    if note is not None and note.kind == "turn":
        return note.since
    key = f"f:{names.UPGRADE_STATE}"
    entries = [] if node is None else node["metadata"].get("managedFields") or []
    written = [str(entry.get("time") or "") for entry in entries if key in _labels_in(entry)]
    return objects.timestamp(max(written)) - _TICK_S if any(written) else 0.0


def _labels_in(entry: Json) -> Json:
    metadata: Json = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return metadata.get("f:labels") or {}
