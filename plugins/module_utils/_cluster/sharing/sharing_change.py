# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is special about a change of sharing: a label, its proof by what the node shows and offers, and its doctor.

`maintenance.held_nodes` holds, empties and puts back the nodes whose pods the change interrupts.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import NODES
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    GONE,
    PROVED,
    WAIT,
    NodeWork,
    Outcome,
    progress_line,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.observe import NodeReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import node
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.doctor import Doctor
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_plan import HELD_FOR, Change
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import SHARING_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DOCTOR_S = 5.0
"""How long a node may wait before its pods are looked at, and how often they are."""

SETTLE_S = 10.0
"""How long a node has for a change that nothing on it shows, such as another limit for requests."""

LABEL, WATCH = "label", "watch"
"""The steps of a change beside those that every change has."""


def label(cluster: Cluster, change: Change, seen: Json | None = None) -> None:
    """Set or remove the label of a node, and its mark. With ``seen``, reason Conflict means that the node changed."""
    body = {"metadata": SHARING_LABEL.metadata(change.key, cluster.now())}
    if seen:
        body["metadata"]["resourceVersion"] = seen["metadata"].get("resourceVersion")
    cluster.merge(f"{NODES}/{change.name}", body)
    change.changed = True


@dataclasses.dataclass
class _Watched:
    """Since when a node has waited for the same, and until when it may take effect unseen."""

    moved: float
    settled: float = 0.0


class SharingChange(NodeWork[Change]):
    """The change of nodes to their configurations."""

    purpose = HELD_FOR

    def __init__(self, cluster: Cluster, doctor: Doctor, changes: t.Iterable[Change], timeout_s: float) -> None:
        super().__init__()
        self._cluster, self._doctor, self.timeout_s = cluster, doctor, timeout_s
        self.rows: dict[str, Change] = {change.name: change for change in changes}
        self._reader = NodeReader(cluster)
        self._watched: dict[str, _Watched] = {}
        self._looked = time.monotonic()
        self._wrong: dict[str, str] = {}
        """What is wrong with the operands' pods on nodes that wait."""

    def look(self) -> dict[str, Json]:
        """Return all nodes by name."""
        return {name_of(each): each for each in self._reader.read()}

    def consult(self, busy: t.Collection[str]) -> None:
        """Look now and then at the operands' pods on nodes that wait."""
        now = time.monotonic()
        if now - self._looked >= DOCTOR_S:
            self._looked = now
            watched = [name for name in busy if self.rows[name].step == WATCH]
            self._wrong = self._doctor.look([name for name in watched if now - self._watched[name].moved >= DOCTOR_S])

    def begin(self, name: str, now: float) -> None:
        """Begin with the label."""
        self.rows[name].step, self._watched[name] = LABEL, _Watched(now)

    def advance(self, name: str, node: Json, now: float) -> Outcome:
        """Set the label of a node, and then wait until the node is as wanted."""
        if self.rows[name].step == LABEL:
            return self._relabel(self.rows[name], node, now)
        return self._prove(self.rows[name], node, now)

    def _relabel(self, change: Change, seen: Json, now: float) -> Outcome:
        """Set the label. If the API server is away, the next look tries it again."""
        watched = self._watched[change.name]
        if change.writes:
            refused = self._label(change, seen)
            if refused:
                return refused
            missing = _missing(change, seen)
            change.wait(missing, now)
            watched.settled = now + SETTLE_S if change.relabels and not missing else 0.0
        change.step, watched.moved = WATCH, now
        return WAIT

    def _label(self, change: Change, seen: Json) -> Outcome | None:
        """Write the label on the node as it was seen. If it has changed since, the next look decides again."""
        now_there = SHARING_LABEL.value_of(seen) or None
        if now_there not in (change.key_before, change.key):
            said = f"Somebody else has changed its label {names.PLUGIN_CONFIG} to {now_there} in the meantime."
            return Outcome("failed", said)
        try:
            with self.touching(change.name):
                label(self._cluster, change, seen)
        except GpuOpsError as e:
            if e.reason == "Conflict":
                return WAIT
            if e.reason != "NotFound":
                raise
            return Outcome("failed", GONE)
        return None

    def _prove(self, change: Change, seen: Json, now: float) -> Outcome:
        watched = self._watched[change.name]
        self.describe(change.name, seen)
        missing = _missing(change, seen)
        if missing != change.waits_for:
            change.wait(missing, now)
            watched.moved = now
        if not missing and now >= watched.settled:
            return PROVED
        if not missing:
            watched.moved = now
        elif now - watched.moved > self.timeout_s:
            cause = self._wrong.get(change.name) or ("" if nodes.is_ready(seen) else "the node is not Ready")
            said = f"{missing} for {int(now - watched.moved)} s" + (f"; {cause}" if cause else "")
            return Outcome("failed", f"{said}.")
        return WAIT

    def illness(self, name: str, node: Json) -> str:
        """Return what a node that had its configuration lacks again, or an empty string."""
        return _missing(self.rows[name], node) or ("" if nodes.is_ready(node) else "the node is not Ready")

    def describe(self, name: str, node: Json) -> None:
        """Note what a node offers now."""
        self.rows[name].after = nodes.gpu_quantities(node, "allocatable")

    def progress(self, now: float, closed: str) -> str:
        """Return a line about how far the nodes are, and what the first of those that wait waits for."""
        return progress_line(self.rows, "share their GPUs as asked", self._wrong, now, closed)


def _missing(change: Change, seen: Json) -> str:
    if not change.wanted:
        return "" if nodes.has_allocatable_gpus(seen) else "the node offers no GPUs"
    return node.missing(seen, change.wanted, change.devices)
