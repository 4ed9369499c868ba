# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Give nodes their MIG layouts: take a node, empty it, set the layout, prove it, put the node back; a few at a time.

One thread makes the decisions, and a few others send the requests. All nodes together are read once, and then only
those that have changed.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import drain, hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import plan as maintenance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import NODES, Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.run import release
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import proof, result, steps
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import (
    Action,
    Seen,
    Settings,
    Track,
    tidied,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.plan import NodePlan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.read import Reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.result import Row
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.sight import MIG_PURPOSE, Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_DISABLED
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import version_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Standing, Window
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MANAGERS_S = 5.0
"""How often to read the MIG managers' pods while a node waits for one."""

MANAGER_RUNS = "Running"


@dataclasses.dataclass(frozen=True)
class Work:
    """What a run has to do, and with what."""

    cluster: Cluster
    reader: Reader
    fleet: Fleet
    settings: Settings
    plans: t.Mapping[str, NodePlan]
    changes: t.Mapping[str, maintenance.NodeChange]
    """How each node that is to be emptied is held."""
    window: Window
    removes: bool = False
    """Whether the label is removed in the end."""


class Run:
    """One call that gives nodes their layouts."""

    def __init__(self, work: Work, rows: dict[str, Row]) -> None:
        self._work, self.rows = work, rows
        self._fleet = work.fleet
        self._drains = drain.Drains(work.fleet)
        self._nodes: t.Mapping[str, Json] = {}
        self._managers: dict[str, str] | None = None
        """The statuses of the MIG managers' pods, once they have been read."""
        self._tracks: dict[str, Track] = {}
        self._marks: dict[str, t.Any] = {}
        self._began: dict[str, float] = {}
        self._to_test: list[str] = []
        self._asked: set[str] = set()
        """Nodes whose cordon was requested without an answer."""
        self._unanswered: set[str] = set()
        """Nodes of which nobody knows whether they have got their last patch."""
        self._to_release: dict[str, bool] = {}
        """The nodes to put back, and whether they have their layout."""
        self._held: set[str] = set()
        """Nodes that failed and were not put back."""
        self._looked_at_managers = time.monotonic()
        self._line = ""
        self.stop = ""
        """Why no further node was begun, or an empty string."""

    def go(self) -> None:
        """Change the nodes. After a failure or a signal, put back those on which nothing has been changed yet."""
        self._begin_without_drain()
        try:
            waiting.until(self._tick, period_s=waiting.ROLLOUT_PERIOD_S, on_outage=lambda error: self._say(error.msg))
        finally:
            self._fleet.interruption.disregard()
            self._put_back()

    def _begin_without_drain(self) -> None:
        """Begin with the nodes that lack only a repair or a proof, since that disturbs nobody."""
        now = time.monotonic()
        for name, plan in self._work.plans.items():
            if plan.todo in ("repair", "prove"):
                self._track(name, Track("prove", now, now))

    def _tick(self) -> bool | None:
        """Take the next step on all nodes in their change, and begin others. Return True when the run is over."""
        self._nodes = self._fleet.seen = self._work.reader.nodes()
        self._look_around()
        self._end_drains()
        self._fleet.each(self._advance, [name for name in self._busy if self._tracks[name].step != "drain"])
        self._test()
        self._release()
        self._admit()
        self._say(result.progress(self.rows.values(), time.monotonic()))
        return True if self._is_over else None

    @property
    def _busy(self) -> list[str]:
        return [name for name, track in self._tracks.items() if track.step not in ("done", "failed")]

    @property
    def _waiting(self) -> list[str]:
        return [name for name in self._work.changes if name not in self._tracks and not self.rows[name].failed]

    @property
    def _is_over(self) -> bool:
        return not self._busy and (bool(self.stop) or not self._waiting)

    def _say(self, line: str) -> None:
        """Append the progress to the progress file if it has changed."""
        if line != self._line:
            self._line = line
            waiting.append_line(self._fleet.options["progress_path"], line)

    def _look_around(self) -> None:
        """Read now and then what other maintainers and the MIG managers' pods are doing."""
        now = time.monotonic()
        self._fleet.look_elsewhere_again()
        waits = any(
            track.step in ("set", "watch") and now - track.moved >= MANAGERS_S for track in self._tracks.values()
        )
        if waits and now - self._looked_at_managers >= MANAGERS_S:
            self._managers = self._work.reader.managers()
            self._looked_at_managers = now

    # ---- beginning

    def _admit(self) -> None:
        """Begin the next nodes, unless too many have failed."""
        postponed = frozenset(name for name in self._waiting if self._is_postponed(name))
        if self.stop:
            return
        ours = self._work.changes.keys()
        standing = Standing(
            busy=frozenset(self._busy) & ours,
            done=frozenset(name for name, row in self.rows.items() if row.step == "done"),
            failed={name: row.reason for name, row in self.rows.items() if row.failed},
            away=frozenset(self._held),
            postponed=postponed,
        )
        admission = self._work.window.admit(standing)
        self.stop = admission.stop
        self._fleet.each(self._take, admission.members)

    def _is_postponed(self, name: str) -> bool:
        """Return whether another maintainer is at work on a node. After the timeout, the node has failed."""
        node, row, now = self._nodes.get(name), self.rows[name], time.monotonic()
        if node is None:
            self._fail(name, f"Node {name} was deleted in the meantime.")
            return True
        at_work = self._fleet.others_at_work(node)
        if not at_work:
            row.waits_for = ""
            return False
        row.wait(f"{first_few(at_work)} to finish its work on the node", now)
        if now - row.since >= self._work.settings.timeout_s:
            self._fail(name, f"{first_few(at_work)} was still at work on it after {int(now - row.since)} s.")
        return True

    def _take(self, name: str) -> None:
        """Hold a node, and begin to empty it unless its change is under way."""
        row, now = self.rows[name], time.monotonic()
        self._began[name] = now
        self._asked.add(name)
        try:
            taken = drain.cordon(self._fleet, self._work.changes[name], row.held)
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
        row.changed = row.changed or row.held.changed
        sight = Sight(self._nodes[name])
        under_way = self._work.plans[name].todo == "resume" and sight.config == row.layout and sight.state != "failed"
        self._track(name, Track("watch" if under_way else "drain", now, now))
        if not under_way:
            row.wait("its pods to leave", now)
            self._drains.begin(taken)

    def _track(self, name: str, track: Track) -> None:
        self._tracks[name] = track
        self._began.setdefault(name, track.since)
        self.rows[name].step = track.step

    def _end_drains(self) -> None:
        now = time.monotonic()
        for ended in self._drains.look():
            row = self.rows[ended.name]
            row.changed = row.changed or ended.result.changed
            if ended.result.failed:
                self._fail(ended.name, ended.result.reason, is_clean=True)
            else:
                self._track(ended.name, Track("set", now, now))
        for name, pods in self._drains.waits_for.items():
            self.rows[name].wait(pods, now)

    # ---- the steps of one node

    def _advance(self, name: str) -> None:
        """Take as many steps on a node as are possible now."""
        node = self._nodes.get(name)
        if node is None:
            self._fail(name, f"Node {name} was deleted in the middle of its change.")
            return
        self._keep(name, node)
        while self._act(name, steps.decide(self._seen(name, node))):
            pass

    def _keep(self, name: str, node: Json) -> None:
        """Cordon a node again if somebody else has uncordoned it, so that no pod gets a GPU in the middle."""
        change = self._work.changes.get(name)
        if change and drain.keep_cordoned(self._fleet, change, node):
            self.rows[name].held.note("Somebody else uncordoned it in the middle of its change. It is cordoned again.")

    def _seen(self, name: str, node: Json) -> Seen:
        sight, track, now = Sight(node), self._tracks[name], time.monotonic()
        if self._marks.get(name) != sight.marks:
            self._marks[name] = sight.marks
            self._tracks[name] = track = dataclasses.replace(track, moved=now)
        self.rows[name].state = sight.state
        status = MANAGER_RUNS if self._managers is None else self._managers.get(name, "")
        work, has_failed = self._work, sight.state == "failed" and track.step in ("watch", "prove")
        cause = work.reader.last_error(name) if has_failed else ""
        return Seen(sight, work.plans[name], track, work.settings, now, version_of(node), status, cause)

    def _act(self, name: str, action: Action) -> bool:
        """Do what was decided. Return whether the next step can be decided from the same look."""
        row, now = self.rows[name], time.monotonic()
        if action.kind == "fail":
            self._fail(name, action.reason, action.is_clean)
            return False
        if action.kind in ("patch", "restart"):
            self._patch(name, action)
            return False
        if action.kind == "restore":
            self._to_release[name] = True
            return False
        if action.kind == "test":
            self._to_test.append(name)
        if action.kind == "go":
            self._track(name, dataclasses.replace(self._tracks[name], step=action.step, since=now, moved=now))
            return True
        row.wait(action.waits_for, now)
        return False

    def _patch(self, name: str, action: Action) -> None:
        """Patch a node and note what was repaired."""
        row, track = self.rows[name], self._tracks[name]
        try:
            node = self._work.cluster.merge(f"{NODES}/{name}", action.patch or {})
        except GpuOpsError as e:
            if e.reason in AWAY:
                self._unanswered.add(name)
            if e.reason != "NotFound":
                raise
            self._fail(name, f"Node {name} was deleted in the middle of its change.")
            return
        self._unanswered.discard(name)
        if action.kind == "restart":
            self._work.reader.restart_manager(name)
        now, row.changed = time.monotonic(), True
        if action.repair:
            row.repaired.append(action.reason)
            track = dataclasses.replace(track, tried=(*track.tried, action.repair))
        track = dataclasses.replace(track, step=action.step, since=now, moved=now, version=version_of(node))
        self._track(name, dataclasses.replace(track, asked=now) if action.step == "watch" else track)
        row.wait("the MIG manager to notice its label", now)

    def _test(self) -> None:
        """Run a workload on the nodes that are ready for it."""
        names, self._to_test = self._to_test, []
        resources = {name: proof.resource_of(Sight(self._nodes[name]).offered) for name in names}
        wanted = {name: resource for name, resource in resources.items() if resource}
        failed = proof.prove(self._work.cluster, self._fleet.options["workload"], wanted) if wanted else {}
        for name in names:
            if name in failed:
                self._fail(name, f"The workload on {resources[name]} did not pass: {failed[name]}.")
            else:
                self._tracks[name] = dataclasses.replace(self._tracks[name], tested=True)

    # ---- the end of a node's change

    def _fail(self, name: str, reason: str, is_clean: bool = False) -> None:
        """Record a failure. A node on which nothing is half done is put back."""
        row = self.rows[name]
        if row.state == "failed":
            cause = self._work.reader.last_error(name)
            reason = f"{reason} It says: {cause}." if cause else reason
        row.fail(reason)
        if name in self._tracks:
            self._tracks[name] = dataclasses.replace(self._tracks[name], step="failed")
        if is_clean:
            self._to_release[name] = False
        elif name in self._nodes and Sight(self._nodes[name]).is_held:
            self._held.add(name)
            row.keep()

    def _release(self) -> None:
        """Put back the nodes that are finished."""
        due = dict(self._to_release)
        if not due:
            return
        now = time.monotonic()
        done, errors = release(self._fleet, {name: self._end_of_hold(name, is_done) for name, is_done in due.items()})
        self._to_release = {}  # not before: if a signal has ended the call above, they are put back at the end
        for name, (node, changed) in done.items():
            row = self.rows[name]
            row.changed = row.changed or changed
            self._describe(row, node)
            row.seconds = round(now - self._began.get(name, now), 1)
            if due[name]:
                self._track(name, dataclasses.replace(self._tracks[name], step="done"))
        for name, error in errors.items():
            self._not_put_back(name, error)

    def _end_of_hold(self, name: str, is_done: bool) -> maintenance.MakePatch:
        """Return how a node is released. If the cordon's answer was lost, only what this call has done is undone."""
        if name in self._asked:
            return self._work.changes[name].undo_patch
        is_whole = is_done and self.rows[name].layout == MIG_DISABLED

        def make_patch(node: Json) -> Json | None:
            released = hold.release_patch(node, MIG_PURPOSE, self._fleet.holders_of(node))
            return tidied(node, released, self._work.removes) if is_whole else released

        return make_patch

    def _not_put_back(self, name: str, error: GpuOpsError) -> None:
        row = self.rows[name]
        row.fail(f"{row.reason} It could not be put back: {one_line(error.msg)}.".lstrip())
        if name in self._tracks:
            self._tracks[name] = dataclasses.replace(self._tracks[name], step="failed")
        if error.reason != "NodeDeleted":
            self._held.add(name)
            row.keep()

    def _describe(self, row: Row, node: Json) -> None:
        sight = Sight(node)
        drain.describe(self._fleet, row.held, node)
        row.state, row.after, row.waits_for = sight.state, sight.offered, ""

    def _put_back(self) -> None:
        """At the end, put back the nodes that were taken and have not been changed, and say so about the others."""
        self._fleet.finish()
        for name in self._busy:
            row, step = self.rows[name], self._tracks[name].step
            if name in self._to_release:
                continue
            if step in ("drain", "set") and name not in self._unanswered:
                row.fail("The call ended before the node was changed.")
                self._to_release[name] = False
            else:
                row.fail(f"The call ended in the middle of the node's change ({step}).")
                row.keep()
        self._to_release |= dict.fromkeys(self._asked, False)
        self._release()
