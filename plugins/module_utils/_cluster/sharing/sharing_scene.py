# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What a call has read, and what follows from it: which labels and keys are ours, and which keys are needed."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import NodeChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import NOTHING
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import NodePacing
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.config import Configuration
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_plan import Change
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_request import SharingRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.store import Store
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import SHARING_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass
class Scene:
    """What a call has read, and what it is going to change."""

    cluster: Cluster
    request: SharingRequest
    policy: Json
    namespace: str
    fleet: Fleet
    nodes: dict[str, Json]
    store: Store
    foreign: frozenset[str] = frozenset()
    """The keys of the ConfigMap that the ClusterPolicy names, if that is another one than ours."""
    wanted: dict[str, Configuration] = dataclasses.field(default_factory=dict)
    changes: list[Change] = dataclasses.field(default_factory=list)
    holds: dict[str, NodeChange] = dataclasses.field(default_factory=dict)
    """How each node is held whose pods its change interrupts."""
    pacing: NodePacing = dataclasses.field(default_factory=NodePacing)
    closed: str = ""
    """The maintenance window that nodes must wait for, or an empty string."""
    deferred: frozenset[str] = frozenset()
    """The nodes that this call does not begin, because no window is open."""

    @property
    def spec(self) -> Json:
        """The ClusterPolicy's spec."""
        return self.policy.get("spec") or {}

    @property
    def referenced(self) -> str:
        """The ConfigMap that the ClusterPolicy names, or an empty string."""
        return str(self._config.get("name") or "")

    @property
    def default(self) -> str:
        """The key that the ClusterPolicy gives to nodes without a label, or an empty string."""
        return str(self._config.get("default") or "")

    @property
    def _config(self) -> Json:
        return (self.spec.get("devicePlugin") or {}).get("config") or {}

    def owns(self, node: Json) -> bool:
        """Return whether this collection has set a node's label.

        The mark beside the label says so. The label of an earlier version has no mark, and names a key of the
        ConfigMap that this collection has made.
        """
        key = SHARING_LABEL.value_of(node)
        if key in self.foreign:
            return False
        return SHARING_LABEL.is_ours(node) or (self.store.is_ours and key in self.store.keys)

    def is_about(self, key: str) -> bool:
        """Return whether the call is about the configuration of a key."""
        request = self.request
        is_about_all = request.purges or (request.is_end and not request.names)
        return is_about_all or config.name_in(key) in request.names

    def concerns(self, key: str) -> bool:
        """Return whether a key is ours, and of a configuration that the call is about."""
        return key in self.store.keys and self.is_about(key)

    @property
    def unmarked(self) -> list[str]:
        """The nodes whose label names a key that the call is about, and was set by somebody else."""
        found = {name: SHARING_LABEL.value_of(node) for name, node in self.nodes.items() if name not in self.wanted}
        return [name for name, key in found.items() if self.concerns(key) and not self.owns(self.nodes[name])]

    @property
    def missing(self) -> dict[str, str]:
        """The keys to publish, with their texts."""
        return self.store.unpublished(each for name, each in self.wanted.items() if name not in self.deferred)

    @property
    def due(self) -> list[Change]:
        """The changes that this call makes."""
        return [each for each in self.changes if each.step != NOTHING and each.name not in self.deferred]

    @property
    def labelled(self) -> list[Change]:
        """The changes that write a label or its mark."""
        return [each for each in self.due if each.writes]

    @property
    def stale(self) -> list[str]:
        """The keys that nobody uses once the changes are made. Without a proof of that, none."""
        if any(change.failed for change in self.changes):
            return []
        after = {name: SHARING_LABEL.value_of(node) for name, node in self.nodes.items()}
        return self._unused({**after, **{change.name: change.key or "" for change in self.changes}}.values())

    def stale_now(self) -> list[str]:
        """Return the keys that no node uses according to the last look."""
        return self._unused(map(SHARING_LABEL.value_of, self.nodes.values()))

    def _unused(self, keys: t.Iterable[str]) -> list[str]:
        if not self.request.waits or self.request.keeps_keys or self.deferred:
            return []
        used = {*keys, *(each.key for each in self.wanted.values()), self.default}
        return [key for key in self.store.keys if self.concerns(key) and key not in used]

    def retires(self, stale: t.Collection[str]) -> bool:
        """Return whether no key is left. config-manager fails without any: then the ConfigMap must go as a whole."""
        return bool(stale) and not self.wanted and set(stale) == set(self.store.texts)
