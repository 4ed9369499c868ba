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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import impact, sight, wish, writes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import (
    fitness,
    obstacles,
    placing,
    published,
    scene,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.impact import Effect, State
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.options import DRIVER, POLICY
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.pools import Pool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.wish import Wish
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.finding import Finding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Outlook:
    """The plan of one call with everything that was read for it."""

    options: Options
    seen: Sight
    wished: Wish
    planned: writes.Plan
    after: State
    effects: list[Effect]
    pools: list[Pool]
    asked: published.Answers
    around: obstacles.Scene

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        return self.planned.changed or any(effect.action != "nothing" for effect in self.effects)

    @functools.cached_property
    def findings(self) -> list[Finding]:
        """The findings of all checks that are not left out. Without a change, nothing is checked."""
        if not self.is_due:
            return []
        found = [
            *placing.move(self.wished, self.seen),
            *placing.emptiness(self.effects, self.around.pods),
            *(placing.owners(self.after.drivers, self.seen) if self.after.delegates else ()),
            *fitness.findings(self.pools, self.seen.line),
            *published.findings(self.pools, self.asked, self.options["registry"]["mode"]),
            *obstacles.findings(self.around),
        ]
        return _findings.worst_first(finding for finding in found if finding.check not in self.options["skip"])

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


def of(cluster: Cluster, options: Options) -> Outlook:
    """Read the cluster, plan, and ask the API server and the registries what becomes of it. Nothing is written."""
    seen = sight.look(cluster, options)
    wished = wish.of(options, seen)
    planned = writes.plan(cluster, wished, seen, options["force_conflicts"])
    after = _after(seen, planned)
    effects = _with_way_back(impact.effects(State.before(seen), after, seen), wished)
    pools = after.grouped(seen.gpu_nodes, seen.line)
    is_due = planned.changed or any(effect.action != "nothing" for effect in effects)
    asked = published.answers(cluster, seen.namespace, pools, options["registry"]) if is_due else {}
    around = scene.read(cluster, seen, after, effects)
    return Outlook(options, seen, wished, planned, after, effects, pools, asked, around)


# ---- before and after ---------------------------------------------------------------------------------------------


def _after(seen: Sight, planned: writes.Plan) -> State:
    """Return the objects as they are after the writes."""
    policy = planned.after(POLICY, seen.policy) if seen.policy else None
    existing = {objects.name_of(item) for item in seen.drivers}
    kept = [planned.after(DRIVER, item) for item in seen.drivers]
    made = [item.predicted for item in planned.applies if item.kind == DRIVER and item.name not in existing]
    spec = (policy or {}).get("spec") or {}
    delegates = policy is None or disruption.delegates(spec)
    return State(seen.policy_name, spec, [item for item in (*kept, *made) if item], delegates)


def _with_way_back(effects: list[Effect], wished: Wish) -> list[Effect]:
    """Return effects in which this module replaces the pods, where drivers come back: the operator does not."""
    if wished.move != "to ClusterPolicy":
        return effects
    return [dataclasses.replace(effect, automatic=False) for effect in effects]


# ---- parts of the result ------------------------------------------------------------------------------------------


def _comparable(effect: Effect) -> t.Iterator[disruption.Change]:
    """Yield the changes of an effect with values that can be compared: a list or a mapping as its text."""
    for change in effect.changes:
        yield dataclasses.replace(change, before=_text(change.before), after=_text(change.after))


def _text(value: t.Any) -> t.Any:
    return value if value is None or isinstance(value, (str, bool, int)) else str(mask(value))


def _gpu_pod(pod: Json) -> pods.GpuPod:
    return pods.GpuPod(pod["metadata"]["namespace"], objects.name_of(pod), pod["spec"]["nodeName"], {})


def _rows(effects: t.Sequence[Effect], around: obstacles.Scene) -> list[Json]:
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


def _objects(planned: writes.Plan) -> list[Json]:
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


def _diff(planned: writes.Plan) -> Json:
    """Return each object that changes, before and after."""
    due: list[tuple[str, changes.Change]] = [
        (f"{item.kind} {item.name}", item.change) for item in planned.applies if item.change.changed
    ]
    gone = {f"{DRIVER} {name}": {"exists": True} for name in (*planned.delete, *planned.orphan)}
    return {
        "before": {**{name: change.before for name, change in due}, **gone},
        "after": {**{name: change.after for name, change in due}, **{name: {"exists": False} for name in gone}},
    }
