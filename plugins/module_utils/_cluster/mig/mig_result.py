# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The result of a change of MIG: for each node, and for the call."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import HeldRow
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_plan import DUE, NodePlan, Todo
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass
class Row(HeldRow):
    """The result for one node."""

    node: str
    layout: str
    todo: Todo
    why: str = ""
    state: str = ""
    repaired: list[str] = dataclasses.field(default_factory=list)
    before: dict[str, int] = dataclasses.field(default_factory=dict)
    after: dict[str, int] = dataclasses.field(default_factory=dict)
    pods: list[str] = dataclasses.field(default_factory=list)
    """The pods that a run would evict."""

    def as_result(self) -> Json:
        """Return the node's part of the module's result."""
        held = self.held
        return {
            "node": self.node,
            "layout": self.layout,
            "action": self.todo,
            "why": self.why,
            "changed": self.changed,
            "state": self.state,
            "step": self.step,
            "wave": self.wave,
            "waits_for": self.waits_for,
            "pods": sorted(self.pods),
            "evicted": sorted(set(held.evicted)),
            "repaired": self.repaired,
            "before": self.before,
            "after": self.after,
            "unschedulable": held.unschedulable,
            "purposes": held.purposes,
            "held_by": held.held_by,
            "notes": held.notes,
            "failed": self.failed,
            "degraded": self.degraded,
            "reason": self.reason,
            "seconds": self.seconds,
        }


def row_of(plan: NodePlan, sight: Sight) -> Row:
    """Return the row of a node before anything happens."""
    is_due = plan.todo in DUE
    after = plan.offered if is_due else sight.offered
    row = Row(plan.name, plan.layout, plan.todo, plan.reason, sight.state, held=NodeResult(plan.name))
    row.before, row.after, row.step = sight.offered, after, "waiting" if is_due else "done"
    row.degraded = plan.reason if plan.todo == "degraded" else ""
    return row


def report(rows: t.Iterable[Row]) -> Json:
    """Return the module's result."""
    listed = [row.as_result() for row in rows]
    counts = collections.Counter(row["step"] for row in listed)
    summary = {
        "nodes": len(listed),
        "changed": sum(row["changed"] for row in listed),
        "failed": counts["failed"],
        "waiting": counts["waiting"],
        "evicted": sum(len(row["evicted"]) for row in listed),
        "repaired": sum(bool(row["repaired"]) for row in listed),
    }
    return {"changed": summary["changed"] > 0, "nodes": listed, "summary": summary}


def failure(rows: t.Iterable[Row]) -> Json:
    """Return the result of a call that fails, without the nodes that are as they should be: Ansible prints it whole."""
    whole = report(rows)
    return {**whole, "nodes": [row for row in whole["nodes"] if row["step"] != "done" or row["degraded"]]}


def progress(rows: t.Collection[Row], now: float) -> str:
    """Return a line about how far the nodes are, and which one has waited longest, for what."""
    due = [row for row in rows if row.todo in DUE]
    done, failed = (sum(row.step == step for row in due) for step in ("done", "failed"))
    busy = [row for row in due if row.step not in ("waiting", "done", "failed")]
    line = f"{done}/{len(due)} nodes have their layout, {len(busy)} are changing"
    line += f", {failed} failed" if failed else ""
    waiting = [row for row in busy or due if row.waits_for and row.step not in ("done", "failed")]
    if not waiting:
        return line
    oldest = min(waiting, key=lambda row: row.since)
    seconds = int(now - oldest.since)
    return f"{line}; {oldest.node} waits for {one_line(oldest.waits_for)} (for {seconds // 60:02}:{seconds % 60:02})"
