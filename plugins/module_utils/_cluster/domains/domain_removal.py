# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Remove a ComputeDomain: after its pods, and only while the controller runs that removes its finalizer.

The controller removes the template of the workload, the DaemonSet, the labels of nodes and its finalizer in this order:
``onAddOrUpdateDriverManaged`` in cmd/compute-domain-controller/computedomain.go of
kubernetes-sigs/dra-driver-nvidia-gpu (95932046).
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import conflicts, waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import changes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains import domain_driver, domain_users
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_request import (
    DOMAIN,
    DOMAIN_LABEL,
    DomainRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def remove(cluster: Cluster, request: DomainRequest) -> tuple[Json, list[str]]:
    """Delete a ComputeDomain that is unused, and wait until it is gone. Return the module's result, and warnings."""
    existing = conflicts.settled(lambda: _delete(cluster, request), f"ComputeDomain {request.full_name}")
    diff = changes.between(existing, None, FIELD_MANAGER).diff
    # Without a wait, there is no more to do for one that is being deleted.
    is_changed = existing is not None and (request.waits or not _is_going(existing))
    result: Json = {"changed": is_changed, "compute_domain": {}, "diff": diff}
    if existing is None or cluster.check_mode:
        return result, []
    if request.waits:
        _wait_until_gone(cluster, request, existing)
        return result, _left_behind(cluster, existing)
    return result, []


def _delete(cluster: Cluster, request: DomainRequest) -> Json | None:
    """Delete the ComputeDomain as it was read here, and return it, or None if there is none.

    A pod that begins to use it in between changes its status, and then the API server says Conflict.
    """
    existing = cluster.get(request.path)
    if existing is None:
        return None
    if not DOMAIN.is_ours(existing):
        raise GpuOpsError(
            f"Somebody else has made ComputeDomain {request.full_name}, so it stays. Remove it with kubectl if it "
            "may go.",
            reason="Conflict",
        )
    if not _is_going(existing):  # after that, its controller does not wait for anybody
        _refuse_users(cluster, request, existing)
    meta = existing["metadata"]
    if DOMAIN_LABEL in (meta.get("finalizers") or []):
        what = f"ComputeDomain {request.full_name} would stay with its finalizer"
        domain_driver.controller(cluster).refuse_absence(what)
    if not _is_going(existing):
        cluster.delete(request.path, uid=meta.get("uid"), resourceVersion=meta.get("resourceVersion"))
    return existing


def _is_going(domain: Json) -> bool:
    return bool(domain["metadata"].get("deletionTimestamp"))


def _refuse_users(cluster: Cluster, request: DomainRequest, existing: Json) -> None:
    users = domain_users.users(cluster, existing).names
    if users:
        raise GpuOpsError(
            f"ComputeDomain {request.full_name} is in use by {first_few(users)}. Without it, they lose the memory that "
            "they share. End them first.",
            reason="InUse",
            users=users,
        )


def _wait_until_gone(cluster: Cluster, request: DomainRequest, existing: Json) -> None:
    uid = existing["metadata"].get("uid")

    def look() -> bool | None:
        item = cluster.get(request.path)
        if item is None or item["metadata"].get("uid") != uid:
            return True
        waiting.append_line(request.progress_path, f"ComputeDomain {request.full_name} waits for its controller.")
        return None

    if waiting.until(look, request.timeout_s):
        return
    left = [f"its finalizer {DOMAIN_LABEL}", *_parts(cluster, existing)]
    does_run = "runs: read its log" if domain_driver.controller(cluster).is_ready else "does not run: bring it up"
    raise GpuOpsError(
        f"ComputeDomain {request.full_name} is deleted and still there after {request.timeout_s} s. It has left: "
        f"{first_few(left)}. The controller {does_run}. Do not remove the finalizer by hand: labels of nodes would "
        "stay, and no other ComputeDomain gets these nodes.",
        reason="TimedOut",
        changed=True,
        left=left,
    )


def _left_behind(cluster: Cluster, existing: Json) -> list[str]:
    left = list(_parts(cluster, existing))
    if not left:
        return []
    name = objects.full_name(existing)
    return [
        f"ComputeDomain {name} is gone, and has left {first_few(left)}. The controller looks for such leftovers every "
        "10 minutes."
    ]


def _parts(cluster: Cluster, existing: Json) -> t.Iterator[str]:
    """Yield what still exists of a ComputeDomain: templates, its DaemonSet, and labels of nodes."""
    uid = existing["metadata"].get("uid")
    version = device_claims.served_version(cluster, "resourceclaimtemplates")
    paths = {"DaemonSet": namespaced("apps/v1", None, "daemonsets"), "label of node": namespaced("v1", None, "nodes")}
    if version:
        templates = namespaced(f"{names.DRA_GROUP}/{version}", None, "resourceclaimtemplates")
        paths = {"ResourceClaimTemplate": templates, **paths}
    for kind, path in paths.items():
        for item in cluster.list_readable(path, labelSelector=f"{DOMAIN_LABEL}={uid}", resourceVersion="").items:
            if objects.labels_of(item).get(DOMAIN_LABEL) == uid:
                yield f"{kind} {objects.full_name(item)}"
