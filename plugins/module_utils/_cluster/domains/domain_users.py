# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Who uses a ComputeDomain: pods with claims from its template, and claims that have a channel of it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import claim_users
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains import domain_driver, domain_request
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class DomainUsers:
    """The pods that have not ended, each with its node (empty before it has one), and the claims of a ComputeDomain."""

    pods: t.Mapping[str, str]
    claims: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The pods and the claims, as texts."""
        return [*(f"pod {name}" for name in self.pods), *(f"claim {name}" for name in self.claims)]


def users(cluster: Cluster, domain: Json) -> DomainUsers:
    """Return who uses a ComputeDomain now."""
    meta = domain["metadata"]
    namespace = meta["namespace"]
    pods = [_slim(pod) for pod in cluster.pages(namespaced("v1", namespace, "pods")) if _has_claims(pod)]
    claims: list[Json] = []
    version = device_claims.served_version(cluster, "resourceclaims")
    if version:
        path = namespaced(f"{names.DRA_GROUP}/{version}", namespace, "resourceclaims")
        claims = [claim_users.slim(each) for each in cluster.pages(path) if holds(each, meta.get("uid"))]
    return found(domain, pods, claims)


def found(domain: Json, pods: t.Sequence[Json], claims: t.Sequence[Json]) -> DomainUsers:
    """Return the users among the pods of the namespace and among the claims with its channels."""
    namespace = domain["metadata"]["namespace"]
    template = {"metadata": {"namespace": namespace, "name": domain_request.template_of(domain)}}
    mine = {objects.full_name(claim) for claim in claims}
    by_claim = {name for claim in claims for name in claim_users.pods_of_claim(claim)}
    by_template = set(claim_users.pods_of_template(template, pods))
    named = {
        objects.full_name(pod): str(pod["spec"].get("nodeName") or "")
        for pod in pods
        if objects.full_name(pod) in by_claim | by_template
        or (_is_running(pod) and mine & {f"{space}/{name}" for space, name in device_claims.claims_of(pod)})
    }
    named |= dict.fromkeys(by_claim - named.keys(), "")  # a pod that came or went between the two lists
    return DomainUsers(dict(sorted(named.items())), tuple(sorted(mine)))


def holds(claim: Json, uid: str | None) -> bool:
    """Return whether a claim has a channel of the ComputeDomain with this UID.

    A claim has none before its pod has a node, and again after the pod has ended.
    """
    status = claim.get("status") or {}
    if not (status.get("allocation") or status.get("reservedFor")):
        return False
    configs = ((claim.get("spec") or {}).get("devices") or {}).get("config") or []
    opaque = [each.get("opaque") or {} for each in configs]
    return any(
        each.get("driver") == domain_driver.DOMAIN_DRIVER and (each.get("parameters") or {}).get("domainID") == uid
        for each in opaque
    )


def _has_claims(pod: Json) -> bool:
    return bool(pod["spec"].get("resourceClaims"))


def _is_running(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _slim(pod: Json) -> Json:
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    return {
        "metadata": {"namespace": meta["namespace"], "name": meta["name"]},
        "spec": {"resourceClaims": spec["resourceClaims"], "nodeName": spec.get("nodeName")},
        "status": {"phase": status.get("phase"), "resourceClaimStatuses": status.get("resourceClaimStatuses")},
    }
