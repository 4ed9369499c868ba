# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Bring back the objects of a release that somebody deleted or edited. Helm does not look at them without a reason."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import handover
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_VOLATILE = ("managedFields", "resourceVersion", "generation")


@dataclasses.dataclass(frozen=True)
class Restored:
    """An object that differed from the release, and how."""

    object: str
    was: t.Literal["deleted", "edited"]

    def __str__(self) -> str:
        return f"{self.object} ({self.was})"


def restore(
    cluster: Cluster, wanted: t.Iterable[Json], release: str, namespace: str, leave: t.Container[str] = ()
) -> list[Restored]:
    """Apply the objects of a release that are gone or differ, except the kinds to leave; return them.

    In check mode, the writes are left out.
    """
    served = Served(cluster)
    found = []
    for item in wanted:
        kind = served.kind_of(item)
        if kind is None or item["kind"] in leave:
            continue
        path, marked = kind.path(item, namespace), _marked(item, release, namespace)
        live = cluster.get(path)
        if live is None or (_is_built_in(item) and _differs(cluster, path, marked, live)):
            name = f"{item['kind']} {objects.name_of(item)}"
            found.append(Restored(name, "deleted" if live is None else "edited"))
            _apply(cluster, path, marked, dry_run=cluster.check_mode)
    return found


def _is_built_in(item: Json) -> bool:
    """Return whether Helm merges changes of this object. It leaves edits of custom resources alone, and so do we."""
    group = item["apiVersion"].rpartition("/")[0]
    return "." not in group or group.endswith(".k8s.io")


def _marked(item: Json, release: str, namespace: str) -> Json:
    """Return an object of a release's manifest with the metadata that Helm adds when it installs it."""
    metadata = dict(item["metadata"])
    for key, values in handover.marks(release, namespace).items():
        metadata[key] = {**(metadata.get(key) or {}), **values}
    return {**item, "metadata": metadata}


def _differs(cluster: Cluster, path: str, wanted: Json, live: Json) -> bool:
    """Return whether an apply would change the object. The API server's own prediction knows defaults and webhooks."""
    return _comparable(_apply(cluster, path, wanted, dry_run=True)) != _comparable(live)


def _comparable(item: Json) -> Json:
    metadata = {key: value for key, value in item["metadata"].items() if key not in _VOLATILE}
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": metadata}


def _apply(cluster: Cluster, path: str, item: Json, dry_run: bool) -> Json:
    """Apply as Helm, so that Helm's next upgrade meets no field of another manager."""
    query = {"fieldManager": handover.HELM, "force": "true", **({"dryRun": "All"} if dry_run else {})}
    return cluster.ask("PATCH", path, query, item, content_type="application/apply-patch+yaml")
