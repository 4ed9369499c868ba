# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Ask every DCGM exporter for its metrics, and judge whether they cover the node's GPUs."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import port_forward
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import GPU_COUNT, GPU_PRODUCT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import DCGM_EXPORTER
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import is_running
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line, whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_SAMPLE = re.compile(r"^(?P<name>DCGM_\w+)\{(?P<labels>.*)\}", re.MULTILINE)
_UUID = re.compile(r'\bUUID="([^"]+)"')


@dataclasses.dataclass(frozen=True)
class NodeMetrics:
    """The report of one node's exporter, and the verdict on it."""

    node: str
    ok: bool = False
    reason: str = ""
    pod: str | None = None
    gpus: int = 0
    expected_gpus: int | None = None
    metrics: list[str] = dataclasses.field(default_factory=list)


def exporter_info(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Ask the exporters and count the answers; return the module's result."""
    refuse_below(options, parallel=1, timeout=1, port=1)
    rows = ask_all(cluster, options)
    good = sum(row.ok for row in rows)
    return {
        "ok": bool(rows) and good == len(rows),
        "reason": _explain(rows),
        "results": [dataclasses.asdict(row) for row in rows],
        "summary": {"nodes": len(rows), "ok": good, "failed": len(rows) - good, "gpus": sum(row.gpus for row in rows)},
    }


def _explain(rows: list[NodeMetrics]) -> str:
    """Return one line that says which nodes are not ok and why, or an empty string."""
    if not rows:
        return (
            "No node runs a DCGM exporter, and no node is labelled to run one. "
            "Check dcgmExporter.enabled, namespace and label_selector."
        )
    bad = [f"{row.node}: {one_line(row.reason)}" for row in rows if not row.ok]
    return f"{first_few(bad, separator='; ')}." if bad else ""


# ---- the verdict on one answer ------------------------------------------------------------------------------------


def parse(text: str) -> tuple[int, list[str]]:
    """Return how many different GPUs an exporter's answer names, and the names of its DCGM metrics."""
    uuids, names = set(), set()
    for sample in _SAMPLE.finditer(text):
        names.add(sample["name"])
        uuid = _UUID.search(sample["labels"])
        if uuid:
            uuids.add(uuid[1])
    return len(uuids), sorted(names)


def expected_gpus(node: Json | None) -> int | None:
    """Return how many GPUs the node has according to its labels, or None if the labels do not contain the number."""
    labels = labels_of(node) if node else {}
    # With the single MIG strategy the label counts MIG devices, while the exporter names their GPUs.
    return None if "-MIG-" in labels.get(GPU_PRODUCT, "") else whole_number(labels.get(GPU_COUNT))


def judge(node: str, pod: str, status: int, text: str, *, expected: int | None, wanted: t.Iterable[str]) -> NodeMetrics:
    """Judge the answer of one exporter."""
    gpus, metrics = parse(text)
    missing = [name for name in wanted if name not in metrics]
    if status != 200:
        reason = f"The exporter answered with HTTP status {status}."
    elif gpus == 0:
        reason = "The exporter reports no GPU. Look at its log; DCGM may not reach the driver."
    elif expected is not None and gpus != expected:
        reason = f"The exporter reports {gpus} GPUs, but the node has {expected}."
    elif missing:
        reason = f"The exporter does not report {', '.join(missing)}. Check dcgmExporter.config."
    else:
        reason = ""
    return NodeMetrics(node, not reason, reason, pod, gpus, expected, metrics)


# ---- asking all exporters -----------------------------------------------------------------------------------------


def targets(nodes: t.Mapping[str, Json], pods: t.Iterable[Json], only: list[str] | None) -> dict[str, Json | None]:
    """Return the nodes to check, each with the table row of its exporter pod or None.

    If a node has several pods, the row of a ready pod is used.
    """
    by_node: dict[str, Json | None] = {}
    for pod in sorted(pods, key=is_running):
        by_node[pod["node"]] = pod
    by_node.pop("<none>", None)
    chosen = only if only is not None else sorted({*by_node, *(name for name, node in nodes.items() if _deploys(node))})
    return {name: by_node.get(name) for name in chosen}


def _slim(node: Json) -> Json:
    """Return the parts of a node that this file reads: its name and labels."""
    return {"metadata": {"name": name_of(node), "labels": labels_of(node)}}


def _deploys(node: Json) -> bool:
    return labels_of(node).get(DCGM_EXPORTER.deploy_label) == "true"


def ask_all(cluster: Cluster, options: t.Mapping[str, t.Any]) -> list[NodeMetrics]:
    """Ask the exporter of every chosen node, ``parallel`` at a time."""
    listed, _version = cluster.large_list(namespaced("v1", None, "nodes"), _slim)
    nodes = {name_of(node): node for node in listed}
    pods = cluster.table(namespaced("v1", options["namespace"], "pods"), labelSelector=options["label_selector"])
    chosen = targets(nodes, pods, options["nodes"])

    def ask(item: tuple[str, Json | None]) -> NodeMetrics:
        return _ask(cluster, options, item[0], item[1], nodes.get(item[0]))

    with concurrent.futures.ThreadPoolExecutor(max_workers=options["parallel"]) as pool:
        return list(pool.map(ask, chosen.items()))


def _ask(
    cluster: Cluster, options: t.Mapping[str, t.Any], name: str, pod: Json | None, node: Json | None
) -> NodeMetrics:
    if node is None:
        return NodeMetrics(name, reason="There is no such node.")
    expected = expected_gpus(node)
    if pod is None:
        reason = f"No DCGM exporter runs on this node. Check that its label {DCGM_EXPORTER.deploy_label} is true."
        return NodeMetrics(name, reason=reason, expected_gpus=expected)
    if not is_running(pod):
        reason = f"The exporter is not ready: {pod['status']}."
        return NodeMetrics(name, reason=reason, pod=pod["name"], expected_gpus=expected)
    address = options["namespace"], pod["name"], options["port"], "/metrics"
    try:
        status, body = port_forward.get(cluster, *address, options["timeout"])
    except GpuOpsError as e:
        return NodeMetrics(name, reason=e.msg, pod=pod["name"], expected_gpus=expected)
    text = body.decode("utf-8", "replace")
    return judge(name, pod["name"], status, text, expected=expected, wanted=options["metrics"])
