# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Cordon nodes and evict their pods: one node or many, all at once or one after the other, as the caller likes."""

from __future__ import annotations

import dataclasses
import math
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import eviction, hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import NodeChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LATE_PODS_S = 1.0
"""How long a pod may still appear after the cordon: the scheduler may have chosen the node just before."""

EVICTION_RETRY_S = 5.0
"""How long to leave a pod alone after its eviction was requested."""

HOLD_CHECK_S = 5.0
"""How often to look whether a node that is being drained is still held and cordoned."""


@dataclasses.dataclass
class Drain:
    """A node that is being drained."""

    change: NodeChange
    result: NodeResult
    since: float
    settled: float
    """The time after which no new pods appear on the node."""
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    retry_at: dict[str, float] = dataclasses.field(default_factory=dict)
    node: Json | None = None
    """The node at the last look at it."""
    check_at: float = 0.0
    """When to look at the node again."""
    lost: str = ""
    """Why the node cannot be drained any more, if somebody else has deleted or released it."""
    pods: list[Json] = dataclasses.field(default_factory=list)
    """The pods that the plan or the last look found, without those that are given up."""

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


def cordon(fleet: Fleet, change: NodeChange, result: NodeResult) -> Drain | None:
    """Cordon a node. Return its drain, which has not begun, or None if the node does not exist any more."""
    try:
        node, changed = fleet.patch(change.name, change.make_patch)
    except GpuOpsError as e:
        if e.reason != "NodeDeleted":
            raise
        result.fail(e.msg)
        return None
    note_uncordoned(result, change.node)
    describe(fleet, result, node)
    # An answer may have been lost: if the node has this call's stamp, this call has changed it.
    result.changed = changed or change.is_held_by_this_call(node)
    now = time.monotonic()
    settled = now + (LATE_PODS_S if result.changed else 0)
    return Drain(change, result, now, settled, node=node, check_at=now + HOLD_CHECK_S, pods=change.pods)


def describe(fleet: Fleet, result: NodeResult, node: Json) -> None:
    """Set in a result how a node is held, and say for whom it stays cordoned after it was released."""
    holders = fleet.holders_of(node)
    result.describe(node, holders)
    held = hold.hold_of(node)
    left_for = hold.cordoned_for(node, holders)
    if held.unschedulable and not held.purposes and left_for:
        lifts = any(holder.lifts for holder in left_for)
        never = "" if lifts else ", which will not uncordon it: run this again when it has finished"
        result.note(f"It stays cordoned for {first_few(list(map(str, left_for)))}{never}.")


def keep_cordoned(fleet: Fleet, change: NodeChange, node: Json) -> bool:
    """Cordon a node that is held again if somebody else has uncordoned it. Return whether that was so."""

    def keep(now: Json) -> Json | None:
        is_held = change.claim.purpose in hold.hold_of(now).purposes
        return hold.hold_patch(now, change.claim, change.holders_of(now)) if is_held else None

    held = hold.hold_of(node)
    if held.unschedulable or change.claim.purpose not in held.purposes:
        return False
    return fleet.patch(change.name, keep)[1]


def note_uncordoned(result: NodeResult, node: Json) -> None:
    """Note in a result that somebody has lifted the cordon of a node that is held."""
    held = hold.hold_of(node)
    if held.purposes and not held.unschedulable:
        result.note("Somebody else uncordoned it while it was held.")


def _pods_to_leave(left: t.Mapping[str, str]) -> str:
    if not left:
        return "its pods to leave"
    refused = next((f" ({pod}: {why})" for pod, why in left.items() if why), "")
    return f"{len(left)} pod{'s' if len(left) > 1 else ''} to leave{refused}"


class Drains:
    """The nodes that are being drained. `look` takes the next step for all of them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = self._fleet = fleet
        self._request = fleet.request
        self.active: dict[str, Drain] = {}
        self._ended: list[Drain] = []
        """Those that have ended since the last look that nothing interrupted."""

    def begin(self, drain: Drain) -> None:
        """Begin to drain a node that is cordoned."""
        drain.since = time.monotonic()
        self.active[drain.name] = drain

    def look(self) -> list[Drain]:
        """Evict pods and look at what is left. Return the drains that have ended: the node is empty, or has failed."""
        drains = list(self.active.values())
        self._fleet.each(self._look, drains)
        self._evict(drains)
        for drain in drains:
            self._conclude(drain)
        ended, self._ended = self._ended, []
        return ended

    @property
    def left(self) -> dict[str, dict[str, str]]:
        """The pods that are still on each node, with the API's refusals of their evictions."""
        return {name: drain.left for name, drain in self.active.items()}

    @property
    def waits_for(self) -> dict[str, str]:
        """What each node waits for, such as "1 pod to leave (default/web: the PodDisruptionBudget ...)"."""
        return {name: _pods_to_leave(left) for name, left in self.left.items()}

    @property
    def next_deadline(self) -> float:
        """When the first of these drains has taken too long (monotonic seconds)."""
        return min(map(self._deadline, self.active.values()), default=math.inf)

    def _deadline(self, drain: Drain) -> float:
        return drain.since + float(self._request.timeout_s)

    def _look(self, drain: Drain) -> None:
        """Look at the pods on a node, and at the node itself now and then, and before its drain ends."""
        pods = self._fleet.pods_on(drain.name, expects_none=not drain.pods)
        try:
            if time.monotonic() >= drain.check_at or not (pods or self._is_seen_held(drain)):
                self._keep(drain)
        except GpuOpsError as e:
            if e.reason not in ("NodeDeleted", "NodeReleased"):
                raise
            drain.lost = e.msg
        given_up = {full_name(pod): self._why_given_up(drain, pod) for pod in pods}
        drain.result.left = {name: why for name, why in given_up.items() if why}
        drain.pods = [pod for pod in pods if not given_up[full_name(pod)]]

    def _is_seen_held(self, drain: Drain) -> bool:
        """Return whether a look at all nodes that was after the last one at this node has seen it held and cordoned."""
        seen = self._fleet.seen_after(drain.node) if drain.node else None
        held = hold.hold_of(seen) if seen else None
        return held is not None and held.unschedulable and drain.change.claim.purpose in held.purposes

    def _keep(self, drain: Drain) -> None:
        """Cordon a node again if somebody else has uncordoned it, and renew its lease.

        Raises an error if the node is held no more.
        """
        claim = dataclasses.replace(drain.change.claim, now=self._fleet.now, renews=True)
        was_uncordoned = False

        def keep(node: Json) -> Json | None:
            nonlocal was_uncordoned
            held = hold.hold_of(node)
            if claim.purpose not in held.purposes:
                raise GpuOpsError("Another call has ended its maintenance in the meantime.", reason="NodeReleased")
            was_uncordoned = not held.unschedulable
            return hold.hold_patch(node, claim, self._fleet.holders_of(node))

        drain.node, dummy = self._fleet.patch(drain.name, keep)
        drain.check_at = time.monotonic() + HOLD_CHECK_S
        if was_uncordoned:
            drain.result.note("Somebody else uncordoned it while it was held. It is cordoned again.")
        describe(self._fleet, drain.result, drain.node)

    def _why_given_up(self, drain: Drain, pod: Json) -> str:
        skip_s = self._request.skips_after_s
        return eviction.given_up(pod, drain.node, self._fleet.now, skip_s) if drain.node else ""

    def _evict(self, drains: list[Drain]) -> None:
        due = [(drain, pod) for drain in drains for pod in drain.pods if drain.is_due(pod)]
        for drain, pod in due:
            found = self._fleet.obstacles([pod])
            if found:  # the pod has appeared since the plan was made
                self._fail(drain, eviction.pods_in_the_way(found).msg)
        self._fleet.each(self._request_eviction, [(drain, pod) for drain, pod in due if not drain.result.failed])

    def _request_eviction(self, pair: tuple[Drain, Json]) -> None:
        drain, pod = pair
        answer = self._fleet.evict(pod)
        drain.retry_at[eviction.uid_of(pod)] = time.monotonic() + EVICTION_RETRY_S
        if answer:
            drain.refused[eviction.uid_of(pod)] = answer
        elif answer is not None:
            drain.result.changed = True
            drain.result.evicted.append(full_name(pod))

    def _conclude(self, drain: Drain) -> None:
        now = time.monotonic()
        if drain.result.failed:
            return
        if drain.lost:
            self._fail(drain, drain.lost)
        elif not drain.pods and now >= drain.settled:
            self._end(drain)
        elif drain.pods and now >= self._deadline(drain):
            drain.result.left |= self._why_left(drain)
            self._fail(drain, eviction.explain_left(drain.result.left, self._request.timeout_s))

    def _why_left(self, drain: Drain) -> dict[str, str]:
        node, now = self._fleet.node(drain.name), self._fleet.now
        refused = drain.refused
        return {
            full_name(pod): eviction.why_left(pod, node, refused.get(eviction.uid_of(pod)), now) for pod in drain.pods
        }

    def _fail(self, drain: Drain, reason: str) -> None:
        drain.result.fail(reason)
        self._end(drain)

    def _end(self, drain: Drain) -> None:
        drain.result.seconds = round(time.monotonic() - drain.since, 1)
        if self.active.pop(drain.name, None):
            self._ended.append(drain)
