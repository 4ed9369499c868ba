# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether the images exist that nodes would pull if they ran other kernels. A precompiled driver has one for each."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import published
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry import ask
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import drivers_view, impact
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.pools import Pool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PASSES = {"strict": ("exists",), "lenient": ("exists", "refused", "unreachable"), "offline": ("unasked",)}
"""The answers about an image with which a node may get its kernel, by the mode in which registries are asked."""


def look(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Return for each node what its driver's image would be, and whether it exists; the result of the module."""
    kernels, registry = options["kernels"], options["registry"]
    refuse_below(registry, timeout=1)
    seen = drivers_view.look(cluster, options["policy_name"], options["namespace"])
    nodes = [_with_kernel(node, kernels[objects.name_of(node)]) for node in seen.gpu_nodes if _is_asked(node, kernels)]
    pools = impact.State.before(seen).grouped(nodes, seen.line)
    answers = published.answers(cluster, seen.namespace, pools, registry)
    rows = {objects.name_of(node): _row(pool, answers, registry["mode"]) for pool in pools for node in pool.nodes}
    # A node without a driver container builds or brings its own driver.
    none = {"image": "", "precompiled": False, "problem": ""}
    return {"changed": False, "nodes": {name: rows.get(name, none) for name in sorted(kernels)}}


def _is_asked(node: Json, kernels: t.Mapping[str, str]) -> bool:
    return objects.name_of(node) in kernels


def _with_kernel(node: Json, kernel: str) -> Json:
    """Return a node as Node Feature Discovery would label it with another kernel."""
    labels = {**objects.labels_of(node), names.KERNEL: kernel}
    info = {**((node.get("status") or {}).get("nodeInfo") or {}), "kernelVersion": kernel}
    status = {**(node.get("status") or {}), "nodeInfo": info}
    return {**node, "metadata": {**node["metadata"], "labels": labels}, "status": status}


def _said(answer: ask.Answer) -> str:
    return f"it is not published for {', '.join(answer.lacks)}" if answer.lacks else answer.message or answer.state


def _row(pool: Pool, answers: published.Answers, mode: str) -> Json:
    problems = [
        f"{answer.asked}: {_said(answer)}"
        for answer in (answers[image] for image in pool.images)
        if answer.state not in _PASSES[mode] or answer.lacks
    ]
    # An image that is not built for one kernel stays the same, and its driver is built on the node.
    relevant = problems[0] if problems and pool.kernel else ""
    return {"image": pool.image or "", "precompiled": bool(pool.kernel), "problem": relevant}
