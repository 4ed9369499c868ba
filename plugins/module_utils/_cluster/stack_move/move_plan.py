# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a move between the device plugin and claims finds and does: its step, who must go, and the findings."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal, _findings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import driver_chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import gpucluster_refusals
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold_stamp
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.eviction import EvictionPermits
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, nodes, objects, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.slimmer import Slimmer
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack_move.move_checks import MoveView, checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_DAEMONSETS = namespaced("apps/v1", None, "daemonsets")
_KUEUE = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")

MOVE_PURPOSE = "stack-move"
"""The purpose for which the nodes are held."""


def plan(cluster: Cluster, options: t.Mapping[str, t.Any], warn: t.Callable[[str], None]) -> Json:
    """Return what a move would do. Raises `GpuOpsError` with reason ChecksFailed or Disruption if it must not begin."""
    view = _view(cluster, options)
    step = _step(view)
    found = list(checks(view))
    held = view.held
    for finding in found:
        if finding.level == "warning":
            warn(f"{finding.message} {finding.remedy}".strip())
    result = {
        "needed": step != "done",
        "step": step,
        "nodes": sorted(objects.name_of(node) for node in view.gpu_nodes),
        "held": [objects.name_of(node) for node in _held(view)],
        "policy": objects.name_of(view.policy) if view.policy else None,
        "workloads": _workloads(held),
        **_findings.as_result(found),
    }
    only_warns = _check_refusal.only_warns(options, cluster.check_mode)
    for refusal in _refusals(step, found, held, options["allow_disruption"]):
        warning = _check_refusal.refuse(GpuOpsError(refusal.msg, **{**result, **refusal.details}), only_warns)
        if warning:
            warn(warning)
    return result


def _view(cluster: Cluster, options: t.Mapping[str, t.Any]) -> MoveView:
    policies, gpuclusters = observe.read_policies(cluster), cluster.list(observe.GPUCLUSTERS_PATH, resourceVersion="")
    listed, dummy = cluster.large_list(observe.NODES_PATH, Slimmer())
    return MoveView(
        target=options["to"],
        policy=min(policies or [], key=objects.seniority, default=None),
        gpucluster=next(iter(gpuclusters or []), None),
        nvidiadrivers=cluster.list_readable(observe.NVIDIADRIVERS_PATH).items,
        gpu_nodes=[node for node in listed if nodes.is_gpu_node(node)],
        serves_claims=device_claims.served_version(cluster, "deviceclasses") is not None,
        has_crd=gpuclusters is not None,
        domains=cluster.list_readable(gpucluster_refusals.COMPUTE_DOMAINS).items,
        quotas=cluster.list_readable(namespaced("v1", None, "resourcequotas")).items,
        queues=_queues(cluster),
        drivers=driver_chart.separate_drivers(cluster.list_readable(_DAEMONSETS).items),
        has_cdi=options["has_cdi"],
        drops_sharing=options["drop_sharing"],
        held=pods.gpu_pods(cluster, options["namespace"]),
        permits=EvictionPermits(options["force"], options["delete_emptydir_data"]),
    )


def _queues(cluster: Cluster) -> list[Json] | None:
    """Return the ClusterQueues of Kueue, or None if this user may not list them. A cluster without Kueue has none."""
    for version in _KUEUE:
        if cluster.get(f"/apis/{version}") is not None:
            listed = cluster.list_readable(namespaced(version, None, "clusterqueues"))
            return None if listed.refusal else listed.items
    return []


def _step(view: MoveView) -> str:
    """Return where the move is, also after a run that was killed: ``drain``, ``install``, ``prove`` or ``done``."""
    old, new = view.policy, view.gpucluster
    if view.target == "device_plugin":
        old, new = new, old
    if old is not None:
        return "drain"
    if new is None:
        return "install"
    return "prove" if _held(view) else "done"


def _held(view: MoveView) -> list[Json]:
    """Return the nodes that a move holds."""
    return [node for node in view.gpu_nodes if hold_stamp.stamp_of(node, MOVE_PURPOSE)]


def _refusals(step: str, found: list[t.Any], held: list[pods.GpuPod], allowed: bool) -> t.Iterator[GpuOpsError]:
    failures = [finding for finding in found if finding.level == "failure"]
    if failures:
        said = " ".join(f"{finding.message} {finding.remedy}".strip() for finding in failures)
        yield GpuOpsError(said, reason="ChecksFailed")
    if held and not allowed and step == "drain":
        named = first_few([f"{pod.namespace}/{pod.name}" for pod in held])
        use = "1 pod uses a GPU" if len(held) == 1 else f"{len(held)} pods use GPUs"
        yield GpuOpsError(
            f"{use} ({named}), and must go before the GPUs are given out in another way. Wait for their end, or "
            "set stack_move_allow_disruption: true, which evicts them.",
            reason="Disruption",
        )


def _workloads(held: list[pods.GpuPod]) -> list[Json]:
    """Return who holds GPUs now: by namespace, owner and resource."""
    rows: dict[tuple[str, str], Json] = {}
    for pod in held:
        owner = pod.owner or f"Pod/{pod.name}"
        empty: Json = {"namespace": pod.namespace, "owner": owner, "pods": 0, "gpus": {}}
        row = rows.setdefault((pod.namespace, owner), empty)
        row["pods"] += 1
        for resource, number in pod.gpus.items():
            row["gpus"][resource] = row["gpus"].get(resource, 0) + number
    return [row for dummy, row in sorted(rows.items())]
