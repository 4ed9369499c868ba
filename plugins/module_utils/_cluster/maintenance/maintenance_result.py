# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The result of node maintenance: for each node, and for the call."""

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold import failures_of, hold_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import UNKNOWN, Holder
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass
class NodeResult:
    """The result for one node."""

    node: str
    changed: bool = False
    absent: bool = False
    unschedulable: bool = False
    purposes: list[str] = dataclasses.field(default_factory=list)
    held_by: list[Json] = dataclasses.field(default_factory=list)
    """The other maintainers of the node, as far as they have left marks."""
    failures: dict[str, str] = dataclasses.field(default_factory=dict)
    """Why the node is tainted, by purpose."""
    evicted: list[str] = dataclasses.field(default_factory=list)
    left: dict[str, str] = dataclasses.field(default_factory=dict)
    """Pods that should have left the node, each with the reason why it did not."""
    failed: bool = False
    reason: str = ""
    seconds: float = 0.0
    notes: list[str] = dataclasses.field(default_factory=list)
    """What the user should know although the call has succeeded."""

    def describe(self, node: Json, holders: list[Holder]) -> None:
        """Set how the node is held, and by whom else."""
        hold = hold_of(node)
        self.unschedulable, self.purposes, self.failures = hold.unschedulable, list(hold.purposes), failures_of(node)
        anonymous = None if any(holder.needs_cordon for holder in holders) else _without_a_mark(node)
        self.held_by = [holder.as_result() for holder in (*holders, anonymous) if holder]

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def gone(self) -> None:
        """Record that the node does not exist any more, so that nobody holds it."""
        self.absent, self.unschedulable, self.purposes, self.held_by, self.failures = True, False, [], [], {}

    def fail(self, reason: str) -> None:
        """Record that the node could not be brought to the state, and why."""
        self.failed, self.reason = True, reason


def _without_a_mark(node: Json) -> Holder | None:
    """Return whoever keeps a node cordoned besides us without a mark: a person, or a tool that leaves none."""
    hold = hold_of(node)
    return UNKNOWN if hold.unschedulable and (hold.initially_cordoned or not hold.purposes) else None


def report(results: list[NodeResult]) -> Json:
    """Return the module's result."""
    rows = [{**dataclasses.asdict(result), "evicted": sorted(set(result.evicted))} for result in results]
    counts = {
        "nodes": len(rows),
        "changed": sum(row["changed"] for row in rows),
        "failed": sum(row["failed"] for row in rows),
        "evicted": sum(len(row["evicted"]) for row in rows),
    }
    return {"changed": counts["changed"] > 0, "nodes": rows, "summary": counts}


def failure(results: list[NodeResult], closing: str) -> GpuOpsError:
    """Return the error about the nodes that failed. ``closing`` is its last sentence."""
    bad = [f"{result.node}: {one_line(result.reason)}" for result in results if result.failed]
    return GpuOpsError(f"{first_few(bad, separator='; ')}. {closing}", reason="NodesFailed", **report(results))
