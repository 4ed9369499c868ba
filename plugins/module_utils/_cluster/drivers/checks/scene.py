# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Read what a rollout will meet: GPU pods, budgets and validators on the nodes whose driver changes."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.obstacles import RolloutScene
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.impact import Effect, State
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Answer = t.TypeVar("Answer")

_BUDGETS = namespaced("policy/v1", None, "poddisruptionbudgets")
_VALIDATOR = "app=nvidia-operator-validator"


def read(
    cluster: Cluster, sight: DriversView, after: State, effects: t.Sequence[Effect], paced: bool = False
) -> RolloutScene:
    """Return the scene. It is only read if a node changes. ``paced`` says that this call paces the rollout."""
    # A node that loses its driver has no rollout.
    changing = {effect.node for effect in effects if effect.action in ("replace", "restart")}
    interrupted = {effect.node for effect in effects if effect.interrupts}
    pools = after.grouped(sight.gpu_nodes, sight.line)
    gpu_pods = _if_permitted(lambda: _gpu_pods(cluster, sight.namespace, interrupted)) if interrupted else []
    return RolloutScene(
        nodes=[node for node in sight.gpu_nodes if objects.name_of(node) in changing],
        gpu_nodes=sight.gpu_nodes,
        source_of={objects.name_of(node): pool.source for pool in pools for node in pool.nodes},
        automatic={effect.node: effect.automatic for effect in effects},
        pods=gpu_pods,
        budgets=_if_permitted(lambda: list(cluster.pages(_BUDGETS))) if gpu_pods else [],
        daemonsets=sight.daemonsets,
        validated=_if_permitted(lambda: _validated(cluster, sight.namespace)) if changing else set(),
        policy=after.policy,
        paced=paced,
    )


def _if_permitted(ask: t.Callable[[], Answer]) -> Answer | None:
    """Return an answer, or None if this user may not have it."""
    try:
        return ask()
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        return None


def _gpu_pods(cluster: Cluster, namespace: str, on: t.Collection[str]) -> list[Json]:
    holders = pods.GpuHolders(cluster)
    return [pod for pod in pods.candidates(cluster, namespace) if pod["spec"].get("nodeName") in on and pod in holders]


def _validated(cluster: Cluster, namespace: str) -> set[str]:
    rows = cluster.table(namespaced("v1", namespace, "pods"), labelSelector=_VALIDATOR)
    return {str(row["node"]) for row in rows}
