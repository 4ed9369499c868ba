# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Remove a release of the operator, in an order that lets the operator clean up.

Every step looks at the cluster, and does what is still to be done. So a run that was killed at any point is completed
by the next one, and a run after a complete one has no effect.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import installed_by
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import guards, record
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import (
    release,
    remains,
    removal_plan,
    removal_view,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.removal_view import (
    CUSTOM_RESOURCES,
    RemovalView,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import handover, permission
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import fleet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def remove(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Remove the release and what was asked for; return the result of the module."""
    guards.refuse_other_store(os.environ)
    scope = ReleaseScope(options["release_name"], options["release_namespace"])
    seen = removal_view.read(cluster, scope)
    guards.refuse_subscription(cluster, scope, "remove")
    refuse_others(seen)
    guards.stale_lock(seen.revisions, cluster.now(), record.seconds(options["helm_timeout"]), options["break_lock"])
    going, left = removal_plan.custom_resources(seen)
    gpu_pods, warnings = _permitted(cluster, options, seen, going)
    remains.note_cordons(cluster, seen)
    steps = [f"delete {kind} {name}" for kind, name in going]
    steps += _remove_custom_resources(cluster, options, seen, going)
    of_release, kept = release.remove(cluster, scope, seen.revisions, options["wait_timeout"])
    after = removal_plan.after_release(seen if cluster.check_mode else removal_view.read(cluster, scope), going)
    of_leftovers, remaining = remains.remove(cluster, options, after)
    steps += [*of_release, *of_leftovers]
    return {
        "changed": bool(steps),
        "removed": steps,
        "left": [item.as_result() for item in (*left, *kept, *remaining)],
        "report": [str(item) for item in (*left, *kept, *remaining)],
        "gpu_pods": gpu_pods,
        "warnings": [*warnings, *(f"Not everything is known. {refusal}" for refusal in seen.refusals)],
        "diff": {"before": "", "after": "".join(f"{line}\n" for line in steps)},
    }


def refuse_others(seen: RemovalView) -> None:
    """Raise if what would be deleted is another's, and would come back, or lose its drivers and keep the rest."""
    for item, owner in seen.owners:
        is_here = item["metadata"].get("namespace") == seen.scope.namespace
        if owner.tool == "OLM" or (is_here and not owner.is_release(seen.scope)):
            raise installed_by.refusal(owner, [f"Deployment {objects.full_name(item)}"], "remove", seen.scope)
        if is_here and owner.is_release(seen.scope) and not seen.revisions and not handover.is_kept(item):
            raise _without_records(seen.scope, item)
    for kind, name in removal_plan.custom_resources(seen)[0]:
        item = next(each for each in seen.custom[kind] if objects.name_of(each) == name)
        owner = installed_by.owner_of(item, kind)
        if owner.tool in installed_by.RECONCILERS:
            raise installed_by.refusal(owner, [f"{kind} {name}"], "remove", seen.scope)


def _without_records(scope: ReleaseScope, item: Json) -> GpuOpsError:
    return GpuOpsError(
        f"Deployment {objects.full_name(item)} belongs to Helm's release {scope}, and Helm has no record of the "
        f"release, so what else belongs to it is unknown. Nothing was changed. Run helm upgrade --install "
        f"{scope.release} CHART --namespace {scope.namespace} with its chart and values, which makes a record of the "
        "same objects, and run this again.",
        reason="NotFound",
    )


def _permitted(
    cluster: Cluster, options: t.Mapping[str, t.Any], seen: RemovalView, going: t.Sequence[tuple[str, str]]
) -> tuple[int | None, list[str]]:
    """Return how many pods use GPUs, and warnings. Raise without permission to interrupt."""
    if not removal_plan.interrupts(seen, going):
        return 0, []
    cut, allowed = removal_plan.in_upgrade(seen, going), options["allow_disruption"]
    running = permission.running_gpu_pods(cluster, options["release_namespace"])
    refusals = []
    if cut and not allowed:
        refusals.append(GpuOpsError(f"{cut} Wait until it has ended, or {permission.ALLOW}.", reason="NodesBusy"))
    try:
        permission.permit_removal(running, allowed)
    except GpuOpsError as e:
        refusals.append(e)
    warns = _check_refusal.only_warns(options, cluster.check_mode)
    warnings = [cut] if cut and allowed else [_check_refusal.refuse(error, warns) for error in refusals]
    return (None if running is None else len(running)), warnings


# ---- custom resources and operands --------------------------------------------------------------------------------


def _remove_custom_resources(
    cluster: Cluster, options: t.Mapping[str, t.Any], seen: RemovalView, going: t.Sequence[tuple[str, str]]
) -> list[str]:
    """Delete the custom resources, each kind with its operands before the next; return what else was deleted."""
    others = [item for item in seen.operand_daemonsets if not item["metadata"].get("ownerReferences")]
    others += removal_plan.orphans(seen.pods)
    steps = [f"delete {_kind_of(item)} {objects.name_of(item)}, which belongs to nothing" for item in others]
    for kind in CUSTOM_RESOURCES:
        mine = [name for each, name in going if each == kind]
        for name in mine:
            cluster.delete(f"{CUSTOM_RESOURCES[kind]}/{name}")
        if kind == "GPUCluster" and mine and not seen.operators:
            _drain_claims(cluster, options, seen)
            _release_finalizers(cluster, mine)
        if not cluster.check_mode:
            _wait_until_gone(cluster, options, kind, mine)
    for item in others:
        plural = "pods" if _kind_of(item) == "Pod" else "daemonsets"
        version = "v1" if plural == "pods" else "apps/v1"
        cluster.delete(namespaced(version, options["release_namespace"], plural, objects.name_of(item)))
    return steps


def _kind_of(item: Json) -> str:
    return "DaemonSet" if "spec" in item and "template" in item["spec"] else "Pod"


def _drain_claims(cluster: Cluster, options: t.Mapping[str, t.Any], seen: RemovalView) -> None:
    """Remove the operands with claims first: their claims can be released only while the DRA driver runs.

    The operator does this itself (``controllers/gpucluster_controller.go``), unless it was removed before its
    GPUCluster.
    """
    spec_of = [(item, item["spec"]["template"]["spec"]) for item in seen.operand_daemonsets]
    consumers = [objects.name_of(item) for item, spec in spec_of if spec.get("resourceClaims")]
    for name in consumers:
        cluster.delete(namespaced("apps/v1", options["release_namespace"], "daemonsets", name), "Foreground")

    def look() -> bool | None:
        listed = cluster.list(namespaced("apps/v1", options["release_namespace"], "daemonsets")) or []
        return None if {objects.name_of(item) for item in listed} & set(consumers) else True

    if consumers and not cluster.check_mode and waiting.until(look, options["wait_timeout"]) is None:
        raise _timed_out(options, [f"DaemonSet {name}" for name in consumers])


def _release_finalizers(cluster: Cluster, names: t.Iterable[str]) -> None:
    for name in names:
        path = f"{CUSTOM_RESOURCES['GPUCluster']}/{name}"
        if cluster.get(path) is not None:
            cluster.merge(path, {"metadata": {"finalizers": None}})


def _wait_until_gone(cluster: Cluster, options: t.Mapping[str, t.Any], kind: str, names: list[str]) -> None:
    """Wait until the custom resources of a kind, their DaemonSets and their pods are gone."""
    left: list[str] = []

    def look() -> bool | None:
        path = CUSTOM_RESOURCES[kind]
        items = [item for item in map(cluster.get, (f"{path}/{name}" for name in names)) if item is not None]
        daemonsets = [
            item
            for item in cluster.list(fleet.DAEMONSETS) or []
            if item["metadata"].get("namespace") == options["release_namespace"]
        ]
        pods = removal_view.pods_in(cluster, options["release_namespace"])
        left[:] = [*map(_described, items), *(removal_plan.waits_for(kind, daemonsets, pods) if names else ())]
        return None if left else True

    if names and waiting.until(look, options["wait_timeout"]) is None:
        raise _timed_out(options, left)


def _described(item: Json) -> str:
    finalizers = item["metadata"].get("finalizers") or []
    held = f" (finalizers: {', '.join(finalizers)})" if finalizers else ""
    return f"{item.get('kind', 'object')} {objects.name_of(item)}{held}"


def _timed_out(options: t.Mapping[str, t.Any], left: t.Sequence[str]) -> GpuOpsError:
    namespace = options["release_namespace"]
    return GpuOpsError(
        f"Not removed after {options['wait_timeout']} s: {first_few(left)}. See kubectl -n {namespace} get events for "
        "what holds them. The next run continues from there.",
        reason="TimedOut",
    )
