# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Hold, drain and release nodes. One thread makes the decisions, and a few others send the requests."""

from __future__ import annotations

import collections
import contextlib
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import (
    drain,
    eviction,
    hold,
    maintenance_plan,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import NodeChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import request_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import (
    NodeResult,
    failure,
    report,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DRAIN_POLL_S = 1.0


# ---- the module's one call ----------------------------------------------------------------------------------------


def maintain(cluster: Cluster, options: t.Mapping[str, t.Any]) -> tuple[Json, list[str]]:
    """Bring the chosen nodes to the state. In check mode, send all requests as dry runs.

    Return the module's result, and warnings about pods that cannot be evicted now.
    """
    request = request_of(options)
    with waiting.signals_noted() as interruption:
        return _maintain(Fleet(cluster, request, interruption), cluster.check_mode)


def _maintain(fleet: Fleet, check_mode: bool) -> tuple[Json, list[str]]:
    request, nodes = fleet.request, fleet.nodes()
    fleet.look_elsewhere()
    claim = request.claim(fleet.now)
    chosen = maintenance_plan.select(nodes, request)
    maintenance_plan.check_nodes(nodes, chosen, claim, request, fleet.holders_of)
    changes = maintenance_plan.plan(chosen, fleet.pods(chosen), request, claim, fleet.holders_of)
    diff = {
        "before": {change.name: change.before for change in changes},
        "after": {change.name: change.after for change in changes},
    }
    absent = [NodeResult(name, absent=True) for name in maintenance_plan.absent(nodes, request)]
    results = predict(fleet, changes) if check_mode else apply(fleet, changes, absent)
    return {**report([*results, *absent]), "diff": diff}, warnings_of(fleet, results, check_mode)


def warnings_of(fleet: Fleet, results: t.Sequence[NodeResult], check_mode: bool) -> list[str]:
    """Return what the user should know although the call has succeeded."""
    unread = [f"This user may not list {what}: they were not considered." for what in fleet.unread]
    notes = [f"Node {result.node}: {note}" for result in results for note in result.notes]
    forbidden = [
        f"Pod {pod} on {result.node} cannot be evicted now: {why}. A run would request it again until timeout."
        for result in results
        for pod, why in result.left.items()
        if check_mode
    ]
    return [*unread, *notes, *forbidden]


def predict(fleet: Fleet, changes: list[NodeChange]) -> list[NodeResult]:
    """Request all changes as dry runs, and return the results that they would have."""
    dummy, errors = fleet.patch_all({change.name: change.make_patch for change in changes if change.patch})
    if errors:
        raise next(iter(errors.values()))
    return [_predict_node(fleet, change, fleet.each(fleet.evict, change.evictions)) for change in changes]


def _predict_node(fleet: Fleet, change: NodeChange, answers: list[str | None]) -> NodeResult:
    result = NodeResult(change.name, changed=change.changed, evicted=sorted(map(full_name, change.evictions)))
    drain.describe(fleet, result, change.node_after)
    drain.note_uncordoned(result, change.node)
    result.left = {full_name(pod): answer for pod, answer in zip(change.evictions, answers) if answer}
    return result


def apply(fleet: Fleet, changes: list[NodeChange], absent: t.Sequence[NodeResult] = ()) -> list[NodeResult]:
    """Make the changes. If this fails, the error contains the result for each node."""
    if fleet.request.state == "restored":
        return _restore(fleet, changes, absent)
    run = NodeMaintenance(fleet, changes)
    try:
        run.hold_nodes()
    except GpuOpsError as e:
        raise GpuOpsError(f"{e.msg} {run.closing}", **{**e.details, **report(run.results)}) from e
    except KeyboardInterrupt as e:
        message = f"The call was interrupted. {run.closing}"
        raise GpuOpsError(message, reason="Interrupted", **report(run.results)) from e
    if run.has_failed:
        raise failure(run.results, run.closing)
    return run.results


def _restore(fleet: Fleet, changes: list[NodeChange], absent: t.Sequence[NodeResult]) -> list[NodeResult]:
    done, errors = release(fleet, {change.name: change.make_patch for change in changes})
    results = {change.name: NodeResult(change.name) for change in changes}
    for change in changes:
        drain.note_uncordoned(results[change.name], change.node)
    for name, (node, changed) in done.items():
        results[name].changed = changed
        drain.describe(fleet, results[name], node)
    for name, error in errors.items():
        if error.reason == "NodeDeleted":
            results[name].gone()
        else:
            results[name].fail(error.msg)
    rows = list(results.values())
    if any(row.failed for row in rows):
        raise failure([*rows, *absent], "Run it again; it does not repeat what is done.")
    return rows


def release(
    fleet: Fleet, patches: t.Mapping[str, maintenance_plan.MakePatch]
) -> tuple[dict[str, tuple[Json, bool]], dict[str, GpuOpsError]]:
    """Release nodes. Return the nodes with whether they were changed, and errors, by node.

    Some maintainers record in another object that they found a node cordoned. The uncordon may have come between that
    and our look, so a second look follows, and such a node is cordoned again.
    """
    done, errors = fleet.patch_all(patches)
    uncordoned = [name for name, (node, changed) in done.items() if changed and not hold.hold_of(node).unschedulable]
    if uncordoned and fleet.can_appear_elsewhere:
        fleet.look_elsewhere()
        again, failed = fleet.patch_all(
            dict.fromkeys(uncordoned, lambda node: hold.leave_patch(node, fleet.holders_of(node)))
        )
        done |= {name: (node, True) for name, (node, changed) in again.items() if changed}
        errors |= failed
    return done, errors


# ---- the run ------------------------------------------------------------------------------------------------------


class NodeMaintenance:
    """One call that cordons all its nodes, drains ``parallel`` of them at a time, and releases them if it fails."""

    def __init__(self, fleet: Fleet, changes: list[NodeChange]) -> None:
        self._fleet = fleet
        self._request = fleet.request
        self._changes = {change.name: change for change in changes}
        self._results = {name: NodeResult(name) for name in self._changes}
        self._schedulable = dict(self._results)
        self._cordoned: collections.deque[drain.Drain] = collections.deque()
        self._drains = drain.Drains(fleet)
        self._progress = ""
        self._not_released: dict[str, str] = {}
        """Nodes that are still in maintenance although they should not be, and why."""

    @property
    def results(self) -> list[NodeResult]:
        """The result for each node."""
        return list(self._results.values())

    @property
    def has_failed(self) -> bool:
        """Whether a node has failed."""
        return any(result.failed for result in self.results)

    def hold_nodes(self) -> None:
        """Cordon the nodes and, to drain them, evict their pods. Raises an error, or sets `has_failed`.

        In both cases, this releases the nodes that it has cordoned, unless restore_on_failure is false.
        """
        complete = False
        try:
            waiting.until(
                self._step,
                poll_s=lambda: DRAIN_POLL_S if self._drains.active else 0,
                patience_ends=lambda: self._drains.next_deadline,
                on_outage=lambda error: self._report(error.msg),
            )
            complete = not self.has_failed
        finally:
            if not complete and self._request.restores_on_failure:
                self._fleet.interruption.disregard()
                self._release()

    def _step(self) -> bool | None:
        """Cordon nodes, evict pods, and look at what is left. Return True when the run is over.

        All nodes are cordoned first, so that no pod moves to a node that is drained later.
        """
        if self._is_over:
            return True
        self._fleet.each(self._cordon, list(self._schedulable.values()))
        self._start_drains()
        self._drains.look()
        self._report(eviction.progress(len(self._results), self._drained, self._drains.left))
        return True if self._is_over else None

    @property
    def _is_over(self) -> bool:
        at_work = self._schedulable or self._cordoned or self._drains.active
        return not at_work or (self.has_failed and self._request.restores_on_failure)

    @property
    def _drained(self) -> int:
        failed = sum(result.failed for result in self.results)
        return len(self._results) - len(self._schedulable) - len(self._cordoned) - len(self._drains.active) - failed

    def _report(self, line: str) -> None:
        """Append the progress to the progress file if it has changed. If that fails, the drain continues."""
        path = self._request.progress_path
        if path and line != self._progress:
            self._progress = line
            with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def _cordon(self, result: NodeResult) -> None:
        """Cordon a node."""
        cordoned = drain.cordon(self._fleet, self._changes[result.node], result)
        if cordoned and self._request.state == "drained":
            self._cordoned.append(cordoned)
        del self._schedulable[result.node]

    def _start_drains(self) -> None:
        while self._cordoned and len(self._drains.active) < self._request.parallel:
            self._drains.begin(self._cordoned.popleft())

    # ---- after a failure

    def _release(self) -> None:
        """Release every node that this call holds."""
        self._fleet.finish()
        with contextlib.suppress(GpuOpsError):  # Without a new look, the last one counts.
            self._fleet.look_elsewhere()
        done, errors = release(self._fleet, {name: change.undo_patch for name, change in self._changes.items()})
        deleted = [name for name, error in errors.items() if error.reason == "NodeDeleted"]
        self._not_released = {name: error.msg for name, error in errors.items() if name not in deleted}
        for name in deleted:
            self._results[name].gone()
        for name, (node, dummy) in done.items():
            result = self._results[name]
            drain.describe(self._fleet, result, node)
            result.changed = bool(result.evicted)
            result.reason = result.reason or "The call failed, and this node was put back as it was."
        for name, why in self._not_released.items():
            result = self._results[name]
            result.fail(f"{result.reason} It could not be put back: {why}".lstrip())

    @property
    def closing(self) -> str:
        """The last sentence of an error, which says in what state the failed call has left the nodes."""
        if not self._request.restores_on_failure:
            return (
                "The nodes that this call cordoned stay in maintenance (restore_on_failure is false). "
                "Run it again, or run it with state=restored."
            )
        if self._not_released:
            left = first_few([f"{name} ({why})" for name, why in self._not_released.items()])
            return f"These nodes could not be put back and stay in maintenance: {left}. Run it with state=restored."
        purpose = self._request.purpose
        kept = [result.node for result in self.results if purpose in result.purposes]
        earlier = f" Nodes that an earlier call cordoned stay in maintenance: {first_few(kept)}." if kept else ""
        return f"The nodes that this call cordoned are put back.{earlier}"
