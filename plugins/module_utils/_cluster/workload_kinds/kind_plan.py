# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a call changes on each node, and its result. Pure."""

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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kinds
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_request import KIND_PURPOSE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kinds import Kind
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.workload_words import CONTAINER
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line, whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_STATES = {NOTHING: "unchanged", WAITING: "pending", DONE: "done", FAILED: "failed"}
"""What the result says for a step. In any other, the node is changing."""


@dataclasses.dataclass
class Switch(HeldRow):
    """What happens to one node, and how far it is."""

    name: str
    kind: Kind
    """What the node shall be."""
    kind_before: str
    label: str | None
    """The value that the node's label shall have, or None for no label."""
    label_before: str | None
    before: dict[str, int]
    """What the node offered before."""
    is_held: bool = False
    """Whether an earlier run has left the node held."""
    least: int = 1
    """How many GPUs the node has at least."""
    others: frozenset[str] = frozenset()
    """What the node offered before that is no GPU, although its name could be that of one."""
    stuck: dict[str, str] = dataclasses.field(default_factory=dict)
    """Labels that a manager without a pod has left paused, each with the value that brings its operand back."""
    paused: list[str] = dataclasses.field(default_factory=list)
    """Labels that are paused by a manager that runs on the node."""

    pods: list[str] = dataclasses.field(default_factory=list)
    machines: list[Json] = dataclasses.field(default_factory=list)
    after: dict[str, int] = dataclasses.field(default_factory=dict)
    repaired: list[str] = dataclasses.field(default_factory=list)

    @property
    def state(self) -> str:
        """How far the node is, in the words of the result."""
        return "degraded" if self.degraded else _STATES.get(self.step, "changing")

    @property
    def switches(self) -> bool:
        """Whether the node's GPUs change hands. A node that is held is in the middle of that."""
        return self.kind.name != self.kind_before or self.is_held

    @property
    def relabels(self) -> bool:
        """Whether the node's label changes."""
        return self.label != self.label_before

    @property
    def proves(self) -> bool:
        """Whether nothing but a proof is due, or the repair of paused operands, which disturb nobody."""
        return self.step == WAITING and not self.relabels and not self.switches

    def missing(self, node: Json) -> str:
        """Return what the node itself shows that it lacks for its kind, or an empty string."""
        lacks = self.kind.unlabelled(node) or self.kind.missing(node, self.least, self.others)
        return lacks or ("" if nodes.is_ready(node) else "the node is not Ready")

    def as_result(self) -> Json:
        """Return the node's entry in the module's result."""
        return {
            "node": self.name,
            "kind": self.kind.name,
            "kind_before": self.kind_before,
            "label": self.label or "",
            "changed": self.changed,
            "state": self.state,
            "wave": self.wave,
            "waits_for": self.waits_for,
            "failed": self.failed,
            "degraded": self.degraded,
            "reason": self.reason,
            "resumed": self.is_held,
            "pods": self.pods,
            "machines": self.machines,
            "evicted": sorted(set(self.held.evicted)),
            "repaired": sorted(self.repaired),
            "unschedulable": self.held.unschedulable,
            "purposes": self.held.purposes,
            "notes": self.held.notes,
            "resources_before": self.before,
            "resources_after": self.after,
            "seconds": self.seconds,
        }


@dataclasses.dataclass(frozen=True)
class Target:
    """What a node shall be, and the value of its label for that."""

    kind: Kind
    label: str | None


def change_of(node: Json, target: Target, spec: Json, is_young: bool) -> Switch:
    """Return the change of a node. ``is_young`` is whether its label may still be taking effect.

    A node that has had its label for a long time and does not offer what it should is degraded: nothing is to be
    changed on it.
    """
    before = kinds.allocatable(node)
    change = Switch(
        name=name_of(node),
        kind=target.kind,
        kind_before=nodes.workload_kind(node, spec),
        label=target.label,
        label_before=labels_of(node).get(names.WORKLOAD_CONFIG),
        before=before,
        is_held=KIND_PURPOSE in hold.hold_of(node).purposes,
        after=before,
    )
    if change.kind_before == CONTAINER:
        change.least = _gpus(node)
    if change.switches and not change.is_held:
        change.others = frozenset(before) - frozenset(Kind.of(change.kind_before, spec).offered(node))
    change.held = NodeResult(change.name)
    change.held.describe(node, [])
    is_followed = (spec.get("sandboxWorkloads") or {}).get("enabled") and not nodes.is_switched_off(node)
    lacks = change.missing(node) if is_followed and not change.switches else ""
    if change.switches or change.relabels or (lacks and is_young):
        change.step, change.waits_for = WAITING, lacks
    else:
        change.step, change.degraded = NOTHING, lacks
    return change


def _gpus(node: Json) -> int:
    """Return how many GPUs a node has at least. Of a node with several models, GPU Feature Discovery counts one.

    With the MIG strategy single, it counts MIG devices, which says nothing about GPUs.
    """
    labels = labels_of(node)
    is_divided = "-MIG-" in labels.get(names.GPU_PRODUCT, "")
    return 1 if is_divided else max(1, whole_number(labels.get(names.GPU_COUNT)) or 0)


def mark_stuck(change: Switch, node: Json, stuck: dict[str, str]) -> None:
    """Note which labels of a node are paused, and which of them are to be repaired."""
    change.stuck, paused = stuck, kinds.paused(change.kind, node)
    change.paused = sorted(key for key in paused if key not in stuck)
    change.repaired = sorted(stuck)
    if stuck and change.step == NOTHING:
        change.step, change.degraded = WAITING, ""


def degraded(changes: t.Iterable[Switch]) -> list[str]:
    """Return warnings about nodes of the right kind that do not offer all that they should. They stop nobody."""
    found: dict[str, list[str]] = {}
    for change in changes:
        if change.degraded:
            found.setdefault(change.degraded, []).append(change.name)
    return [
        f"Degraded, which stops no other node: {first_few(who)}: {one_line(lacks)}." for lacks, who in found.items()
    ]


def predicted(changes: t.Iterable[Switch]) -> list[str]:
    """Return what a run would do to the pods and machines in the way, as warnings of check mode."""
    said = []
    for change in changes:
        ways = {"evict": "would be stopped by the eviction of its pod", "move": "would be moved by KubeVirt"}
        ways["stop"] = "would be stopped, since it cannot move with its GPU"
        said += [
            f"Node {change.name}: virtual machine {each['name']} (evictionStrategy {each['strategy']}) "
            f"{ways[each['way']]}."
            for each in change.machines
        ]
        if change.is_held:
            said.append(f"Node {change.name}: an earlier run has left it held. A run would go on with it.")
        if change.stuck:
            said.append(f"Node {change.name}: {first_few(sorted(change.stuck))} would be set back from a paused value.")
    return said


def diff(changes: t.Iterable[Switch]) -> Json:
    """Return the labels that change, before and after."""
    relabelled = [change for change in changes if change.relabels]
    return {
        "before": {each.name: each.label_before for each in relabelled},
        "after": {each.name: each.label for each in relabelled},
    }
