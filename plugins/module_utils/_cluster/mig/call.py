# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one call of the module: which nodes, what is to be done, and then the run or, in check mode, its plan."""

from __future__ import annotations

import dataclasses
import math
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import plan as maintenance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import (
    ROLLOUT_MINIMA,
    drain_options,
    wishes_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import plan, repair, result
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import Settings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.layouts import Catalog
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.plan import NodePlan, Stack
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.read import Reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.result import Row
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.run import Run, Work
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.sight import MIG_PURPOSE, Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.targets import targets
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_DISABLED
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Window
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

_CHANGING = ("change", "resume", "wait")


def configure(cluster: Cluster, options: Options) -> tuple[Json, list[str]]:
    """Give the chosen nodes their layouts. Return the module's result, and warnings."""
    refuse_below(options, timeout=1, **ROLLOUT_MINIMA)
    with waiting.signals_noted() as interruption:
        fleet = Fleet(cluster, drain_options(options, MIG_PURPOSE), interruption)
        return _Call(cluster, options, fleet).go()


class _Call:
    """One call."""

    def __init__(self, cluster: Cluster, options: Options, fleet: Fleet) -> None:
        self._cluster, self._options, self._fleet = cluster, options, fleet
        self._reader = Reader(cluster, options)

    def go(self) -> tuple[Json, list[str]]:
        """Plan, and then change the nodes unless this is check mode."""
        nodes = self._reader.nodes()
        wanted = targets(list(nodes.values()), self._options)
        self._fleet.look_elsewhere()
        stack = self._reader.stack()
        sights = {name: Sight(nodes[name]) for name in wanted}
        catalog = self._reader.catalog()
        plans = self._plans(sights, wanted, stack, catalog)
        plan.check(list(plans.values()))
        changes = self._changes(nodes, plans)
        window = self._window(nodes, changes, sights)
        rows = {name: result.row_of(plans[name], sights[name]) for name in wanted}
        for name, change in changes.items():
            rows[name].pods = [full_name(pod) for pod in change.evictions]
        if self._cluster.check_mode:
            return self._predicted(rows, sights), self._warnings(rows)
        if any(row.todo != "nothing" for row in rows.values()):
            if changes:
                self._await_map()
            own = (self._cluster, self._reader, self._fleet, self._settings(stack, catalog.edited))
            self._run(Work(*own, plans, changes, window, stack.removes), rows)
        return {**result.report(rows.values()), "diff": _diff(rows, sights)}, self._warnings(rows)

    def _plans(
        self, sights: t.Mapping[str, Sight], wanted: t.Mapping[str, str], stack: Stack, catalog: Catalog
    ) -> dict[str, NodePlan]:
        of = self._fleet.holders_of
        return {
            name: plan.plan_node(sight, wanted[name], catalog.of(name), stack, of(sight.node))
            for name, sight in sights.items()
        }

    def _changes(
        self, nodes: t.Mapping[str, Json], plans: t.Mapping[str, NodePlan]
    ) -> dict[str, maintenance.NodeChange]:
        """Return how each node that is to be emptied is held. Raises an error if a permission is missing."""
        chosen = [nodes[name] for name, each in plans.items() if each.todo in _CHANGING]
        claim = self._claim()
        elsewhere = [node for node in chosen if hold.is_held_elsewhere(node, claim)]
        if elsewhere:
            raise hold.held_elsewhere(elsewhere, MIG_PURPOSE)
        pods = self._reader.pods(self._fleet, [name for name, each in plans.items() if each.todo in _CHANGING])
        made = maintenance.plan(chosen, pods, self._fleet.options, claim, self._fleet.holders_of)
        return {change.name: change for change in made}

    def _claim(self) -> hold.Claim:
        options, now = self._options, self._fleet.now
        return hold.Claim(
            MIG_PURPOSE, hold.new_stamp(now), now, options["lease"], options["take_over"], options["pause_nvsentinel"]
        )

    def _window(self, nodes: t.Mapping[str, Json], changes: t.Collection[str], sights: t.Mapping[str, Sight]) -> Window:
        options = self._options
        groups = {name: labels_of(nodes[name]).get(options["group_by"]) for name in sights}
        wishes = wishes_of(options, groups)
        wishes.check(list(sights))
        if isinstance(wishes.canary, list):  # a canary that has its layout is done
            wishes = dataclasses.replace(wishes, canary=[name for name in wishes.canary if name in changes])
        return Window(list(changes), wishes, [name for name in changes if plan.is_halfway(sights[name])])

    def _await_map(self) -> None:
        """Wait until the operator has given the MIG manager the ConfigMap that the ClusterPolicy names."""

        def look() -> bool | None:
            self._fleet.interruption.check()
            return None if self._reader.missing_map() else True

        if waiting.until(look, self._options["timeout"]) is None:
            raise GpuOpsError(
                f"The MIG manager does not use the ConfigMap {self._reader.missing_map()} after "
                f"{self._options['timeout']} s, although the ClusterPolicy names it. Check the operator.",
                reason="TimedOut",
            )

    def _settings(self, stack: Stack, edited: float) -> Settings:
        left_s = edited + repair.MAP_DELAY_S - self._fleet.now
        return Settings(
            timeout_s=self._options["timeout"],
            repair=self._options["repair"],
            test=self._options["verify"],
            puts_back=stack.default == MIG_DISABLED,
            fresh_until=time.monotonic() + left_s if left_s > 0 else -math.inf,
        )

    # ---- results

    def _run(self, work: Work, rows: dict[str, Row]) -> None:
        run = Run(work, rows)
        try:
            run.go()
        except GpuOpsError as e:
            raise GpuOpsError(f"{e.msg} {_closing(rows)}", **{**e.details, **result.report(rows.values())}) from e
        except KeyboardInterrupt as e:
            message = f"The call was interrupted. {_closing(rows)}"
            raise GpuOpsError(message, reason="Interrupted", **result.report(rows.values())) from e
        failed = [f"{row.node}: {one_line(row.reason)}" for row in rows.values() if row.failed]
        allowed = wishes_of(self._options).may_be_out(len(work.changes))
        if run.stop or len(failed) > allowed:
            said = f"{run.stop.rstrip('.')}." if run.stop else f"{first_few(failed, separator='; ')}."
            raise GpuOpsError(f"{said} {_closing(rows)}", reason="NodesFailed", **result.report(rows.values()))

    def _predicted(self, rows: t.Mapping[str, Row], sights: t.Mapping[str, Sight]) -> Json:
        """Return what a run would do."""
        for row in rows.values():
            row.changed = row.todo not in ("nothing", "prove")
        return {**result.report(rows.values()), "diff": _diff(rows, sights)}

    def _warnings(self, rows: t.Mapping[str, Row]) -> list[str]:
        unread = [f"This user may not list {what}: they were not considered." for what in self._fleet.unread]
        notes = [f"Node {row.node}: {note}" for row in rows.values() for note in row.held.notes]
        failed = [f"Node {row.node}: {row.reason}" for row in rows.values() if row.failed]
        return [*unread, *notes, *failed]


def _diff(rows: t.Mapping[str, Row], sights: t.Mapping[str, Sight]) -> Json:
    """Return the layouts and resources that differ, before and after."""
    due = {name: row for name, row in rows.items() if row.changed}

    def part(layout: str, resources: Json, pods: list[str]) -> Json:
        return {"layout": layout, "resources": resources, "pods": pods}

    return {
        "before": {name: part(sights[name].config, row.before, row.pods) for name, row in due.items()},
        "after": {name: part(row.layout, row.after, []) for name, row in due.items()},
    }


def _closing(rows: t.Mapping[str, Row]) -> str:
    """Return the last sentence of an error, which says in what state the call has left the nodes."""
    held = [row.node for row in rows.values() if row.kept]
    left = sum(row.step == "waiting" for row in rows.values())
    said = f"{first_few(held)} {'stay' if len(held) > 1 else 'stays'} cordoned. " if held else ""
    rest = f"{left} nodes have not been begun. " if left else ""
    return f"{said}{rest}Run it again; it goes on where this call has ended."
