# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""What a cluster serves: its Kubernetes version, and each kind with the path of its objects."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_AGGREGATED = ",".join(
    (
        *(
            f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            for version in ("v2", "v2beta1")
        ),
        "application/json",
    )
)
"""All kinds in one answer. API servers before Kubernetes 1.27 answer with the list of groups instead."""


@dataclasses.dataclass(frozen=True)
class ServedKind:
    """Where the objects of a kind are."""

    group_version: str
    plural: str
    is_namespaced: bool

    def path(self, item: Json, namespace: str) -> str:
        """Return the path of an object. ``namespace`` is for an object of a namespaced kind that names none."""
        inside = item["metadata"].get("namespace") or namespace
        return namespaced(
            self.group_version, inside if self.is_namespaced else None, self.plural, item["metadata"]["name"]
        )


class Served:
    """The kinds that a cluster serves, read when they are first needed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def version(self) -> str:
        """The version of the API server, for example ``v1.36.3``."""
        return str(self._cluster.ask("GET", "/version")["gitVersion"])

    @property
    def api_versions(self) -> list[str]:
        """Every group and version, and every kind in it, in the form of Helm: ``apps/v1``, ``apps/v1/Deployment``."""
        groups = {group for group, dummy in self._kinds}
        return sorted(groups | {f"{group}/{kind}" for group, kind in self._kinds})

    def for_chart(self, options: t.Mapping[str, t.Any]) -> Json:
        """Return the options that render a chart, with what the cluster serves. What the user gave wins or is added."""
        return {
            **options,
            "kube_version": options["kube_version"] or self.version,
            "api_versions": [*self.api_versions, *options["api_versions"]],
        }

    def kind_of(self, item: Json) -> ServedKind | None:
        """Return where an object of this kind is, or None if the cluster does not serve it."""
        return self._kinds.get((item["apiVersion"], item["kind"]))

    @functools.cached_property
    def _kinds(self) -> dict[tuple[str, str], ServedKind]:
        return {**self._read("/api"), **self._read("/apis")}

    def _read(self, root: str) -> dict[tuple[str, str], ServedKind]:
        answer = self._cluster.ask("GET", root, accept=_AGGREGATED)
        if answer.get("kind") == "APIGroupDiscoveryList":
            return dict(_aggregated(answer))
        found: dict[tuple[str, str], ServedKind] = {}
        for group_version in _group_versions(answer):
            resources = self._cluster.get(namespaced(group_version, None, "").rstrip("/")) or {}
            found.update(_listed(group_version, resources))
        return found


def _aggregated(answer: Json) -> t.Iterator[tuple[tuple[str, str], ServedKind]]:
    for group in answer.get("items") or []:
        for version in group.get("versions") or []:
            name = group["metadata"].get("name")
            group_version = f"{name}/{version['version']}" if name else version["version"]
            for resource in version.get("resources") or []:
                kind = ServedKind(group_version, resource["resource"], resource["scope"] == "Namespaced")
                yield (group_version, resource["responseKind"]["kind"]), kind


def _group_versions(answer: Json) -> list[str]:
    listed = [version["groupVersion"] for group in answer.get("groups") or [] for version in group["versions"]]
    return listed or list(answer.get("versions") or [])


def _listed(group_version: str, answer: Json) -> t.Iterator[tuple[tuple[str, str], ServedKind]]:
    for resource in answer.get("resources") or []:
        if "/" not in resource["name"]:
            yield (group_version, resource["kind"]), ServedKind(group_version, resource["name"], resource["namespaced"])
