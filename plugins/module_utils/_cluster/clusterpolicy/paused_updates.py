# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Updates of operands that wait for somebody: the ClusterPolicy while the toolkit is rolled out node by node. Pure.

With ``daemonsets.updateStrategy: OnDelete``, the operator writes new DaemonSets, and their pods stay until they are
deleted. The same write that changes the toolkit sets it, so that no pod goes before its turn. An annotation of ours
says so, and what the field was before, so that the next run ends a rollout that was cut off.
Source: ``controllers/object_controls.go`` (``applyUpdateStrategyConfig``) of the GPU Operator v25.10.1 to v26.7.0.
"""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import TOOLKIT_ROLLOUT_MARK
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

FIELD = "daemonsets.updateStrategy"
WAITS = "OnDelete"
_UNSET = "unset"


def waits(spec: Json) -> bool:
    """Return whether operands are updated only when somebody deletes their pods."""
    return (spec.get("daemonsets") or {}).get("updateStrategy") == WAITS


def is_paused(policy: Json | None) -> bool:
    """Return whether a rollout of the toolkit has set the field and not ended yet."""
    return (
        policy is not None
        and TOOLKIT_ROLLOUT_MARK in objects.annotations_of(policy)
        and waits(policy.get("spec") or {})
    )


def paused(manifest: Json) -> Json:
    """Return what to apply for the time of the rollout instead of ``manifest``."""
    made = copy.deepcopy(manifest)
    common = made["spec"].setdefault("daemonsets", {})
    annotations = made["metadata"].setdefault("annotations", {})
    annotations[TOOLKIT_ROLLOUT_MARK] = str(common.get("updateStrategy") or _UNSET)
    common["updateStrategy"] = WAITS
    return made


def lifted(policy: Json | None) -> Json | None:
    """Return a ClusterPolicy as it would be without the pause: the same object if it is not paused."""
    if policy is None or TOOLKIT_ROLLOUT_MARK not in objects.annotations_of(policy):
        return policy
    made = copy.deepcopy(policy)
    before = made["metadata"]["annotations"].pop(TOOLKIT_ROLLOUT_MARK)
    common = (made.get("spec") or {}).get("daemonsets") or {}
    if common.get("updateStrategy") == WAITS:
        del common["updateStrategy"]
        common.update({} if before == _UNSET else {"updateStrategy": before})
    return made


def other_owners(policy: Json, ours: t.Container[str]) -> list[str]:
    """Return the other managers that own the field, so that it must not be set."""
    return [manager for manager in ownership.owners_of(policy).get(f"spec.{FIELD}", []) if manager not in ours]
