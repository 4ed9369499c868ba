# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The requests of node maintenance to the API server, in parallel where that helps."""

from __future__ import annotations

import concurrent.futures
import math
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import conflicts, waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction, hold, marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import MakePatch
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import (
    MaintenanceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of, version_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuHolders
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.slimmer import Slimmer
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Item = t.TypeVar("Item")
Answer = t.TypeVar("Answer")
Patched = tuple[Json, bool]
"""A node, and whether it was changed."""

NODES = namespaced("v1", None, "nodes")
PODS = namespaced("v1", None, "pods")
DAEMONSETS = namespaced("apps/v1", None, "daemonsets")
MAINTENANCES = namespaced("maintenance.nvidia.com/v1alpha1", None, "nodemaintenances")
PARALLEL_REQUESTS = 16
LOOK_ELSEWHERE_S = 10.0
"""How often a rollout reads the objects in which other maintainers record their work."""

FEW_NODES = 20
"""For at most this many nodes, pods are read node by node; for more nodes, all pods are read in pages."""


class Fleet:
    """The nodes of a cluster and their pods."""

    def __init__(
        self,
        cluster: Cluster,
        request: MaintenanceRequest | None = None,
        interruption: waiting.Noted | None = None,
    ) -> None:
        self._cluster = cluster
        self.request = request or MaintenanceRequest()
        self.interruption = interruption or waiting.Noted()
        self.unread: list[str] = []
        """What this user may not read, and so must be told that it was not considered."""
        self._gpu_holders = GpuHolders(cluster)
        self.seen: t.Mapping[str, Json] = {}
        """The nodes as the last look has seen them, with their versions."""
        self._elsewhere: marks.Elsewhere = {}
        self._can_appear_elsewhere = False
        self._looked_elsewhere = -math.inf
        self._pool = concurrent.futures.ThreadPoolExecutor(PARALLEL_REQUESTS)

    def each(self, ask: t.Callable[[Item], Answer], items: t.Iterable[Item]) -> list[Answer]:
        """Call a function for each item, in parallel. After a signal, raise KeyboardInterrupt instead of a call."""

        def ask_unless_interrupted(item: Item) -> Answer:
            self.interruption.check()
            return ask(item)

        self.interruption.check()
        return list(self._pool.map(ask_unless_interrupted, items))

    @property
    def now(self) -> float:
        """The API server's clock."""
        return self._cluster.now()

    def nodes(self) -> list[Json]:
        """Return the parts of all nodes as they are now, rather than from a cache. `patch` tries these first."""
        nodes, dummy = self._cluster.large_list(NODES, Slimmer(), resourceVersion="")
        self.seen = {name_of(node): node for node in nodes}
        return nodes

    def seen_after(self, node: Json) -> Json | None:
        """Return a node as the last look at all of them saw it, or None if that was before ``node`` was read."""
        seen = self.seen.get(name_of(node))
        return seen if seen and version_of(seen) >= version_of(node) else None

    def node(self, name: str) -> Json | None:
        """Return one node, or None."""
        return self._cluster.get(f"{NODES}/{name}")

    def look_elsewhere(self) -> None:
        """Read the objects in which other maintainers record on which nodes they work."""
        daemonsets = self._list_if_permitted(DAEMONSETS, "DaemonSets, and so not kured's lock")
        maintenances = self._list_if_permitted(MAINTENANCES, "NodeMaintenances of maintenance.nvidia.com")
        self._elsewhere = marks.elsewhere(daemonsets or [], maintenances or [], self.now)
        kured = [item for item in daemonsets or [] if "kured" in name_of(item)]
        self._can_appear_elsewhere = bool(kured or self._elsewhere or maintenances is not None)
        self._looked_elsewhere = time.monotonic()

    def look_elsewhere_again(self) -> None:
        """Read these objects again if there can be any, and the last look is old."""
        if self._can_appear_elsewhere and time.monotonic() - self._looked_elsewhere >= LOOK_ELSEWHERE_S:
            self.look_elsewhere()

    def _list_if_permitted(self, path: str, what: str) -> list[Json] | None:
        """Return all objects as they are now, or None if the kind does not exist or must not be read."""
        try:
            answer = self._cluster.get(path)
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            self.unread = list(dict.fromkeys([*self.unread, what]))
            return None
        return None if answer is None else list(answer.get("items") or [])

    @property
    def can_appear_elsewhere(self) -> bool:
        """Whether a maintainer is installed that records its work in other objects than the node."""
        return self._can_appear_elsewhere

    def holders_of(self, node: Json) -> list[marks.Holder]:
        """Return the other maintainers that have marked a node, with other objects as of the last look."""
        return marks.holders(node, self._elsewhere)

    def holders_elsewhere(self, name: str) -> tuple[marks.Holder, ...]:
        """Return the maintainers that have marked a node in other objects, as of the last look at these."""
        return self._elsewhere.get(name, ())

    def others_at_work(self, node: Json) -> list[str]:
        """Return the maintainers whose work on a node must end first: none with the permission, or once we hold it."""
        if self.request.allows_shared or self.request.purpose in hold.hold_of(node).purposes:
            return []
        return [str(holder) for holder in self.holders_of(node) if holder.at_work]

    def pods(self, nodes: list[Json]) -> dict[str, list[Json]]:
        """Return the pods that must leave each of these nodes."""
        names = [name_of(node) for node in nodes] if self.request.state == "drained" else []
        if len(names) <= FEW_NODES:
            return dict(zip(names, self.each(self.pods_on, names)))
        found: dict[str, list[Json]] = {name: [] for name in names}
        unfinished = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        for pod in self._cluster.pages(PODS, fieldSelector=unfinished):
            node = pod["spec"].get("nodeName")
            if node in found and self.must_leave(pod):
                found[node].append(pod)
        return found

    def pods_on(self, node: str, expects_none: bool = False) -> list[Json]:
        """Return the pods that must leave a node.

        A cache may lag, so an empty answer from it is checked. With ``expects_none``, it is not asked at all.
        """
        query = {"fieldSelector": f"spec.nodeName={node}"}
        cached = [] if expects_none else self._select({**query, "resourceVersion": "0"})
        return cached or self._select(query)

    def _select(self, query: dict[str, str]) -> list[Json]:
        listed = (self._cluster.get(PODS, query) or {}).get("items") or []
        return [pod for pod in listed if self.must_leave(pod)]

    def must_leave(self, pod: Json) -> bool:
        """Return whether a drain evicts this pod."""
        if not eviction.is_movable(pod):
            return False
        return self.request.evicts_all or pod in self._gpu_holders

    def obstacles(self, pods: list[Json]) -> list[str]:
        """Return why pods must not be evicted unless the user permits it."""
        return eviction.obstacles(pods, self.request.permits)

    def patch(self, name: str, make_patch: MakePatch) -> Patched:
        """Patch the newest version of a node; return it, and whether there was anything to change.

        The version of the last look may still be the newest one, which the API server decides. That saves a read.
        """
        known = self._patch_seen(name, make_patch)
        if known is not None:
            return known, True

        def patch_newest() -> Patched:
            node = self.node(name)
            if node is None:
                raise GpuOpsError(f"Node {name} was deleted in the meantime.", reason="NodeDeleted")
            body = make_patch(node)
            return (node, False) if body is None else (self._cluster.merge(f"{NODES}/{name}", body), True)

        return conflicts.settled(patch_newest, f"Node {name}")

    def _patch_seen(self, name: str, make_patch: MakePatch) -> Json | None:
        """Patch a node as the last look saw it. Return it, or None if it must be read anew.

        So it must if nothing is to be patched or somebody is in the way, since that may be over by now, and if the
        patch does not depend on the version.
        """
        try:
            body = make_patch(self.seen[name]) if name in self.seen else None
        except GpuOpsError:
            return None
        if body is None or not body["metadata"].get("resourceVersion"):
            return None
        try:
            return self._cluster.merge(f"{NODES}/{name}", body)
        except GpuOpsError as e:
            if e.reason not in ("Conflict", "NotFound"):
                raise
        return None

    def patch_all(self, patches: t.Mapping[str, MakePatch]) -> tuple[dict[str, Patched], dict[str, GpuOpsError]]:
        """Patch nodes, also during a short outage of the API server. Return patched nodes, and errors, by node."""
        done: dict[str, Patched] = {}
        failed: dict[str, GpuOpsError] = {}
        left = list(patches)
        patience = waiting.Patience()

        def try_one(name: str) -> GpuOpsError | None:
            try:
                done[name] = self.patch(name, patches[name])
            except GpuOpsError as e:
                return e
            return None

        def try_all() -> bool:
            errors = {name: error for name, error in zip(left, self.each(try_one, left)) if error}
            away = [name for name, error in errors.items() if error.reason in AWAY]
            if len(away) < len(left):
                patience.answered()
            failed.update({name: error for name, error in errors.items() if name not in away})
            left[:] = away
            if away:
                raise errors[away[0]]
            return True

        try:
            waiting.until(try_all, patience=patience)
        except GpuOpsError as e:
            failed.update(dict.fromkeys(left, e))
        return done, failed

    def evict(self, pod: Json) -> str | None:
        """Request a pod's eviction.

        Return an empty string if it is granted, the reason if it is refused, or None if it is not needed.
        """
        meta = pod["metadata"]
        try:
            self._cluster.evict(meta["namespace"], meta["name"], eviction.uid_of(pod), self.request.grace_period_s)
        except GpuOpsError as e:
            return eviction.explain_refusal(e, meta["namespace"])
        return ""

    def finish(self) -> None:
        """Wait for the requests in flight, which an interruption does not cancel."""
        self._pool.shutdown(cancel_futures=True)
        self._pool = concurrent.futures.ThreadPoolExecutor(PARALLEL_REQUESTS)
