# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes get the toolkit's new pod, and the result for each of them. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold, rollout_notes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    DONE,
    FAILED,
    NOTHING,
    WAITING,
    HeldRow,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import Members
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

TOOLKIT_PURPOSE = "toolkit"
"""What nodes are held for while they get the new pod."""

_STATES = {NOTHING: "unchanged", WAITING: "pending", DONE: "done", FAILED: "failed"}
"""What the result says for a step. In any other, the node is changing."""


@dataclasses.dataclass
class ToolkitRow(HeldRow):
    """What happens to one node, and how far it is."""

    name: str
    offered: dict[str, int]
    """What the node offered to pods before, which it must offer again."""
    is_held: bool = False
    """Whether an earlier run has left the node held."""

    def as_result(self) -> Json:
        """Return the node's entry in the module's result."""
        return {
            "node": self.name,
            "state": _STATES.get(self.step, "changing"),
            "wave": self.wave,
            "changed": self.changed,
            "failed": self.failed,
            "reason": self.reason,
            "waits_for": self.waits_for,
            "unschedulable": self.held.unschedulable,
            "notes": self.held.notes,
            "seconds": self.seconds,
        }


def rows_of(fleet: t.Mapping[str, Json], running: t.Collection[str], outdated: t.Collection[str]) -> list[ToolkitRow]:
    """Return a row for each node that runs the toolkit. Those with an outdated pod, and those held, have to change."""
    return [_row_of(name, fleet[name], name in outdated) for name in sorted(running) if name in fleet]


def _row_of(name: str, node: Json, is_outdated: bool) -> ToolkitRow:
    row = ToolkitRow(
        name=name,
        offered=nodes.gpu_quantities(node, "allocatable"),
        is_held=TOOLKIT_PURPOSE in hold.hold_of(node).purposes,
    )
    row.held = NodeResult(name)
    row.held.describe(node, [])
    row.step = WAITING if is_outdated or row.is_held else NOTHING
    return row


def members_of(rows: t.Iterable[ToolkitRow], fleet: t.Mapping[str, Json]) -> Members:
    """Return what the pace must know of the nodes."""
    rows = list(rows)
    due = [row for row in rows if row.step == WAITING]
    since = {
        row.name: rollout_notes.done_since(fleet[row.name], TOOLKIT_PURPOSE) for row in rows if row.step == NOTHING
    }
    held = frozenset(row.name for row in due if row.is_held)
    return Members(
        tuple(row.name for row in due),
        halfway=frozenset(name for name in held if nodes.is_cordoned(fleet[name])),
        held=held,
        done={name: moment for name, moment in since.items() if moment is not None},
    )


def lacks(row: ToolkitRow, node: Json) -> str:
    """Return what a node does not offer that it did before, or an empty string."""
    now = nodes.gpu_quantities(node, "allocatable")
    less = [f"{now.get(name, 0)} instead of {number} {name}" for name, number in row.offered.items()]
    found = [text for text, (name, number) in zip(less, row.offered.items()) if now.get(name, 0) < number]
    if found:
        return f"the node offers {first_few(found)}"
    return "" if nodes.is_ready(node) else "the node is not Ready"


def failure(rows: t.Sequence[ToolkitRow], stop: str) -> GpuOpsError:
    """Return the error about nodes that failed. ``stop`` says why the others were not begun, if so."""
    bad = [f"{row.name}: {one_line(row.reason).rstrip('.')}" for row in rows if row.failed]
    said = stop.rstrip(".") or first_few(bad, separator="; ")
    return GpuOpsError(f"The toolkit's new settings: {said}. {closing(rows)}", reason="NodesFailed")


def closing(rows: t.Sequence[ToolkitRow]) -> str:
    """Return the last sentences of an error, which say in what state the call has left the nodes."""
    left = [row.name for row in rows if row.step == WAITING]
    rest = f"{first_few(left)} still {'have' if len(left) > 1 else 'has'} the former settings. " if left else ""
    return f"{rest}Correct the settings if they are the cause, and run it again. It continues with the other nodes."
