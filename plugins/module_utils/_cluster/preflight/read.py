# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reading the cluster for the preflight checks: a handful of lists, one access review for each permission, and the user's own rules."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.grants import GROUP, KINDS, missing_grants
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.checks import Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Items = list[Json]
Ungranted = dict[str, list[str]]
T = t.TypeVar("T")

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
NOWHERE = "gpuops-nowhere"
"""A namespace that does not exist, in which a user has what is theirs in the whole cluster and nothing more."""

PARALLEL = 8


@dataclasses.dataclass(frozen=True)
class Permission:
    """Some verbs on one resource, cluster-wide or in the operator's namespace."""

    group: str
    resource: str
    verbs: str
    in_namespace: bool = False


NEEDED = (
    Permission("", "nodes", "get list"),
    Permission("", "namespaces", "get create patch"),
    Permission("", "pods", "list"),
    Permission("apps", "daemonsets", "list"),
    Permission("apps", "deployments", "list"),
    Permission("apiextensions.k8s.io", "customresourcedefinitions", "get create patch"),
    Permission("nvidia.com", "clusterpolicies", "get list create patch"),
    Permission("nvidia.com", "gpuclusters", "list"),
    Permission("nvidia.com", "nvidiadrivers", "get list create patch"),
    Permission("rbac.authorization.k8s.io", "clusterroles", "get create patch"),
    Permission("rbac.authorization.k8s.io", "clusterrolebindings", "get create patch"),
    Permission("rbac.authorization.k8s.io", "roles", "get create patch", in_namespace=True),
    Permission("rbac.authorization.k8s.io", "rolebindings", "get create patch", in_namespace=True),
    Permission("", "serviceaccounts", "get create patch", in_namespace=True),
    Permission("", "configmaps", "get create patch", in_namespace=True),
    Permission("", "secrets", "get list create patch update", in_namespace=True),
    Permission("apps", "daemonsets", "get create patch", in_namespace=True),
    Permission("apps", "deployments", "get list create patch", in_namespace=True),
    Permission("batch", "jobs", "get list create delete", in_namespace=True),
    Permission("", "pods", "get list create delete", in_namespace=True),
    Permission("", "pods/log", "get", in_namespace=True),
    Permission("", "pods/portforward", "get create", in_namespace=True),
    Permission("", "events", "list", in_namespace=True),
)
"""What deploying and verifying the stack asks of the API, beside the rights that the chart's roles give away."""


class _Reader:
    """Reads what the user may read, and remembers what not: the review of permissions is what reports that."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.unreadable: set[str] = set()

    def list(self, group_version: str, plural: str, selector: str = "") -> Items:
        """List a collection; empty when its kind does not exist or may not be read."""
        query = {"labelSelector": selector} if selector else {}
        return (
            self._permitted(plural, lambda: self._cluster.list(namespaced(group_version, None, plural), **query)) or []
        )

    def namespace(self, name: str) -> Json | None:
        """Return a namespace, or None."""
        return self._permitted("namespaces", lambda: self._cluster.get(namespaced("v1", None, "namespaces", name)))

    def ungranted(self, namespace: str, roles: Items) -> Ungranted:
        """Return what the chart's roles give away and the user does not have; nothing when the user's rules cannot be read."""
        return self._permitted("selfsubjectrulesreviews", lambda: ungranted(self._cluster, namespace, roles)) or {}

    def _permitted(self, plural: str, ask: t.Callable[[], T]) -> T | None:
        try:
            return ask()
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            self.unreadable.add(plural)
            return None


def read(cluster: Cluster, namespace: str, review: bool, roles: Items | None = None) -> Snapshot:
    """Read everything that the checks look at; ``review`` also asks for the permissions, and ``roles`` are those that Helm is to create."""
    reader = _Reader(cluster)
    snapshot = Snapshot(
        version=json.loads(cluster.request("GET", "/version"))["gitVersion"],
        nodes=reader.list("v1", "nodes"),
        daemonsets=reader.list("apps/v1", "daemonsets"),
        operators=reader.list("apps/v1", "deployments", "app.kubernetes.io/component=gpu-operator"),
        clusterpolicies=reader.list("nvidia.com/v1", "clusterpolicies"),
        gpuclusters=reader.list("nvidia.com/v1alpha1", "gpuclusters"),
        namespace=reader.namespace(namespace),
        missing_permissions=missing_permissions(cluster, namespace) if review else [],
        ungranted=reader.ungranted(namespace, roles or []),
    )
    return dataclasses.replace(snapshot, unreadable=frozenset(reader.unreadable))


def missing_permissions(cluster: Cluster, namespace: str) -> list[str]:
    """Return what the user lacks, for example ``create clusterpolicies.nvidia.com``."""
    if _allowed(cluster, {"verb": "*", "group": "*", "resource": "*"}):
        return []
    wanted = [(permission, verb) for permission in NEEDED for verb in permission.verbs.split()]

    def ask(item: tuple[Permission, str]) -> bool:
        permission, verb = item
        resource, dummy, subresource = permission.resource.partition("/")
        attributes = {"verb": verb, "group": permission.group, "resource": resource, "subresource": subresource}
        return _allowed(cluster, {**attributes, **({"namespace": namespace} if permission.in_namespace else {})})

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        answers = list(pool.map(ask, wanted))
    return [_name(permission, verb, namespace) for (permission, verb), allowed in zip(wanted, answers) if not allowed]


def ungranted(cluster: Cluster, namespace: str, roles: Items) -> Ungranted:
    """Return, for each role that the API server would not let this user create, what it gives away that the user does not have."""
    found: Ungranted = {}
    places: dict[tuple[str, str | None], Items] = {}
    for role in roles:
        places.setdefault(
            (role["kind"], (role["namespace"] or namespace) if role["kind"] == "Role" else None), []
        ).append(role)
    for (kind, where), there in places.items():
        if _may_grant_anything(cluster, KINDS[kind], where):
            continue
        held = _held(cluster, where or NOWHERE)
        for role in there:
            missing = missing_grants(role["rules"], held)
            if missing and not _is_there(cluster, KINDS[kind], where, role):
                found[f"{kind} {role['name']}"] = [str(grant) for grant in missing]
    return found


def _may_grant_anything(cluster: Cluster, plural: str, namespace: str | None) -> bool:
    """Whether the user may create roles (escalate) and hand them out (bind) whatever they hold."""
    attributes = {"group": GROUP, "resource": plural, **({"namespace": namespace} if namespace else {})}
    return all(_allowed(cluster, {**attributes, "verb": verb}) for verb in ("escalate", "bind"))


def _held(cluster: Cluster, namespace: str) -> Items:
    """Return the user's own rules in a namespace, those for the whole cluster included."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    status = json.loads(cluster.request("POST", RULES, body=review))["status"]
    return [*(status.get("resourceRules") or []), *(status.get("nonResourceRules") or [])]


def _is_there(cluster: Cluster, plural: str, namespace: str | None, role: Json) -> bool:
    """Whether somebody has created the role as it is to be, so that Helm leaves it alone."""
    try:
        existing = cluster.get(namespaced(f"{GROUP}/v1", namespace, plural, role["name"]))
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return False
    return existing is not None and (existing.get("rules") or []) == role["rules"]


def _allowed(cluster: Cluster, attributes: Json) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = json.loads(cluster.request("POST", REVIEWS, body=review))
    return bool(answer["status"].get("allowed"))


def _name(permission: Permission, verb: str, namespace: str) -> str:
    resource = f"{permission.resource}.{permission.group}" if permission.group else permission.resource
    return f"{verb} {resource} in {namespace}" if permission.in_namespace else f"{verb} {resource}"
