# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Bring nodes to their configurations, never more of them at once than permitted, and prove each.

A node that the change interrupts is drained first and restored afterwards, by node maintenance. All state is on the
nodes themselves, so a run that was killed goes on where it was.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import run as maintenance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.observe import NODES_PATH, NodeReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import node, plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.doctor import Doctor
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.plan import Change
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Admission, Standing, Window
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.wishes import OPTIONS_FOR_NODES, Wishes
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DOCTOR_S = 5.0
"""How long a node may wait before its pods are looked at, and how often they are."""

SETTLE_S = 10.0
"""How long a node has for a change that nothing on it shows, such as another limit for requests."""


def label(cluster: Cluster, change: Change) -> None:
    """Set or remove the label of a node."""
    cluster.merge(f"{NODES_PATH}/{change.name}", {"metadata": {"labels": {names.PLUGIN_CONFIG: change.key}}})
    change.changed = True


def maintenance_options(options: t.Mapping[str, t.Any], state: str, named: list[str]) -> Json:
    """Return the options with which node maintenance drains or restores nodes."""
    taken = {key: options[key] for key in ("force", "delete_emptydir_data", "grace_period", "timeout", "progress_path")}
    return {
        **taken,
        "state": state,
        "nodes": named,
        "node_selector": None,
        "purpose": plan.HELD_FOR,
        "evict": "gpu",
        "allow_shared": False,
        "lease": 3600,
        "take_over": False,
        "pause_nvsentinel": False,
        "taint_reason": None,
        "skip_wait_for_delete_timeout": None,
        "parallel": max(1, len(named)),
        "max_in_maintenance": None,
        "restore_on_failure": True,
    }


def roll_out(cluster: Cluster, due: list[Change], options: t.Mapping[str, t.Any], doctor: Doctor) -> str:
    """Bring nodes to their configurations: the canaries first, and those that are drained last.

    Return why some were not begun, or an empty string.
    """
    wishes = Wishes(canary=options["canary"], max_out=options["max_failed"], names=OPTIONS_FOR_NODES)
    allowed = wishes.may_be_out(len(due))
    for members, size, canary in _waves(due, wishes, options["max_unavailable"]):
        left = max(0, allowed - sum(change.state == "failed" for change in due))
        stop = Rollout(cluster, members, options, Wishes(size, canary, None, left, OPTIONS_FOR_NODES)).run(doctor)
        if stop:
            return stop
    return ""


def _waves(due: list[Change], wishes: Wishes, size: t.Any) -> t.Iterator[tuple[list[Change], t.Any, t.Any]]:
    """Yield the nodes that change together, how many of them at once, and how many of them are canaries."""
    canaries = _canaries(due, wishes)
    rest = [change for change in due if change not in canaries]
    for some, canary in ((canaries, "100%"), (rest, 0)):
        for is_quiet, how_many in ((True, "100%"), (False, size)):
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
    """A node whose label is set, and how long it has been waiting for the same."""

    since: float
    moved: float
    drained: bool
    settled: float = 0.0


class Rollout:
    """One wave after the other over some of the nodes. ``size`` says how many of them change at once."""

    def __init__(self, cluster: Cluster, changes: list[Change], options: t.Mapping[str, t.Any], wishes: Wishes) -> None:
        self._cluster, self._options = cluster, options
        self._changes = {change.name: change for change in changes}
        halfway = [change.name for change in changes if change.is_held or not change.relabels]
        self._window = Window(list(self._changes), wishes, halfway)
        self._reader = NodeReader(cluster)
        self._busy: dict[str, _Watched] = {}
        self._failed: dict[str, str] = {}
        self._done: set[str] = set()
        self._line, self._since, self._looked = "", time.monotonic(), time.monotonic()
        self._wrong: dict[str, str] = {}

    def run(self, doctor: Doctor) -> str:
        """Bring all nodes to their configurations. Return why some were not begun, or an empty string."""
        admitted = Admission()
        try:
            while True:
                admitted = self._window.admit(self._standing())
                self._begin(list(admitted.members))
                if not self._busy and not admitted.members:
                    break
                if self._busy:
                    waiting.until(lambda: self._look(doctor), on_outage=lambda error: self._say(error.msg))
        finally:
            self._restore([name for name, watched in self._busy.items() if watched.drained])
        return admitted.stop

    def _standing(self) -> Standing:
        return Standing(frozenset(self._busy), frozenset(self._done), dict(self._failed))

    # ---- the beginning of a node's change

    def _begin(self, members: list[str]) -> None:
        drained = self._drain([name for name in members if self._changes[name].interrupts])
        begun = [name for name in members if name not in self._failed]
        for name in begun:  # all of them at first: what is drained must be put back whatever happens next
            now = time.monotonic()
            self._busy[name] = _Watched(now, now, name in drained or self._changes[name].is_held)
        for name in begun:
            self._relabel(name)

    def _relabel(self, name: str) -> None:
        change = self._changes[name]
        change.state = "changing"
        if change.relabels:
            label(self._cluster, change)
            self._busy[name].settled = 0.0 if change.missing else time.monotonic() + SETTLE_S

    def _drain(self, members: list[str]) -> list[str]:
        """Drain nodes; return those that are. The others have failed, and were put back."""
        if not members:
            return []
        try:
            result, dummy = maintenance.maintain(self._cluster, maintenance_options(self._options, "drained", members))
        except GpuOpsError as e:
            self._note(e.details.get("nodes") or [])
            if e.reason in ("Interrupted", *AWAY):
                raise
            if len(members) == 1:
                self._fail(members[0], e.msg)
                return []
        else:
            self._note(result["nodes"])
            return members
        # Node maintenance puts back all nodes of a call that fails.
        return [name for each in members for name in self._drain([each])]

    def _note(self, rows: t.Iterable[Json]) -> None:
        for row in rows:
            change = self._changes[row["node"]]
            change.evicted = sorted({*change.evicted, *row["evicted"]})
            change.changed = change.changed or bool(row["evicted"])

    # ---- watching

    def _look(self, doctor: Doctor) -> bool | None:
        """Look at the nodes that change. Return True if one has ended, so that others may begin."""
        found = {name_of(each): each for each in self._reader.read() if name_of(each) in self._busy}
        now = time.monotonic()
        if now - self._looked >= DOCTOR_S:
            self._looked = now
            self._wrong = doctor.look([name for name, seen in self._busy.items() if now - seen.since >= DOCTOR_S])
        before = len(self._busy)
        for name in list(self._busy):
            self._judge(name, found.get(name), now)
        self._progress()
        return True if len(self._busy) < before else None

    def _judge(self, name: str, seen: Json | None, now: float) -> None:
        change, watched = self._changes[name], self._busy[name]
        if seen is None:
            self._fail(name, "The node was deleted in the meantime.")
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

    def _end(self, name: str) -> None:
        watched = self._busy[name]
        change = self._changes[name]
        change.seconds = round(time.monotonic() - watched.since, 1)
        if watched.drained:
            self._restore([name])
        if name not in self._failed:
            change.state = "done"
            self._done.add(name)
        self._busy.pop(name, None)

    def _fail(self, name: str, reason: str) -> None:
        change = self._changes[name]
        change.state, change.reason = "failed", reason
        self._failed[name] = reason
        watched = self._busy.pop(name, None)
        if watched:
            change.seconds = round(time.monotonic() - watched.since, 1)
            if watched.drained:
                self._restore([name])

    def _restore(self, members: list[str]) -> None:
        """End the maintenance of nodes. One that cannot be restored is failed, and says so."""
        if not members:
            return
        try:
            maintenance.maintain(self._cluster, maintenance_options(self._options, "restored", members))
        except GpuOpsError as e:
            for name in members:
                self._busy.pop(name, None)
                self._failed[name] = why = f"{self._failed.get(name, '')} It stays in maintenance: {e.msg}".strip()
                self._changes[name].state, self._changes[name].reason = "failed", why

    # ---- progress

    def _progress(self) -> None:
        waits = {name: self._changes[name].missing for name in self._busy}
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
