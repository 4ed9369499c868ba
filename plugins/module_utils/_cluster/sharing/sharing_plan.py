# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What a call changes on each node, and its result. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    DONE,
    FAILED,
    NOTHING,
    WAITING,
    HeldRow,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config, node
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.config import Configuration
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import SHARING_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

HELD_FOR = "sharing"
"""The purpose for which nodes are held while a change interrupts their pods."""

_ALLOW = "Drain the nodes first, or set allow_disruption: true, with which the pods are evicted."


_STATES = {NOTHING: "unchanged", WAITING: "pending", DONE: "done", FAILED: "failed"}
"""What the result says for a step. In any other, the node is changing."""


@dataclasses.dataclass
class Change(HeldRow):
    """What happens to one node, and how far it is."""

    name: str
    key: str | None
    """The value that the node's label shall have, or None for no label."""
    wanted: Configuration | None
    """What the node shall do, or None if the ClusterPolicy's default decides, which is not ours to know."""
    key_before: str | None
    before: dict[str, int]
    """What the node offered to pods before."""
    pods: list[GpuPod] = dataclasses.field(default_factory=list)
    interrupts: str = ""
    is_held: bool = False
    """Whether an earlier run has left the node held."""
    is_marked: bool = True
    """Whether the node has the mark that belongs to its label."""
    devices: dict[str, int] = dataclasses.field(default_factory=dict)
    """How many devices the node has of each resource, as far as it showed that before."""

    after: dict[str, int] = dataclasses.field(default_factory=dict)
    repaired: list[str] = dataclasses.field(default_factory=list)

    @property
    def state(self) -> str:
        """How far the node is, in the words of the result."""
        return "degraded" if self.degraded else _STATES.get(self.step, "changing")

    @property
    def relabels(self) -> bool:
        """Whether the node's label changes."""
        return self.key != self.key_before

    @property
    def writes(self) -> bool:
        """Whether the node's label or its mark is written."""
        return self.relabels or not self.is_marked

    @property
    def proves(self) -> bool:
        """Whether the node needs only the proof of a label that it has had for a short time."""
        return self.step == WAITING and not self.writes and not self.is_held

    def as_result(self) -> Json:
        """Return the node's entry in the module's result."""
        return {
            "node": self.name,
            "configuration": self.wanted.name if self.wanted and self.key else "",
            "key": self.key or "",
            "strategy": self.wanted.strategy if self.wanted else "",
            "changed": self.changed,
            "state": self.state,
            "wave": self.wave,
            "waits_for": self.waits_for,
            "failed": self.failed,
            "degraded": self.degraded,
            "reason": self.reason,
            "interrupts": self.interrupts,
            "pods": [f"{pod.namespace}/{pod.name}" for pod in self.pods] if self.interrupts else [],
            "evicted": sorted(set(self.held.evicted)),
            "repaired": sorted(self.repaired),
            "unschedulable": self.held.unschedulable,
            "purposes": self.held.purposes,
            "notes": self.held.notes,
            "resources_before": self.before,
            "resources_after": self.after,
            "seconds": self.seconds,
        }


def changes_of(
    targets: t.Mapping[str, tuple[str | None, Configuration | None]],
    fleet: t.Mapping[str, Json],
    is_young: t.Callable[[Json], bool] = lambda node: False,
) -> list[Change]:
    """Return the changes of nodes whose label, mark or hold is not as it should be yet, and of those that are right.

    ``targets`` maps nodes to the value of their label and to what they shall do. A node that has had its label for a
    long time and does not offer all that it should is degraded: nothing is to be changed on it. ``is_young`` says of
    which nodes the label may still be taking effect.
    """
    return [_change_of(fleet[name], key, wanted, is_young) for name, (key, wanted) in targets.items()]


def _change_of(
    found: Json, key: str | None, wanted: Configuration | None, is_young: t.Callable[[Json], bool]
) -> Change:
    change = Change(
        name=name_of(found),
        key=key,
        wanted=wanted,
        key_before=labels_of(found).get(names.PLUGIN_CONFIG),
        before=nodes.gpu_quantities(found, "allocatable"),
        is_held=HELD_FOR in hold.hold_of(found).purposes,
        is_marked=key is None or SHARING_LABEL.is_ours(found),
    )
    change.devices = node.devices(found)
    if change.is_held or (is_young(found) and wanted and node.missing(found, wanted, change.devices)):
        change.devices = {}  # In the middle of a change, labels and capacity may tell of different configurations.
    change.after = change.before
    change.held = NodeResult(change.name)
    change.held.describe(found, [])
    lacks = node.missing(found, wanted, change.devices) if wanted else ""
    if change.writes or change.is_held or (lacks and is_young(found)):
        change.step, change.waits_for = WAITING, lacks
    else:
        change.step, change.degraded = NOTHING, lacks
    return change


def degraded(changes: t.Iterable[Change]) -> list[str]:
    """Return warnings about nodes that have their label and do not offer all that they should. They stop nobody."""
    found: dict[str, list[str]] = {}
    for change in changes:
        if change.degraded:
            found.setdefault(change.degraded, []).append(change.name)
    return [
        f"Degraded, which stops no other node: {first_few(who)}: {one_line(lacks)}." for lacks, who in found.items()
    ]


def find_interruptions(changes: t.Iterable[Change], fleet: t.Mapping[str, Json], running: t.Iterable[GpuPod]) -> None:
    """Set which pods each change concerns, and why it interrupts them."""
    by_node: dict[str, list[GpuPod]] = {}
    for pod in running:
        by_node.setdefault(pod.node, []).append(pod)
    for change in changes:
        change.pods = by_node.get(change.name, []) if change.relabels else []
        held: dict[str, int] = {}
        for pod in change.pods:
            for resource, number in pod.gpus.items():
                held[resource] = held.get(resource, 0) + number
        change.interrupts = node.interruption(fleet[change.name], change.wanted or config.PLAIN, held)


def permit(changes: t.Sequence[Change], allowed: bool, warns: bool) -> list[str]:
    """Raise if changes interrupt pods without permission, or warn. Return warnings: this one, and what stays."""
    hit = [change for change in changes if change.interrupts]
    warnings = _kept([change for change in changes if change.pods and change not in hit])
    if allowed or not hit:
        return warnings
    rows = [change.as_result() for change in changes]
    error = GpuOpsError(f"{_interrupted(hit)} {_ALLOW}", reason="Disruption", nodes=rows)
    return [_check_refusal.refuse(error, warns), *warnings]


def _kept(stay: t.Sequence[Change]) -> list[str]:
    """Return a warning about the pods that a change leaves alone, if there are any."""
    if not stay:
        return []
    pods = [f"{pod.namespace}/{pod.name}" for change in stay for pod in change.pods]
    where = first_few([change.name for change in stay])
    verb = "keeps its" if len(pods) == 1 else "keep their"
    who = f"{_count(pods, 'GPU pod')} on {where} ({first_few(pods)})"
    return [f"{who} {verb} devices. Until they have ended, other pods can get the same GPUs."]


def _interrupted(hit: t.Sequence[Change]) -> str:
    pods = [f"{pod.namespace}/{pod.name}" for change in hit for pod in change.pods]
    causes = "; ".join(dict.fromkeys(change.interrupts for change in hit))
    where = first_few([change.name for change in hit])
    return f"This change interrupts {_count(pods, 'GPU pod')} ({first_few(pods)}) on {where}: {causes}."


def _count(items: t.Sequence[object], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"
