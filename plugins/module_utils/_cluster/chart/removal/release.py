# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Remove what a release has installed, by Helm's own records, and then the records.

Helm deletes an object by its name alone, even if another release has it now, and the modules of kubernetes.core take a
release whose removal was cut off for one that is gone. This deletes only what has the marks of the release, and
continues a removal of Helm that was interrupted. The chart's hooks do not run: what they clean up is gone already.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import record
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import removal_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.removal_plan import LeftObject
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.removal_view import (
    CUSTOM_RESOURCES,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_RUN_PODS = ("Deployment", "DaemonSet", "StatefulSet", "Job")
"""Kinds that go first, with their pods: a program that still runs would write its labels again."""


def remove(
    cluster: Cluster, scope: ReleaseScope, revisions: t.Sequence[record.Revision], timeout_s: float
) -> tuple[list[str], list[LeftObject]]:
    """Delete the objects of all revisions, and the records; return a line for each step, and what stays."""
    found, left = _live(cluster, scope, revisions)
    first = {path: item for path, item in found.items() if item["kind"] in _RUN_PODS}
    for path in first:
        cluster.delete(path, "Foreground")
    if not cluster.check_mode:
        _wait_until_gone(cluster, first, timeout_s)
    for path in [path for path in found if path not in first]:
        cluster.delete(path)
    for revision in revisions:
        record.remove(cluster, revision, scope.namespace)
    items = [*first.values(), *(item for path, item in found.items() if path not in first)]
    steps = [f"delete {item['kind']} {objects.full_name(item)}" for item in items]
    return [*steps, *([f"delete release {scope}"] if revisions else [])], left


def _live(
    cluster: Cluster, scope: ReleaseScope, revisions: t.Sequence[record.Revision]
) -> tuple[dict[str, Json], list[LeftObject]]:
    """Return the objects that exist and go, by path, and those that stay.

    All revisions count: an upgrade that was cut off may have made objects that the deployed one does not name.
    """
    served = Served(cluster)
    found: dict[str, Json] = {}
    left: dict[str, LeftObject] = {}
    for item in record.objects_of(cluster, revisions, scope.namespace):
        kind = served.kind_of(item)
        if kind is None or item["kind"] in CUSTOM_RESOURCES:
            continue
        path = kind.path(item, scope.namespace)
        live = None if path in found or path in left else cluster.get(path)
        if live is not None:
            reason = removal_plan.verdict_on(scope, live)
            if reason:
                left[path] = LeftObject(item["kind"], [objects.full_name(live)], reason)
            else:
                found[path] = {**live, "kind": item["kind"]}
    return found, list(left.values())


def _wait_until_gone(cluster: Cluster, listed: t.Mapping[str, Json], timeout_s: float) -> None:
    left = dict(listed)

    def look() -> bool | None:
        for path in [path for path in left if cluster.get(path) is None]:
            del left[path]
        return None if left else True

    if waiting.until(look, timeout_s) is None:
        named = [f"{item['kind']} {objects.full_name(item)}" for item in left.values()]
        raise GpuOpsError(
            f"Not removed after {timeout_s} s: {first_few(named)}. Their pods have not ended. The next run "
            "continues from there.",
            reason="TimedOut",
        )
