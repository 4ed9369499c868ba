# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Ask the DCGM exporter of every node for its metrics, through the API server."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import port_forward
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import GPU_COUNT, GPU_PRODUCT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import DCGM_EXPORTER
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import is_running
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Read = t.TypeVar("Read")
Options = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class ExporterFleet:
    """The nodes of the cluster by name, and the rows of the exporters' pods in the API server's table."""

    nodes: t.Mapping[str, Json]
    pods: t.Sequence[Json]


@dataclasses.dataclass(frozen=True)
class ExporterAnswer:
    """What the exporter of one node has said, or why it was not asked or has not answered."""

    node: str
    expected_gpus: int | None = None
    """How many GPUs the node has according to its labels."""
    pod: str | None = None
    status: int = 0
    text: str = ""
    reason: str = ""


def read_fleet(cluster: Cluster, options: Options) -> ExporterFleet:
    """Return the nodes and the exporters' pods of a cluster."""
    listed, _version = cluster.large_list(namespaced("v1", None, "nodes"), _slim)
    pods = cluster.table(namespaced("v1", options["namespace"], "pods"), labelSelector=options["label_selector"])
    return ExporterFleet({name_of(node): node for node in listed}, pods)


def expected_gpus(node: Json | None) -> int | None:
    """Return how many GPUs the node has according to its labels, or None if the labels do not contain the number."""
    labels = labels_of(node) if node else {}
    # With the single MIG strategy the label counts MIG devices, while the exporter names their GPUs.
    return None if "-MIG-" in labels.get(GPU_PRODUCT, "") else whole_number(labels.get(GPU_COUNT))


def targets(fleet: ExporterFleet, only: list[str] | None) -> dict[str, Json | None]:
    """Return the nodes to ask, each with the table row of its exporter pod or None.

    If a node has several pods, the row of a ready pod is used.
    """
    by_node: dict[str, Json | None] = {}
    for pod in sorted(fleet.pods, key=is_running):
        by_node[pod["node"]] = pod
    by_node.pop("<none>", None)
    deployed = (name for name, node in fleet.nodes.items() if _deploys(node))
    chosen = only if only is not None else sorted({*by_node, *deployed})
    return {name: by_node.get(name) for name in chosen}


def _slim(node: Json) -> Json:
    """Return the parts of a node that this file reads: its name and labels."""
    return {"metadata": {"name": name_of(node), "labels": labels_of(node)}}


def _deploys(node: Json) -> bool:
    return labels_of(node).get(DCGM_EXPORTER.deploy_label) == "true"


def ask_each(
    cluster: Cluster, options: Options, fleet: ExporterFleet, read: t.Callable[[ExporterAnswer], Read]
) -> list[Read]:
    """Ask the exporter of every chosen node, ``parallel`` at a time. Return what ``read`` keeps of each answer."""

    def ask(item: tuple[str, Json | None]) -> Read:
        return read(_ask(cluster, options, item[0], item[1], fleet.nodes.get(item[0])))

    with concurrent.futures.ThreadPoolExecutor(max_workers=options["parallel"]) as pool:
        return list(pool.map(ask, targets(fleet, options["nodes"]).items()))


def _ask(cluster: Cluster, options: Options, name: str, pod: Json | None, node: Json | None) -> ExporterAnswer:
    if node is None:
        return ExporterAnswer(name, reason="There is no such node.")
    expected = expected_gpus(node)
    if pod is None:
        reason = f"No DCGM exporter runs on this node. Check that its label {DCGM_EXPORTER.deploy_label} is true."
        return ExporterAnswer(name, expected, reason=reason)
    if not is_running(pod):
        return ExporterAnswer(name, expected, pod["name"], reason=f"The exporter is not ready: {pod['status']}.")
    address = options["namespace"], pod["name"], options["port"], "/metrics"
    try:
        status, body = port_forward.get(cluster, *address, options["timeout"])
    except GpuOpsError as e:
        return ExporterAnswer(name, expected, pod["name"], reason=e.msg)
    return ExporterAnswer(name, expected, pod["name"], status, body.decode("utf-8", "replace"))
