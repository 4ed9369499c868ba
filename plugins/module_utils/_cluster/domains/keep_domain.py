# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Make a ComputeDomain, and wait for it as far as its pods have come."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import changes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains import (
    domain_driver,
    domain_removal,
    domain_request,
    domain_users,
    domain_verdict,
    fabric_nodes,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_request import (
    DOMAIN,
    DomainRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_verdict import (
    DomainVerdict,
    DomainView,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, names
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def ensure(cluster: Cluster, options: t.Mapping[str, t.Any]) -> tuple[Json, list[str]]:
    """Bring a ComputeDomain into the state that the options ask for. Return the module's result, and warnings."""
    request = domain_request.request_of(options)
    if cluster.list(DOMAIN.path(request.namespace)) is not None:
        return _present(cluster, request) if request.is_present else domain_removal.remove(cluster, request)
    if not request.is_present:
        return {"changed": False, "compute_domain": {}, "diff": {"before": {}, "after": {}}}, []
    raise GpuOpsError(
        "The cluster does not serve ComputeDomains. Their CRDs come with the GPU Operator's chart from v26.7 on "
        "(gpuops.nvidia.operator_crds), or with the chart of NVIDIA's DRA driver.",
        reason="CRDMissing",
    )


def _present(cluster: Cluster, request: DomainRequest) -> tuple[Json, list[str]]:
    existing = cluster.get(request.path)
    _refuse_existing(request, existing)
    predicted = _predicted(cluster, request, existing)
    warnings = _refuse_new(cluster, request, predicted) if existing is None else []
    change = changes.between(existing, predicted, FIELD_MANAGER)
    made = predicted
    if change.changed and not cluster.check_mode:
        made = cluster.apply(request.path, domain_request.manifest(request, existing), force=True)
    result = {"changed": change.changed, "compute_domain": changes.strip_managed(made), "diff": change.diff}
    if existing is None and cluster.check_mode:
        return result, warnings
    verdict = _waited(cluster, request, result)
    if request.in_one_clique:
        warnings += domain_verdict.spread(request.full_name, verdict)
    return {**result, "verdict": verdict.as_result()}, warnings


# ---- before the write -------------------------------------------------------------------------------------------


def _refuse_existing(request: DomainRequest, existing: Json | None) -> None:
    if existing is None:
        return
    if not DOMAIN.is_ours(existing):
        raise GpuOpsError(
            f"ComputeDomain {request.full_name} exists, and somebody else has made it. Choose another name, or remove "
            "it.",
            reason="Conflict",
        )
    if existing["metadata"].get("deletionTimestamp"):
        raise GpuOpsError(
            f"ComputeDomain {request.full_name} is being deleted. Wait until it is gone (state: absent), and create it "
            "again.",
            reason="Conflict",
        )
    differences = domain_request.differences(existing, domain_request.manifest(request, existing))
    if differences:
        raise GpuOpsError(
            f"ComputeDomain {request.full_name} cannot be changed: {', '.join(differences)}. Remove it first (state: "
            "absent) after its pods have ended, or choose another name.",
            reason="Invalid",
        )


def _predicted(cluster: Cluster, request: DomainRequest, existing: Json | None) -> Json:
    try:
        return cluster.apply(request.path, domain_request.manifest(request, existing), force=True, dry_run=True)
    except GpuOpsError as e:
        if e.reason != "NotFound":
            raise
        raise GpuOpsError(
            f"There is no namespace {request.namespace}. Correct namespace, or make it first.", reason="NotFound"
        ) from e


def _refuse_new(cluster: Cluster, request: DomainRequest, predicted: Json) -> list[str]:
    """Raise if a ComputeDomain could not work; return warnings about what is unknown."""
    what = f"ComputeDomain {request.full_name} would not come up"
    domain_driver.refuse_switched_off(cluster)
    controller = domain_driver.controller(cluster)
    controller.refuse_absence(what)
    _refuse_taken_template(cluster, request, predicted)
    asked = predicted["spec"].get("numNodes") or 0
    has_names = domain_driver.has_dns_names(cluster)
    if not asked:
        _refuse_zero(cluster, request, controller.writes_zero, has_names)
    found = fabric_nodes.refuse_too_few(
        request.full_name, max(asked, 1), domain_driver.nodes(cluster), request.in_one_clique, has_names is not False
    )
    unknown = "Whether the driver's feature gate IMEXDaemonsWithDNSNames is on, without which num_nodes must be exact, "
    return [*found, *([f"{unknown}is unknown."] if has_names is None else [])]


def _refuse_taken_template(cluster: Cluster, request: DomainRequest, predicted: Json) -> None:
    name = domain_request.template_of(predicted)
    if _template(cluster, request.namespace, name) is not None:
        raise GpuOpsError(
            f"ResourceClaimTemplate {request.namespace}/{name} exists, and the controller makes none with that name. "
            "Choose another channel.template, or remove it.",
            reason="Conflict",
        )


def _refuse_zero(cluster: Cluster, request: DomainRequest, writes_zero: bool, has_names: bool | None) -> None:
    """Raise if 0 nodes cannot work.

    The driver from v0.4.0 on leaves out a 0 when it writes its finalizer (``json:"numNodes,omitempty"``), and the CRD
    of the operator's chart v26.7.0 asks for the field: so it could never write it.
    """
    if has_names is False:
        raise GpuOpsError(
            "num_nodes is 0, and the driver's feature gate IMEXDaemonsWithDNSNames is off: pods then wait for exactly "
            "num_nodes nodes. Give the number of nodes of the job.",
            reason="Invalid",
        )
    if writes_zero:
        return
    written = domain_request.manifest(request, None)
    del written["spec"]["numNodes"]
    try:
        cluster.apply(request.path, written, force=True, dry_run=True)
    except GpuOpsError as e:
        if e.reason != "Invalid":
            raise
        raise GpuOpsError(
            "num_nodes is 0, and the CRD of this cluster asks for numNodes, which the driver leaves out if it is 0. "
            "Its controller could not accept the ComputeDomain. Give the number of nodes of the job (more or fewer "
            "nodes work as well), or apply the CRDs of the driver's own release.",
            reason="Invalid",
        ) from e


def _template(cluster: Cluster, namespace: str, name: str) -> Json | None:
    version = device_claims.served_version(cluster, "resourceclaimtemplates")
    if version is None:
        return None
    return cluster.get(namespaced(f"{names.DRA_GROUP}/{version}", namespace, "resourceclaimtemplates", name))


# ---- after the write --------------------------------------------------------------------------------------------


def _waited(cluster: Cluster, request: DomainRequest, result: Json) -> DomainVerdict:
    """Return the verdict, after a wait if the options ask for one."""
    uid = result["compute_domain"]["metadata"].get("uid")
    if not request.waits or cluster.check_mode:
        return domain_verdict.judge(_view(cluster, request, uid))
    verdicts: list[DomainVerdict] = []

    def look() -> DomainVerdict | None:
        verdicts[:] = [domain_verdict.judge(_view(cluster, request, uid))]
        waiting.append_line(request.progress_path, verdicts[0].message)
        return verdicts[0] if verdicts[0].state in domain_verdict.SETTLED else None

    found = waiting.until(look, request.timeout_s)
    if found is not None:
        return found
    last = verdicts[0] if verdicts else DomainVerdict("pending", "The API server did not answer.")
    raise GpuOpsError(
        f"After {request.timeout_s} s: {last.message}",
        reason="TimedOut",
        changed=result["changed"],
        compute_domain=result["compute_domain"],
        verdict=last.as_result(),
    )


def _view(cluster: Cluster, request: DomainRequest, uid: str) -> DomainView:
    domain = cluster.get(request.path)
    if domain is None or domain["metadata"].get("uid") != uid:
        raise GpuOpsError(f"ComputeDomain {request.full_name} is gone: somebody has deleted it.", reason="NotFound")
    controller = domain_driver.controller(cluster)
    return DomainView(
        domain=domain,
        template=_template(cluster, request.namespace, domain_request.template_of(domain)),
        users=domain_users.users(cluster, domain),
        daemons=domain_driver.ready_nodes(domain_driver.daemons(cluster, uid)),
        taken=domain_driver.taken_nodes(cluster, uid),
        is_host_managed=controller.is_host_managed,
        has_controller=controller.is_ready,
    )
