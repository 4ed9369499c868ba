# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Hold, drain and release nodes. One thread makes the decisions, and a few others send the requests."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import signals, waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction, hold, plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.plan import NodeChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.result import (
    NodeResult,
    failure,
    report,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DRAIN_POLL_S = 1.0
LATE_PODS_S = 1.0
"""How long a pod may still appear after the cordon: the scheduler may have chosen the node just before."""

EVICTION_RETRY_S = 5.0
"""How long to leave a pod alone after its eviction was requested."""


# ---- the module's one call ----------------------------------------------------------------------------------------


def maintain(cluster: Cluster, options: t.Mapping[str, t.Any]) -> tuple[Json, list[str]]:
    """Bring the chosen nodes to the state. In check mode, send all requests as dry runs.

    Return the module's result, and warnings about pods that cannot be evicted now.
    """
    plan.check_options(options)
    fleet = Fleet(cluster, options)
    nodes = fleet.nodes()
    chosen = plan.select(nodes, options)
    plan.check_nodes(nodes, chosen, options)
    changes = plan.plan(chosen, fleet.pods(chosen), options, hold.new_stamp())
    diff = {
        "before": {change.name: change.before for change in changes},
        "after": {change.name: change.after for change in changes},
    }
    results = predict(fleet, changes) if cluster.check_mode else apply(fleet, changes)
    warnings = [
        f"Pod {pod} on {result.node} cannot be evicted now: {why}. A run would request it again until timeout."
        for result in results
        for pod, why in result.left.items()
    ]
    return {**report(results), "diff": diff}, warnings


def predict(fleet: Fleet, changes: list[NodeChange]) -> list[NodeResult]:
    """Request all changes as dry runs, and return the results that they would have."""
    dummy, errors = fleet.patch_all({change.name: change.make_patch for change in changes if change.patch})
    if errors:
        raise next(iter(errors.values()))
    return [_predict_node(change, fleet.each(fleet.evict, change.evictions)) for change in changes]


def _predict_node(change: NodeChange, answers: list[str | None]) -> NodeResult:
    result = NodeResult(change.name, changed=change.changed, evicted=sorted(map(full_name, change.evictions)))
    result.describe(change.node_after)
    result.left = {full_name(pod): answer for pod, answer in zip(change.evictions, answers) if answer}
    return result


def apply(fleet: Fleet, changes: list[NodeChange]) -> list[NodeResult]:
    """Make the changes. If this fails, the error contains the result for each node."""
    if fleet.options["state"] == "restored":
        return _restore(fleet, changes)
    run = Run(fleet, changes)
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


def _restore(fleet: Fleet, changes: list[NodeChange]) -> list[NodeResult]:
    done, errors = fleet.patch_all({change.name: change.make_patch for change in changes})
    results = [NodeResult(change.name) for change in changes]
    for result in results:
        if result.node in errors:
            result.fail(errors[result.node].msg)
        else:
            node, result.changed = done[result.node]
            result.describe(node)
    if errors:
        raise failure(results, "Run it again; it does not repeat what is done.")
    return results


# ---- the drain ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Drain:
    """A node that is being drained."""

    result: NodeResult
    since: float
    settled: float
    """The time after which no new pods appear on the node."""
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    retry_at: dict[str, float] = dataclasses.field(default_factory=dict)
    pods: list[Json] = dataclasses.field(default_factory=list)
    """The pods that the last look found."""

    @property
    def name(self) -> str:
        return self.result.node

    @property
    def left(self) -> dict[str, str]:
        """The pods that are still there, each with the API's refusal of its eviction or an empty string."""
        return {full_name(pod): self._refusal(pod) for pod in self.pods}

    def _refusal(self, pod: Json) -> str:
        return "" if eviction.is_ending(pod) else self.refused.get(eviction.uid_of(pod), "")

    def is_due(self, pod: Json) -> bool:
        """Return whether to request a pod's eviction now."""
        return not eviction.is_ending(pod) and time.monotonic() >= self.retry_at.get(eviction.uid_of(pod), 0)


class Run:
    """One call that cordons all its nodes, drains ``parallel`` of them at a time, and releases them if it fails."""

    def __init__(self, fleet: Fleet, changes: list[NodeChange]) -> None:
        self._fleet = fleet
        self._options = fleet.options
        self._changes = {change.name: change for change in changes}
        self._results = {name: NodeResult(name) for name in self._changes}
        self._schedulable = dict(self._results)
        self._cordoned: collections.deque[_Drain] = collections.deque()
        self._active: dict[str, _Drain] = {}
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
        with signals.as_exceptions():
            try:
                waiting.until(
                    self._step,
                    poll_s=lambda: DRAIN_POLL_S if self._active else 0,
                    patience_ends=self._next_deadline,
                    on_outage=lambda error: self._report(error.msg),
                )
                complete = not self.has_failed
            finally:
                if not complete and self._options["restore_on_failure"]:
                    with signals.ignored():
                        self._release()

    def _step(self) -> bool | None:
        """Cordon nodes, evict pods, and look at what is left. Return True when the run is over.

        All nodes are cordoned first, so that no pod moves to a node that is drained later.
        """
        if self._is_over:
            return True
        self._fleet.each(self._cordon, list(self._schedulable.values()))
        self._start_drains()
        drains = list(self._active.values())
        self._fleet.each(self._look, drains)
        self._evict(drains)
        for drain in drains:
            self._conclude(drain)
        left = {name: drain.left for name, drain in self._active.items()}
        self._report(eviction.progress(len(self._results), self._drained, left))
        return True if self._is_over else None

    @property
    def _is_over(self) -> bool:
        at_work = self._schedulable or self._cordoned or self._active
        return not at_work or (self.has_failed and self._options["restore_on_failure"])

    @property
    def _drained(self) -> int:
        failed = sum(result.failed for result in self.results)
        return len(self._results) - len(self._schedulable) - len(self._cordoned) - len(self._active) - failed

    def _report(self, line: str) -> None:
        """Append the progress to the progress file if it has changed. If that fails, the drain continues."""
        path = self._options["progress_path"]
        if path and line != self._progress:
            self._progress = line
            with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def _deadline(self, drain: _Drain) -> float:
        return drain.since + float(self._options["timeout"])

    def _next_deadline(self) -> float:
        return min(map(self._deadline, self._active.values()), default=math.inf)

    def _cordon(self, result: NodeResult) -> None:
        """Cordon a node. This runs in its own thread, so that an interruption cannot lose the answer to a request."""
        change = self._changes[result.node]
        try:
            node, changed = self._fleet.patch(result.node, change.make_patch)
        except GpuOpsError as e:
            if e.reason != "NodeDeleted":
                raise
            result.fail(e.msg)
        else:
            result.describe(node)
            # An answer may have been lost: if the node has this call's stamp, this call has changed it.
            result.changed = changed or change.is_held_by_this_call(node)
            if self._options["state"] == "drained":
                now = time.monotonic()
                self._cordoned.append(_Drain(result, now, now + (LATE_PODS_S if result.changed else 0)))
        del self._schedulable[result.node]

    def _start_drains(self) -> None:
        while self._cordoned and len(self._active) < self._options["parallel"]:
            drain = self._cordoned.popleft()
            drain.since = time.monotonic()
            self._active[drain.name] = drain

    def _look(self, drain: _Drain) -> None:
        drain.pods = self._fleet.pods_on(drain.name)

    def _evict(self, drains: list[_Drain]) -> None:
        due = [(drain, pod) for drain in drains for pod in drain.pods if drain.is_due(pod)]
        for drain, pod in due:
            found = eviction.obstacles([pod], self._options)
            if found:  # the pod has appeared since the plan was made
                self._fail(drain, eviction.pods_in_the_way(found).msg)
        self._fleet.each(self._request_eviction, [(drain, pod) for drain, pod in due if not drain.result.failed])

    def _request_eviction(self, pair: tuple[_Drain, Json]) -> None:
        drain, pod = pair
        answer = self._fleet.evict(pod)
        drain.retry_at[eviction.uid_of(pod)] = time.monotonic() + EVICTION_RETRY_S
        if answer:
            drain.refused[eviction.uid_of(pod)] = answer
        elif answer is not None:
            drain.result.changed = True
            drain.result.evicted.append(full_name(pod))

    def _conclude(self, drain: _Drain) -> None:
        now = time.monotonic()
        if drain.result.failed:
            return
        if not drain.pods and now >= drain.settled:
            drain.result.seconds = round(now - drain.since, 1)
            del self._active[drain.name]
        elif drain.pods and now >= self._deadline(drain):
            drain.result.left = self._why_left(drain)
            self._fail(drain, eviction.explain_left(drain.result.left, self._options["timeout"]))

    def _why_left(self, drain: _Drain) -> dict[str, str]:
        node, now = self._fleet.node(drain.name), self._fleet.now
        refused = drain.refused
        return {
            full_name(pod): eviction.why_left(pod, node, refused.get(eviction.uid_of(pod)), now) for pod in drain.pods
        }

    def _fail(self, drain: _Drain, reason: str) -> None:
        drain.result.fail(reason)
        drain.result.seconds = round(time.monotonic() - drain.since, 1)
        self._active.pop(drain.name, None)

    # ---- after a failure

    def _release(self) -> None:
        """Release every node that this call holds."""
        self._fleet.finish()
        done, errors = self._fleet.patch_all({name: change.undo_patch for name, change in self._changes.items()})
        self._not_released = {name: error.msg for name, error in errors.items() if error.reason != "NodeDeleted"}
        for name, (node, dummy) in done.items():
            result = self._results[name]
            result.describe(node)
            result.changed = bool(result.evicted)
            result.reason = result.reason or "The call failed, and this node was put back as it was."
        for name, why in self._not_released.items():
            result = self._results[name]
            result.fail(f"{result.reason} It could not be put back: {why}".lstrip())

    @property
    def closing(self) -> str:
        """The last sentence of an error, which says in what state the failed call has left the nodes."""
        if not self._options["restore_on_failure"]:
            return (
                "The nodes that this call cordoned stay in maintenance (restore_on_failure is false). "
                "Run it again, or run it with state=restored."
            )
        if self._not_released:
            left = first_few([f"{name} ({why})" for name, why in self._not_released.items()])
            return f"These nodes could not be put back and stay in maintenance: {left}. Run it with state=restored."
        purpose = self._options["purpose"]
        kept = [result.node for result in self.results if purpose in result.purposes]
        earlier = f" Nodes that an earlier call cordoned stay in maintenance: {first_few(kept)}." if kept else ""
        return f"The nodes that this call cordoned are put back.{earlier}"
