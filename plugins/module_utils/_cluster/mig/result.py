# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The result of a change of MIG: for each node, and for the call."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.plan import NodePlan, Todo
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.sight import MIG_PURPOSE, Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

STAYS_CORDONED = f"It stays cordoned for the purpose {MIG_PURPOSE}."
"""The end of the reason why a node failed that was not put back."""


@dataclasses.dataclass
class Row:
    """The result for one node."""

    node: str
    layout: str
    todo: Todo
    why: str = ""
    held: NodeResult = dataclasses.field(default_factory=lambda: NodeResult(""))
    """How the node is held, and what was evicted from it."""
    state: str = ""
    step: str = ""
    waits_for: str = ""
    since: float = 0.0
    """Since when the node has waited for that (monotonic seconds)."""
    repaired: list[str] = dataclasses.field(default_factory=list)
    before: dict[str, int] = dataclasses.field(default_factory=dict)
    after: dict[str, int] = dataclasses.field(default_factory=dict)
    pods: list[str] = dataclasses.field(default_factory=list)
    """The pods that a run would evict."""
    changed: bool = False
    failed: bool = False
    reason: str = ""
    kept: bool = False
    """Whether the node failed and was not put back."""
    seconds: float = 0.0

    def wait(self, waits_for: str, now: float) -> None:
        """Note what the node waits for, and since when."""
        if waits_for != self.waits_for:
            self.waits_for, self.since = waits_for, now

    def fail(self, reason: str) -> None:
        """Record that the node did not get its layout, and why."""
        self.failed, self.reason, self.step = True, reason, "failed"

    def keep(self) -> None:
        """Record that a node that failed was not put back."""
        self.kept, self.reason = True, f"{self.reason} {STAYS_CORDONED}"

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
            "reason": self.reason,
            "seconds": self.seconds,
        }


def row_of(plan: NodePlan, sight: Sight) -> Row:
    """Return the row of a node before anything happens."""
    after = sight.offered if plan.todo == "nothing" else plan.offered
    row = Row(plan.name, plan.layout, plan.todo, plan.reason, NodeResult(plan.name), sight.state)
    row.before, row.after, row.step = sight.offered, after, "done" if plan.todo == "nothing" else "waiting"
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


def progress(rows: t.Collection[Row], now: float) -> str:
    """Return a line about how far the nodes are, and which one has waited longest, for what."""
    due = [row for row in rows if row.todo != "nothing"]
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
