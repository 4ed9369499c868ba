# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What every call that changes held nodes does around its rollout: claim, pace, predict, conclude and report.

`held_nodes` is the rollout itself, and `node_work` what each kind of change brings along.
"""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold, node_work, rollout_notes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import maintain as maintenance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.held_nodes import HeldNodesRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import NodeChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import NOTHING
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import NodeRolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import Members, NodePacing
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Warn = t.Callable[[str], None]


class CallRow(t.Protocol):
    """What a call records of a node that it changes, or looks at."""

    name: str
    step: str
    wave: int
    changed: bool
    failed: bool
    reason: str
    kept: bool
    held: NodeResult
    is_held: bool
    """Whether an earlier run has left the node held."""

    def as_result(self) -> Json:
        """Return the node's entry in the module's result."""


Row = t.TypeVar("Row", bound=CallRow)


def claimed(fleet: Fleet, chosen: t.Sequence[Json]) -> hold.Claim:
    """Return what a call asks of nodes that it is going to hold. Raises if another run may still be at work on one."""
    fleet.look_elsewhere()
    claim = fleet.request.claim(fleet.now)
    elsewhere = [node for node in chosen if hold.is_held_elsewhere(node, claim)]
    if elsewhere:
        raise hold.held_elsewhere(elsewhere, claim.purpose)
    return claim


def pace(
    rows: t.Sequence[Row],
    due: t.Sequence[Row],
    fleet: t.Mapping[str, Json],
    request: NodeRolloutRequest,
    disturbs: t.Callable[[Row], object],
) -> NodePacing:
    """Return the pace of the rows that are due, and note the wave of each.

    Rows with nothing to change are done if an unfinished rollout says so on their nodes. ``fleet`` has the nodes by
    name. ``disturbs`` returns whether a change takes a node out of service.
    """
    purpose = request.maintenance.purpose
    since = {row.name: rollout_notes.done_since(fleet[row.name], purpose) for row in rows if row.step == NOTHING}
    done = {name: moment for name, moment in since.items() if moment is not None}
    held = frozenset(row.name for row in due if row.is_held)
    members = Members(
        tuple(row.name for row in due),
        quiet=frozenset(row.name for row in due if not disturbs(row)),
        halfway=frozenset(name for name in held if nodes.is_cordoned(fleet[name])),
        held=held,
        done=done,
    )
    pacing = NodePacing(members, request.pace_of({name: fleet[name] for name in (*done, *members.names)}))
    for row in due:
        row.wave = pacing.waves[row.name]
    return pacing


def predict(
    fleet: Fleet, by_name: t.Mapping[str, Json], holds: t.Mapping[str, NodeChange], warn: Warn
) -> list[NodeResult]:
    """Send the cordons and evictions of the nodes in ``holds`` as dry runs, and return what they would do."""
    busy = {name: fleet.others_at_work(by_name[name]) for name in holds}
    for name, others in busy.items():
        if others:
            warn(f"Node {name} is not begun before others have finished their work on it: {first_few(others)}.")
    results = maintenance.predict(fleet, [each for name, each in holds.items() if not busy[name]])
    for warning in maintenance.warnings_of(fleet, results, check_mode=True):
        warn(warning)
    return results


def conclude(
    rollout: HeldNodesRollout,
    rows: t.Sequence[CallRow],
    pacing: NodePacing,
    now: float,
    warn: Warn,
    degraded: t.Callable[[], t.Iterable[str]] = list,
) -> bool:
    """Say how a rollout has ended, and return whether no node is left. Raises if too many failed.

    ``degraded`` returns warnings about nodes that had nothing to change.
    """
    for row in rows:
        for note in row.held.notes:
            warn(f"Node {row.name}: {note}")
    failed = [row for row in rows if row.failed]
    if rollout.stop or len(failed) > pacing.budget:
        raise node_work.failure(rows, rollout.stop)
    for row in failed:
        warn(f"Node {row.name}: {row.reason}")
    for warning in degraded():
        warn(warning)
    if not rollout.finished:
        warn(pacing.why_left(rollout.left, now))
    return rollout.finished


@contextlib.contextmanager
def reported(rows: t.Sequence[CallRow]) -> t.Iterator[None]:
    """Give an error of the block, or the one about its interruption, the rows as they are then."""
    try:
        yield
    except GpuOpsError as e:
        raise GpuOpsError(e.msg, **{**e.details, **report(rows)}) from e
    except KeyboardInterrupt as e:
        message = f"The call was interrupted. {node_work.closing(rows)}"
        raise GpuOpsError(message, reason="Interrupted", **report(rows)) from e


def report(rows: t.Sequence[CallRow]) -> Json:
    """Return the part of a module's result about nodes."""
    listed = [row.as_result() for row in rows]
    return {
        "nodes": listed,
        "summary": {
            "nodes": len(listed),
            "changed": sum(row["changed"] for row in listed),
            "failed": sum(row["failed"] for row in listed),
            "evicted": sum(len(row["evicted"]) for row in listed),
        },
    }
