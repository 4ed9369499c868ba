# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Bring nodes to their configurations, never more of them at once than permitted, and prove each.

A node whose pods the change interrupts is held and emptied first, and put back afterwards. Each node goes on as soon as
it can, whatever the others wait for. All state is on the nodes themselves, so a killed run goes on where it was.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import drain, hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import NODES, Fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import wishes_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.plan import MakePatch, NodeChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.run import release
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.observe import NodeReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import node, plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.doctor import Doctor
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.plan import Change
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Standing, Window
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.wishes import Wishes
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

GONE = "The node was deleted in the meantime."

DOCTOR_S = 5.0
"""How long a node may wait before its pods are looked at, and how often they are."""

SETTLE_S = 10.0
"""How long a node has for a change that nothing on it shows, such as another limit for requests."""


@dataclasses.dataclass(frozen=True)
class Work:
    """What a rollout works with."""

    cluster: Cluster
    fleet: Fleet
    options: t.Mapping[str, t.Any]
    doctor: Doctor
    holds: t.Mapping[str, NodeChange]
    """How each node is held whose pods the change interrupts."""
    groups: t.Mapping[str, t.Any]
    """The nodes' values of the label in ``group_by``."""


def label(cluster: Cluster, change: Change) -> None:
    """Set or remove the label of a node."""
    cluster.merge(f"{NODES}/{change.name}", {"metadata": {"labels": {names.PLUGIN_CONFIG: change.key}}})
    change.changed = True


def roll_out(work: Work, due: list[Change]) -> str:
    """Bring nodes to their configurations: the canaries first, and those that are drained last.

    Return why some were not begun, or an empty string.
    """
    wishes = wishes_of(work.options, work.groups)
    allowed = wishes.may_be_out(len(due))
    for members, size, canary in _waves(due, wishes):
        left = max(0, allowed - sum(change.state == "failed" for change in due))
        stop = Rollout(work, members, dataclasses.replace(wishes, sizes=size, canary=canary, max_out=left)).run()
        if stop:
            return stop
    return ""


def _waves(due: list[Change], wishes: Wishes) -> t.Iterator[tuple[list[Change], t.Any, t.Any]]:
    """Yield the nodes that change together, how many of them at once, and how many of them are canaries."""
    canaries = _canaries(due, wishes)
    rest = [change for change in due if change not in canaries]
    for some, canary in ((canaries, "100%"), (rest, 0)):
        for is_quiet, how_many in ((True, "100%"), (False, wishes.sizes)):
            members = [change for change in some if bool(change.interrupts) is not is_quiet]
            if members:
                yield members, how_many, canary


def _canaries(due: list[Change], wishes: Wishes) -> list[Change]:
    named = wishes.named_canaries
    if named is None:
        return due[: wishes.number_of_canaries(len(due))]
    return [change for change in due if change.name in named]


@dataclasses.dataclass
class _Watched:
    """A node whose change has begun, and how long it has been waiting for the same."""

    since: float
    moved: float
    is_held: bool
    step: t.Literal["drain", "label", "watch"]
    settled: float = 0.0


class Rollout:
    """The change of some of the nodes. ``wishes`` say how many of them change at once."""

    def __init__(self, work: Work, changes: list[Change], wishes: Wishes) -> None:
        self._work, self._fleet, self._options = work, work.fleet, work.options
        self._changes = {change.name: change for change in changes}
        halfway = [change.name for change in changes if change.is_held or not change.relabels]
        self._window = Window(list(self._changes), wishes, halfway)
        self._reader = NodeReader(work.cluster)
        self._drains = drain.Drains(work.fleet)
        self._nodes: dict[str, Json] = {}
        self._busy: dict[str, _Watched] = {}
        self._postponed: dict[str, float] = {}
        """Since when other maintainers have kept us from nodes."""
        self._asked: set[str] = set()
        """Nodes whose cordon was requested without an answer."""
        self._to_release: list[str] = []
        self._away: set[str] = set()
        self._failed: dict[str, str] = {}
        self._done: set[str] = set()
        self._line, self._since, self._looked = "", time.monotonic(), time.monotonic()
        self._wrong: dict[str, str] = {}
        self._stop = ""

    def run(self) -> str:
        """Bring all nodes to their configurations. Return why some were not begun, or an empty string."""
        is_over = False
        try:
            waiting.until(self._tick, period_s=waiting.ROLLOUT_PERIOD_S, on_outage=lambda error: self._say(error.msg))
            is_over = True
        finally:
            if not is_over:
                self._fleet.interruption.disregard()
                self._put_back()
        return self._stop

    def _tick(self) -> bool | None:
        """Take the next step on all nodes in their change, and begin others. Return True when the run is over."""
        self._fleet.interruption.check()
        self._nodes = self._fleet.seen = {name_of(each): each for each in self._reader.read()}
        self._fleet.look_elsewhere_again()
        self._end_drains()
        self._consult()
        self._fleet.each(self._keep, [*self._in_step("label"), *self._in_step("watch")])
        for name in self._in_step("watch"):
            self._judge(name)
        self._release()
        admitted = self._admit()
        if self._stop:  # nobody takes a node again whose cordon has got no answer
            self._to_release += sorted(self._asked - self._busy.keys())
        self._fleet.each(self._relabel, self._in_step("label"))
        self._progress()
        return None if self._busy or admitted or self._waits or self._to_release else True

    @property
    def _waits(self) -> bool:
        """Whether nodes wait for other maintainers, and may still begin."""
        return bool(self._postponed) and not self._stop

    def _in_step(self, step: str) -> list[str]:
        return [name for name, watched in self._busy.items() if watched.step == step]

    # ---- the beginning of a node's change

    def _admit(self) -> bool:
        """Begin the next nodes, unless too many have failed. Return whether there were any."""
        begun = self._busy.keys() | self._done | self._failed.keys()
        postponed = frozenset(name for name in self._changes.keys() - begun if self._is_postponed(name))
        standing = Standing(
            frozenset(self._busy), frozenset(self._done), dict(self._failed), frozenset(self._away), postponed
        )
        admission = self._window.admit(standing)
        self._stop = admission.stop
        self._fleet.each(self._take, admission.members)
        return bool(admission.members)

    def _is_postponed(self, name: str) -> bool:
        """Return whether another maintainer is at work on a node that must be held. It fails after the timeout."""
        seen, now = self._nodes.get(name), time.monotonic()
        others = self._fleet.others_at_work(seen) if seen and name in self._work.holds else []
        if not others:
            self._postponed.pop(name, None)
            return False
        since = self._postponed.setdefault(name, now)
        self._changes[name].missing = f"{first_few(others)} is at work on the node"
        if now - since >= self._options["timeout"]:
            self._postponed.pop(name)
            self._fail(name, f"{first_few(others)} was still at work on it after {int(now - since)} s.")
        return True

    def _take(self, name: str) -> None:
        """Begin with a node: hold it and empty it if its pods are interrupted, or else set its label."""
        change, now = self._changes[name], time.monotonic()
        change.state = "changing"
        held = self._work.holds.get(name)
        if held is None:
            self._busy[name] = _Watched(now, now, change.is_held, "label")
            return
        result = NodeResult(name)
        self._asked.add(name)
        try:
            taken = drain.cordon(self._fleet, held, result)
        except GpuOpsError as e:
            if e.reason not in ("NodesBusy", "HeldElsewhere"):
                raise
            self._asked.discard(name)
            if e.reason == "HeldElsewhere":  # the next look postpones a busy node
                self._fail(name, e.msg)
            return
        if taken is None:
            self._fail(name, result.reason)
        else:
            self._busy[name] = _Watched(now, now, True, "drain")
            self._drains.begin(taken)
        self._asked.discard(name)

    def _end_drains(self) -> None:
        for ended in self._drains.look():
            change, result = self._changes[ended.name], ended.result
            change.evicted, change.notes = sorted({*change.evicted, *result.evicted}), result.notes
            change.changed = change.changed or bool(result.evicted)
            if result.failed:
                self._fail(ended.name, result.reason)
            else:
                self._busy[ended.name].step = "label"

    def _relabel(self, name: str) -> None:
        """Set the label of a node, and begin to watch it. If the API server is away, the next look tries it again."""
        change, watched, seen = self._changes[name], self._busy[name], self._nodes.get(name)
        if seen is None:
            self._fail(name, GONE)
            return
        if change.relabels:
            try:
                label(self._work.cluster, change)
            except GpuOpsError as e:
                if e.reason != "NotFound":
                    raise
                self._fail(name, GONE)
                return
            change.missing = self._missing(change, seen)
            watched.settled = 0.0 if change.missing else time.monotonic() + SETTLE_S
        watched.step, watched.moved = "watch", time.monotonic()

    # ---- watching

    def _keep(self, name: str) -> None:
        """Cordon a node again if somebody else has uncordoned it, so that no pod gets a GPU in the middle."""
        held, seen = self._work.holds.get(name), self._nodes.get(name)
        if held and seen and drain.keep_cordoned(self._fleet, held, seen):
            note = "Somebody else uncordoned it in the middle of its change. It is cordoned again."
            self._changes[name].notes = [*self._changes[name].notes, note]

    def _consult(self) -> None:
        """Look now and then at the operands' pods on nodes that wait."""
        now = time.monotonic()
        if now - self._looked >= DOCTOR_S:
            self._looked = now
            late = [name for name in self._in_step("watch") if now - self._busy[name].moved >= DOCTOR_S]
            self._wrong = self._work.doctor.look(late)

    def _judge(self, name: str) -> None:
        change, watched, seen, now = self._changes[name], self._busy[name], self._nodes.get(name), time.monotonic()
        if seen is None:
            self._fail(name, GONE)
            return
        change.after = nodes.gpu_quantities(seen, "allocatable")
        missing = self._missing(change, seen)
        if missing != change.missing:
            change.missing, watched.moved = missing, now
        if not missing and now >= watched.settled:
            self._end(name)
        elif not missing:
            watched.moved = now
        elif now - watched.moved > self._options["timeout"]:
            cause = self._wrong.get(name) or ("" if nodes.is_ready(seen) else "the node is not Ready")
            self._fail(name, f"{missing} for {int(now - watched.moved)} s" + (f"; {cause}" if cause else ""))

    @staticmethod
    def _missing(change: Change, seen: Json) -> str:
        if not change.wanted:
            return "" if nodes.has_allocatable_gpus(seen) else "the node offers no GPUs"
        return node.missing(seen, change.wanted)

    # ---- the end of a node's change

    def _end(self, name: str) -> None:
        watched = self._leave(name)
        if watched and watched.is_held:
            self._to_release.append(name)
        self._changes[name].state = "done"
        self._done.add(name)

    def _fail(self, name: str, reason: str) -> None:
        change = self._changes[name]
        change.state, change.reason = "failed", reason
        self._failed[name] = reason
        watched = self._leave(name)
        if watched and watched.is_held:
            self._to_release.append(name)

    def _leave(self, name: str) -> _Watched | None:
        watched = self._busy.pop(name, None)
        if watched:
            self._changes[name].seconds = round(time.monotonic() - watched.since, 1)
        return watched

    def _put_back(self) -> None:
        """After an error or a signal, end the hold of the nodes in the middle of their change."""
        self._fleet.finish()
        self._to_release += [name for name, watched in self._busy.items() if watched.is_held]
        self._to_release += sorted(self._asked)
        self._release()

    def _release(self) -> None:
        """End the hold of nodes. One that cannot be released is failed, and says so."""
        due = list(dict.fromkeys(self._to_release))
        if not due:
            return
        done, errors = release(self._fleet, {name: self._end_of_hold(name) for name in due})
        self._to_release = []  # not before: if a signal has ended the call above, they are put back at the end
        for name in self._asked.intersection(due):
            self._changes[name].state = "pending"
            self._asked.discard(name)
        for name, (after, changed) in done.items():
            change, result = self._changes[name], NodeResult(name)
            drain.describe(self._fleet, result, after)  # it may stay cordoned for others
            change.changed, change.notes = change.changed or changed, [*change.notes, *result.notes]
        for name, error in errors.items():
            if error.reason != "NodeDeleted":
                self._away.add(name)
                self._failed[name] = why = f"{self._failed.get(name, '')} It stays in maintenance: {error.msg}".strip()
                self._changes[name].state, self._changes[name].reason = "failed", why
                self._done.discard(name)

    def _end_of_hold(self, name: str) -> MakePatch:
        """Return how a node is released. If the cordon's answer was lost, only what this call has done is undone."""
        if name in self._asked:
            return self._work.holds[name].undo_patch
        return lambda seen: hold.release_patch(seen, plan.HELD_FOR, self._fleet.holders_of(seen))

    # ---- progress

    def _progress(self) -> None:
        pods = {name: f"it waits for {those}" for name, those in self._drains.waits_for.items()}
        waits = {name: pods.get(name) or self._changes[name].missing for name in [*self._busy, *self._postponed]}
        first = next(iter(waits), None)
        if first is not None:
            cause = self._wrong.get(first)
            self._say(
                f"{len(self._done)}/{len(self._changes)} nodes share their GPUs as asked; {first_few(list(waits), 3)}: "
                f"{waits[first]}" + (f"; {cause}" if cause else "")
            )

    def _say(self, line: str) -> None:
        now = time.monotonic()
        if line != self._line:
            self._line, self._since = line, now
        minutes, seconds = divmod(int(now - self._since), 60)
        waiting.append_line(self._options["progress_path"], f"{line} (for {minutes:02}:{seconds:02})")
