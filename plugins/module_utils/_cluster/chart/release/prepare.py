# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Prepare a cluster for a run of Helm.

Refuse what must not happen, settle who owns the ClusterPolicy, and apply the CRDs.
"""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import crds
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.chart import read_chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import Helm, local_chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import (
    driver_objects,
    guards,
    record,
    restore_objects,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    declarers,
    disruption,
    handover,
    ownership,
    permission,
    prediction,
    schema,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import (
    gpucluster_apply,
    gpucluster_refusals,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CRITICAL_PODS_QUOTA = "gpuops-critical-pods"
"""The ResourceQuota with which the role operator admits critical pods."""

_NVIDIADRIVERS = namespaced(names.GPUCLUSTER_API, None, names.NVIDIADRIVERS)


@dataclasses.dataclass
class _Steps:
    """What this run does, in the order in which it happens."""

    lock: record.Revision | None = None
    owner: t.Literal["kept", "handed_over"] | None = None
    restored: list[restore_objects.Restored] = dataclasses.field(default_factory=list)

    def described(self) -> list[str]:
        """Return a line for each step."""
        lines = [f"remove the lock of revision {self.lock.number} ({self.lock.status})"] if self.lock else []
        if self.owner == "kept":
            lines.append("keep the ClusterPolicy when Helm gives it up")
        elif self.owner == "handed_over":
            lines.append("hand the ClusterPolicy over to Helm")
        return lines + [f"restore {item}" for item in self.restored]


def ensure(cluster: Cluster, options: t.Mapping[str, t.Any], helm: Helm | None = None) -> Json:
    """Refuse what must not happen; then take the steps. Return the result of the module.

    With ``helm``, the chart's CRDs are among the steps, unless they must come after Helm.
    """
    guards.refuse_other_store(os.environ)
    policy, scope = (
        cluster.get(_policy_path(options)),
        ReleaseScope(options["release_name"], options["release_namespace"]),
    )
    guards.refuse_others(cluster, guards.operators(cluster), scope)
    if not (cluster.check_mode and options["assume_removed"]):
        guards.refuse_other_stack(cluster, options["clusterpolicy"], options["gpucluster"])
    told = _check_gpucluster(cluster, options) if options["gpucluster"] else []
    found = record.revisions(cluster, options["release_name"], options["release_namespace"])
    timeout_s = record.seconds(options["helm_timeout"])
    lock = guards.stale_lock(found, cluster.now(), timeout_s, options["break_lock"])
    deployed = record.deployed(cluster, found, options["release_namespace"])
    if options["supports_deploy_cr"] and deployed:
        guards.refuse_other_policy(deployed.objects, options["release_name"], options["policy_name"])
    rendered = crds.render(helm, cluster, _rendering(options)) if helm else None
    if rendered:
        guards.refuse_foreign_objects(cluster, rendered.objects, deployed.objects if deployed else (), scope)
    disrupted = _disruption(cluster, options, policy, deployed)
    warns = _check_refusal.only_warns(options, cluster.check_mode)
    warning = permission.permit(disrupted, options["allow_disruption"], cluster.check_mode, warns)
    adopts = options["supports_deploy_cr"] and policy is not None and handover.is_in_release(policy)
    steps = _take(cluster, options, policy, lock, deployed)
    downgrade = steps.owner == "handed_over" or _is_older(options["app_version"], deployed)
    first = not downgrade or _needs_own_crd(cluster, options)
    applied = crds.apply_rendered(rendered, cluster, _rendering(options)) if rendered and first else _NO_CRDS
    lines = [f"{line}\n" for line in steps.described()]
    return {
        **applied,
        "changed": bool(lines) or applied["changed"],
        "adopts": adopts,
        "downgrade": downgrade,
        "crds_first": first,
        "is_deployed": _is_deployed(options, [item for item in found if item is not lock], deployed),
        "has_quota": cluster.get(namespaced("v1", options["release_namespace"], "resourcequotas", CRITICAL_PODS_QUOTA))
        is not None,
        "restored": [dataclasses.asdict(item) for item in steps.restored],
        "disruption": disrupted.as_result(),
        "warnings": [each for each in (warning, *told) if each],
        "diff": {"before": "", "after": "".join([*lines, applied["diff"]["after"]])},
    }


def _check_gpucluster(cluster: Cluster, options: t.Mapping[str, t.Any]) -> list[str]:
    """Refuse what the chart's GPUCluster must not ask for, and return warnings about it."""
    existing, spec = cluster.get(gpucluster_apply.GPUCLUSTER_PATH), options["gpucluster"]["spec"]
    gpucluster_refusals.refuse_old_kubernetes(cluster)
    gpucluster_refusals.refuse_gates(spec)
    if existing is None:
        gpucluster_refusals.refuse_separate_driver(cluster)
    gpucluster_refusals.refuse_orphans(cluster, existing, spec)
    disrupted = gpucluster_refusals.disruption_of(cluster, options["release_namespace"], existing, spec)
    warns = _check_refusal.only_warns(options, cluster.check_mode)
    warning = permission.permit(disrupted, options["allow_disruption"], cluster.check_mode, warns)
    return [warning, *gpucluster_refusals.refuse_missing_gates(cluster, spec)]


_NO_CRDS: Json = {"changed": False, "crds": [], "diff": {"before": "", "after": ""}}


def _rendering(options: t.Mapping[str, t.Any]) -> Json:
    """Return the options with which the chart is rendered for its CRDs: for the cluster as it is."""
    return {**options, "kube_version": None, "api_versions": [], "wait_timeout": crds.SERVED_S}


def _is_deployed(options: t.Mapping[str, t.Any], found: list[record.Revision], deployed: record.Content | None) -> bool:
    """Return whether the release is already the chart with the values. Without a chart, Helm has to look itself."""
    if options["chart_path"] is None or deployed is None:
        return False
    chart = read_chart(local_chart(options["chart_path"])).metadata
    return record.is_deployed(found, deployed, chart, options["values"])


def _take(
    cluster: Cluster,
    options: t.Mapping[str, t.Any],
    policy: Json | None,
    lock: record.Revision | None,
    deployed: record.Content | None,
) -> _Steps:
    """Take the steps; in check mode, only return them."""
    release, namespace = options["release_name"], options["release_namespace"]
    if lock and not cluster.check_mode:
        record.remove(cluster, lock, namespace)
    steps = _Steps(lock=lock, owner=_settle_owner(cluster, options, policy))
    if deployed:
        # What Helm is about to delete stays away: the operator would act on it in between.
        leave = [] if options["gpucluster"] else ["GPUCluster"]
        leave += ["ClusterPolicy"] if options["supports_deploy_cr"] else []
        steps.restored = restore_objects.restore(cluster, deployed.objects, release, namespace, leave)
    return steps


def _policy_path(options: t.Mapping[str, t.Any]) -> str:
    return namespaced(names.CLUSTERPOLICY_API, None, names.CLUSTERPOLICIES, options["policy_name"])


def _disruption(
    cluster: Cluster, options: t.Mapping[str, t.Any], policy: Json | None, deployed: record.Content | None
) -> permission.Disruption:
    """Return what the chart's ClusterPolicy, NVIDIADrivers and operator interrupt, as far as Helm brings them."""
    rendered: Json = (options["clusterpolicy"] or {}).get("spec") or {}
    if options["supports_deploy_cr"]:  # an older chart's ClusterPolicy is Helm's, which knows no other declarations
        rendered = declarers.respected({"spec": rendered}, policy)[0]["spec"]
    after = ownership.merged((policy or {}).get("spec") or {}, rendered)
    ours = _drivers(cluster, options["nvidiadrivers"], deployed)

    def of_drivers(operator: disruption.Operator) -> list[disruption.Interruption]:
        return driver_objects.changes(ours, after if policy or rendered else None, operator)

    namespace, image, held = options["release_namespace"], options["operator_image"], options["assume_held"]
    return permission.disruption_of(cluster, namespace, policy, after, image=image, more=of_drivers, assume_held=held)


def _drivers(cluster: Cluster, wanted: list[Json], deployed: record.Content | None) -> driver_objects.Drivers:
    """Read the NVIDIADrivers that Helm would change or delete."""
    released = [item for item in (deployed.objects if deployed else ()) if item.get("kind") == "NVIDIADriver"]
    if not released and not wanted:
        return driver_objects.Drivers()
    return driver_objects.Drivers(cluster.list_readable(_NVIDIADRIVERS).items, released, wanted)


def _settle_owner(
    cluster: Cluster, options: t.Mapping[str, t.Any], policy: Json | None
) -> t.Literal["kept", "handed_over"] | None:
    """Keep Helm from deleting the ClusterPolicy, or make it one that Helm can import. Return what was done."""
    if policy is None:
        return None
    if options["supports_deploy_cr"]:
        if not handover.is_in_release(policy) or handover.is_kept(policy):
            return None
        cluster.merge(_policy_path(options), {"metadata": {"annotations": handover.KEEP}})
        return "kept"
    if handover.is_in_release(policy) or options["clusterpolicy"] is None:
        return None
    release, namespace = options["release_name"], options["release_namespace"]

    def patch_of(item: Json) -> list[Json]:
        return handover.hand_over_patch(item, FIELD_MANAGER, release, namespace)

    handover.write(cluster, _policy_path(options), policy, patch_of, handover.HELM)
    return "handed_over"


def _needs_own_crd(cluster: Cluster, options: t.Mapping[str, t.Any]) -> bool:
    """Return whether the installed CRD refuses the chart's ClusterPolicy.

    Charts v25.10 render ``migManager.config.name`` as null, for which only their own CRD has a default.
    """
    rendered: Json = (options["clusterpolicy"] or {}).get("spec") or {}
    if not any(schema.nulls(rendered, {}, "spec")):
        return False
    return bool(schema.refused_nulls(rendered, prediction.spec_schema(cluster) or {}, "spec"))


def _is_older(app_version: str | None, deployed: record.Content | None) -> bool:
    """Return whether the chart is older than what is deployed. Its CRDs may then lack fields that are in use."""
    wanted, current = operands.release(app_version), operands.release(deployed.app_version if deployed else None)
    return wanted is not None and current is not None and wanted < current
