# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The rollout of the exporters: whether all of them have taken up a list of fields."""

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.monitoring_request import (
    MonitoringRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import is_running
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class WantedList:
    """The list that exporters are to have: its ConfigMap, or an empty name for the exporter's own list.

    ``others`` are the lists of ours that none of them may have. ``serving`` is how many exporters served metrics before
    the change: as many do so after it, and one that did not need not begin to. ``job_directory`` is the folder of job
    files that they are to read, or empty if that is somebody else's to say.
    """

    config_map: str
    others: frozenset[str]
    serving: int
    job_directory: str = ""


def serving(cluster: Cluster, namespace: str) -> int:
    """Return how many exporters serve metrics now."""
    return sum(map(_serving, _daemonsets(cluster, namespace)))


def wait(cluster: Cluster, namespace: str, wanted: WantedList, request: MonitoringRequest) -> None:
    """Wait until every pod of the exporter has the list. Raise GpuOpsError with what is in the way."""
    said: list[str] = []

    def look() -> bool | None:
        items = _daemonsets(cluster, namespace)
        line = " ".join(map(_how_far, items))
        if line and said[-1:] != [line]:
            said.append(line)
            waiting.append_line(request.progress_path, line)
        done = bool(items) and all(_is_rolled_out(item, wanted) for item in items)
        return (done and sum(map(_serving, items)) >= min(wanted.serving, sum(map(_desired, items)))) or None

    if waiting.until(look, request.timeout_s) is None:
        raise GpuOpsError(
            f"The exporters have not all taken up the list {wanted.config_map or 'of the chart'} within "
            f"{request.timeout_s:g} s. {_stuck(cluster, namespace)}Look at their pods, or raise wait_timeout.",
            reason="TimedOut",
        )


def _daemonsets(cluster: Cluster, namespace: str) -> list[Json]:
    listed = cluster.list(namespaced("apps/v1", namespace, "daemonsets"), resourceVersion="") or []
    return [item for item in listed if operands.operand_name(item) == operands.DCGM_EXPORTER.name]


def _is_rolled_out(item: Json, wanted: WantedList) -> bool:
    status, mounted = item.get("status") or {}, _mounted(item)
    seen = status.get("observedGeneration", 0) >= item["metadata"].get("generation", 0)
    updated = status.get("updatedNumberScheduled", 0) == _desired(item)
    expected = {wanted.config_map} - {""}
    has_jobs = not wanted.job_directory or wanted.job_directory in _folders(item)
    return seen and updated and has_jobs and mounted & {*wanted.others, *expected} == expected


def _serving(item: Json) -> int:
    return int((item.get("status") or {}).get("numberAvailable", 0))


def _desired(item: Json) -> int:
    return int((item.get("status") or {}).get("desiredNumberScheduled", 0))


def _mounted(item: Json) -> set[str]:
    """Return the ConfigMaps that the exporter's pods mount."""
    return {str(volume["configMap"].get("name")) for volume in _volumes(item) if "configMap" in volume}


def _folders(item: Json) -> set[str]:
    """Return the folders of the node that the exporter's pods mount."""
    return {str(volume["hostPath"].get("path")) for volume in _volumes(item) if "hostPath" in volume}


def _volumes(item: Json) -> list[Json]:
    return item["spec"]["template"]["spec"].get("volumes") or []


def _how_far(item: Json) -> str:
    done = (item.get("status") or {}).get("updatedNumberScheduled", 0)
    return f"{done} of {_desired(item)} exporters have been replaced"


def _stuck(cluster: Cluster, namespace: str) -> str:
    """Return a sentence that names exporters that do not run."""
    selector = f"app={operands.DCGM_EXPORTER.name}"
    rows = cluster.table(namespaced("v1", namespace, "pods"), labelSelector=selector)
    bad = [f"{row['name']} on {row['node']} is {row['status']}" for row in rows if not is_running(row)]
    return f"{first_few(bad)}. " if bad else ""
