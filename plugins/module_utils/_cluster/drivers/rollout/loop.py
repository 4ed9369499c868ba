# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The loop of a rollout: look at all nodes, note what each waits for, give the next ones their turn, prove the others.

The operator does the work on a node, unless it was told not to; then `manual` does it. Nothing about the order is kept
in this process or by the operator: see `marks`.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import driver_result, turns
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.causes import (
    DETAIL_S,
    Causes,
    WaitDetails,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_queue import DriverQueue
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import DriverReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import (
    DriverRow,
    RolloutResult,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_steps import (
    OF_A_USER,
    DriverTrack,
    decide,
    follow,
    illness,
    is_kept_back,
    why_left_out,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.manual import Hands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.rollout_options import (
    DriverRolloutRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import (
    ILL_S,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import version_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import stages
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.pace import Pace


class DriverLoop:
    """One call that gives nodes their driver."""

    def __init__(
        self,
        cluster: Cluster,
        fleet: Fleet,
        reader: DriverReader,
        request: DriverRolloutRequest,
    ) -> None:
        self._cluster, self._fleet, self._reader, self._request = cluster, fleet, reader, request
        self._causes = Causes(cluster, fleet)
        self._details = WaitDetails(self._causes, fleet)
        self._turns = turns.Turns(cluster, fleet)
        self._waker = turns.Waker(self._turns)
        self._hands = Hands(cluster, fleet, request)
        self._sights: dict[str, DriverNode] = {}
        self.rows: dict[str, DriverRow] = {}
        self._tracks: dict[str, DriverTrack] = {}
        self._versions: dict[str, int] = {}
        """The versions of nodes after our own patches. A look that shows an older one says nothing."""
        self._proved: list[str] = []
        """The nodes that this look has found to have their driver. They are let go together, which is much faster."""
        self._ill: dict[str, float] = {}
        self._queue: DriverQueue
        """The order of the nodes, which the first look fixes."""
        self._elsewhere = -DETAIL_S
        self._closed: set[str] = set()
        """Nodes that wait for something that this call does not wait for: a window, or whoever has paused them."""
        self._line = ""
        self._pace = Pace()
        self._told: list[tuple[t.Any, ...]] = []
        """What the last look has found of each node."""
        self._stop = ""

    @property
    def result(self) -> RolloutResult:
        """The result as it is now."""
        for name, row in self.rows.items():
            sight = self._sights.get(name)
            is_kept = sight is not None and driver_annotations.is_ours(sight.node) and row.step != "done"
            row.kept_back = is_kept and sight is not None and not sight.is_begun
        return RolloutResult(list(self.rows.values()), self._stop)

    def go(self, only: t.Collection[str] | None = None) -> RolloutResult:
        """Take all nodes through their upgrade."""
        self._start(only)
        try:
            waiting.until(self._tick, poll_s=self._pace.pause_s, on_outage=lambda error: self._say(error.msg))
            self._tidy()
        finally:
            self._fleet.interruption.disregard()
            self._hands.put_back(self.rows)
            self._refresh()
        return self.result

    def _tidy(self) -> None:
        """Remove the notes about upgraded nodes, which the next wave needed, if there is none any more."""
        if self.result.finished and self._request.rollout.pace.soak_s:
            done = [name for name, row in self.rows.items() if (row.step, row.action) == ("done", "upgrade")]
            self._fleet.patch_all(dict.fromkeys(done, driver_annotations.let_go_patch))

    def _refresh(self) -> None:
        """Look once more, so that the result says what the call has left behind.

        That is nothing new if the operator has upgraded all nodes: each was seen in service before it was done.
        """
        if all(row.step == "left out" or self._was_upgraded(row) for row in self.rows.values()):
            return
        try:
            self._sights = self._reader.look(self._fleet)
        except GpuOpsError:  # the result then says what was seen before
            return
        for name, row in self.rows.items():
            sight = self._sights.get(name)
            if sight is not None:
                row.describe(sight)
                # A signal may have come right after the write.
                if row.step == "waiting" and sight.driver.automatic and sight.is_begun:
                    row.step = "upgrade"

    def _was_upgraded(self, row: DriverRow) -> bool:
        return row.step == "done" and self._sights[row.node].driver.automatic

    # ---- the beginning

    def _start(self, only: t.Collection[str] | None) -> None:
        self._sights = self._reader.look(self._fleet)
        self._fleet.look_elsewhere()
        now = self._reader.now
        for name, sight in self._sights.items():
            row = self.rows[name] = DriverRow(name)
            row.describe(sight)
            row.before = row.after
            is_proved = sight.is_proved(now)
            why_not = why_left_out(sight, is_proved)
            if why_not:
                row.leave_out(why_not)
            elif not is_proved and sight.has_no_change:
                row.degrade(sight.waits_for(now))
            elif only is not None and name not in only:
                row.leave_out("This call is not about it.")
            elif is_proved:
                row.action = "nothing"
        members = [name for name, row in self.rows.items() if row.step != "left out"]
        self._keep_back(members, starts=True)
        done = [name for name in members if self.rows[name].action == "nothing"]
        self._queue = DriverQueue(members, done, self._sights, self._request)
        for name, wave in self._queue.waves.items():
            self.rows[name].wave = wave

    def _keep_back(self, chosen: t.Iterable[str], starts: bool = False) -> None:
        """Keep nodes from their upgrade that are not kept back yet: the operator could begin with any of them."""
        now = self._reader.now
        due = {
            name: functools.partial(driver_annotations.hold_patch, now=now)
            if sight.driver.automatic
            else driver_annotations.let_go_patch
            for name in chosen
            if (sight := self._sights.get(name)) is not None
            and (self.rows[name].step, self.rows[name].action) == ("waiting", "upgrade")
            and is_kept_back(sight, starts)
        }
        self._patch(due)

    def _patch(self, patches: t.Mapping[str, driver_annotations.MakePatch]) -> set[str]:
        """Patch nodes, together and where there is something to patch. Return those that were changed.

        A node that is gone is left out at the next look.
        """
        due = {name: patch for name, patch in patches.items() if patch(self._sights[name].node) is not None}
        done, errors = self._fleet.patch_all(due) if due else ({}, {})
        for name, (node, changed) in done.items():
            self.rows[name].changed = self.rows[name].changed or changed
            self._versions[name] = version_of(node)
        for error in errors.values():
            if error.reason != "NodeDeleted":
                raise error
        return {name for name, (dummy, changed) in done.items() if changed}

    # ---- one look

    def _tick(self) -> bool | None:
        """Look at all nodes, and take the next step on those that are ready for one. Return True in the end."""
        self._fleet.interruption.check()
        self._pace.begin()
        self._sights = self._reader.look(self._fleet)
        now = self._reader.now
        self._look_around(now)
        for name, reason in self._hands.look(self.rows).items():
            self._fail(name, self.rows[name], self._sights[name], reason, now)
        for name, row in self.rows.items():
            if row.step != "left out":
                self._see(name, row, now)
        self._let_go(now)
        self._keep_back(self.rows)
        self._admit(now)
        under_way = [name for name, row in self.rows.items() if row.step in ("waiting", "upgrade")]
        self._waker.look(self._sights, under_way, now)
        self._say(driver_result.progress(self.rows.values(), now))
        told = [(row.step, row.state, row.since) for row in self.rows.values()]
        self._pace.end(has_news=told != self._told)
        self._told = told
        return True if self._is_over else None

    @property
    def _is_over(self) -> bool:
        steps = [row.step for row in self.rows.values()]
        left = [name for name, row in self.rows.items() if row.step == "waiting" and name not in self._closed]
        return "upgrade" not in steps and (bool(self._stop) or not left)

    def _say(self, line: str) -> None:
        """Append the progress to the progress file if it has changed."""
        if line != self._line:
            self._line = line
            waiting.append_line(self._request.rollout.maintenance.progress_path, line)

    def _look_around(self, now: float) -> None:
        """Read now and then what other maintainers do, and which pods the nodes in their upgrade wait for."""
        if now - self._elsewhere >= DETAIL_S:
            self._elsewhere = now
            self._fleet.look_elsewhere_again()
        begun = {name: row.since for name, row in self.rows.items() if row.step == "upgrade"}
        self._details.look(self._sights, begun, now)

    def _see(self, name: str, row: DriverRow, now: float) -> None:
        """Take over what a look at one node says."""
        sight = self._sights.get(name)
        if sight is None:
            row.leave_out("It was deleted, or has no driver container any more.")
            return
        if sight.version < self._versions.get(name, 0):
            return
        row.describe(sight)
        if (
            row.step == "waiting"
            and driver_annotations.is_of_a_user(sight.node)
            and not (sight.is_begun or sight.is_proved(now))
        ):
            row.leave_out(OF_A_USER)
        elif row.step == "waiting" and sight.is_begun:
            self._resume(name, row, sight, now)
        if row.step == "upgrade":
            self._in_upgrade(name, row, sight, now)
        elif row.step == "done":
            self._after(name, row, sight, now)
        elif not sight.is_begun and sight.is_proved(now):
            self._done(name, row, sight, now)

    def _resume(self, name: str, row: DriverRow, sight: DriverNode, now: float) -> None:
        """Go on with a node whose upgrade an earlier call or the operator has begun."""
        if sight.driver.automatic or sight.is_current or self._begin_by_hand(sight, row):
            self._begun(name, row, sight, now)

    def _begun(self, name: str, row: DriverRow, sight: DriverNode, now: float) -> None:
        row.step, row.action = "upgrade", "upgrade"
        self._tracks[name] = DriverTrack(now, now, sight.marks)

    def _in_upgrade(self, name: str, row: DriverRow, sight: DriverNode, now: float) -> None:
        track = self._tracks[name] = follow(self._tracks[name], sight, now)
        if self._hands.is_draining(name):  # a drain has a deadline of its own
            self._tracks[name] = dataclasses.replace(track, moved=now)
            row.wait(self._hands.waits_for(name), now)
            return
        verdict = decide(sight, track, self._request.timeout_s, now, self._details.of(name))
        row.wait(verdict.waits_for, now)
        if verdict.kind == "done":
            self._done(name, row, sight, now)
        elif verdict.kind == "failed":
            self._fail(name, row, sight, verdict.reason, now)

    def _done(self, name: str, row: DriverRow, sight: DriverNode, now: float) -> None:
        """Let a node go that has its driver."""
        if sight.driver.automatic:
            self._proved.append(name)
        else:
            row.changed = self._hands.end(sight) or row.changed
            self._ended(name, now)

    def _let_go(self, now: float) -> None:
        """Let those nodes go that the operator has upgraded."""
        proved, self._proved = self._proved, []
        soaks = bool(self._request.rollout.pace.soak_s)
        keeps = {name: soaks and self.rows[name].action == "upgrade" for name in proved}
        self._patch(
            {name: functools.partial(driver_annotations.done_patch, now=now, keeps=keeps[name]) for name in proved}
        )
        for name in proved:
            self._ended(name, now)

    def _ended(self, name: str, now: float) -> None:
        """Record that a node has its driver."""
        row, note = self.rows[name], self._sights[name].note
        seconds = now - self._tracks[name].begun if name in self._tracks else 0.0
        # A node that an earlier call has upgraded is well since then.
        well_since = note.since if note and note.kind == "done" else (now if row.action == "upgrade" else 0.0)
        self._queue.ended(name, seconds, well_since)
        row.end(seconds)

    def _after(self, name: str, row: DriverRow, sight: DriverNode, now: float) -> None:
        """Watch a node that has its driver. If somebody has changed the driver again, the node waits for its turn."""
        if not sight.is_current:
            row.step, row.action = "waiting", "upgrade"
            return
        lacks = illness(sight, now)
        if not lacks:
            self._ill.pop(name, None)
        elif now - self._ill.setdefault(name, now) >= ILL_S and row.action == "upgrade":
            self._fail(name, row, sight, f"It had its driver, and is not well any more: it waits for {lacks}.", now)

    def _fail(self, name: str, row: DriverRow, sight: DriverNode, reason: str, now: float) -> None:
        """Record a failure with its cause. A node whose driver was not touched is put back."""
        told = f"{reason} {self._causes.of_failure(sight, now, reason)}".rstrip()
        fails = self._turns.fail(sight, told, now) if sight.driver.automatic else self._hands.fail(sight, told)
        ended, node = fails
        if node is not None:
            self._versions[name], row.unschedulable = version_of(node), nodes.is_cordoned(node)
        row.changed = True
        row.fail(f"{told} {ended}".rstrip())

    # ---- who is next

    def _admit(self, now: float) -> None:
        """Begin the next nodes, unless too many have failed."""
        if self._stop:
            return
        rows = self.rows
        self._closed, gate = set(), self._queue.gate(rows, now)
        left = [(name, row) for name, row in rows.items() if row.step == "waiting" and name in self._sights]
        postponed = frozenset(name for name, row in left if self._is_postponed(name, row, gate, now))
        admission = self._queue.admit(rows, postponed)
        self._stop = admission.stop
        self._begin(admission.members, now)

    def _is_postponed(self, name: str, row: DriverRow, gate: stages.Gate, now: float) -> bool:
        """Return whether a node must still wait. It fails if that takes too long and depends on no other node."""
        sight = self._sights[name]
        closed = self._queue.closed_for(sight, now)
        if name in gate.closed:
            row.wait(gate.waits_for, now)
            self._closed |= {name} if closed else set()
            return True
        if closed:
            row.wait(closed, now)
            self._closed.add(name)
            return True
        obstacle = turns.obstacle(sight, self._fleet, self._request.rollout.maintenance.allows_shared)
        row.wait(obstacle or "its turn", now)
        if obstacle and now - row.since >= self._request.timeout_s:
            told = f"It did not start: for {int(now - row.since)} s it waited for {obstacle}."
            self._fail(name, row, sight, told, now)
        return bool(obstacle)

    def _begin(self, chosen: t.Iterable[str], now: float) -> None:
        """Give nodes their turn. If somebody was faster, the next look says what has happened."""
        turned: dict[str, driver_annotations.MakePatch] = {}
        for name in chosen:
            if self._sights[name].driver.automatic:
                turned[name] = functools.partial(driver_annotations.turn_patch, now=now)
            elif self._begin_by_hand(self._sights[name], self.rows[name]):
                self._has_turn(name, now)
        for name in sorted(self._patch(turned)):
            self._has_turn(name, now)

    def _has_turn(self, name: str, now: float) -> None:
        sight, row = self._sights[name], self.rows[name]
        row.changed = True
        self._begun(name, row, sight, now)
        row.wait(sight.waits_for(now), now)

    def _begin_by_hand(self, sight: DriverNode, row: DriverRow) -> bool:
        begun, failure = self._hands.begin(sight, row)
        if failure:
            row.fail(failure)
        return begun
