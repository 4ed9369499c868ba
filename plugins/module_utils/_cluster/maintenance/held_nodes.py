# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one rollout of held nodes: hold, drain, change, prove, put back, and begin the next ones.

A node whose change failed stays held, unless it is proved that nothing on it changed: it was in service before this
call, and no change was sent to it, or the work itself has proved it. One thread makes the decisions, and a few others
send the requests. All state is on the nodes, so the next run goes on where a killed one was.
"""

from __future__ import annotations

import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import drain, hold, rollout_notes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintain import release
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_plan import (
    MakePatch,
    NodeChange,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    DONE,
    DRAIN,
    FAILED,
    GONE,
    NOTHING,
    WAITING,
    NodeWork,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import ILL_S, NodePacing
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Standing
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


class HeldNodesRollout:
    """One call that changes nodes, of which those in ``holds`` are held and emptied for their change.

    ``at_once`` are nodes whose change disturbs nobody: they are no members of the rollout and begin immediately. They
    stop nobody. One of them on which nothing was changed, and that does not offer what it should, is degraded.
    """

    def __init__(
        self,
        fleet: Fleet,
        work: NodeWork[t.Any],
        holds: t.Mapping[str, NodeChange],
        pacing: NodePacing,
        at_once: t.Collection[str] = (),
    ) -> None:
        self._fleet, self._work, self._holds, self._pacing = fleet, work, holds, pacing
        self._rows, self._at_once = work.rows, at_once
        self._members = [*pacing.members.done, *pacing.members.names]
        self._drains = drain.Drains(fleet)
        self._nodes: t.Mapping[str, Json] = {}
        self._began: dict[str, float] = {}
        self._well_since = dict(pacing.members.done)
        self._ill: dict[str, float] = {}
        self._slowest_s = 0.0
        self._asked: set[str] = set()
        """Nodes whose cordon was requested without an answer."""
        self._taken: set[str] = set(pacing.members.held)
        """Nodes that are held, by this call or an earlier one."""
        self._to_release: dict[str, bool] = {}
        """The nodes to put back, and whether their change is proved."""
        self._to_mark: set[str] = set()
        """Nodes that stay held, and do not say yet why."""
        self._closed = ""
        """What the nodes wait for that have not begun, if this call does not wait for it."""
        self._line = ""
        self.stop = ""
        """Why no further node was begun, or an empty string."""
        for name, wave in pacing.waves.items():
            self._rows[name].wave = wave

    @property
    def finished(self) -> bool:
        """Whether no node is left to begin or in its change."""
        return not self._busy and not self.left

    @property
    def left(self) -> list[str]:
        """The nodes that have not begun."""
        return [name for name in self._members if name not in self._began and self._rows[name].step == WAITING]

    def run(self) -> None:
        """Change the nodes. After an error or a signal, put back those on which nothing was changed."""
        for name in self._at_once:
            self._begin(name)
        try:
            waiting.until(self._tick, period_s=waiting.ROLLOUT_PERIOD_S, on_outage=lambda error: self._say(error.msg))
            self._forget()
        finally:
            self._fleet.interruption.disregard()
            self._put_back()

    def _tick(self) -> bool | None:
        """Take the next step on all nodes in their change, and begin others. Return True when the run is over."""
        self._fleet.interruption.check()
        self._nodes = self._fleet.seen = self._work.look()
        self._fleet.look_elsewhere_again()
        self._end_drains()
        self._work.consult(self._busy)
        begun = self._changing
        self._advance_all(begun)
        self._release()
        self._watch()
        self._admit()
        self._advance_all([name for name in self._changing if name not in begun])
        self._say(self._work.progress(time.monotonic(), self._closed))
        return True if self._is_over else None

    # ---- where the nodes are

    @property
    def _busy(self) -> list[str]:
        return [name for name in self._began if self._rows[name].step not in (DONE, FAILED)]

    @property
    def _changing(self) -> list[str]:
        """The nodes in their change that are not being drained any more, nor about to be put back."""
        return [name for name in self._busy if self._rows[name].step != DRAIN and name not in self._to_release]

    @property
    def _is_over(self) -> bool:
        is_idle = not self._busy and not self._to_release and not self._to_mark
        left = [name for name in self.left if not self._closed or name in self._pacing.members.halfway]
        return is_idle and (bool(self.stop) or not left)

    def _say(self, line: str) -> None:
        """Append the progress to the progress file if it has changed."""
        if line != self._line:
            self._line = line
            waiting.append_line(self._fleet.request.progress_path, line)

    # ---- beginning

    def _admit(self) -> None:
        """Begin the next nodes, unless too many have failed."""
        now, rows = self._fleet.now, self._rows
        failed = {name: rows[name].reason for name in self._members if rows[name].failed}
        gate = self._pacing.gate({name: self._well_since.get(name, 0.0) for name in self._done}, failed, now)
        self._closed = self._pacing.closed(now, self._slowest_s) if self.left else ""
        waits = dict.fromkeys(self.left, self._closed) if self._closed else dict.fromkeys(gate.closed, gate.waits_for)
        postponed = frozenset(name for name in self.left if self._is_postponed(name, waits.get(name, "")))
        if self.stop:
            self._to_release |= dict.fromkeys(self._asked, False)
            return
        standing = Standing(
            busy=frozenset(self._busy) & frozenset(self._members),
            done=frozenset(self._done),
            failed={name: rows[name].reason for name in self._members if rows[name].failed},
            away=frozenset(name for name, row in rows.items() if row.kept),
            postponed=postponed,
        )
        admission = self._pacing.admit(standing)
        self.stop = admission.stop
        self._fleet.each(self._take, admission.members)

    @property
    def _done(self) -> list[str]:
        return [name for name in self._members if self._rows[name].step in (DONE, NOTHING)]

    def _is_postponed(self, name: str, waits_for: str) -> bool:
        """Return whether a node cannot begin yet. It fails if another maintainer is working on it for too long."""
        node, row, now = self._nodes.get(name), self._rows[name], time.monotonic()
        if node is None:
            self._fail(name, GONE)
            return True
        if waits_for and name not in self._pacing.members.halfway:
            row.wait(waits_for, now)
            return True
        at_work = self._fleet.others_at_work(node) if name in self._holds else []
        if not at_work:
            row.waits_for = ""
            return False
        row.wait(f"{first_few(at_work)} to finish its work on the node", now)
        if now - row.since >= self._work.timeout_s:
            self._fail(name, f"{first_few(at_work)} was still working on it after {int(now - row.since)} s.")
        return True

    def _take(self, name: str) -> None:
        """Hold a node and begin to empty it, or begin at once with a node that needs neither."""
        row, change = self._rows[name], self._holds.get(name)
        if change is None:
            self._begin(name)
            return
        self._asked.add(name)
        try:
            taken = drain.cordon(self._fleet, change, row.held)
        except GpuOpsError as e:
            if e.reason not in ("NodesBusy", "HeldElsewhere"):
                raise
            self._asked.discard(name)
            if e.reason == "HeldElsewhere":  # the next look postpones a busy node
                self._fail(name, e.msg)
            return
        self._asked.discard(name)
        if taken is None:
            self._fail(name, row.held.reason)
            return
        self._taken.add(name)
        row.changed = row.changed or row.held.changed
        if self._work.is_under_way(name, self._nodes[name]):
            self._begin(name)
            return
        now = time.monotonic()
        self._began[name], row.step = now, DRAIN
        row.wait("its pods to leave", now)
        self._drains.begin(taken)

    def _begin(self, name: str) -> None:
        now = time.monotonic()
        self._began.setdefault(name, now)
        self._work.begin(name, now)

    def _end_drains(self) -> None:
        now = time.monotonic()
        for ended in self._drains.look():
            self._rows[ended.name].changed |= ended.result.changed
            if ended.result.failed:
                self._fail(ended.name, ended.result.reason)
            else:
                self._begin(ended.name)
        for name, pods in self._drains.waits_for.items():
            self._rows[name].wait(pods, now)

    # ---- the change of a node

    def _advance_all(self, names: t.Sequence[str]) -> None:
        self._fleet.each(self._advance, names)
        for name, reason in self._work.prove_together().items():
            self._fail(name, reason)

    def _advance(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            self._fail(name, GONE)
            return
        self._keep_cordoned(name, node)
        outcome = self._work.advance(name, node, time.monotonic())
        if outcome.kind == "done":
            self._to_release[name] = True
        elif outcome.kind == "failed":
            self._fail(name, outcome.reason, outcome.is_unchanged)

    def _keep_cordoned(self, name: str, node: Json) -> None:
        """Cordon a node again if somebody else has uncordoned it, so that no pod gets a GPU in the middle."""
        change = self._holds.get(name)
        if change and drain.keep_cordoned(self._fleet, change, node):
            said = "Somebody else uncordoned it in the middle of its change. It is cordoned again."
            self._rows[name].held.note(said)

    # ---- the end of a node's change

    def _fail(self, name: str, reason: str, is_unchanged: bool = False) -> None:
        """Record a failure. A node is put back only if it is proved that nothing on it changed."""
        row = self._rows[name]
        self._note_seconds(name)
        if name in self._at_once and not row.changed:
            row.degrade(self._work.explain(name, reason))
            return
        row.fail(self._work.explain(name, reason))
        if name not in self._taken or name not in self._nodes:
            return
        was_in_service = name not in self._pacing.members.held
        if was_in_service and (is_unchanged or name not in self._work.touched):
            self._to_release[name] = False
        else:
            self._keep(name)

    def _keep(self, name: str) -> None:
        self._rows[name].keep(self._work.purpose)
        self._to_mark.add(name)

    def _note_seconds(self, name: str) -> None:
        if name in self._began:
            self._rows[name].seconds = round(time.monotonic() - self._began[name], 1)

    def _release(self) -> None:
        """Put back the nodes that are finished, and let those that stay held say why."""
        due = dict(self._to_release)
        plain = [name for name, is_done in due.items() if is_done and not self._needs_patch(name)]
        patches = {name: self._end_of_hold(name, due[name]) for name in due if name not in plain}
        patches |= {name: self._mark(name) for name in self._to_mark - due.keys()}
        done, errors = release(self._fleet, patches) if patches else ({}, {})
        marked, self._to_mark, self._to_release = self._to_mark, set(), {}
        # The three are emptied no earlier: if a signal has ended the call above, the nodes are put back at the end.
        for name, (node, changed) in done.items():
            self._rows[name].changed = self._rows[name].changed or changed
            drain.describe(self._fleet, self._rows[name].held, node)
            self._work.describe(name, node)
            if name in due:
                self._taken.discard(name)
        self._asked -= due.keys()
        for name in [name for name in due if due[name] and name not in errors]:
            self._end(name)
        for name in errors.keys() - marked:
            self._not_put_back(name, errors[name])

    def _needs_patch(self, name: str) -> bool:
        is_noted = rollout_notes.done_since(self._nodes[name], self._work.purpose) is not None
        return name in self._taken or name in self._pacing.awaited or is_noted or self._work.tidies(name)

    def _end(self, name: str) -> None:
        """Record that the change of a node is proved, and the node back in service."""
        row = self._rows[name]
        self._note_seconds(name)
        row.step, row.waits_for = DONE, ""
        self._slowest_s = max(self._slowest_s, row.seconds)
        self._well_since[name] = self._fleet.now

    def _end_of_hold(self, name: str, is_done: bool) -> MakePatch:
        """Return how a node is released. If the cordon's answer was lost, only what this call has done is undone."""
        if name in self._asked:
            return self._holds[name].undo_patch
        work, now, is_awaited = self._work, self._fleet.now, name in self._pacing.awaited

        def make_patch(node: Json) -> Json | None:
            released = hold.release_patch(node, work.purpose, self._fleet.holders_of(node))
            if not is_done:
                return released
            ended = work.end_patch(name, node, released)
            return rollout_notes.done_patch(node, ended, work.purpose, now if is_awaited else None)

        return make_patch

    def _mark(self, name: str) -> MakePatch:
        reason = self._rows[name].reason
        return lambda node: rollout_notes.failure_patch(node, self._work.purpose, reason)

    def _not_put_back(self, name: str, error: GpuOpsError) -> None:
        row = self._rows[name]
        self._note_seconds(name)
        row.fail(f"{row.reason} It could not be put back: {one_line(error.msg)}.".lstrip())
        if error.reason != "NodeDeleted":
            row.keep(self._work.purpose)

    def _watch(self) -> None:
        """Look whether the nodes that were done are still well. One that is not has failed after all."""
        now = time.monotonic()
        for name in self._done:
            node = self._nodes.get(name)
            illness = self._work.illness(name, node) if node and name in self._began else ""
            if not illness:
                self._ill.pop(name, None)
            elif now - self._ill.setdefault(name, now) >= ILL_S:
                self._rows[name].fail(f"Its change was proved, and it is not well any more: {illness}.")

    def _forget(self) -> None:
        """Remove the notes about nodes that were done, which the next wave needed, if no wave is left."""
        if self.finished and not self.stop:
            before = self._pacing.members.done
            noted = [name for name in self._done if name in self._pacing.awaited or name in before]
            purpose = self._work.purpose
            self._fleet.patch_all(
                dict.fromkeys(noted, lambda node: rollout_notes.done_patch(node, None, purpose, None))
            )

    def _put_back(self) -> None:
        """At the end, put back the nodes that were taken and have not been changed, and say so about the others."""
        self._fleet.finish()
        for name in self._busy:
            row, step = self._rows[name], self._rows[name].step
            if name in self._to_release:
                continue
            is_half_done = name in self._work.touched or name in self._pacing.members.held
            where = f"in the middle of the node's change ({step})" if is_half_done else "before the node was changed"
            row.fail(f"The call ended {where}.")
            if name in self._taken and is_half_done:
                self._keep(name)
            elif name in self._taken:
                self._to_release[name] = False
        self._to_release |= dict.fromkeys(self._asked, False)
        self._release()
