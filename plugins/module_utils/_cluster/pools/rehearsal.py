# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What all steps would do, before the first of them is taken: each is a dry run on nodes as the former ones leave them.

A node that becomes a container node shows what it has only then, so its later steps are announced, and checked in the
run.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import whole_product
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.node_view import NodeView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import NodePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_steps import (
    Rows,
    Step,
    StepRow,
    Warn,
    Wishes,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    annotations_of,
    labels_of,
    name_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import (
    KIND_LABEL,
    LAYOUT_LABEL,
    SHARING_LABEL,
    OwnLabel,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.workload_words import CONTAINER
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Course:
    """The steps in their order. A node that leaves the containers first gets plain and whole GPUs."""

    kind: Step
    layout: Step
    sharing: Step

    def of(self, wishes: Wishes, leaving: t.Collection[str]) -> list[tuple[Step, Wishes]]:
        """Return each step with the nodes that it is for, and their pools."""
        gone: Wishes = {name: None for name in wishes if name in leaving}
        staying = {name: pool for name, pool in wishes.items() if name not in leaving}
        course: list[tuple[Step, Wishes]] = [
            (self.sharing, gone),
            (self.layout, gone),
            (self.kind, wishes),
            (self.layout, staying),
            (self.sharing, staying),
        ]
        return [(step, chosen) for step, chosen in course if chosen]


def leaving(wishes: Wishes, fleet: t.Mapping[str, Json], spec: Json) -> frozenset[str]:
    """Return the nodes that serve no containers once they are as their pools say. ``spec`` is the ClusterPolicy's."""
    return frozenset(name for name, pool in wishes.items() if _kind_after(fleet[name], pool, spec) != CONTAINER)


def joining(wishes: Wishes, fleet: t.Mapping[str, Json], spec: Json) -> frozenset[str]:
    """Return the nodes that begin to serve containers."""
    return frozenset(
        name
        for name, pool in wishes.items()
        if _kind_after(fleet[name], pool, spec) == CONTAINER and not nodes.runs_containers(fleet[name], spec)
    )


def _kind_after(node: Json, pool: NodePool | None, spec: Json) -> str:
    if pool and pool.kind:
        return pool.kind
    is_ours = KIND_LABEL.is_ours(node)
    return nodes.workload_kind({"metadata": {}} if is_ours else node, spec)


class Rehearsal:
    """One rehearsal of a course, on a picture of the nodes that every step moves on."""

    def __init__(self, cluster: Cluster, fleet: t.Mapping[str, Json], spec: Json, warn: Warn) -> None:
        self._cluster, self._warn, self._spec = cluster, warn, spec
        self._fleet = dict(fleet)
        self.rows: dict[str, dict[str, StepRow]] = {}
        """What each step does on each node that it concerns."""

    def play(self, course: Course, wishes: Wishes) -> None:
        """Rehearse all steps."""
        gone, new = leaving(wishes, self._fleet, self._spec), joining(wishes, self._fleet, self._spec)
        for step, chosen in course.of(wishes, gone):
            concerned = {name: pool for name, pool in chosen.items() if step.concerns(self._fleet[name], pool)}
            if step is course.layout:
                self._note(step, {name: _announced(pool) for name, pool in concerned.items() if name in new})
                concerned = {name: pool for name, pool in concerned.items() if name not in new}
            if not concerned:
                continue
            rows = step.take(self._view(concerned), concerned, self._fleet, self._warn)
            self._note(step, rows)
            for name, row in rows.items():
                self._fleet[name] = _after(step, course, self._fleet[name], concerned[name], row)

    @property
    def outcome(self) -> NodeView:
        """The cluster with all nodes as the steps would leave them, for dry runs."""
        return self._view(self._fleet)

    def _view(self, chosen: t.Collection[str]) -> NodeView:
        def see(node: Json) -> Json | None:
            name = name_of(node)
            return {**node, **self._fleet.get(name, {})} if name in chosen else None

        return NodeView(self._cluster, see, check_mode=True)

    def _note(self, step: Step, rows: Rows) -> None:
        for name, row in rows.items():
            former = self.rows.setdefault(name, {}).get(step.name)
            self.rows[name][step.name] = row if former is None or not former.changed else former


def _announced(pool: NodePool | None) -> StepRow:
    return StepRow(change=pool.layout if pool else "", changed=bool(pool and pool.layout), interrupts=True)


# ---- how a step leaves a node -------------------------------------------------------------------------------------


def _after(step: Step, course: Course, node: Json, pool: NodePool | None, row: StepRow) -> Json:
    """Return a node as a step leaves it."""
    if not row.changed:
        return node
    if step is course.kind:
        return _offering(_labelled(node, KIND_LABEL, (pool.kind if pool else "") or None), {})
    if step is course.sharing:
        return _labelled(node, SHARING_LABEL, None) if not (pool and pool.sharing) else node
    layout = pool.layout if pool else ""
    divided = _labelled(node, LAYOUT_LABEL, layout or None)
    product = whole_product(labels_of(node).get(names.GPU_PRODUCT, ""))
    shown = f"{product}-MIG-{layout}" if layout not in ("", names.MIG_DISABLED) else product
    return _offering(_with(divided, {names.GPU_PRODUCT: shown}, {}), row.offers or {})


def _labelled(node: Json, label: OwnLabel, value: str | None) -> Json:
    metadata = label.metadata(value)
    return _with(node, metadata["labels"], metadata["annotations"])


def _with(node: Json, labels: t.Mapping[str, str | None], annotations: t.Mapping[str, str | None]) -> Json:
    def merged(now: t.Mapping[str, str], more: t.Mapping[str, str | None]) -> Json:
        return {key: value for key, value in {**now, **more}.items() if value is not None}

    metadata = {
        **node["metadata"],
        "labels": merged(labels_of(node), labels),
        "annotations": merged(annotations_of(node), annotations),
    }
    return {**node, "metadata": metadata}


def _offering(node: Json, offers: t.Mapping[str, int]) -> Json:
    """Return a node that offers these GPUs and no others."""
    status = dict(node.get("status") or {})
    for field in ("capacity", "allocatable"):
        kept = {key: value for key, value in (status.get(field) or {}).items() if not nodes.is_gpu_resource(key)}
        status[field] = {**kept, **{key: str(number) for key, number in offers.items()}}
    return {**node, "status": status}
