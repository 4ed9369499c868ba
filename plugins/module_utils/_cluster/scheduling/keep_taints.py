# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Bring the taints of a fleet to what is wanted, after a check of who tolerates them."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import (
    DAEMONSETS,
    FEW_NODES,
    PODS,
    Fleet,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import taints, tolerated
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes as node_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuHolders
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Displaced = dict[str, tolerated.Displaced]


def keep(cluster: Cluster, options: t.Mapping[str, t.Any]) -> tuple[Json, list[str]]:
    """Give every node the wanted taints, and remove those of earlier calls that are no longer wanted.

    Return the module's result, and warnings about who does not tolerate the taints. In check mode, all writes are dry
    runs.
    """
    with waiting.signals_noted() as interruption:
        fleet = Fleet(cluster, interruption=interruption)
        nodes = fleet.nodes()
        wanted = taints.wanted_by_node(options["taints"], nodes)
        changes = [taints.change(node, wanted[objects.name_of(node)]) for node in nodes]
        warnings = _check_daemonsets(cluster, nodes, wanted)
        found = _displaced(cluster, fleet, [change for change in changes if change.added])
        _check_pods(found, options["allow_disruption"])
        _apply(fleet, changes, wanted)
    concerned = [change for change in changes if change.patch or wanted[change.name]]
    return _result(concerned, found), [*warnings, *_stranded(found)]


# ---- who does not tolerate it -------------------------------------------------------------------------------------


def _check_daemonsets(cluster: Cluster, nodes: list[Json], wanted: t.Mapping[str, taints.Slots]) -> list[str]:
    """Raise if the stack does not tolerate the taints, and return warnings about other DaemonSets."""
    planned = [(node, taints.as_taints(wanted[objects.name_of(node)])) for node in nodes]
    planned = [(node, listed) for node, listed in planned if listed]
    if not planned:
        return []
    daemonsets = cluster.list_readable(DAEMONSETS)
    discovery, others = tolerated.of_daemonsets(daemonsets.items)
    tolerated.refuse([*_stack(cluster), *discovery], planned)
    rejecting = tolerated.rejecting(others, planned)
    warnings = [f"{what} does not tolerate the taints: it gets no pod there." for what in rejecting]
    unread = "This user may not list DaemonSets in all namespaces, so whether all tolerate the taints is unknown."
    return [*warnings, *([unread] if daemonsets.refusal else [])]


def _stack(cluster: Cluster) -> list[tolerated.Guest]:
    policies = sorted(observe.read_policies(cluster) or [], key=objects.seniority)
    gpuclusters = [] if policies else cluster.list_readable(observe.GPUCLUSTERS_PATH).items
    delegates = gpuclusters or any((item["spec"].get("driver") or {}).get("useNvidiaDriverCRD") for item in policies)
    drivers = cluster.list_readable(observe.NVIDIADRIVERS_PATH).items if delegates else []
    return tolerated.of_stack(policies, gpuclusters, drivers)


def _displaced(cluster: Cluster, fleet: Fleet, changes: list[taints.TaintChange]) -> Displaced:
    """Return the pods that new taints concern, by node. Nodes that keep their taints are not looked at."""
    strict = {change.name: change.added for change in changes if any(map(tolerated.keeps_away, change.added))}
    holders = GpuHolders(cluster)
    return {
        name: tolerated.displaced(pods, strict[name], holders.__contains__)
        for name, pods in _pods(cluster, fleet, list(strict)).items()
    }


_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


def _pods(cluster: Cluster, fleet: Fleet, names: list[str]) -> dict[str, list[Json]]:
    """Return the unfinished pods on these nodes: node by node, or for many nodes all pods in pages."""
    if len(names) <= FEW_NODES:
        queries = [{"fieldSelector": f"spec.nodeName={name},{_UNFINISHED}"} for name in names]
        answers = fleet.each(lambda query: (cluster.get(PODS, query) or {}).get("items") or [], queries)
        return dict(zip(names, answers))
    found: dict[str, list[Json]] = {name: [] for name in names}
    for pod in cluster.pages(PODS, fieldSelector=f"spec.nodeName!=,{_UNFINISHED}"):
        found.get(pod["spec"].get("nodeName", ""), []).append(pod)
    return found


def _check_pods(found: Displaced, is_allowed: bool) -> None:
    evicted = {name: its.evicted for name, its in found.items() if its.evicted}
    if evicted and not is_allowed:
        pods = [f"{pod} on {name}" for name, listed in evicted.items() for pod in listed]
        raise GpuOpsError(
            f"Kubernetes would evict {len(pods)} pods that do not tolerate a taint with the effect NoExecute: "
            f"{first_few(pods)}. Give them a toleration, use NoSchedule, or permit it with allow_disruption: true.",
            reason="Disruption",
            pods=evicted,
        )


def _stranded(found: Displaced) -> list[str]:
    listed = [f"{pod} on {name}" for name, its in found.items() for pod in its.not_replaced]
    text = (
        f"{len(listed)} pods with GPUs do not tolerate the new taints: {first_few(listed)}. They keep running, but a "
        "replacement cannot start there. Give their workloads a toleration."
    )
    return [text] if listed else []


# ---- changes ------------------------------------------------------------------------------------------------------


def _apply(fleet: Fleet, changes: list[taints.TaintChange], wanted: t.Mapping[str, taints.Slots]) -> None:
    def maker(name: str) -> t.Callable[[Json], Json | None]:
        return lambda node: taints.change(node, wanted[name]).patch

    due = {change.name: maker(change.name) for change in changes if change.patch}
    dummy, errors = fleet.patch_all(due)
    if errors:
        name, error = next(iter(sorted(errors.items())))
        others = f" ({len(errors) - 1} more nodes failed)" if len(errors) > 1 else ""
        raise GpuOpsError(f"Node {name}: {error.msg}{others}", **{**error.details, "failed_nodes": sorted(errors)})


def _result(changes: list[taints.TaintChange], found: Displaced) -> Json:
    rows = [_row(change, found.get(change.name, tolerated.NOBODY)) for change in changes]
    changed = [change for change in changes if change.patch]
    return {
        "changed": bool(changed),
        "nodes": rows,
        "diff": {
            "before": {change.name: _texts(taints.taints_of(change.node)) for change in changed},
            "after": {change.name: _texts(change.taints) for change in changed},
        },
    }


def _row(change: taints.TaintChange, pods: tolerated.Displaced) -> Json:
    return {
        "node": change.name,
        "changed": change.patch is not None,
        "added": _texts(change.added),
        "removed": _texts(change.removed),
        "evicted": pods.evicted,
        "not_replaced": pods.not_replaced,
    }


def _texts(listed: t.Iterable[Json]) -> list[str]:
    return sorted(map(node_objects.format_taint, listed))
