# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Who still needs a class, a template or a claim that is to go: pods, claims that wait, and templates."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import claim_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class, the extended resource that every class has without a name of its own."""


def slim(claim: Json) -> Json:
    """Return what is read of each ResourceClaim of the cluster."""
    metadata, status = claim["metadata"], claim.get("status") or {}
    return {
        "metadata": {"namespace": metadata["namespace"], "name": metadata["name"]},
        "spec": claim["spec"],
        "status": {"allocation": status.get("allocation"), "reservedFor": status.get("reservedFor")},
    }


def pods_of_template(template: Json, pods: t.Iterable[Json]) -> list[str]:
    """Return the pods, as ``namespace/name``, that have not ended and whose claims come from a template."""
    found = [
        full_name(pod)
        for pod in pods
        if pod["metadata"]["namespace"] == template["metadata"]["namespace"]
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and any(
            each.get("resourceClaimTemplateName") == name_of(template)
            for each in pod["spec"].get("resourceClaims") or []
        )
    ]
    return sorted(found)


def pods_of_claim(claim: Json) -> list[str]:
    """Return the pods, as ``namespace/name``, for which a claim is reserved."""
    reserved = (claim.get("status") or {}).get("reservedFor") or []
    return sorted(f"{claim['metadata']['namespace']}/{each['name']}" for each in reserved)


def seekers_of_class(
    item: Json, claims: t.Iterable[Json], templates: t.Iterable[Json], pods: t.Iterable[Json]
) -> list[str]:
    """Return what would wait for ever without a class: claims without devices, templates, and pods not yet placed."""
    name = name_of(item)
    resources = {f"{IMPLICIT}{name}", item["spec"].get("extendedResourceName")}
    waiting = [claim for claim in claims if device_claims.allocated(claim) is None]
    found = [f"ResourceClaim {full_name(each)}" for each in waiting if name in claim_objects.classes_in(each)]
    found += [
        f"ResourceClaimTemplate {full_name(each)}" for each in templates if name in claim_objects.classes_in(each)
    ]
    found += [f"Pod {full_name(pod)}" for pod in pods if resources & _requested(pod)]
    return sorted(found)


def _requested(pod: Json) -> set[str]:
    containers = [*(pod["spec"].get("initContainers") or []), *(pod["spec"].get("containers") or [])]
    return {name for each in containers for name in ((each.get("resources") or {}).get("requests") or {})}
