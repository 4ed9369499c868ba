# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one call of the module: read, plan, check, ask for permission, and then write and roll out, or show the plan."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _findings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    changes,
    disruption,
    permission,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import impact, sight, wish, writes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import options as _options
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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import options as rollout_options
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import recover
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.read import Wanted
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.run import Rollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.wish import Wish
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.finding import Finding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]
Warn = t.Callable[[str], None]


def declare(cluster: Cluster, options: Options, warn: Warn) -> Json:
    """Declare drivers and roll them out; or pause that, or repair what it has left. Return the module's result."""
    _options.refuse(options)
    rollout_options.refuse(options)
    if options["state"] == "recovered":
        return recover.recover(cluster, options, warn)
    if options["state"] == "paused":
        return recover.pause(cluster, options, warn)
    return _Call(cluster, options, warn).go()


class _Call:
    """One call."""

    def __init__(self, cluster: Cluster, options: Options, warn: Warn) -> None:
        self._cluster, self._options, self._warn = cluster, options, warn

    def go(self) -> Json:
        """Plan, check, and then write unless this is check mode."""
        seen = sight.look(self._cluster, self._options)
        wished = wish.of(self._options, seen)
        planned = writes.plan(self._cluster, wished, seen, self._options["force_conflicts"])
        before, after = _before(seen), _after(seen, wished, planned)
        effects = _with_way_back(impact.effects(before, after, seen), wished)
        result = self._checked(seen, wished, planned, after, effects)
        if self._cluster.check_mode:
            return result
        if not self._options["wait"]:
            self._write(seen, planned)
            return result
        return self._roll_out(seen, wished, planned, effects, result)

    def _write(self, seen: Sight, planned: writes.Plan) -> None:
        if planned.changed:
            writes.carry_out(self._cluster, seen.namespace, planned)

    def _roll_out(
        self, seen: Sight, wished: Wish, planned: writes.Plan, effects: t.Sequence[Effect], result: Json
    ) -> Json:
        """Keep the nodes back, write, and give the nodes their turns. A run that was killed goes on in the next one."""
        name = objects.name_of(seen.policy) if seen.policy else ""
        images = {effect.node: effect.image for effect in effects if effect.image}
        automatic = wished.move != "to ClusterPolicy"
        rollout = Rollout(self._cluster, self._options, Wanted(seen.namespace, name, images, automatic))
        closed = rollout.closed() if planned.changed else ""
        if closed:
            self._warn(f"Nothing was written. {closed}")
            return {**result, "changed": False, "finished": False, "message": closed}
        if planned.changed:
            rollout.hold(_to_hold(seen, effects))
            self._write(seen, planned)
        try:
            rolled = rollout.roll().as_result()
        except GpuOpsError as e:
            raise GpuOpsError(e.msg, **{**result, **e.details, "changed": _either(result, e.details)}) from e
        return {**result, **rolled, "changed": _either(result, rolled)}

    def _checked(self, seen: Sight, wished: Wish, planned: writes.Plan, after: State, effects: list[Effect]) -> Json:
        """Check the plan and return the result that describes it. Raise if something forbids it."""
        pools = after.grouped(seen.gpu_nodes, seen.line)
        is_due = planned.changed or any(effect.action != "nothing" for effect in effects)
        asked = published.answers(self._cluster, seen.namespace, pools, self._options["registry"]) if is_due else {}
        around = scene.read(self._cluster, seen, after, effects)
        found = list(self._findings(seen, wished, after, pools, asked, around)) if is_due else []
        disrupted = _disruption(effects, around)
        result = self._result(seen, wished, planned, effects, pools, asked, found, disrupted, around)
        for note in (*writes.notes(planned), *_warnings(found)):
            self._warn(note)
        self._refuse(found, result)
        warning = permission.permit(disrupted, self._options["allow_disruption"], self._cluster.check_mode)
        if warning:
            self._warn(warning)
        return result

    def _findings(
        self, seen: Sight, wished: Wish, after: State, pools: list[Pool], asked: published.Answers, around: t.Any
    ) -> t.Iterator[Finding]:
        """Yield the findings of all checks that are not skipped."""
        found = [
            *placing.move(wished, seen),
            *(placing.owners(after.drivers, seen) if after.delegates else ()),
            *fitness.findings(pools, seen.line),
            *(published.findings(pools, asked, self._options["registry"]["mode"]) if asked else ()),
            *obstacles.findings(around),
        ]
        yield from (finding for finding in found if finding.check not in self._options["skip"])

    def _refuse(self, found: t.Sequence[Finding], result: Json) -> None:
        failures = [finding for finding in found if finding.level == "failure"]
        if not failures:
            return
        said = " ".join(f"{finding.message} {finding.remedy}".strip() for finding in failures[:3])
        more = f" There are {len(failures) - 3} more (findings)." if len(failures) > 3 else ""
        checks = first_few(sorted({finding.check for finding in failures}))
        message = f"{said}{more} To go on all the same, leave these checks out (skip: {checks})."
        if self._cluster.check_mode:
            self._warn(f"A run would stop here: {message}")
        else:
            raise GpuOpsError(message, reason="ChecksFailed", **{**result, "changed": False})

    # ---- the result

    def _result(
        self,
        seen: Sight,
        wished: Wish,
        planned: writes.Plan,
        effects: t.Sequence[Effect],
        pools: t.Sequence[Pool],
        asked: published.Answers,
        found: t.Sequence[Finding],
        disrupted: permission.Disruption,
        around: obstacles.Scene,
    ) -> Json:
        listed = _findings.as_result(_findings.worst_first(found))
        return {
            "changed": planned.changed,
            "resource": wished.kind,
            "move": wished.move,
            "objects": _objects(planned),
            "pools": published.as_result(pools, asked),
            "findings": listed["findings"],
            "checks": listed["summary"],
            "disruption": disrupted.as_result(),
            "plan": _rows(effects, around),
            "diff": _diff(planned),
        }


def _to_hold(seen: Sight, effects: t.Sequence[Effect]) -> list[str]:
    """Return the nodes that the operator would upgrade by itself after the write: those with an outdated pod, too."""
    is_late = any(_is_late(item) for item in seen.driver_daemonsets)
    return [effect.node for effect in effects if effect.automatic and (is_late or effect.action != "nothing")]


def _is_late(daemonset: Json) -> bool:
    status = daemonset.get("status") or {}
    return bool(status.get("updatedNumberScheduled", 0) < status.get("desiredNumberScheduled", 0))


def _either(result: Json, rolled: Json) -> bool:
    return bool(result["changed"] or rolled.get("changed"))


# ---- before and after ---------------------------------------------------------------------------------------------


def _before(seen: Sight) -> State:
    name = objects.name_of(seen.policy) if seen.policy else ""
    return State(name, seen.spec, seen.drivers, seen.delegates)


def _after(seen: Sight, wished: Wish, planned: writes.Plan) -> State:
    """Return the objects as they are after the writes."""
    policy = planned.after(POLICY, seen.policy) if seen.policy else None
    existing = {objects.name_of(item) for item in seen.drivers}
    kept = [planned.after(DRIVER, item) for item in seen.drivers]
    made = [item.predicted for item in planned.applies if item.kind == DRIVER and item.name not in existing]
    spec = (policy or {}).get("spec") or {}
    name = objects.name_of(seen.policy) if seen.policy else ""
    return State(name, spec, [item for item in (*kept, *made) if item], policy is None or disruption.delegates(spec))


def _with_way_back(effects: list[Effect], wished: Wish) -> list[Effect]:
    """Return effects in which this module replaces the pods, where drivers come back: the operator does not."""
    if wished.move != "to ClusterPolicy":
        return effects
    return [dataclasses.replace(effect, automatic=False) for effect in effects]


# ---- parts of the result ------------------------------------------------------------------------------------------


def _disruption(effects: t.Sequence[Effect], around: obstacles.Scene) -> permission.Disruption:
    """Return the changes that interrupt GPU pods, each once, with all the pods."""
    interrupting = [effect for effect in effects if effect.interrupts]
    found = list(dict.fromkeys(change for effect in interrupting for change in _hashable(effect)))
    if not interrupting or around.pods is None:
        return permission.Disruption(tuple(found), None if interrupting else ())
    holding = [
        pods.GpuPod(pod["metadata"]["namespace"], objects.name_of(pod), pod["spec"]["nodeName"], {})
        for pod in around.pods
    ]
    return permission.Disruption(tuple(found), tuple(holding))


def _hashable(effect: Effect) -> t.Iterator[disruption.Change]:
    """Yield the changes of an effect with values that can be compared: a list or a mapping as its text."""
    for change in effect.changes:
        before, after = (
            value if isinstance(value, (str, bool, int)) or value is None else str(mask(value))
            for value in (change.before, change.after)
        )
        yield dataclasses.replace(change, before=before, after=after)


def _warnings(found: t.Sequence[Finding]) -> t.Iterator[str]:
    for finding in found:
        if finding.level == "warning":
            yield f"{finding.message} {finding.remedy}".strip()


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
