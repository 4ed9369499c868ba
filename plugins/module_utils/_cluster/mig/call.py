# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one call of the module: which nodes, what is to be done, and then the run or, in check mode, its plan."""

from __future__ import annotations

import math
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold, rollout_notes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import maintenance_plan as maintenance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.held_nodes import HeldNodesRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import Members, NodePacing
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import mig_plan, mig_result, repair
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import Settings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.layout_request import LayoutRequest, request_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_change import MigChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_plan import NodePlan, Stack
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_result import Row
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.read import Reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.layouts import Catalog
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import MIG_PURPOSE, Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.targets import of_others, targets
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_DISABLED
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

_CHANGING = ("change", "resume", "wait")


def configure(cluster: Cluster, options: Options) -> tuple[Json, list[str]]:
    """Give the chosen nodes their layouts. Return the module's result, and warnings."""
    request = request_of(options)
    with waiting.signals_noted() as interruption:
        fleet = Fleet(cluster, request.rollout.maintenance, interruption)
        return _Call(cluster, request, fleet).go()


class _Call:
    """One call."""

    def __init__(self, cluster: Cluster, request: LayoutRequest, fleet: Fleet) -> None:
        self._cluster, self._request, self._fleet = cluster, request, fleet
        self._reader = Reader(cluster, request)
        self._refusals: list[str] = []
        """Where a run would stop, in a check that only warns of it."""
        self._others: list[str] = []
        """The nodes whose layout somebody else has set, and that stay as they are when all layouts go."""

    def go(self) -> tuple[Json, list[str]]:
        """Plan, and then change the nodes unless this is check mode."""
        if self._request.content and not self._cluster.check_mode:
            raise GpuOpsError("content is for check mode. Publish it with mig_layout first.", reason="Invalid")
        nodes = self._reader.nodes()
        wanted = targets(list(nodes.values()), self._request.wishes)
        self._others = of_others(list(nodes.values()), self._request.wishes)
        self._fleet.look_elsewhere()
        stack = self._reader.stack()
        sights = {name: Sight(nodes[name]) for name in wanted}
        catalog = self._reader.catalog()
        plans = self._plans(sights, wanted, stack, catalog)
        mig_plan.check(list(plans.values()))
        changes = self._changes(nodes, plans)
        rows = {name: mig_result.row_of(plans[name], sights[name]) for name in wanted}
        pacing = self._pacing(plans, changes, sights)
        for name, change in changes.items():
            rows[name].pods = [full_name(pod) for pod in change.evictions]
        if self._cluster.check_mode:
            made = self._predicted(rows, sights, pacing)
            return made, self._warnings(rows, "" if made["finished"] else pacing.why_closed(self._fleet.now))
        left: list[str] = []
        if pacing.members.done or any(row.todo in mig_plan.DUE for row in rows.values()):
            settings = self._settings(stack, catalog.edited)
            work = MigChange(self._cluster, self._reader, settings, plans, sights, rows, stack.removes)
            if changes:
                self._await_map()
            at_once = [name for name, each in plans.items() if each.todo in ("repair", "prove")]
            left = self._run(HeldNodesRollout(self._fleet, work, changes, pacing, at_once), rows, pacing)
        closed = (pacing.why_closed(self._fleet.now) if left else "") or pacing.why_left(left, self._fleet.now)
        finished = not left and not _left(rows)
        made = {**mig_result.report(rows.values()), "finished": finished, "diff": _diff(rows, sights)}
        return made, self._warnings(rows, closed)

    def _plans(
        self, sights: t.Mapping[str, Sight], wanted: t.Mapping[str, str], stack: Stack, catalog: Catalog
    ) -> dict[str, NodePlan]:
        of = self._fleet.holders_of
        return {
            name: mig_plan.plan_node(sight, wanted[name], catalog.of(name), stack, of(sight.node))
            for name, sight in sights.items()
        }

    def _changes(
        self, nodes: t.Mapping[str, Json], plans: t.Mapping[str, NodePlan]
    ) -> dict[str, maintenance.NodeChange]:
        """Return how each node that is to be emptied is held. Refuses if a permission is missing."""
        chosen = [nodes[name] for name, each in plans.items() if each.todo in _CHANGING]
        claim = self._fleet.request.claim(self._fleet.now)
        elsewhere = [node for node in chosen if hold.is_held_elsewhere(node, claim)]
        if elsewhere:
            raise hold.held_elsewhere(elsewhere, MIG_PURPOSE)
        pods = self._reader.pods(self._fleet, [name for name, each in plans.items() if each.todo in _CHANGING])
        made = maintenance.plan(chosen, pods, self._fleet.request, claim, self._fleet.holders_of, self._refuse)
        return {change.name: change for change in made}

    def _refuse(self, error: GpuOpsError) -> None:
        warns = self._request.only_warns and self._cluster.check_mode
        self._refusals.append(_check_refusal.refuse(error, warns))

    def _pacing(
        self,
        plans: t.Mapping[str, NodePlan],
        changes: t.Mapping[str, maintenance.NodeChange],
        sights: t.Mapping[str, Sight],
    ) -> NodePacing:
        """Return the pace of the nodes that are to be changed, with those that an unfinished rollout has changed."""
        request = self._request.rollout.pace_of({name: sight.node for name, sight in sights.items()})
        request.wishes.check(list(sights))
        since = {name: rollout_notes.done_since(sight.node, MIG_PURPOSE) for name, sight in sights.items()}
        members = Members(
            tuple(changes),
            halfway=frozenset(name for name in changes if mig_plan.is_halfway(sights[name])),
            held=frozenset(name for name in changes if sights[name].is_held),
            done={
                name: moment
                for name, moment in since.items()
                if moment is not None and plans[name].todo in ("nothing", "degraded")
            },
        )
        return NodePacing(members, request)

    def _await_map(self) -> None:
        """Wait until the operator has given the MIG manager the ConfigMap that the ClusterPolicy names."""

        def look() -> bool | None:
            self._fleet.interruption.check()
            return None if self._reader.missing_map() else True

        if waiting.until(look, self._request.timeout_s) is None:
            raise GpuOpsError(
                f"The MIG manager does not use the ConfigMap {self._reader.missing_map()} after "
                f"{self._request.timeout_s} s, although the ClusterPolicy names it. Check the operator.",
                reason="TimedOut",
            )

    def _settings(self, stack: Stack, edited: float) -> Settings:
        left_s = edited + repair.MAP_DELAY_S - self._fleet.now
        return Settings(
            timeout_s=self._request.timeout_s,
            repair=self._request.repairs,
            test=self._request.verifies,
            puts_back=stack.default == MIG_DISABLED,
            fresh_until=time.monotonic() + left_s if left_s > 0 else -math.inf,
            workload=self._request.workload,
        )

    # ---- results

    def _run(self, rollout: HeldNodesRollout, rows: dict[str, Row], pacing: NodePacing) -> list[str]:
        """Change the nodes. Return those that are left for another call."""
        try:
            rollout.run()
        except GpuOpsError as e:
            raise GpuOpsError(f"{e.msg} {_closing(rows)}", **{**e.details, **mig_result.failure(rows.values())}) from e
        except KeyboardInterrupt as e:
            message = f"The call was interrupted. {_closing(rows)}"
            raise GpuOpsError(message, reason="Interrupted", **mig_result.failure(rows.values())) from e
        failed = [f"{row.node}: {one_line(row.reason)}" for row in rows.values() if row.failed]
        if rollout.stop or len(failed) > pacing.budget:
            said = f"{rollout.stop.rstrip('.')}." if rollout.stop else f"{first_few(failed, separator='; ')}."
            raise GpuOpsError(f"{said} {_closing(rows)}", reason="NodesFailed", **mig_result.failure(rows.values()))
        return rollout.left

    def _predicted(self, rows: t.Mapping[str, Row], sights: t.Mapping[str, Sight], pacing: NodePacing) -> Json:
        """Return what a run would do now."""
        closed, waves = pacing.closed(self._fleet.now), pacing.waves
        for name, row in rows.items():
            row.wave = waves.get(name, 0)
            is_left = bool(closed) and name in pacing.members.names and name not in pacing.members.halfway
            row.waits_for = closed if is_left else ""
            row.changed = row.todo in mig_plan.DUE and row.todo != "prove" and not is_left
        finished = not any(row.waits_for for row in rows.values()) and not _left(rows)
        return {**mig_result.report(rows.values()), "finished": finished, "diff": _diff(rows, sights)}

    def _warnings(self, rows: t.Mapping[str, Row], closed: str) -> list[str]:
        unread = [f"This user may not list {what}: they were not considered." for what in self._fleet.unread]
        notes = [f"Node {row.node}: {note}" for row in rows.values() for note in row.held.notes]
        failed = [f"Node {row.node}: {row.reason}" for row in rows.values() if row.failed]
        degraded = [
            f"Degraded, which stops no other node: {row.node}: {one_line(row.degraded)}."
            for row in rows.values()
            if row.degraded
        ]
        left = [f"{first_few(_left(rows))} not begun: {mig_plan.UNMANAGED}."] if _left(rows) else []
        said = [*self._refusals, *unread, *notes, *failed, *degraded, *left]
        return [*said, *_kept(self._others), *filter(None, [closed])]


def _kept(others: t.Sequence[str]) -> list[str]:
    """Return a warning about layouts that somebody else has set."""
    if not others:
        return []
    return [
        f"Somebody else has set the MIG layout of {first_few(others)}, so it stays. Name these nodes (nodes), or give "
        f"them the layout {MIG_DISABLED}, to make their GPUs whole."
    ]


def _diff(rows: t.Mapping[str, Row], sights: t.Mapping[str, Sight]) -> Json:
    """Return the layouts and resources that differ, before and after."""
    due = {name: row for name, row in rows.items() if row.changed}

    def part(layout: str, resources: Json, pods: list[str]) -> Json:
        return {"layout": layout, "resources": resources, "pods": pods}

    return {
        "before": {name: part(sights[name].config, row.before, row.pods) for name, row in due.items()},
        "after": {name: part(row.layout, row.after, []) for name, row in due.items()},
    }


def _left(rows: t.Mapping[str, Row]) -> list[str]:
    """Return the nodes that the call leaves out, because no pod of the MIG manager runs on them yet."""
    return [row.node for row in rows.values() if row.todo == "left"]


def _closing(rows: t.Mapping[str, Row]) -> str:
    """Return the last sentence of an error, which says in what state the call has left the nodes."""
    held = [row.node for row in rows.values() if row.kept]
    left = sum(row.step == "waiting" for row in rows.values())
    said = f"{first_few(held)} {'stay' if len(held) > 1 else 'stays'} cordoned. " if held else ""
    rest = f"{left} nodes have not been begun. " if left else ""
    return f"{said}{rest}Run it again to continue where this call ended."
