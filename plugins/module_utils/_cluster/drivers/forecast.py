# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""All that is known before anything is written: what changes, what that does to nodes and pods, and what forbids it."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _findings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    changes,
    disruption,
    permission,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import writes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import (
    fitness,
    obstacles,
    placing,
    published,
    scene,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import (
    driver_request,
    drivers_view,
    impact,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DRIVER,
    POLICY,
    Declaration,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.driver_request import (
    DriverRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.impact import Effect, State
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.pools import Pool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask_field
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Outlook:
    """The plan of one call with everything that was read for it."""

    declared: Declaration
    seen: DriversView
    wished: DriverRequest
    planned: writes.WritePlan
    after: State
    effects: list[Effect]
    pools: list[Pool]
    asked: published.Answers
    around: obstacles.RolloutScene
    resumed: frozenset[str] = frozenset()
    """The nodes that an earlier rollout has left without their driver."""

    @property
    def is_due(self) -> bool:
        """Whether the declaration changes anything. What an earlier one has left was checked then."""
        due = (effect for effect in self.effects if effect.action != "nothing")
        return self.planned.changed or any(effect.node not in self.resumed for effect in due)

    def changing(self, *actions: str) -> set[str]:
        """Return the nodes whose driver the declaration changes in one of these ways."""
        return {effect.node for effect in self.effects if effect.action in actions and effect.node not in self.resumed}

    @functools.cached_property
    def findings(self) -> list[ClusterFinding]:
        """The findings of all checks that are not left out. Without a change, nothing is checked."""
        if not self.is_due:
            return []
        found = [
            *placing.move(self.wished, self.seen),
            *placing.emptiness(self.effects, self.around.pods),
            *(placing.owners(self.after.drivers, self.seen) if self.after.delegates else ()),
            *fitness.findings(self.pools, self.seen.line),
            *published.findings(self.pools, self.asked, self.declared.registry["mode"]),
            *obstacles.findings(self.around),
        ]
        return _findings.worst_first(finding for finding in found if finding.check not in self.declared.skipped)

    @functools.cached_property
    def disruption(self) -> permission.Disruption:
        """The changes that interrupt GPU pods, each once, with all of these pods."""
        interrupting = [effect for effect in self.effects if effect.interrupts]
        found = tuple(dict.fromkeys(change for effect in interrupting for change in _comparable(effect)))
        if not interrupting or self.around.pods is None:
            return permission.Disruption(found, None if interrupting else ())
        return permission.Disruption(found, tuple(map(_gpu_pod, self.around.pods)))

    def as_result(self) -> Json:
        """Return the keys of the module's result that describe the plan."""
        listed = _findings.as_result(self.findings)
        return {
            "changed": self.planned.changed,
            "resource": self.wished.kind,
            "move": self.wished.move,
            "objects": _objects(self.planned),
            "pools": published.as_result(self.pools, self.asked),
            "findings": listed["findings"],
            "checks": listed["summary"],
            "disruption": self.disruption.as_result(),
            "plan": _rows(self.effects, self.around),
            "diff": _diff(self.planned),
        }


def of(cluster: Cluster, declared: Declaration, paced: bool = False) -> Outlook:
    """Read the cluster, plan, and ask the API server and the registries what becomes of it. Nothing is written."""
    seen = drivers_view.look(cluster, declared.policy_name, declared.namespace)
    wished = driver_request.of(declared, seen)
    planned = writes.plan(cluster, wished, seen, declared.forces_conflicts)
    after = _after(seen, planned)
    effects = _with_way_back(impact.effects(State.before(seen), after, seen), wished)
    pools = after.grouped(seen.gpu_nodes, seen.line)
    is_due = planned.changed or any(effect.action != "nothing" for effect in effects)
    asked = published.answers(cluster, seen.namespace, pools, declared.registry) if is_due else {}
    around = scene.read(cluster, seen, after, effects, paced)
    return Outlook(declared, seen, wished, planned, after, effects, pools, asked, around)


def resuming(cluster: Cluster, plan: Outlook, resumed: t.Collection[str]) -> Outlook:
    """Return a plan with the nodes that an earlier rollout has left: GPU pods leave them as with a new declaration."""
    if not resumed:
        return plan
    effects = [_resumed(each) if each.node in resumed else each for each in plan.effects]
    around = scene.read(cluster, plan.seen, plan.after, effects, paced=True)
    return dataclasses.replace(plan, effects=effects, around=around, resumed=frozenset(resumed))


def _resumed(effect: Effect) -> Effect:
    change = disruption.Interruption("the driver of nodes that still wait for it", None, None, disruption.EVICTS)
    return dataclasses.replace(effect, action="replace", why="its rollout has not ended", changes=(change,))


# ---- before and after ---------------------------------------------------------------------------------------------


def _after(seen: DriversView, planned: writes.WritePlan) -> State:
    """Return the objects as they are after the writes."""
    policy = planned.after(POLICY, seen.policy) if seen.policy else None
    existing = {objects.name_of(item) for item in seen.drivers}
    kept = [planned.after(DRIVER, item) for item in seen.drivers]
    made = [item.predicted for item in planned.applies if item.kind == DRIVER and item.name not in existing]
    spec = (policy or {}).get("spec") or {}
    delegates = policy is None or disruption.delegates(spec)
    return State(seen.policy_name, spec, [item for item in (*kept, *made) if item], delegates)


def _with_way_back(effects: list[Effect], wished: DriverRequest) -> list[Effect]:
    """Return effects in which this module replaces the pods, where drivers come back: the operator does not."""
    if wished.move != "to ClusterPolicy":
        return effects
    return [dataclasses.replace(effect, automatic=False) for effect in effects]


# ---- parts of the result ------------------------------------------------------------------------------------------


def _comparable(effect: Effect) -> t.Iterator[disruption.Interruption]:
    """Yield the changes of an effect with values that can be compared: a list or a mapping as its text."""
    for change in effect.changes:
        yield dataclasses.replace(
            change, before=_text(change.field, change.before), after=_text(change.field, change.after)
        )


def _text(field: str, value: t.Any) -> t.Any:
    seen = mask_field(field, value)
    return seen if seen is None or isinstance(seen, (str, bool, int)) else str(seen)


def _gpu_pod(pod: Json) -> pods.GpuPod:
    return pods.GpuPod(pod["metadata"]["namespace"], objects.name_of(pod), pod["spec"]["nodeName"], {})


def _rows(effects: t.Sequence[Effect], around: obstacles.RolloutScene) -> list[Json]:
    going: dict[str, list[str]] = {}
    for pod in around.pods or []:
        going.setdefault(pod["spec"]["nodeName"], []).append(objects.full_name(pod))
    return [
        {
            "node": effect.node,
            "action": effect.action,
            "why": one_line(effect.why),
            "source": effect.source,
            "image": effect.image or "",
            "pods": going.get(effect.node, []),
        }
        for effect in effects
    ]


def _objects(planned: writes.WritePlan) -> list[Json]:
    applied = [
        {"kind": item.kind, "name": item.name, "action": _action(item), "taken_from": list(item.taken_from)}
        for item in planned.applies
    ]
    deleted = [(DRIVER, name) for name in (*planned.delete, *planned.orphan)]
    deleted += [("DaemonSet", name) for name in planned.orphan_daemonsets]
    return [*applied, *({"kind": kind, "name": name, "action": "delete", "taken_from": []} for kind, name in deleted)]


def _action(item: writes.Write) -> str:
    if item.existing is None:
        return "create"
    return "change" if item.change.changed else "nothing"


def _diff(planned: writes.WritePlan) -> Json:
    """Return each object that changes, before and after."""
    due: list[tuple[str, changes.PolicyChange]] = [
        (f"{item.kind} {item.name}", item.change) for item in planned.applies if item.change.changed
    ]
    gone = {f"{DRIVER} {name}": {"exists": True} for name in (*planned.delete, *planned.orphan)}
    return {
        "before": {**{name: change.before for name, change in due}, **gone},
        "after": {**{name: change.after for name, change in due}, **{name: {"exists": False} for name in gone}},
    }
