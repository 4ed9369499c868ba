# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Wait until Node Feature Discovery has labelled the nodes: before that, it is unknown which of them have GPUs."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NODES = namespaced("v1", None, "nodes")
_DAEMONSETS = namespaced("apps/v1", None, "daemonsets")


def wait_until_labelled(cluster: Cluster, timeout_s: float) -> bool:
    """Wait until as many nodes have labels as workers of Node Feature Discovery are to run; return whether they do.

    Return at once if there are no workers.
    """

    def look() -> bool | None:
        workers = nfd.workers(cluster.list(_DAEMONSETS) or [])
        if not workers:
            return True
        labelled = len(cluster.table(_NODES, labelSelector=names.OS_ID))
        return True if all(map(_is_counted, workers)) and labelled >= _wanted(workers) else None

    return bool(waiting.until(look, timeout_s))


def _is_counted(worker: Json) -> bool:
    """Return whether the DaemonSet controller has counted the nodes of this worker."""
    observed = int((worker.get("status") or {}).get("observedGeneration", 0))
    return observed >= int(worker["metadata"].get("generation", 0))


def _wanted(workers: list[Json]) -> int:
    return max(int((worker.get("status") or {}).get("desiredNumberScheduled", 0)) for worker in workers)
