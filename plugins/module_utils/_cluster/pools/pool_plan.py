# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What happens to each node, and how far it is: one row per node, made from the rehearsal of all steps. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    DONE,
    FAILED,
    NOTHING,
    WAITING,
    HeldRow,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import POOL_PURPOSE, NodePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_steps import StepRow
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kinds
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_STATES = {NOTHING: "unchanged", WAITING: "pending", DONE: "done", FAILED: "failed"}
"""What the result says for a step. In any other, the node is changing."""

DEGRADED = "Degraded, which stops no other node: "
"""How the warning about nodes begins on which nothing is to be changed."""


@dataclasses.dataclass
class PoolMember(HeldRow):
    """What happens to one node, and how far it is."""

    name: str
    pool: NodePool | None
    """The node's pool, or None if it is in none any more."""
    steps: dict[str, StepRow] = dataclasses.field(default_factory=dict)
    """What each step changes on it, by the step's name."""
    is_held: bool = False
    """Whether an earlier run has left the node held."""
    before: dict[str, int] = dataclasses.field(default_factory=dict)
    after: dict[str, int] = dataclasses.field(default_factory=dict)
    pods: list[str] = dataclasses.field(default_factory=list)
    """The pods that leave the node."""
    evicted: set[str] = dataclasses.field(default_factory=set)
    """The pods that a step has evicted, beside those of the drain."""

    @property
    def interrupts(self) -> bool:
        """Whether a step takes GPUs away from pods or machines, so that the node is emptied first."""
        return any(step.interrupts for step in self.steps.values()) or self.is_held

    @property
    def is_due(self) -> bool:
        """Whether a step changes the node, or has to go on with it."""
        return self.is_held or any(step.changed or step.interrupts for step in self.steps.values())

    @property
    def state(self) -> str:
        """How far the node is, in the words of the result."""
        return "degraded" if self.degraded and self.step in (NOTHING, DONE) else _STATES.get(self.step, "changing")

    def as_result(self) -> Json:
        """Return the node's entry in the module's result."""
        return {
            "node": self.name,
            "pool": self.pool.name if self.pool else "",
            "changes": {name: step.change for name, step in self.steps.items() if step.change},
            "changed": self.changed,
            "state": self.state,
            "wave": self.wave,
            "waits_for": self.waits_for,
            "failed": self.failed,
            "degraded": self.degraded,
            "reason": self.reason,
            "resumed": self.is_held,
            "drained": self.interrupts,
            "pods": self.pods,
            "evicted": sorted({*self.held.evicted, *self.evicted}),
            "unschedulable": self.held.unschedulable,
            "purposes": self.held.purposes,
            "notes": self.held.notes,
            "resources_before": self.before,
            "resources_after": self.after,
            "seconds": self.seconds,
        }


def member_of(node: Json, pool: NodePool | None, steps: t.Mapping[str, StepRow]) -> PoolMember:
    """Return the row of a node before anything happens."""
    offers = kinds.allocatable(node)
    name = str(node["metadata"]["name"])
    member = PoolMember(
        name=name,
        pool=pool,
        steps=dict(steps),
        is_held=POOL_PURPOSE in hold.hold_of(node).purposes,
        before=offers,
        after=offers,
        held=NodeResult(name),
    )
    member.held.describe(node, [])
    member.degraded = "; ".join(one_line(step.degraded) for step in member.steps.values() if step.degraded)
    blocked = [step.waits_for for step in member.steps.values() if step.waits_for]
    member.waits_for = "; ".join(map(one_line, blocked))
    if not member.is_due or blocked:
        member.step = NOTHING
    return member


def warnings_of(members: t.Iterable[PoolMember]) -> list[str]:
    """Return warnings about nodes that have what they should and do not offer it all, and about those left out."""
    degraded: dict[str, list[str]] = {}
    blocked: dict[str, list[str]] = {}
    for member in members:
        if member.step == NOTHING and member.waits_for:
            blocked.setdefault(member.waits_for, []).append(member.name)
        elif member.state == "degraded":
            degraded.setdefault(member.degraded, []).append(member.name)
    return [
        *[f"{DEGRADED}{first_few(who)}: {what}." for what, who in degraded.items()],
        *[f"{first_few(who)} not begun: {what}." for what, who in blocked.items()],
    ]


def diff(members: t.Iterable[PoolMember]) -> Json:
    """Return what each step changes, by node."""
    due = {member.name: member for member in members if member.is_due}

    def part(member: PoolMember, is_after: bool) -> Json:
        changes = {name: step.change for name, step in member.steps.items() if step.change}
        offers = {} if is_after else {"resources": member.before}
        return {**offers, "pods": [] if is_after else member.pods, **(changes if is_after else {})}

    return {
        "before": {name: part(member, False) for name, member in due.items()},
        "after": {name: part(member, True) for name, member in due.items()},
    }
