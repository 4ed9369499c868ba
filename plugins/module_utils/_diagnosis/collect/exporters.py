# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the DCGM exporters that are ready serve. A pod is ready also when its exporter is silent."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import (
    exporter_answers,
    metrics,
    port_forward,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.metrics import NodeMetrics
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, operands, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import others
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import ANSWER_S, GapReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PORT = 9400


def ask(reader: GapReader, namespace: str, nodes: list[Json]) -> list[Json]:
    """Return what each exporter that is ready serves. If this user may not ask them, that is a gap."""
    known = {objects.name_of(node): node for node in nodes}
    selector = f"app={operands.DCGM_EXPORTER.daemonset}"
    table = reader.table(namespaced("v1", namespace, "pods"), labelSelector=selector)
    running = [row for row in table if pods.is_running(row)]

    def one(row: t.Mapping[str, t.Any]) -> NodeMetrics | None:
        expected = exporter_answers.expected_gpus(known.get(row["node"]))
        what = "the metrics of the DCGM exporters"
        return reader.attempt(what, lambda: _served(reader, namespace, row, expected), None)

    with concurrent.futures.ThreadPoolExecutor(others.PARALLEL) as pool:
        found = [row for row in pool.map(one, running) if row]
    return [{**dataclasses.asdict(row), "metrics": len(row.metrics)} for row in found]


def _served(reader: GapReader, namespace: str, row: t.Mapping[str, t.Any], expected: int | None) -> NodeMetrics:
    node, name = str(row["node"]), str(row["name"])
    try:
        status, body = port_forward.get(reader, namespace, name, PORT, "/metrics", ANSWER_S)
    except GpuOpsError as e:
        if e.reason != "PortForwardFailed":
            raise
        return NodeMetrics(node, reason=e.msg, pod=name, expected_gpus=expected)
    return metrics.judge(node, name, status, body.decode("utf-8", "replace"), expected=expected, wanted=())
