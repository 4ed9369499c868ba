# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Checks of the permissions that the user needs, and of the pods that the namespace admits."""

from __future__ import annotations

import collections
import concurrent.futures
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import grants
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.host_nodes import is_unconfigured
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import permissions
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.permissions import Permission
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Ungranted = dict[str, list[str]]
Scope = tuple[str, "str | None"]
"""A kind of RBAC role, and the namespace of such roles (None for the whole cluster)."""

ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
NO_NAMESPACE = "gpuops-nowhere"
"""A namespace that does not exist. There, a user has only cluster-wide permissions."""

PARALLEL_REVIEWS = 8
GRANTS_SHOWN = 4
"""How many missing permissions of each role a message names."""


_GRANT = (
    "Grant these permissions, for example with the ClusterRoles in roles/preflight/files of this collection, "
    "or use a kubeconfig of a cluster administrator."
)

# ---- the checks ---------------------------------------------------------------------------------------------------


def check_permissions(snapshot: Snapshot, dummy: Intent) -> t.Iterator[ClusterFinding]:
    """Report the permissions that the user lacks."""
    missing = snapshot.missing_permissions
    if not missing:
        yield ClusterFinding("permissions", "ok", "This user has all permissions that this run needs.")
        return
    yield ClusterFinding("permissions", "failure", f"This user may not: {by_resource(missing)}.", _GRANT)


def check_role_grants(snapshot: Snapshot, dummy: Intent) -> t.Iterator[ClusterFinding]:
    """Report the chart's RBAC roles that Kubernetes would not let the user create."""
    if not snapshot.ungranted:
        yield ClusterFinding("role_grants", "ok", "This user may grant all permissions in the chart's roles.")
        return
    rbac_roles = [f"{role} ({first_few(missing, GRANTS_SHOWN)})" for role, missing in snapshot.ungranted.items()]
    message = (
        "Kubernetes refuses roles that grant more than their creator has, and Helm would create these as this user: "
        f"{first_few(rbac_roles, separator='; ')}."
    )
    remedy = (
        "Grant these permissions, or the verbs escalate and bind on clusterroles and roles, "
        "or use a kubeconfig of a cluster administrator."
    )
    yield ClusterFinding("role_grants", "failure", message, remedy)


def check_pod_security(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find a namespace that refuses the operands' privileged pods."""
    level = labels_of(snapshot.namespace).get(names.POD_SECURITY) if snapshot.namespace else None
    namespace = f"Namespace {intent.namespace}"
    if level is None:
        yield ClusterFinding("pod_security", "ok", f"{namespace} sets no pod security level.")
    elif level == "privileged" or intent.value("psa.enabled", False):
        yield ClusterFinding("pod_security", "ok", f"{namespace} admits privileged pods.")
    else:
        message = f"{namespace} enforces the pod security level {level}, which refuses the operands."
        remedy = f"Label it {names.POD_SECURITY}=privileged, or set psa.enabled to true so that the operator labels it."
        yield ClusterFinding("pod_security", "warning", message, remedy)


# ---- permissions --------------------------------------------------------------------------------------------------


def missing_permissions(cluster: Cluster, namespace: str, operations: t.Iterable[str]) -> list[str]:
    """Return the permissions that the user lacks for these operations, such as ``list nodes``."""
    wanted = permissions.needed(operations)
    if not wanted or _is_allowed(cluster, {"verb": "*", "group": "*", "resource": "*"}):
        return []

    def ask(item: tuple[Permission, str]) -> bool:
        permission, verb = item
        resource, dummy, subresource = permission.resource.partition("/")
        attributes = {"verb": verb, "group": permission.group, "resource": resource, "subresource": subresource}
        return _is_allowed(cluster, {**attributes, **({"namespace": namespace} if permission.in_namespace else {})})

    with concurrent.futures.ThreadPoolExecutor(PARALLEL_REVIEWS) as pool:
        answers = list(pool.map(ask, wanted))
    return [_describe(*item, namespace) for item, allowed in zip(wanted, answers) if not allowed]


def by_resource(missing: t.Iterable[str]) -> str:
    """Return all missing permissions, with the verbs of each resource together: ``get, patch nodes; list pods``."""
    verbs: dict[str, list[str]] = {}
    for permission in missing:
        verb, dummy, resource = permission.partition(" ")
        verbs.setdefault(resource, []).append(verb)
    return "; ".join(f"{', '.join(found)} {resource}" for resource, found in verbs.items())


def lacking(options: t.Mapping[str, t.Any], connect: t.Callable[[], Cluster]) -> Json:
    """Return what the user lacks for the operations, and a sentence about it; the result of permissions_info.

    Hosts may be changed without a cluster. Without a configured cluster, the question is left out.
    """
    try:
        cluster = connect()
        namespace = options["namespace"] or _operators_namespace(cluster, options["policy_name"])
        missing = missing_permissions(cluster, namespace, options["operations"])
    except GpuOpsError as e:
        if not is_unconfigured(e, options):
            raise
        namespace, missing = options["namespace"], []
    message = f"This user may not: {by_resource(missing)}. {_GRANT}" if missing else ""
    return {"namespace": namespace, "missing_permissions": missing, "message": message}


def _operators_namespace(cluster: Cluster, policy_name: str) -> str:
    policies = cluster.list_readable(observe.CLUSTERPOLICIES_PATH).items
    return observe.found(policies, [], policy_name, "")[1]


def _is_allowed(cluster: Cluster, attributes: Json) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool(cluster.ask("POST", ACCESS_REVIEWS, body=review)["status"].get("allowed"))


def _describe(permission: Permission, verb: str, namespace: str) -> str:
    resource = f"{permission.resource}.{permission.group}" if permission.group else permission.resource
    return f"{verb} {resource} in {namespace}" if permission.in_namespace else f"{verb} {resource}"


# ---- the chart's RBAC roles ---------------------------------------------------------------------------------------


def ungranted(cluster: Cluster, namespace: str, rbac_roles: t.Iterable[Json]) -> Ungranted:
    """Return the RBAC roles that the API server would not let this user create, and the permissions that are missing.

    ``namespace`` applies to a role that names no namespace.
    """
    by_scope = collections.defaultdict(list)
    for role in rbac_roles:
        by_scope[_scope(role, namespace)].append(role)
    found: Ungranted = {}
    for scope, roles_there in by_scope.items():
        if not _may_grant_anything(cluster, scope):
            found |= _ungranted_in(cluster, scope, roles_there)
    return found


def _scope(role: Json, namespace: str) -> Scope:
    return role["kind"], (role["namespace"] or namespace) if role["kind"] == "Role" else None


def _ungranted_in(cluster: Cluster, scope: Scope, rbac_roles: list[Json]) -> Ungranted:
    held = _held(cluster, scope[1] or NO_NAMESPACE)
    missing = {role["name"]: grants.missing_grants(role["rules"], held) for role in rbac_roles}
    return {
        f"{role['kind']} {role['name']}": [str(grant) for grant in missing[role["name"]]]
        for role in rbac_roles
        if missing[role["name"]] and not _exists(cluster, scope, role)
    }


def _may_grant_anything(cluster: Cluster, scope: Scope) -> bool:
    """Return whether the user may create any role (escalate) and hand it out (bind)."""
    kind, namespace = scope
    attributes = {"group": grants.GROUP, "resource": grants.KINDS[kind]}
    attributes |= {"namespace": namespace} if namespace else {}
    return all(_is_allowed(cluster, {**attributes, "verb": verb}) for verb in ("escalate", "bind"))


def _held(cluster: Cluster, namespace: str) -> list[Json]:
    """Return the user's own rules in a namespace, including those for the whole cluster."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    status = cluster.ask("POST", RULES_REVIEWS, body=review)["status"]
    return [*(status.get("resourceRules") or []), *(status.get("nonResourceRules") or [])]


def _exists(cluster: Cluster, scope: Scope, role: Json) -> bool:
    """Return whether the cluster already has the role with exactly these rules, so that Helm need not change it."""
    kind, namespace = scope
    try:
        existing = cluster.get(namespaced(f"{grants.GROUP}/v1", namespace, grants.KINDS[kind], role["name"]))
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return False
    return existing is not None and (existing.get("rules") or []) == role["rules"]
