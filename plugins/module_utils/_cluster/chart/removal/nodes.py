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

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import marks as rollouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold, marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.sight import GPUS_NOTE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import taints
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OPERATOR_LABELS = (names.GPU_PRESENT, names.DRIVER_OWNER, names.MIG_STATE, names.UPGRADE_STATE)
NODE_NOTES = (names.UPGRADE_NOTES, GPUS_NOTE, rollouts.NOTE)
_AS_DEPLOYED = ("true", names.PRE_INSTALLED, "")
"""Values that nobody has chosen. k8s-driver-manager puts back labels that were not there before with an empty value."""
_STACK = ("gpu-operator", "k8s-driver-manager")
"""The owners of cordons that nobody lifts after the removal."""


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What is to be taken off the nodes."""

    labels: bool = False
    """The labels and annotations of the operator and its operands, and the cordons of its driver upgrades."""
    nfd: bool = False
    taints: bool = False


@dataclasses.dataclass(frozen=True)
class Change:
    """What changes on one node: labels (None removes one), annotations that go, and the spec's new fields."""

    name: str
    labels: t.Mapping[str, str | None]
    annotations: t.Sequence[str] = ()
    uncordons: bool = False
    taints: taints.Change | None = None

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
        changed = [f"label {key}" + (f"={value}" if value else "") for key, value in sorted(self.labels.items())]
        changed += [f"annotation {key}" for key in sorted(self.annotations)]
        changed += [f"taint {nodes.format_taint(taint)}" for taint in (self.taints.removed if self.taints else ())]
        return [*changed, *(["cordon of the driver upgrade"] if self.uncordons else [])]


def change(node: Json, wishes: Wishes) -> Change:
    """Return what takes the wished things off a node."""
    labels: dict[str, str | None] = {}
    annotations: list[str] = []
    if wishes.labels:
        labels |= {key: _left(value) for key, value in objects.labels_of(node).items() if _is_the_stacks(key, value)}
        labels |= dict.fromkeys(_of_a_rollout(node))
        annotations += [key for key in objects.annotations_of(node) if _matches(key, NODE_NOTES)]
    if wishes.nfd:
        labels |= {key: None for key in objects.labels_of(node) if key.startswith(names.NFD_PREFIX)}
        annotations += [key for key in objects.annotations_of(node) if _matches(key, (names.NFD_ANNOTATIONS,))]
    return Change(
        name=objects.name_of(node),
        labels=labels,
        annotations=annotations,
        uncordons=wishes.labels and is_stranded(node),
        taints=taints.change(node, {}) if wishes.taints else None,
    )


def is_stranded(node: Json) -> bool:
    """Return whether the stack has left the node cordoned, and nobody else wants it to be."""
    found_so = names.UPGRADE_FOUND_CORDONED in objects.annotations_of(node)
    if found_so or not nodes.is_cordoned(node) or hold.hold_of(node).purposes:
        return False
    holders = marks.holders(node, {})
    theirs = [holder for holder in holders if holder.owner in _STACK]
    return bool(theirs) and not any(holder.needs_cordon for holder in holders if holder not in theirs)


def of_users(node: Json) -> list[str]:
    """Return the labels under nvidia.com that users have set, and that stay."""
    kept, ours = [], _of_a_rollout(node)
    for key, value in objects.labels_of(node).items():
        is_a_users = not _is_the_stacks(key, value) or _left(value) is not None
        if key.startswith("nvidia.com/") and is_a_users and key not in ours:
            kept.append(key)
    return sorted(kept)


def of_the_stack(node: Json) -> list[str]:
    """Return the labels and annotations that the stack has left on a node."""
    labels = [key for key, value in objects.labels_of(node).items() if _is_the_stacks(key, value)]
    notes = [key for key in objects.annotations_of(node) if _matches(key, NODE_NOTES)]
    return [*_of_a_rollout(node), *labels, *notes]


def of_nfd(node: Json) -> list[str]:
    """Return the labels of Node Feature Discovery on a node."""
    return [key for key in objects.labels_of(node) if key.startswith(names.NFD_PREFIX)]


def _of_a_rollout(node: Json) -> list[str]:
    """Return the label with which a rollout of this collection keeps a node from its upgrade, if it has it."""
    return [names.UPGRADE_SKIP] if rollouts.is_ours(node) else []


def _is_the_stacks(key: str, value: str) -> bool:
    """Return whether the operator or an operand has set a label. A deploy label with another value is a user's."""
    if key == names.OPERANDS_SWITCH:
        return False
    if key.startswith(names.DEPLOY_PREFIX):
        return value in _AS_DEPLOYED or names.PAUSED in value
    if key == names.MIG_CONFIG:
        # The operator sets this one by itself. A layout that divides GPUs is somebody's choice.
        return value == names.MIG_DISABLED
    return key in OPERATOR_LABELS or _matches(key, names.FEATURE_DISCOVERY)


def _left(value: str) -> str | None:
    """Return what is left of a label's value: the user's own, which stands before that of a pause."""
    mine, mark, dummy = value.partition(f"_{names.PAUSED}")
    return mine if mark else None


def _matches(key: str, patterns: t.Iterable[str]) -> bool:
    return any(key.startswith(each[:-1]) if each.endswith("*") else key == each for each in patterns)
