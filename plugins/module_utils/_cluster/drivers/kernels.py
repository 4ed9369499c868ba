# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether nodes would have a driver if they ran other kernels.

A precompiled driver has an image for each kernel, which has to exist. Any other driver is built on the node: only a
node that runs the very driver with the very kernel proves that this works.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import published
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry import ask
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import drivers_view, impact
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.pools import Pool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import driver_pods, driver_reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PASSES = {"strict": ("exists",), "lenient": ("exists", "refused", "unreachable"), "offline": ("unasked",)}
"""The answers about an image with which a node may get its kernel, by the mode in which registries are asked."""


_Build = tuple[str, str, str]
"""What a driver is built from and for: its image, the kernel and the architecture."""


def look(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Return for each node what its driver's image would be, and whether it would serve; the result of the module."""
    kernels, registry = options["kernels"], options["registry"]
    refuse_below(registry, timeout=1)
    seen = drivers_view.look(cluster, options["policy_name"], options["namespace"])
    pools = _pools(seen, kernels)
    answers = published.answers(cluster, seen.namespace, pools, registry)
    built = _built(cluster, seen) if any(not pool.kernel for pool in pools) else frozenset()
    rows = {
        objects.name_of(node): _row(pool, answers, registry["mode"]) | {"unproved": _unproved(pool, node, built)}
        for pool in pools
        for node in pool.nodes
    }
    # A node without a driver container builds or brings its own driver.
    none = {"image": "", "precompiled": False, "problem": "", "unproved": ""}
    return {"changed": False, "nodes": {name: rows.get(name, none) for name in sorted(kernels)}}


def _pools(seen: DriversView, kernels: t.Mapping[str, str]) -> list[Pool]:
    """Return the pools of the nodes that are asked about. The other nodes stay, and have a say in their images."""
    fleet = [
        _with_kernel(node, kernels[objects.name_of(node)]) if _is_asked(node, kernels) else node
        for node in seen.gpu_nodes
    ]
    asked = [
        dataclasses.replace(pool, nodes=tuple(node for node in pool.nodes if _is_asked(node, kernels)))
        for pool in impact.State.before(seen).grouped(fleet, seen.line)
    ]
    return [pool for pool in asked if pool.nodes]


def _built(cluster: Cluster, seen: DriversView) -> frozenset[_Build]:
    """Return what Ready nodes run: drivers of the newest revision, in pods that are ready.

    Where the newest revision may not be read, nothing is known of any driver.
    """
    revisions = troubles.newest_revisions(cluster, seen.namespace)
    ready = {objects.name_of(node): node for node in seen.gpu_nodes if nodes.is_ready(node)}
    path = namespaced("v1", seen.namespace, "pods")
    found = set()
    for pod in cluster.list_readable(path, labelSelector=driver_reader.DRIVERS).items:
        view = driver_pods.view(pod)
        is_current = bool(view.revision) and view.revision == revisions.get(view.owner)
        if view.node in ready and is_current and view.is_ready and not view.is_ending:
            node = ready[view.node]
            found.add(_build(_image(pod), nodes.kernel_of(node), node))
    return frozenset(found)


def _image(pod: Json) -> str:
    containers = pod["spec"].get("containers") or []
    return next((str(each["image"]) for each in containers if each["name"] == operands.DRIVER.container), "")


def _build(image: str, kernel: str, node: Json) -> _Build:
    return image, kernel, nodes.node_info(node, "architecture") or ""


def _unproved(pool: Pool, node: Json, built: t.Collection[_Build]) -> str:
    """Return what no node is known to run, for a driver that is built on its node, or an empty string."""
    wanted = _build(pool.image or "", nodes.kernel_of(node), node)
    if pool.kernel or (pool.image and wanted in built):
        return ""
    image, kernel, architecture = wanted
    return f"{image or 'the driver'} with the kernel {kernel}" + (f" on {architecture}" if architecture else "")


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
