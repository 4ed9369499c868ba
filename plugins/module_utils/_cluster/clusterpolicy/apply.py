# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Applying the ClusterPolicy, and the wait that follows."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    changes,
    handover,
    mistakes,
    ownership,
    permission,
    prediction,
    removal,
    report,
    spec,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, observe, tolerance, wait
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Warn = t.Callable[[str], None]


def ensure(cluster: Cluster, options: t.Mapping[str, t.Any], warn: Warn) -> Json:
    """Bring the ClusterPolicy into the state that the options ask for; return the result of the module."""
    refuse_below(options, wait_timeout=0)
    return _present(cluster, options, warn) if options["state"] == "present" else removal.remove(cluster, options)


def _present(cluster: Cluster, options: t.Mapping[str, t.Any], warn: Warn) -> Json:
    """Apply the ClusterPolicy and wait."""
    tolerance.of_options(options)  # refused before anything is written
    given = spec.desired_spec(options)
    mistakes.refuse_wrong_fields(given)
    policies = observe.read_policies(cluster)
    if policies is None and not cluster.check_mode:
        raise GpuOpsError(
            "The ClusterPolicy CRD is not installed. "
            "Apply the CRDs of the GPU Operator's chart first (gpuops.nvidia.operator_crds).",
            reason="CRDMissing",
        )
    _refuse_second_policy(options["name"], policies or [])
    _refuse_gpucluster(cluster)
    result, before = _write(cluster, options, _request(cluster, options, given, policies), warn)
    if cluster.check_mode:
        return result
    try:
        return {**result, **_verdict(cluster, options, before)}
    except GpuOpsError as e:
        raise report.for_a_person(e, changed=result["changed"]) from e


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
            f"A GPUCluster ({objects.name_of(gpuclusters[0])}) exists, and the operator serves neither it nor a "
            "ClusterPolicy while both exist. Delete the GPUCluster first.",
            reason="GPUClusterPresent",
        )


def _request(
    cluster: Cluster, options: t.Mapping[str, t.Any], given: Json, policies: list[Json] | None
) -> prediction.Request:
    """Return the apply that the options ask for. ``policies`` is None in check mode before the CRD is installed."""
    existing = next((item for item in policies or [] if objects.name_of(item) == options["name"]), None)
    adopts = bool(options["adopt"]) and handover.has_traces_of_helm(existing)
    own = handover.adopted(existing, FIELD_MANAGER) if adopts and existing else existing
    return prediction.Request(
        manifest=spec.manifest(options, given, own, FIELD_MANAGER),
        existing=existing,
        is_served=policies is not None,
        adopts=adopts,
        force=options["force"],
        next_schema=options["schema"] if cluster.check_mode else None,
    )


def _write(
    cluster: Cluster, options: t.Mapping[str, t.Any], request: prediction.Request, warn: Warn
) -> tuple[Json, Marks | None]:
    """Apply the ClusterPolicy if that changes it, and if what it interrupts is allowed.

    Return the result, and what shows later whether the operator has acted on a change.
    """
    predicted, notes = prediction.predict(cluster, request)
    mistakes.refuse_contradictions(predicted["spec"])
    namespace, acting = options["namespace"], options["operator_version"]
    disrupted = permission.disruption_of(
        cluster, namespace, request.existing, predicted["spec"], acting, assume_held=options["assume_held"]
    )
    warning = permission.permit(disrupted, options["allow_disruption"], cluster.check_mode)
    change = changes.between(request.existing, predicted, FIELD_MANAGER)
    for sentence in (*notes, *mistakes.warnings(predicted["spec"]), *_what_stays(request, predicted), warning):
        if sentence:
            warn(sentence)
    is_written = change.changed and not cluster.check_mode
    before = wait.read_marks(cluster, namespace, request.existing) if is_written else None
    final = _apply(cluster, request) if is_written else predicted
    result = {
        "changed": change.changed,
        "clusterpolicy": changes.strip_managed(final),
        "disruption": disrupted.as_result(),
        "diff": change.diff,
    }
    return result, before


def _what_stays(request: prediction.Request, predicted: Json) -> t.Iterator[str]:
    """Yield a warning about fields that we give up and that stay, because other managers own them too."""
    left = ownership.left_with_others(request.existing, predicted, FIELD_MANAGER)
    for field, managers in left.items():
        yield f"{field} is no longer given, but it stays as it is, because {' and '.join(managers)} also owns it."


def _apply(cluster: Cluster, request: prediction.Request) -> Json:
    if request.adopts and request.existing is not None:
        patch_of = functools.partial(handover.adoption_patch, manager=FIELD_MANAGER)
        handover.write(cluster, request.path, request.existing, patch_of, FIELD_MANAGER)
    try:
        return cluster.apply(request.path, request.manifest, force=request.force)
    except GpuOpsError as e:
        raise prediction.explained(cluster, e) from e


def _verdict(cluster: Cluster, options: t.Mapping[str, t.Any], before: Marks | None) -> Json:
    namespace, name, limits = options["namespace"], options["name"], tolerance.of_options(options)
    if options["wait"]:
        timeout_s, progress_path = options["wait_timeout"], options["progress_path"]
        verdict = wait.until_ready(cluster, namespace, name, timeout_s, progress_path, limits, before)[1]
    else:
        verdict = judge.judge(observe.observe(cluster, namespace, name, limits), limits)
    return verdict.as_result()
