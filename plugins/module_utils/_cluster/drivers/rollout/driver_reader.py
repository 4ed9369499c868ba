# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a rollout reads: the nodes, the pods of the driver and of the validator, and the driver's DaemonSets.

Nodes and pods are read once, and then only those that have changed. What has not changed is the same object as before,
so that a look at a large fleet costs little.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import sets
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import (
    DriverNode,
    PolicyDemands,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_pods import PodView, view
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import DriverSet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe, troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.edits import UNSEEN_S
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.following import Follower
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_ready
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DRIVERS = f"{names.COMPONENT}={names.DRIVER_COMPONENT}"
"""The label of the driver's pods and DaemonSets, of the ClusterPolicy and of NVIDIADrivers alike."""
VALIDATORS = "app=nvidia-operator-validator"

_Parts = tuple[t.Any, ...]
"""What a sight is made of."""

POLICY_S = 30.0
"""How often the ClusterPolicy and the NVIDIADrivers are read again."""


@dataclasses.dataclass(frozen=True)
class WantedDrivers:
    """What a rollout is about."""

    namespace: str = ""
    policy_name: str = ""
    images: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The image that was declared for each node, as far as it is known."""
    sources: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The object that declares each node's driver, such as ``NVIDIADriver a100``, as far as it is known."""
    automatic: bool = True
    """Whether the operator may replace driver pods, if its upgrade policy says that it does."""


class DriverReader:
    """Looks at the nodes and their drivers."""

    def __init__(self, cluster: Cluster, wanted: WantedDrivers) -> None:
        self._cluster, self._wanted = cluster, wanted
        self._read_policy()
        pods = namespaced("v1", self.namespace, "pods")
        self._nodes = observe.NodeReader(cluster)
        self._drivers = Follower(cluster, pods, view, labelSelector=DRIVERS)
        self._validators = Follower(cluster, pods, view, labelSelector=VALIDATORS)
        self._revisions: dict[str, str] = {}
        self._revisions_of: t.Any = None
        self._sets: dict[str, DriverSet] = {}
        self._seen: dict[str, tuple[_Parts, DriverNode]] = {}
        self._has_acted = False

    def _read_policy(self) -> None:
        policies = observe.read_policies(self._cluster)
        gpuclusters = self._cluster.list_readable(observe.GPUCLUSTERS_PATH).items
        wanted = self._wanted
        self._policy_name, self.namespace = observe.found(policies, gpuclusters, wanted.policy_name, wanted.namespace)
        policy: Json = next((item for item in policies or [] if objects.name_of(item) == self._policy_name), {})
        self._spec: Json = policy.get("spec") or {}
        self._nvidiadrivers = self._cluster.list_readable(observe.NVIDIADRIVERS_PATH, resourceVersion="").items
        declared = [*([policy] if policy else []), *self._nvidiadrivers]
        self._edited = max(map(objects.last_write, declared), default=0.0)
        self._policy_read = self._cluster.now()

    @property
    def now(self) -> float:
        """The API server's clock."""
        return self._cluster.now()

    @property
    def stack(self) -> PolicyDemands:
        """What runs beside the driver."""
        discovery = next(item for item in operands.OPERANDS if item.key == "gfd")
        has_policy = bool(self._spec)
        return PolicyDemands(
            validates=has_policy,
            discovers=has_policy and operands.enabled(discovery, self._spec),
            has_plugin=has_policy and operands.enabled(operands.DEVICE_PLUGIN, self._spec),
        )

    def look(self, fleet: Fleet) -> dict[str, DriverNode]:
        """Return the nodes with a driver container, by name. From the second time on, this takes a second."""
        if self._cluster.now() - self._policy_read >= POLICY_S:
            self._read_policy()
        followers: list[Follower[t.Any]] = [self._nodes, self._drivers, self._validators]
        nodes, pods, validators = fleet.each(_read, followers)
        fleet.seen = {objects.name_of(node): node for node in nodes}
        self._read_sets()
        by_node = _by_node(pods)
        validators_of = _by_node(validators)
        blocked, stack = self._blocked(nodes, pods), self.stack
        found = {}
        for node in sorted(nodes, key=objects.name_of):
            name = objects.name_of(node)
            own = by_node.get(name, ())
            driver = self._set_of(node, own, is_wanted=name in self._wanted.sources)
            if driver is not None:
                parts = (node, driver, own[0] if own else None, validators_of.get(name, ()), stack)
                wanted = self._wanted.images.get(name, ""), self._wanted.sources.get(name, "")
                state = blocked.get(driver.name, ""), self._has_acted, self.namespace
                found[name] = self._sight_of(name, (*parts, *wanted, *state))
        self._seen = found
        return {name: sight for name, (dummy, sight) in found.items()}

    def _sight_of(self, name: str, parts: _Parts) -> tuple[_Parts, DriverNode]:
        """Return a sight with its parts: that of the last look if nothing has changed."""
        before = self._seen.get(name)
        return before if before and before[0] == parts else (parts, DriverNode(*parts))

    def _set_of(self, node: Json, pods: t.Sequence[PodView], is_wanted: bool) -> DriverSet | None:
        """Return the DaemonSet that the node's driver comes from, or None for a node without a driver container.

        A pod that its DaemonSet has left behind counts for the one that takes its place. For a node that is to have a
        driver, the DaemonSet may not be there yet: in the midst of a move, a node can have neither it nor a pod.
        """
        owners = [self._sets[pod.owner] for pod in pods if pod.owner in self._sets]
        if owners:
            return owners[0]
        selecting = [each for each in self._sets.values() if each.selects(node)]
        if selecting:
            return selecting[0]
        return DriverSet("", automatic=self._wanted.automatic) if pods or is_wanted else None

    def _read_sets(self) -> None:
        path = namespaced("apps/v1", self.namespace, "daemonsets")
        # An old DaemonSet would show the revision before our own edit as complete.
        items = self._cluster.list(path, resourceVersion="", labelSelector=DRIVERS) or []
        age_s = self._cluster.now() - self._edited
        self._has_acted = age_s >= UNSEEN_S or any(objects.last_write(item) >= self._edited for item in items)
        state = [(objects.name_of(item), item["metadata"].get("generation"), _observed(item)) for item in items]
        if state != self._revisions_of:
            self._revisions, self._revisions_of = troubles.newest_revisions(self._cluster, self.namespace), state
        made = sets.driver_sets(items, self._revisions, self._spec, self._nvidiadrivers, self._policy_name)
        if not self._wanted.automatic:
            made = {name: dataclasses.replace(each, automatic=False) for name, each in made.items()}
        self._sets = {name: self._sets[name] if self._sets.get(name) == each else each for name, each in made.items()}

    def _blocked(self, nodes: list[Json], pods: t.Iterable[PodView]) -> dict[str, str]:
        """Return the DaemonSets that have fewer or more pods than they should.

        While there is one, the operator upgrades no node, and says so in its log only.
        """
        counts = collections.Counter(pod.owner for pod in pods)
        where = {pod.node for pod in pods}
        found = {}
        for name, each in self._sets.items():
            if each.automatic and counts[name] != each.desired:
                own = [node for node in nodes if each.selects(node)]
                lacking = [objects.name_of(node) for node in own if objects.name_of(node) not in where]
                down = [objects.name_of(node) for node in own if not is_ready(node)]
                found[name] = f"DaemonSet {name} has {counts[name]} pods for {each.desired} nodes"
                found[name] += _why_blocked(down, lacking, counts[name] > each.desired)
        return dict.fromkeys(self._sets, "; ".join(found.values())) if found else {}


def _why_blocked(down: list[str], lacking: list[str], has_more: bool) -> str:
    if has_more and down:
        return (
            f" ({first_few(down)} is down: repair it, delete the Node object, or delete its driver pod with "
            "--grace-period=0 --force)"
        )
    return f" (none on {first_few(lacking)})" if lacking else ""


def _read(follower: Follower[t.Any]) -> list[t.Any]:
    return follower.read()


def _observed(item: Json) -> t.Any:
    return (item.get("status") or {}).get("observedGeneration")


def _by_node(pods: t.Iterable[PodView]) -> dict[str, tuple[PodView, ...]]:
    """Return the pods of each node: first those that do not end, and of these the newest."""
    found: dict[str, list[PodView]] = collections.defaultdict(list)
    for pod in pods:
        if pod.node:
            found[pod.node].append(pod)
    return {
        node: tuple(sorted(own, key=lambda pod: (pod.is_ending, -pod.created, pod.name))) for node, own in found.items()
    }
