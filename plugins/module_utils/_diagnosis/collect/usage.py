# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How much the GPUs are used, for the fleet's page: from their exporters, or from a Prometheus."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics import metrics_request
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.metrics_info import metrics_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import report
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

SPEC = ArgumentSpec({"usage": {"type": "bool", "default": False}}).including(metrics_request.USAGE)

WHAT = "how much the GPUs are used"
"""The name of the gap."""


def is_wanted(options: Options) -> bool:
    """Return whether the page is to say it."""
    return bool(options["usage"] or options["prometheus"])


def assert_valid(options: Options) -> None:
    """Raise GpuOpsError for an option that cannot be meant."""
    metrics_request.request_of(_asked(options))


def _asked(options: Options) -> Json:
    own = {name: options[name] for name in metrics_request.USAGE.options}
    return {**metrics_request.defaults(), **own, "allocated": options["allocated"]}


def usage(options: Options, namespace: str, pods: t.Sequence[Json]) -> tuple[Json | None, list[Gap]]:
    """Return what the page shows, or None if it cannot be read, and what is missing.

    ``namespace`` is the operator's, and ``pods`` are those that hold GPUs, as fields of `GpuPod`.
    """
    asked = {**_asked(options), "namespace": namespace}
    try:
        found = metrics_info(Cluster(options), asked, [GpuPod(**pod) for pod in pods])
    except GpuOpsError as e:
        return None, [Gap(WHAT, e.msg)]
    shown = {name: found[name] for name in ("source", "time_range", "summary", "namespaces", "idle_holders")}
    return {**shown, "nodes": _of_nodes(found["gpus"])}, list(_gaps(found))


def _of_nodes(gpus: t.Iterable[Json]) -> dict[str, float]:
    """Return the mean utilisation of each node's GPUs and MIG instances in percent, over the time range or now."""
    known: dict[str, list[float]] = collections.defaultdict(list)
    for gpu in gpus:
        value = gpu["utilisation"] if gpu["mean_utilisation"] is None else gpu["mean_utilisation"]
        if value is not None:
            known[gpu["node"]].append(value)
    return {node: round(sum(values) / len(values), 1) for node, values in sorted(known.items())}


def _gaps(found: Json) -> t.Iterator[Gap]:
    """Yield what is missing: nodes by the reason, pods whose GPUs no series names, and what Prometheus warns of."""
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    for node in found["nodes"]:
        if not node["ok"]:
            reasons[node["reason"]].append(node["node"])
    for reason, nodes in sorted(reasons.items()):
        yield Gap(f"{WHAT} on {report.folded(nodes)}", reason)
    if found["unnamed_pods"]:
        number = len(found["unnamed_pods"])
        yield Gap(
            f"{WHAT} by {number} pod{'s' if number > 1 else ''}",
            "No series names the pods. The exporter needs KUBERNETES_VIRTUAL_GPUS for pods that share GPUs, and "
            "KUBERNETES_ENABLE_DRA for pods with claims.",
        )
    for warning in found["warnings"]:
        yield Gap(WHAT, warning)
