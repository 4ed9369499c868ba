# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the roles of a chart give away that their creator does not have, which Kubernetes refuses ("attempting to grant RBAC permissions not
currently held"). Compared as the API server does: each verb on each resource must be covered by one of the user's own rules.
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
    """One verb on one resource, on one object of it or on one URL."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    url: str = ""

    def __str__(self) -> str:
        if self.url:
            return f"{self.verb} {self.url}"
        return (
            f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}{f' {self.name}' if self.name else ''}"
        )


def role_of(item: Json) -> Json:
    """Return what matters of a role: its kind, name, namespace and rules."""
    return {
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "namespace": item["metadata"].get("namespace"),
        "rules": item.get("rules") or [],
    }


def missing_grants(rules: t.Iterable[Json], held: t.Sequence[Json]) -> list[Grant]:
    """Return what the rules give and none of the user's own rules covers, each once."""
    return list(
        dict.fromkeys(
            grant for rule in rules for grant in _grants(rule) if not any(_covers(own, grant) for own in held)
        )
    )


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
    if not _has(own, "verbs", grant.verb):
        return False
    if grant.url:
        return any(
            url in ("*", grant.url) or (url.endswith("*") and grant.url.startswith(url[:-1]))
            for url in _of(own, "nonResourceURLs")
        )
    subresource = grant.resource.partition("/")[2]
    resources = {"*", grant.resource, *([f"*/{subresource}"] if subresource else [])}
    named = _of(own, "resourceNames")
    return (
        _has(own, "apiGroups", grant.group)
        and bool(resources & set(_of(own, "resources")))
        and (not named or grant.name in named)
    )


def _has(rule: Json, key: str, value: str) -> bool:
    return bool({"*", value} & set(_of(rule, key)))
