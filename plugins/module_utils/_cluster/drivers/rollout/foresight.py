# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a rollout would do, from one look at the nodes: also with those that an earlier call has left behind. Pure.

It judges the nodes as the rollout itself does, so that a check shows the same nodes as the run.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import (
    DriverRow,
    RolloutResult,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_steps import why_left_out
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names


@dataclasses.dataclass(frozen=True)
class Foresight:
    """The rows that a rollout would begin with, and the nodes whose driver an earlier call has left to it."""

    result: RolloutResult
    resumed: tuple[str, ...] = ()
    """The nodes that get their turn although the declaration does not change their driver."""


def foresee(
    sights: t.Mapping[str, DriverNode],
    now: float,
    replaced: t.Collection[str],
    removed: t.Collection[str] = (),
    is_closed: bool = False,
) -> Foresight:
    """Return what becomes of the nodes. ``replaced`` get another driver, and ``removed`` lose theirs.

    While no maintenance window is open (``is_closed``), nodes are only kept back.
    """
    rows = [_row(sight, now, name in replaced, is_closed) for name, sight in sights.items() if name not in removed]
    due = {row.node for row in rows if row.action == "upgrade"}
    resumed = [name for name in sorted(due - set(replaced)) if _is_given_a_turn(sights[name])]
    return Foresight(RolloutResult(rows), tuple(resumed))


def _row(sight: DriverNode, now: float, is_replaced: bool, is_closed: bool) -> DriverRow:
    row = DriverRow(sight.name)
    row.describe(sight)
    row.before = row.after
    is_proved = sight.is_proved(now) and not is_replaced
    why_not = why_left_out(sight, is_proved)
    if why_not:
        row.leave_out(why_not)
    elif not is_proved and not is_replaced and sight.has_no_change:
        row.degrade(sight.waits_for(now))
    elif is_proved:
        row.action, row.step = "nothing", "done"
        row.changed = driver_annotations.done_patch(sight.node, now) is not None
    else:
        row.step = "upgrade" if sight.is_begun else "waiting"
        row.changed = _is_changed(sight, now, is_closed)
        row.waits_for = "" if is_replaced else sight.waits_for(now)
        row.kept_back = driver_annotations.is_ours(sight.node)
    return row


def _is_changed(sight: DriverNode, now: float, is_closed: bool) -> bool:
    if sight.is_begun:  # what the operator has begun by itself is only watched
        return sight.note is not None or not sight.driver.automatic
    return not is_closed or driver_annotations.hold_patch(sight.node, now) is not None


def _is_given_a_turn(sight: DriverNode) -> bool:
    """Return whether GPU pods leave the node for its turn, which has not begun."""
    is_outdated = not sight.is_current or sight.state in (names.UPGRADE_REQUIRED, names.UPGRADE_FAILED)
    return is_outdated and not sight.is_begun
