# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is special about a change of kind: a label, and its proof by operands that are gone, Ready, and what they offer.

`maintenance.held_nodes` holds, empties and puts back the nodes.
"""

from __future__ import annotations

import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import NODES
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    GONE,
    PROVED,
    WAIT,
    NodeWork,
    Outcome,
    progress_line,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.observe import NodeReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import KIND_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kinds
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_plan import Switch
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_request import KIND_PURPOSE
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OPERANDS_S = 5.0
"""How often the operator's DaemonSets are read, and the pods of nodes that wait for something else than pods."""

LABEL, WATCH = "label", "watch"
"""The steps of a change beside those that every change has."""


class OperandReader:
    """Reads the operator's DaemonSets, and its pods on single nodes."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._daemonsets: list[Json] = []
        self._read_at = float("-inf")

    def daemonsets(self) -> list[Json]:
        """Return the DaemonSets, not older than a few seconds."""
        if time.monotonic() - self._read_at >= OPERANDS_S:
            path = namespaced("apps/v1", self._namespace, "daemonsets")
            self._daemonsets = self._cluster.list(path, resourceVersion="") or []
            self._read_at = time.monotonic()
        return self._daemonsets

    def pods(self, node: str) -> list[Json]:
        """Return the operator's pods on a node as they are now."""
        path = namespaced("v1", self._namespace, "pods")
        listed = self._cluster.list(path, fieldSelector=f"spec.nodeName={node}", resourceVersion="") or []
        return [pod for pod in listed if pod["spec"].get("nodeName") == node]


def write(cluster: Cluster, change: Switch, stuck: t.Mapping[str, str], seen: Json | None = None) -> None:
    """Set or remove the label of a node with its mark, and bring paused operands back.

    With ``seen``, reason Conflict means that the node changed.
    """
    metadata = KIND_LABEL.metadata(change.label, cluster.now()) if change.relabels else {}
    metadata["labels"] = {**metadata.get("labels", {}), **stuck}
    if seen:
        metadata["resourceVersion"] = seen["metadata"].get("resourceVersion")
    cluster.merge(f"{NODES}/{change.name}", {"metadata": metadata})
    change.changed = True
    change.repaired = sorted({*change.repaired, *stuck})


class KindChange(NodeWork[Switch]):
    """The change of nodes to their kinds."""

    purpose = KIND_PURPOSE

    def __init__(self, cluster: Cluster, reader: OperandReader, changes: t.Iterable[Switch], timeout_s: float) -> None:
        super().__init__()
        self._cluster, self._operands, self.timeout_s = cluster, reader, timeout_s
        self.rows: dict[str, Switch] = {change.name: change for change in changes}
        for change in self.rows.values():
            change.repaired = []  # what the plan has found is repaired below, after another look
        self._reader = NodeReader(cluster)
        self._moved: dict[str, float] = {}
        self._looked: dict[str, float] = {}
        self._wrong: dict[str, str] = {}
        """What is wrong with the operands' pods on nodes that wait."""

    def look(self) -> dict[str, Json]:
        """Return all nodes by name."""
        found = {name_of(each): each for each in self._reader.read()}
        self._operands.daemonsets()  # once, before several nodes are looked at in parallel
        return found

    def consult(self, busy: t.Collection[str]) -> None:
        """Look now and then at the operands' pods on nodes that wait for what they should offer."""
        now = time.monotonic()
        for name in busy:
            if self.rows[name].step == WATCH and now - self._looked.get(name, self._moved[name]) >= OPERANDS_S:
                self._looked[name] = now
                self._wrong[name] = self._cause(self.rows[name])

    def _cause(self, change: Switch) -> str:
        """Return what holds up the first pod of the kind that is not Ready, or an empty string."""
        own = {name_of(each) for each in self._operands.daemonsets() if kinds.deploys(each) in change.kind.deployed}
        unwell = [
            pod for pod in self._operands.pods(change.name) if kinds.owner_of(pod) in own and not nodes.is_ready(pod)
        ]
        why = ((name_of(pod), troubles.held_up_by(pod)) for pod in unwell)
        return next((f"pod {name}: {text}" for name, text in why if text), "")

    def begin(self, name: str, now: float) -> None:
        """Begin with the label."""
        self.rows[name].step, self._moved[name] = LABEL, now

    def advance(self, name: str, node: Json, now: float) -> Outcome:
        """Set the label of a node, and then wait until the node is of its kind."""
        if self.rows[name].step == LABEL:
            return self._relabel(self.rows[name], node, now)
        return self._prove(self.rows[name], node, now)

    def _relabel(self, change: Switch, seen: Json, now: float) -> Outcome:
        """Set the label. If the API server is away, the next look tries it again."""
        there = KIND_LABEL.value_of(seen) or None
        if there not in (change.label_before or None, change.label):
            said = f"Somebody else has changed its label {names.WORKLOAD_CONFIG} to {there} in the meantime."
            return Outcome("failed", said)
        stuck = self._stuck(change, seen)
        if change.relabels or stuck:
            refused = self._write(change, stuck, seen)
            if refused:
                return refused
        if change.relabels and not change.switches:
            return PROVED
        change.step, self._moved[change.name] = WATCH, now
        return WAIT

    def _stuck(self, change: Switch, seen: Json) -> dict[str, str]:
        """Return the labels to repair. The pods are read after the node, which the patch expects as it was seen."""
        if not kinds.paused(change.kind, seen):
            return {}
        return kinds.stuck(change.kind, seen, self._operands.daemonsets(), self._operands.pods(change.name))

    def _write(self, change: Switch, stuck: t.Mapping[str, str], seen: Json) -> Outcome | None:
        try:
            with self.touching(change.name):
                write(self._cluster, change, stuck, seen)
        except GpuOpsError as e:
            if e.reason == "Conflict":
                return WAIT
            if e.reason != "NotFound":
                raise
            return Outcome("failed", GONE)
        return None

    def _prove(self, change: Switch, seen: Json, now: float) -> Outcome:
        self.describe(change.name, seen)
        there = KIND_LABEL.value_of(seen) or None
        if there != change.label:
            said = f"Somebody else has changed its label {names.WORKLOAD_CONFIG} to {there} in the meantime."
            return Outcome("failed", said)
        stuck = self._stuck(change, seen)
        if stuck:
            return self._write(change, stuck, seen) or WAIT
        missing = change.missing(seen) or self._unproved(change, seen)
        if missing != change.waits_for:
            change.wait(missing, now)
            self._moved[change.name] = now
        if not missing:
            return PROVED
        waited = now - self._moved[change.name]
        if waited <= self.timeout_s:
            return WAIT
        cause = self._wrong.get(change.name)
        return Outcome("failed", f"{missing} for {int(waited)} s" + (f"; {cause}." if cause else "."))

    def _unproved(self, change: Switch, seen: Json) -> str:
        pods = self._operands.pods(change.name)
        return kinds.unproved(change.kind, seen, self._operands.daemonsets(), pods)

    def illness(self, name: str, node: Json) -> str:
        """Return what a node that was of its kind lacks again, or an empty string."""
        change = self.rows[name]
        return change.missing(node) if change.switches else ""

    def describe(self, name: str, node: Json) -> None:
        """Note in a row what a node offers now."""
        self.rows[name].after = kinds.allocatable(node)

    def progress(self, now: float, closed: str) -> str:
        """Return a line about how far the nodes are, and what the first of those that wait waits for."""
        return progress_line(self.rows, "are of their kind", self._wrong, now, closed)
