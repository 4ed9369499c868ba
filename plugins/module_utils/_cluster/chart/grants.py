# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The permissions in a chart's RBAC roles that their creator does not have.

Kubernetes refuses such roles ("attempting to grant RBAC permissions not currently held"). Like the API server,
this code requires that one of the user's own rules covers each verb on each resource.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

GROUP = "rbac.authorization.k8s.io"
KINDS = {"ClusterRole": "clusterroles", "Role": "roles"}


@dataclasses.dataclass(frozen=True)
class Grant:
    """One verb on one resource, on one named object, or on one URL."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    url: str = ""

    def __str__(self) -> str:
        if self.url:
            return f"{self.verb} {self.url}"
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource} {self.name}".rstrip()


def role_of(item: Json) -> Json:
    """Return the kind, name, namespace and rules of an RBAC role."""
    return {
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "namespace": item["metadata"].get("namespace"),
        "rules": item.get("rules") or [],
    }


def missing_grants(rules: t.Iterable[Json], held: t.Sequence[Json]) -> list[Grant]:
    """Return each grant in the rules that the user's own rules do not cover, without duplicates."""
    granted = dict.fromkeys(grant for rule in rules for grant in _grants(rule))
    return [grant for grant in granted if not any(_covers(own, grant) for own in held)]


def _grants(rule: Json) -> t.Iterator[Grant]:
    for verb, url in itertools.product(_of(rule, "verbs"), _of(rule, "nonResourceURLs")):
        yield Grant(verb, url=url)
    for verb, group, resource, name in itertools.product(
        _of(rule, "verbs"), _of(rule, "apiGroups"), _of(rule, "resources"), _of(rule, "resourceNames") or [""]
    ):
        yield Grant(verb, group, resource, name)


def _of(rule: Json, key: str) -> list[str]:
    return rule.get(key) or []


def _covers(own: Json, grant: Grant) -> bool:
    """Return whether one of the user's own rules covers a grant."""
    if not _has(own, "verbs", grant.verb):
        return False
    if grant.url:
        return any(_covers_url(url, grant.url) for url in _of(own, "nonResourceURLs"))
    named = _of(own, "resourceNames")
    return (
        _has(own, "apiGroups", grant.group)
        and _covers_resource(own, grant.resource)
        and (not named or grant.name in named)
    )


def _covers_url(own: str, url: str) -> bool:
    return own in ("*", url) or (own.endswith("*") and url.startswith(own[:-1]))


def _covers_resource(own: Json, resource: str) -> bool:
    subresource = resource.partition("/")[2]
    return _has(own, "resources", resource) or (bool(subresource) and f"*/{subresource}" in _of(own, "resources"))


def _has(rule: Json, key: str, value: str) -> bool:
    return bool({"*", value} & set(_of(rule, key)))
