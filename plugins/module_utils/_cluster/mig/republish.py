# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Make NVIDIA's driver for claims offer what nodes have now: start its pod on a node again, and prove the slices."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_reader import DeviceReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import host_layout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.host_layout import HostDevice
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import (
    AllocatedClaim,
    DeviceName,
    read_claims,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PLUGINS = (
    ("app", "nvidia-dra-driver-kubelet-plugin"),
    ("dra-driver-nvidia-gpu-component", "kubelet-plugin"),
    ("nvidia-dra-driver-gpu-component", "kubelet-plugin"),
)
"""The labels of the plugin's pods: from the operator, from the driver's own chart, and from that of 25.12 and before.

Source: ``manifests/state-dra-driver`` of NVIDIA GPU Operator v26.7.0, and ``selectorLabels`` in the templates of
kubernetes-sigs/dra-driver-nvidia-gpu at 95932046, v25.12.0 and v25.3.2.
"""


@dataclasses.dataclass
class NodeSlices:
    """A node, what its host has, and what the driver offers."""

    name: str
    wanted: list[HostDevice]
    before: dict[str, int]
    differs: str
    users: list[str]
    """The pods, or else the claims, that have devices of the node, as ``namespace/name``."""
    plugin: list[Json]
    watchers: list[Json]
    """The pods of the stack that watch its devices with admin access."""

    @property
    def restarts(self) -> list[str]:
        """The pods that a change starts again, as ``namespace/name``."""
        return [objects.full_name(pod) for pod in (*(self.plugin if self.differs else ()), *self.watchers)]

    def row(self) -> Json:
        """Return the node as a row for people."""
        return {
            "node": self.name,
            "changed": bool(self.restarts),
            "before": self.before,
            "after": host_layout.counted(self.wanted),
            "differs": self.differs,
            "restarts": self.restarts,
            "users": self.users,
        }


def republish(cluster: Cluster, options: t.Mapping[str, t.Any]) -> tuple[Json, list[str]]:
    """Make the driver offer what the nodes have. Return the module's result, and warnings."""
    return Republication(cluster, options).go()


class Republication:
    """One call."""

    def __init__(self, cluster: Cluster, options: t.Mapping[str, t.Any]) -> None:
        self._cluster, self._options = cluster, options
        self._devices = DeviceReader(cluster)

    def go(self) -> tuple[Json, list[str]]:
        found = self._look()
        due = [node for node in found if node.differs]
        warnings = self._refuse(due)
        rows = [node.row() for node in found]
        if not self._cluster.check_mode:
            for node in due:
                self._delete(node.plugin)
            if due:
                self._prove(due, rows)
            for node in found:
                self._delete(node.watchers)
        return {"changed": any(row["changed"] for row in rows), "nodes": rows, "diff": _diff(rows)}, warnings

    # ---- look

    def _look(self) -> list[NodeSlices]:
        wanted = {each["name"]: host_layout.devices_of(each["name"], each["gpus"]) for each in self._given()}
        pools, claims = self._pools(), list(read_claims(self._cluster))
        plugins = self._plugins()
        return [self._node(name, devices, pools.get(name), claims, plugins) for name, devices in wanted.items()]

    def _given(self) -> list[Json]:
        listed: list[Json] = self._options["nodes"]
        names_given = [each["name"] for each in listed]
        twice = sorted({name for name in names_given if names_given.count(name) > 1})
        if twice:
            raise GpuOpsError(f"nodes has {first_few(twice)} more than once.", reason="Invalid")
        return listed

    def _pools(self) -> dict[str, DevicePool]:
        offered = self._devices.read()
        if offered.refusal:
            raise GpuOpsError(f"What nodes offer by claims is unknown: {offered.refusal}", reason="Forbidden")
        return offered.by_node

    def _plugins(self) -> list[Json]:
        """Return the plugin's pods of all nodes. Only a DaemonSet brings a pod back on its node."""
        path = namespaced("v1", None, "pods")
        listed = [
            self._cluster.list(path, labelSelector=f"{key}={value}", resourceVersion="") or [] for key, value in PLUGINS
        ]
        return [
            pod
            for (key, value), pods in zip(PLUGINS, listed)
            for pod in pods
            if objects.labels_of(pod).get(key) == value and _daemonset_of(pod)
        ]

    def _node(
        self,
        name: str,
        wanted: list[HostDevice],
        pool: DevicePool | None,
        claims: t.Sequence[AllocatedClaim],
        plugins: t.Sequence[Json],
    ) -> NodeSlices:
        if pool is not None and pool.is_divided:
            raise GpuOpsError(
                f"{name}: NVIDIA's driver makes the MIG instances of this node itself (feature gate DynamicMIG), and "
                "removes others. Leave them to it, or switch the gate off.",
                reason="Unsupported",
            )
        plugin = [pod for pod in plugins if pod["spec"].get("nodeName") == name]
        if not plugin:
            raise GpuOpsError(
                f"{name}: NVIDIA's driver for claims has no pod on the node. Look at its DaemonSet, and at the node's "
                "labels and taints.",
                reason="NotReady",
            )
        differs = host_layout.differs(pool, wanted)
        mine = [claim for claim in claims if any(_is_of(device, name) for device in claim.devices)] if differs else []
        offered = {device.name for device in pool.devices} if pool and not differs else set()
        watching = [
            claim
            for claim in claims
            if any(_is_of(device, name) and device not in offered for device in claim.monitored)
        ]
        users = {f"{claim.namespace}/{user}" for claim in mine for user in claim.pods or (claim.name,)}
        before = host_layout.counted(host_layout.offered_by(pool))
        watchers = self._watchers(watching, {pod["metadata"]["namespace"] for pod in plugin})
        return NodeSlices(name, wanted, before, differs, sorted(users), plugin, watchers)

    def _watchers(self, claims: t.Sequence[AllocatedClaim], of_stack: t.Collection[str]) -> list[Json]:
        """Return the pods of the stack's own DaemonSets whose claims name devices that are gone, such as the exporter.

        Other pods with admin access belong to somebody else, and stay.
        """
        found = [
            self._cluster.get(namespaced("v1", claim.namespace, "pods", pod))
            for claim in claims
            if claim.namespace in of_stack
            for pod in claim.pods
        ]
        return [pod for pod in found if pod and _daemonset_of(pod) and not pod["metadata"].get("deletionTimestamp")]

    # ---- act

    def _refuse(self, due: t.Sequence[NodeSlices]) -> list[str]:
        """Refuse while claims have devices of the nodes. Before a drain, check mode only says so."""
        users = [f"{user} on {node.name}" for node in due for user in node.users]
        if not users:
            return []
        message = (
            f"Claims have GPUs of nodes whose devices are to be offered anew: {first_few(users)}. Drain the nodes "
            "first (gpuops.nvidia.node_maintenance)."
        )
        if self._cluster.check_mode and self._options["after_drain"]:
            return [message]
        raise GpuOpsError(message, reason="InUse", users=users)

    def _delete(self, pods: t.Iterable[Json]) -> None:
        """Delete the pods that were read. One that has been replaced since then has started anew already."""
        for pod in pods:
            metadata = pod["metadata"]
            try:
                self._cluster.delete(
                    namespaced("v1", metadata["namespace"], "pods", metadata["name"]), uid=metadata["uid"]
                )
            except GpuOpsError as e:
                if e.reason != "Conflict":
                    raise

    def _prove(self, due: t.Sequence[NodeSlices], rows: t.Sequence[Json]) -> None:
        """Wait until new pods offer what the nodes have."""
        former = {pod["metadata"]["uid"] for node in due for pod in node.plugin}
        lacking: dict[str, str] = {}

        def look() -> bool | None:
            nonlocal lacking
            pools, plugins = self._pools(), self._plugins()
            started = {
                pod["spec"].get("nodeName")
                for pod in plugins
                if pod["metadata"]["uid"] not in former and _is_ready(pod)
            }
            lacking = {}
            for node in due:
                missing = host_layout.differs(pools.get(node.name), node.wanted)
                if missing or node.name not in started:
                    lacking[node.name] = missing or "its new pod is not ready"
            waiting.append_line(
                self._options["progress_path"], f"{len(due) - len(lacking)} of {len(due)} nodes offer it"
            )
            return None if lacking else True

        if waiting.until(look, self._options["timeout"]) is None:
            said = first_few([f"{name} ({missing})" for name, missing in lacking.items()], separator="; ")
            raise GpuOpsError(
                f"NVIDIA's driver for claims was started again and does not offer what the nodes have after "
                f"{self._options['timeout']} s: {said}. Read the log of the container gpus of its pod.",
                reason="TimedOut",
                changed=True,
                nodes=list(rows),
            )


def _is_of(device: DeviceName, node: str) -> bool:
    """Return whether a device is a GPU of a node, whose pool has its name."""
    return device[:2] == (names.DRA_DRIVER, node)


def _daemonset_of(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences") or []
    return next((each["name"] for each in owners if each.get("controller") and each["kind"] == "DaemonSet"), "")


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    is_ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


def _diff(rows: t.Sequence[Json]) -> Json:
    due = [row for row in rows if row["changed"]]
    return {side: {row["node"]: row[side] for row in due} for side in ("before", "after")}
