# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Applying and deleting the ClusterPolicy, and the wait that follows."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import names, objects, pods, waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    changes,
    mistakes,
    refusals,
    spec,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, observe, wait
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CRD = namespaced("apiextensions.k8s.io/v1", None, "customresourcedefinitions", names.CLUSTERPOLICY_CRD)


def ensure(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Bring the ClusterPolicy into the state that the options ask for; return the result of the module."""
    return _present(cluster, options) if options["state"] == "present" else _absent(cluster, options)


# Present


def _present(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Apply the ClusterPolicy and wait."""
    desired = spec.desired_spec(options)
    mistakes.refuse_wrong_fields(desired)
    policies = observe.read_policies(cluster)
    if policies is None and not cluster.check_mode:
        raise GpuOpsError(
            "The ClusterPolicy CRD is not installed. "
            "Apply the CRDs of the GPU Operator's chart first (gpuops.nvidia.operator_crds).",
            reason="CRDMissing",
        )
    _refuse_second_policy(options["name"], policies or [])
    _refuse_gpucluster(cluster)
    result = _write(cluster, options, desired, policies)
    if cluster.check_mode:
        return result
    try:
        return {**result, **_verdict(cluster, options)}
    except GpuOpsError as e:
        raise GpuOpsError(e.msg, **{**result, **e.details}) from e


def _refuse_second_policy(name: str, policies: list[Json]) -> None:
    existing = [objects.name_of(item) for item in policies]
    if existing and name not in existing:
        raise GpuOpsError(
            f"ClusterPolicy {existing[0]} already exists, and the operator silently ignores a second ClusterPolicy. "
            f"Change the existing one (name: {existing[0]}), or delete it first.",
            reason="SecondClusterPolicy",
        )


def _refuse_gpucluster(cluster: Cluster) -> None:
    gpuclusters = cluster.list(observe.GPUCLUSTERS_PATH) or []
    if gpuclusters:
        raise GpuOpsError(
            f"A GPUCluster ({objects.name_of(gpuclusters[0])}) exists, and the operator serves neither it nor a "
            "ClusterPolicy while both exist. Delete the GPUCluster first.",
            reason="GPUClusterPresent",
        )


def _write(cluster: Cluster, options: t.Mapping[str, t.Any], desired: Json, policies: list[Json] | None) -> Json:
    """Apply the ClusterPolicy if it changes. ``policies`` is None in check mode before the CRD is installed."""
    existing = next((item for item in policies or [] if objects.name_of(item) == options["name"]), None)
    manifest = spec.manifest(options, desired, existing, FIELD_MANAGER)
    predicted = manifest if policies is None else _apply(cluster, manifest, options["force"], dry_run=True)
    mistakes.refuse_contradictions(predicted["spec"])
    warnings = mistakes.warnings(predicted["spec"])
    if policies is None:
        warnings.append("The ClusterPolicy CRD is not installed yet, so its fields could not be checked.")
    change = changes.between(existing, predicted, FIELD_MANAGER)
    is_written = change.changed and not cluster.check_mode
    final = _apply(cluster, manifest, options["force"]) if is_written else predicted
    return {
        "changed": change.changed,
        "clusterpolicy": changes.strip_managed(final),
        "warnings": warnings,
        "diff": change.diff,
    }


def _apply(cluster: Cluster, manifest: Json, force: bool, dry_run: bool = False) -> Json:
    path = f"{observe.CLUSTERPOLICIES_PATH}/{objects.name_of(manifest)}"
    try:
        return cluster.apply(path, manifest, force=force, dry_run=dry_run)
    except GpuOpsError as e:
        schema = _schema(cluster) if e.reason in ("Invalid", "ServerError") else None
        raise refusals.explain(e, schema) from e


def _schema(cluster: Cluster) -> Json | None:
    """Return the CRD's schema of the spec, for suggestions; None if the user may not read it."""
    try:
        crd = cluster.get(CRD) or {}
    except GpuOpsError:
        return None
    versions = (crd.get("spec") or {}).get("versions") or []
    schema = versions[0]["schema"]["openAPIV3Schema"] if versions else {}
    return t.cast("Json | None", (schema.get("properties") or {}).get("spec"))


def _verdict(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    namespace, name = options["namespace"], options["name"]
    if options["wait"]:
        verdict = wait.until_ready(cluster, namespace, name, options["wait_timeout"], options["progress_path"])[1]
    else:
        verdict = judge.judge(observe.observe(cluster, namespace, name))
    return verdict.as_result()


# Absent


def _absent(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Delete the ClusterPolicy, only with permission if pods use GPUs, and wait until its operands are gone."""
    path = f"{observe.CLUSTERPOLICIES_PATH}/{options['name']}"
    existing = cluster.get(path)
    change = changes.between(existing, None, FIELD_MANAGER)
    if existing is None:
        return {"changed": False, "clusterpolicy": {}, "diff": change.diff}
    gpu_pods = pods.gpu_pods(cluster, options["namespace"])
    if gpu_pods and not options["allow_disruption"]:
        examples = first_few([f"{pod.namespace}/{pod.name}" for pod in gpu_pods])
        raise GpuOpsError(
            f"{len(gpu_pods)} running pods use a GPU ({examples}) "
            "and would lose their driver. Drain them first, or set allow_disruption: true.",
            reason="Disruption",
            gpu_pods=len(gpu_pods),
        )
    cluster.delete(path)
    if options["wait"] and not cluster.check_mode:
        _wait_until_gone(cluster, existing, options["namespace"], options["wait_timeout"])
    return {"changed": True, "clusterpolicy": {}, "gpu_pods": len(gpu_pods), "diff": change.diff}


def _wait_until_gone(cluster: Cluster, policy: Json, namespace: str, timeout_s: float) -> None:
    left = ""

    def look() -> bool | None:
        nonlocal left
        left = _remains(cluster, policy, namespace)
        return None if left else True

    if waiting.until(look, timeout_s) is None:
        raise GpuOpsError(
            f"Not removed after {timeout_s} s: {left}. See `kubectl -n {namespace} get pods` for what holds them.",
            reason="TimedOut",
        )


def _remains(cluster: Cluster, policy: Json, namespace: str) -> str:
    """Return what is left of a deleted ClusterPolicy, or an empty string: its DaemonSets, or else the object itself."""
    daemonsets = cluster.list(namespaced("apps/v1", namespace, "daemonsets")) or []
    left = [objects.name_of(item) for item in daemonsets if _is_owned_by(policy, item)]
    name = objects.name_of(policy)
    if left or cluster.get(f"{observe.CLUSTERPOLICIES_PATH}/{name}") is None:
        return ", ".join(left)
    return f"ClusterPolicy {name} (finalizers: {json.dumps(policy['metadata'].get('finalizers') or [])})"


def _is_owned_by(owner: Json, item: Json) -> bool:
    return any(each["uid"] == owner["metadata"]["uid"] for each in item["metadata"].get("ownerReferences") or [])
