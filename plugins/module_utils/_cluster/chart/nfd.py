# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Distinguish our release's Node Feature Discovery from a separate one. Two installations fight over labels."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import HELM_RELEASE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

API_GROUP = "nfd.k8s-sigs.io"
_IMAGES = ("node-feature-discovery", "nfd-worker")


@dataclasses.dataclass(frozen=True)
class Installation:
    """One Node Feature Discovery worker."""

    namespace: str
    daemonset: str
    release: str | None
    """The Helm release that it belongs to, or None if Helm did not install it."""

    def belongs_to(self, release: str, namespace: str) -> bool:
        """Return whether it was installed with this release of the operator's chart."""
        return (self.release, self.namespace) == (release, namespace)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.daemonset}"


def workers(daemonsets: t.Iterable[Json]) -> list[Json]:
    """Return the DaemonSets among all of the cluster that run workers of Node Feature Discovery."""
    return [item for item in daemonsets if _is_worker(item)]


def installations(daemonsets: t.Iterable[Json]) -> list[Installation]:
    """Return the workers of Node Feature Discovery among all DaemonSets of the cluster."""
    return [
        Installation(
            item["metadata"]["namespace"],
            name_of(item),
            annotations_of(item).get(HELM_RELEASE),
        )
        for item in workers(daemonsets)
    ]


def _is_worker(daemonset: Json) -> bool:
    containers = daemonset["spec"]["template"]["spec"].get("containers") or []
    from_nfd = any(word in container.get("image", "") for container in containers for word in _IMAGES)
    # The same image also runs the topology updater, which sets no labels.
    return from_nfd and not any(
        "topology" in str(container.get("command") or container.get("name")) for container in containers
    )
