# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Asking every DCGM exporter for its metrics, and judging whether they cover the node's GPUs."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.names import DEPLOY_PREFIX
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import port_forward
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DEPLOY_LABEL = f"{DEPLOY_PREFIX}dcgm-exporter"
COUNT_LABEL = "nvidia.com/gpu.count"
PRODUCT_LABEL = "nvidia.com/gpu.product"

_SAMPLE = re.compile(r"^(?P<name>DCGM_\w+)\{(?P<labels>.*)\}", re.MULTILINE)
_UUID = re.compile(r'\bUUID="([^"]+)"')


@dataclasses.dataclass(frozen=True)
class NodeMetrics:
    """What one node's exporter reports."""

    node: str
    ok: bool = False
    reason: str = ""
    pod: str | None = None
    gpus: int = 0
    expected_gpus: int | None = None
    metrics: list[str] = dataclasses.field(default_factory=list)


def parse(text: str) -> tuple[int, list[str]]:
    """Return how many different GPUs the exporter's answer names, and the names of its DCGM metrics."""
    uuids, names = set(), set()
    for sample in _SAMPLE.finditer(text):
        names.add(sample["name"])
        uuid = _UUID.search(sample["labels"])
        if uuid:
            uuids.add(uuid[1])
    return len(uuids), sorted(names)


def expected_gpus(node: Json | None) -> int | None:
    """Return how many GPUs the node has by GPU feature discovery, or None when its label does not say."""
    labels = labels_of(node) if node else {}
    count = labels.get(COUNT_LABEL, "")
    # With the single MIG strategy the label counts MIG devices, while the exporter names their GPUs.
    return None if not count.isdigit() or "-MIG-" in labels.get(PRODUCT_LABEL, "") else int(count)


def judge(node: str, pod: str, status: int, text: str, *, expected: int | None, wanted: t.Iterable[str]) -> NodeMetrics:
    """Judge the answer of one exporter."""
    gpus, metrics = parse(text)
    missing = [name for name in wanted if name not in metrics]
    if status != 200:
        reason = f"The exporter answered with HTTP status {status}."
    elif gpus == 0:
        reason = "The exporter reports no GPU. Look at its log; DCGM may not reach the driver."
    elif expected is not None and gpus != expected:
        reason = f"The exporter reports {gpus} GPUs, the node has {expected}."
    elif missing:
        reason = f"The exporter does not report {', '.join(missing)}. Check dcgmExporter.config."
    else:
        reason = ""
    return NodeMetrics(node, not reason, reason, pod, gpus, expected, metrics)


def targets(nodes: t.Mapping[str, Json], pods: t.Iterable[Json], only: list[str] | None) -> dict[str, Json | None]:
    """Return the nodes to check, each with the table row of its exporter pod or None. Of several pods a ready one counts."""
    by_node: dict[str, Json | None] = {}
    for pod in sorted(pods, key=_is_ready):
        by_node[pod["node"]] = pod
    by_node.pop("<none>", None)
    chosen = only if only is not None else sorted({*by_node, *(name for name, node in nodes.items() if _deploys(node))})
    return {name: by_node.get(name) for name in chosen}


def _deploys(node: Json) -> bool:
    return labels_of(node).get(DEPLOY_LABEL) == "true"


def _is_ready(pod: Json) -> bool:
    ready, dummy, total = str(pod["ready"]).partition("/")
    return ready == total and pod["status"] == "Running"


def ask_all(cluster: Cluster, options: t.Mapping[str, t.Any]) -> list[NodeMetrics]:
    """Ask the exporter of every chosen node, ``parallel`` at a time."""
    nodes = {node["metadata"]["name"]: node for node in cluster.list(namespaced("v1", None, "nodes")) or []}
    pods = cluster.table(namespaced("v1", options["namespace"], "pods"), labelSelector=options["label_selector"])
    chosen = targets(nodes, pods, options["nodes"])

    def ask(item: tuple[str, Json | None]) -> NodeMetrics:
        return _ask(cluster, options, item[0], item[1], nodes.get(item[0]))

    with concurrent.futures.ThreadPoolExecutor(max_workers=options["parallel"]) as pool:
        return list(pool.map(ask, chosen.items()))


def _ask(
    cluster: Cluster, options: t.Mapping[str, t.Any], name: str, pod: Json | None, node: Json | None
) -> NodeMetrics:
    expected = expected_gpus(node)
    if node is None:
        return NodeMetrics(name, reason="There is no such node.")
    if pod is None:
        return NodeMetrics(
            name,
            reason=f"No DCGM exporter runs on this node. Is its label {DEPLOY_LABEL} true?",
            expected_gpus=expected,
        )
    if not _is_ready(pod):
        return NodeMetrics(
            name, reason=f"The exporter is not ready: {pod['status']}.", pod=pod["name"], expected_gpus=expected
        )
    try:
        status, body = port_forward.get(
            cluster, options["namespace"], pod["name"], options["port"], "/metrics", options["timeout"]
        )
    except GpuOpsError as e:
        return NodeMetrics(name, reason=e.msg, pod=pod["name"], expected_gpus=expected)
    return judge(
        name, pod["name"], status, body.decode("utf-8", "replace"), expected=expected, wanted=options["metrics"]
    )
