# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a declaration does to each node: whether its driver is replaced, removed or only started again. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import driver_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.disruption import Interruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DRIVER,
    POLICY,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Action = t.Literal["replace", "restart", "remove", "nothing"]

AT_ONCE = (
    "the operator replaces the driver at once on all nodes that change their NVIDIADriver, without evicting GPU pods"
)


@dataclasses.dataclass(frozen=True)
class State:
    """The objects that determine the drivers: the ClusterPolicy's spec, and the NVIDIADrivers."""

    policy_name: str
    policy: Json
    drivers: t.Sequence[Json]
    delegates: bool

    @classmethod
    def before(cls, seen: DriversView) -> State:
        """Return the objects as they are now."""
        return cls(seen.policy_name, seen.spec, seen.drivers, seen.delegates)

    def grouped(self, gpu_nodes: t.Sequence[Json], line: disruption.Version | None) -> list[pools.Pool]:
        """Return the pools of nodes with the same image."""
        if self.delegates:
            return pools.of_drivers(self.drivers, gpu_nodes, line)
        if not operands.enabled(operands.DRIVER, self.policy):
            return []
        driver = {**(self.policy.get("driver") or {}), **{key: self.policy.get(key) for key in operands.SIBLINGS}}
        return pools.of_policy(self.policy_name, driver, gpu_nodes, line)

    def automatic(self, source: pools.DriverSource) -> bool:
        """Return whether the operator itself replaces the driver pods of a source."""
        return operands.replaces_driver_pods(self.policy, source.spec if source.kind == DRIVER else None)


@dataclasses.dataclass(frozen=True)
class Effect:
    """What becomes of one node's driver."""

    node: str
    action: Action = "nothing"
    why: str = ""
    source: str = ""
    image: str | None = None
    changes: tuple[Interruption, ...] = ()
    automatic: bool = True

    @property
    def interrupts(self) -> bool:
        """Whether GPU pods on the node cannot go on."""
        return self.action in ("replace", "remove")


def effects(before: State, after: State, sight: DriversView) -> list[Effect]:
    """Return the effect on each node with a driver container, by name."""
    was = {objects.name_of(node): pool for pool in before.grouped(sight.gpu_nodes, sight.line) for node in pool.nodes}
    will = {objects.name_of(node): pool for pool in after.grouped(sight.gpu_nodes, sight.line) for node in pool.nodes}
    found = _SourceChanges(before, after, sight.line)
    names = [objects.name_of(node) for node in sight.gpu_nodes]
    return [_effect(name, was.get(name), will.get(name), found, after) for name in names]


def _effect(node: str, was: pools.Pool | None, will: pools.Pool | None, found: _SourceChanges, after: State) -> Effect:
    if will is None:
        return _without(node, was)
    base = Effect(node, source=str(will.source), image=will.image, automatic=after.automatic(will.source))
    if was is None:
        return dataclasses.replace(base, why=f"{will.source} installs a driver here for the first time")
    if was.source != will.source:
        effect = AT_ONCE if was.source.kind == will.source.kind else disruption.EVICTS
        why = f"the driver moves from {was.source} to {will.source}"
        return dataclasses.replace(base, action="replace", why=why, changes=(_moved(was.source, will.source, effect),))
    changes, cosmetic = found.of(will.source)
    if changes:
        fields = list(dict.fromkeys(change.field for change in changes))
        why = f"{', '.join(fields)} {'change' if len(fields) > 1 else 'changes'}"
        return dataclasses.replace(base, action="replace", why=why, changes=changes)
    if cosmetic:
        why = f"{', '.join(cosmetic)}: the pod starts again, and the driver stays loaded"
        return dataclasses.replace(base, action="restart", why=why)
    return base


def _without(node: str, was: pools.Pool | None) -> Effect:
    """Return the effect on a node that has no driver afterwards."""
    if was is None:
        return Effect(node)
    change = _moved(was.source, None, disruption.REMOVES_DRIVER)
    return Effect(
        node, "remove", f"{was.source} no longer has this node, which is left without a driver", changes=(change,)
    )


def _moved(was: pools.DriverSource, will: pools.DriverSource | None, effect: str) -> Interruption:
    return Interruption("the driver's owner", str(was), str(will) if will else None, effect)


class _SourceChanges:
    """The changes of each source, which all of its nodes share."""

    def __init__(self, before: State, after: State, line: disruption.Version | None) -> None:
        self._before, self._after = before, after
        self._operator = disruption.Operator(running=line, acting=line)
        self._known: dict[pools.DriverSource, tuple[tuple[Interruption, ...], tuple[str, ...]]] = {}

    def of(self, source: pools.DriverSource) -> tuple[tuple[Interruption, ...], tuple[str, ...]]:
        """Return what makes the operator replace the driver, and the fields with which only its pod starts again."""
        if source not in self._known:
            self._known[source] = self._of_policy() if source.kind == POLICY else self._of_driver(source.name)
        return self._known[source]

    def _of_policy(self) -> tuple[tuple[Interruption, ...], tuple[str, ...]]:
        # With autoUpgrade off, this module replaces the pods in the operator's place.
        before, after = _upgrading(self._before.policy), _upgrading(self._after.policy)
        found = disruption.changes(before, after, self._operator)
        changes = [item for item in found if item.operand == operands.DRIVER.name]
        fields = tuple(disruption.differing(before, after, ("driver", *operands.SIBLINGS)))
        return tuple(changes), tuple(field for field in fields if _restarts(field.removeprefix("driver.")))

    def _of_driver(self, name: str) -> tuple[tuple[Interruption, ...], tuple[str, ...]]:
        was, will = (_named(name, state.drivers) for state in (self._before, self._after))
        on = {"upgradePolicy": {"autoUpgrade": True}}
        present, wanted = ({**item, "spec": {**item["spec"], **on}} for item in (was, will))
        drivers = driver_objects.Drivers(present=[present], wanted=[wanted])
        delegating = {"driver": {"useNvidiaDriverCRD": True}}
        changes = driver_objects.changes(drivers, delegating, self._operator)
        fields = tuple(disruption.differing(present["spec"], wanted["spec"]))
        return tuple(changes), tuple(field for field in fields if _restarts(field))


def _restarts(field: str) -> bool:
    """Return whether a field is in the template of the driver's pods."""
    return not disruption.starts_with(field, ("default", "upgradePolicy", "useOpenKernelModules", "useNvidiaDriverCRD"))


def _upgrading(policy: Json) -> Json:
    driver = policy.get("driver") or {}
    return {**policy, "driver": {**driver, "upgradePolicy": {"autoUpgrade": True}}, "sandboxWorkloads": {}}


def _named(name: str, drivers: t.Sequence[Json]) -> Json:
    return next(item for item in drivers if objects.name_of(item) == name)
