# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Applying the ClusterPolicy, and the wait that follows."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    changes,
    handover,
    mistakes,
    ownership,
    permission,
    policy_info,
    prediction,
    removal,
    spec,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.prediction import Apply
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.spec import PolicyRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe, wait
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Warn = t.Callable[[str], None]
Write = t.Callable[[Apply], Json]
"""Applies a ClusterPolicy and returns it."""


@dataclasses.dataclass(frozen=True)
class Made:
    """What became of a change that is made in steps."""

    policy: Json
    changed: bool
    finished: bool
    """Whether the ClusterPolicy is as it was asked for, rather than on the way there."""
    rollout: Json
    """The key ``toolkit_rollout`` of the module's result."""


class Staged(t.Protocol):
    """A change that is made in steps, because each node must get its turn."""

    def predict(self) -> Json:
        """Return the key ``toolkit_rollout`` of the result in check mode."""

    def carry_out(self, write: Write) -> Made:
        """Make the change."""


Stage = t.Callable[[Cluster, PolicyRequest, Apply, Json, Warn], t.Optional[Staged]]  # noqa: UP045 (evaluated)
"""Returns how a change is made in steps, or None if one write makes it. The last arguments are the predicted object,
and what warns."""


def _at_once(*dummy: t.Any) -> None:
    """Make every change by one write."""


def ensure(cluster: Cluster, options: t.Mapping[str, t.Any], warn: Warn, stage: Stage = _at_once) -> Json:
    """Bring the ClusterPolicy into the state that the options ask for; return the result of the module."""
    request = spec.request_of(options)
    if request.is_present:
        return _present(cluster, request, warn, stage)
    return removal.remove(cluster, f"{observe.CLUSTERPOLICIES_PATH}/{request.name}", "clusterpolicy", request)


def _present(cluster: Cluster, request: PolicyRequest, warn: Warn, stage: Stage) -> Json:
    """Apply the ClusterPolicy and wait."""
    policies = observe.read_policies(cluster)
    if policies is None and not cluster.check_mode:
        raise GpuOpsError(
            "The ClusterPolicy CRD is not installed. "
            "Apply the CRDs of the GPU Operator's chart first (gpuops.nvidia.operator_crds).",
            reason="CRDMissing",
        )
    _refuse_second_policy(request.name, policies or [])
    if not (cluster.check_mode and request.assumes_removed):
        _refuse_gpucluster(cluster)
    apply = prediction.apply_of(request, policies, cluster.check_mode)
    result, before = _write(cluster, request, apply, warn, stage)
    if cluster.check_mode:
        return result
    is_finished = (result["toolkit_rollout"] or {}).get("finished", True)
    awaited = dataclasses.replace(request, waits=request.waits and is_finished)
    return policy_info.after(cluster, request.name, awaited, result, before)


def _refuse_second_policy(name: str, policies: list[Json]) -> None:
    existing = [objects.name_of(item) for item in policies]
    if existing and name not in existing:
        raise GpuOpsError(
            f"ClusterPolicy {existing[0]} already exists, and the operator silently ignores a second ClusterPolicy. "
            f"Change the existing one (name: {existing[0]}), or delete it first.",
            reason="SecondClusterPolicy",
        )


def _refuse_gpucluster(cluster: Cluster) -> None:
    gpuclusters = cluster.list_readable(observe.GPUCLUSTERS_PATH).items
    if gpuclusters:
        raise GpuOpsError(
            f"A GPUCluster ({objects.name_of(gpuclusters[0])}) exists, and the operator acts only if "
            "it or a ClusterPolicy exists alone. Delete the GPUCluster first.",
            reason="GPUClusterPresent",
        )


def _write(
    cluster: Cluster, request: PolicyRequest, apply: Apply, warn: Warn, stage: Stage
) -> tuple[Json, Marks | None]:
    """Apply the ClusterPolicy if that changes it, and if what it interrupts is allowed.

    Return the result, and what shows later whether the operator has acted on a change.
    """
    predicted, notes = prediction.predict(cluster, apply)
    mistakes.refuse_contradictions(predicted["spec"])
    disrupted = permission.disruption_of(
        cluster,
        request.namespace,
        apply.existing,
        predicted["spec"],
        request.operator_version,
        assume_held=request.assumes_held,
    )
    warning = permission.permit(
        disrupted, request.allows_disruption, cluster.check_mode, request.only_warns and cluster.check_mode
    )
    change = changes.between(apply.existing, predicted, FIELD_MANAGER)
    staged = stage(cluster, request, apply, predicted, warn) if change.changed else None
    for sentence in (
        *apply.notes,
        *notes,
        *mistakes.warnings(predicted["spec"]),
        *_what_stays(apply, predicted),
        warning,
    ):
        if sentence:
            warn(sentence)
    is_written = change.changed and not cluster.check_mode
    before = wait.read_marks(cluster, request.namespace, apply.existing) if is_written else None
    made = _make(cluster, apply, staged) if is_written else None
    result = {
        "changed": made.changed if made else change.changed,
        "clusterpolicy": changes.strip_managed(made.policy if made else predicted),
        "disruption": disrupted.as_result(),
        "toolkit_rollout": (made.rollout if made else staged.predict() if staged else None) or None,
        "diff": change.diff,
    }
    return result, before


def _make(cluster: Cluster, apply: Apply, staged: Staged | None) -> Made:
    """Make a change, at once or in steps."""
    if staged is None:
        return Made(_apply(cluster, apply), changed=True, finished=True, rollout={})
    return staged.carry_out(functools.partial(_apply, cluster))


def _what_stays(apply: Apply, predicted: Json) -> t.Iterator[str]:
    """Yield a warning about fields that we give up and that stay, because other managers own them too."""
    left = ownership.left_with_others(apply.existing, predicted, FIELD_MANAGER)
    for field, managers in left.items():
        yield f"{field} is no longer given, but it stays as it is, because {' and '.join(managers)} also owns it."


def _apply(cluster: Cluster, apply: Apply) -> Json:
    if apply.adopts and apply.existing is not None:
        patch_of = functools.partial(handover.adoption_patch, manager=FIELD_MANAGER)
        handover.write(cluster, apply.path, apply.existing, patch_of, FIELD_MANAGER)
    try:
        return cluster.apply(apply.path, apply.manifest, force=apply.forces)
    except GpuOpsError as e:
        raise prediction.explained(cluster, e) from e
