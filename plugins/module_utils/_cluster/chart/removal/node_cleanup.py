# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the stack has left on a node, and the patch that takes it off. What a user has set stays. Pure.

Source: the table of labels in NVIDIA GPU Operator v26.7.0 (``controllers/state_manager.go``), its upgrade library,
GPU Feature Discovery, MIG manager, Node Feature Discovery.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import (
    driver_annotations,
    hold,
    marks,
    rollout_notes,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import GPUS_NOTE, PRODUCT_NOTE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import taints
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, own_label
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OPERATOR_LABELS = (names.GPU_PRESENT, names.DRIVER_OWNER, names.MIG_STATE, names.UPGRADE_STATE)
CORDON_NOTE = "gpuops.nvidia/uninstall"
"""Annotation of a node whose cordon a removal lifts in the end. The operator's labels that prove it go before that."""
NODE_NOTES = (
    names.UPGRADE_NOTES,
    GPUS_NOTE,
    PRODUCT_NOTE,
    driver_annotations.NOTE,
    f"{rollout_notes.DONE_PREFIX}*",
    *(own.mark for own in own_label.OWN_LABELS),
)
_AS_DEPLOYED = ("true", names.PRE_INSTALLED, "")
"""Values that were not chosen. k8s-driver-manager puts back labels that were not there before with an empty value."""
_STACK = ("gpu-operator", "k8s-driver-manager")
"""The owners of cordons that would stay after the removal."""


@dataclasses.dataclass(frozen=True)
class CleanupRequest:
    """What is to be taken off the nodes."""

    labels: bool = False
    """The labels and annotations of the operator and its operands."""
    nfd: bool = False
    taints: bool = False
    cordons: bool = False
    """The cordons that driver upgrades of the stack have left, and what they have paused."""
    elsewhere: marks.Elsewhere = dataclasses.field(default_factory=dict)
    """Other maintainers, as far as other objects than the node tell of them."""


@dataclasses.dataclass(frozen=True)
class NodeCleanup:
    """What changes on one node: labels (None removes one), annotations that go, and the spec's new fields."""

    name: str
    labels: t.Mapping[str, str | None]
    annotations: t.Sequence[str] = ()
    uncordons: bool = False
    taints: taints.TaintChange | None = None

    def patch(self, node: Json) -> Json | None:
        """Return the patch for the version of the node that was read, or None if there is nothing to change."""
        of_taints = (self.taints.patch if self.taints else None) or {"metadata": {}}
        notes = {**dict.fromkeys(self.annotations), **(of_taints["metadata"].get("annotations") or {})}
        spec = {**of_taints.get("spec", {}), **({"unschedulable": None} if self.uncordons else {})}
        if not (self.labels or notes or spec):
            return None
        metadata: Json = {"labels": dict(self.labels), "annotations": notes}
        version = node["metadata"].get("resourceVersion")
        metadata |= {"resourceVersion": version} if version else {}
        return {"metadata": metadata, **({"spec": spec} if spec else {})}

    @property
    def lines(self) -> list[str]:
        """A line for each thing that changes."""
        changed = [
            f"{'label' if value is None else 'pause of label'} {key}" for key, value in sorted(self.labels.items())
        ]
        # The note that a removal itself has made goes with the cordon.
        made = (CORDON_NOTE,) if self.uncordons else ()
        changed += [f"annotation {key}" for key in sorted(self.annotations) if key not in made]
        changed += [f"taint {nodes.format_taint(taint)}" for taint in (self.taints.removed if self.taints else ())]
        return [*changed, *(["cordon of the driver upgrade"] if self.uncordons else [])]


def change(node: Json, wishes: CleanupRequest) -> NodeCleanup:
    """Return what takes the wished things off a node."""
    labels: dict[str, str | None] = {}
    annotations: list[str] = []
    uncordons = wishes.cordons and lifts_cordon(node, wishes.elsewhere)
    if wishes.cordons and (uncordons or not nodes.is_cordoned(node)):
        annotations += [CORDON_NOTE] if CORDON_NOTE in objects.annotations_of(node) else []
    if uncordons:
        labels |= driver_annotations.paused_operands(node) | dict.fromkeys(_of_a_rollout(node))
        annotations += [driver_annotations.NOTE] if driver_annotations.note_of(node) else []
    if wishes.labels:
        labels |= {key: _left(value) for key, value in objects.labels_of(node).items() if _is_the_stacks(key, value)}
        labels |= dict.fromkeys(_ours(node))
        annotations += [key for key in objects.annotations_of(node) if _matches(key, NODE_NOTES)]
    if wishes.nfd:
        labels |= {key: None for key in objects.labels_of(node) if key.startswith(names.NFD_PREFIX)}
        annotations += [key for key in objects.annotations_of(node) if _matches(key, (names.NFD_ANNOTATIONS,))]
    return NodeCleanup(
        name=objects.name_of(node),
        labels=labels,
        annotations=list(dict.fromkeys(annotations)),
        uncordons=uncordons,
        taints=taints.change(node, {}) if wishes.taints else None,
    )


# ---- cordons ------------------------------------------------------------------------------------------------------


def lifts_cordon(node: Json, elsewhere: marks.Elsewhere) -> bool:
    """Return whether a driver upgrade has left the node cordoned, and nobody else needs the cordon.

    Our own note proves it. Without one, the operator's labels do, as long as there is a ClusterPolicy.
    """
    if not nodes.is_cordoned(node) or hold.hold_of(node).purposes:
        return False
    holders = marks.holders(node, elsewhere)
    theirs = [holder for holder in holders if holder.owner in _STACK]
    if any(holder.needs_cordon for holder in holders if holder not in theirs):
        return False
    if CORDON_NOTE in objects.annotations_of(node) or driver_annotations.has_cordoned(driver_annotations.note_of(node)):
        return True
    return bool(theirs) and names.UPGRADE_FOUND_CORDONED not in objects.annotations_of(node)


def note_patch(node: Json, elsewhere: marks.Elsewhere) -> Json | None:
    """Return the patch that notes, before anything is deleted, that the cordon is to be lifted in the end."""
    if CORDON_NOTE in objects.annotations_of(node) or not lifts_cordon(node, elsewhere):
        return None
    version = node["metadata"].get("resourceVersion")
    return {"metadata": {"annotations": {CORDON_NOTE: "uncordon"}, "resourceVersion": version}}


def in_upgrade(node: Json) -> str:
    """Return where the driver upgrade of a node is, or an empty string if none has begun or it has ended."""
    return nodes.upgrade_state(node) if driver_annotations.is_begun(node) else ""


def stays_cordoned(node: Json, elsewhere: marks.Elsewhere) -> str:
    """Return for what a node stays cordoned that has a mark of ours or of a driver upgrade, or an empty string.

    The operator takes the state of an upgrade off with its ClusterPolicy, and leaves the note that it has found a
    cordon (seen with v26.7.0).
    """
    if not nodes.is_cordoned(node) or lifts_cordon(node, elsewhere):
        return ""
    held, notes = hold.hold_of(node), objects.annotations_of(node)
    if held.purposes:
        return f"maintenance ({', '.join(held.purposes)})"
    known = (CORDON_NOTE, driver_annotations.NOTE, names.UPGRADE_FOUND_CORDONED)
    if not (held.left_cordoned or any(key in notes for key in known)):
        return ""
    others = [holder for holder in marks.holders(node, elsewhere) if holder.needs_cordon]
    return ", ".join(map(str, others)) or "a reason that was there before its driver upgrade"


# ---- labels -------------------------------------------------------------------------------------------------------


def of_users(node: Json) -> list[str]:
    """Return the labels under nvidia.com that users have set, and that stay."""
    kept, ours = [], _ours(node)
    for key, value in objects.labels_of(node).items():
        is_a_users = not _is_the_stacks(key, value) or _left(value) is not None
        if key.startswith("nvidia.com/") and is_a_users and key not in ours:
            kept.append(key)
    return sorted(kept)


def of_the_stack(node: Json) -> list[str]:
    """Return the labels and annotations that the stack has left on a node."""
    labels = [key for key, value in objects.labels_of(node).items() if _is_the_stacks(key, value)]
    notes = [key for key in objects.annotations_of(node) if _matches(key, NODE_NOTES)]
    return [*dict.fromkeys((*_ours(node), *labels)), *notes]


def of_layouts(node: Json) -> list[str]:
    """Return the label of a MIG layout that divides a node's GPUs and that this collection has set, or nothing."""
    own = own_label.LAYOUT_LABEL
    return [own.label] if own.is_ours(node) and own.value_of(node) != names.MIG_DISABLED else []


def of_nfd(node: Json) -> list[str]:
    """Return the labels of Node Feature Discovery on a node."""
    return [key for key in objects.labels_of(node) if key.startswith(names.NFD_PREFIX)]


def _ours(node: Json) -> list[str]:
    """Return the labels that this collection has set by its own marks: of a rollout, of sharing, and of MIG."""
    return [*_of_a_rollout(node), *(own.label for own in own_label.OWN_LABELS if own.is_ours(node))]


def _of_a_rollout(node: Json) -> list[str]:
    """Return the label with which a rollout of this collection keeps a node from its upgrade, if it has it."""
    return [names.UPGRADE_SKIP] if driver_annotations.is_ours(node) else []


def _is_the_stacks(key: str, value: str) -> bool:
    """Return whether the operator or an operand has set a label. A deploy label with another value is a user's."""
    if key == names.OPERANDS_SWITCH:
        return False
    if key.startswith(names.DEPLOY_PREFIX):
        return value in _AS_DEPLOYED or names.PAUSED in value
    if key == names.MIG_CONFIG:
        # The operator sets this one by itself. A layout that divides GPUs is somebody's choice.
        return value == names.MIG_DISABLED
    return key in OPERATOR_LABELS or nodes.is_discovered(key)


def _left(value: str) -> str | None:
    """Return what is left of a label's value: the user's own, which stands before that of a pause."""
    mine, mark, dummy = value.partition(f"_{names.PAUSED}")
    return mine if mark else None


def _matches(key: str, patterns: t.Iterable[str]) -> bool:
    return any(key.startswith(each[:-1]) if each.endswith("*") else key == each for each in patterns)
