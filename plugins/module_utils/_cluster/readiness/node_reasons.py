# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reasons why the stack is not ready: the GPU nodes' taints, labels, driver upgrades and missing GPUs."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Level,
    Observation,
    Reason,
    Reasons,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

GRACE_S = 60
"""How long no GPU node may be found while the cluster starts: Node Feature Discovery takes about a minute."""


def _about(
    level: Level,
    code: str,
    found: list[Json],
    gpu_nodes: list[Json],
    what: str,
    remedy: str = "",
    operand: str | None = None,
) -> Reasons:
    """Yield a reason about some of the GPU nodes, or nothing if there are none."""
    if found:
        examples = first_few([objects.name_of(node) for node in found])
        message = f"{len(found)} of {len(gpu_nodes)} GPU nodes ({examples}): {what}."
        example = objects.name_of(found[0])
        yield Reason(level, code, message, remedy, operand, node=example, count=len(found), total=len(gpu_nodes))


def about_nodes(observation: Observation, gpu_nodes: list[Json]) -> Reasons:
    """Yield why nodes get no operands: as a note, or if no node gets any, after `GRACE_S` as a failure."""
    blocking: Level = "failed" if observation.seconds_since_edit > GRACE_S else "progressing"
    if not gpu_nodes:
        yield _no_gpu_node(observation.nodes, blocking)
        return
    yield from _about_switched_off(gpu_nodes, blocking)
    yield from _about_tainted(gpu_nodes, operands.tolerations(observation.spec.get("daemonsets")), blocking)
    down = [node for node in gpu_nodes if not nodes.is_ready(node)]
    what = "the kubelet does not report Ready"
    yield from _about("progressing", "NodesNotReady", down, gpu_nodes, what, "See `kubectl describe node`.")


def _no_gpu_node(all_nodes: list[Json], level: Level) -> Reason:
    if any(nodes.has_nfd_labels(node) for node in all_nodes):
        message = f"None of {len(all_nodes)} nodes has an NVIDIA GPU (no label {names.NFD_GPU_LABELS[0]}=true)."
        remedy = "Add a GPU node, or check with `lspci -d 10de:` that its GPU is on the bus."
        return Reason(level, "NoGPUNodes", message, remedy)
    return Reason(
        level,
        "NoNFDLabels",
        f"None of {len(all_nodes)} nodes carries a label of Node Feature Discovery, so the operator sees no GPU.",
        "Enable Node Feature Discovery in the chart (nfd.enabled: true), or repair the one that is installed.",
    )


def _about_switched_off(gpu_nodes: list[Json], blocking: Level) -> Reasons:
    off = [node for node in gpu_nodes if nodes.is_switched_off(node)]
    level = blocking if len(off) == len(gpu_nodes) else "note"
    what = f"label {names.OPERANDS_SWITCH}=false keeps the operands away"
    yield from _about(level, "OperandsSwitchedOff", off, gpu_nodes, what)


def _about_tainted(gpu_nodes: list[Json], tolerations: list[Json], blocking: Level) -> Reasons:
    tainted = [node for node in gpu_nodes if nodes.untolerated(node, tolerations)]
    if not tainted:
        return
    taint = nodes.format_taint(nodes.untolerated(tainted[0], tolerations)[0])
    level = blocking if len(tainted) == len(gpu_nodes) else "note"
    what = f"taint {taint} is not tolerated by the operands"
    remedy = "Add a toleration to daemonsets.tolerations, or remove the taint."
    yield from _about(level, "NodesTainted", tainted, gpu_nodes, what, remedy)


def about_labels(spec: Json, gpu_nodes: list[Json]) -> Reasons:
    """Yield the nodes that the operator has not labelled yet, or that an upgrade or a MIG change has paused."""
    on = [node for node in gpu_nodes if not nodes.is_switched_off(node)]
    unlabelled = [node for node in on if not nodes.has_deploy_labels(node)]
    what = "the operator has not labelled them for the operands yet"
    yield from _about("progressing", "NodesNotLabelled", unlabelled, gpu_nodes, what)

    paused = [node for node in on if nodes.is_paused(node)]
    what = "operands are paused for a driver upgrade or a MIG change"
    remedy = f"If neither is running there, set the node's {names.DEPLOY_PREFIX}* labels back to true."
    yield from _about("progressing", "OperandsPaused", paused, gpu_nodes, what, remedy)

    if operands.enabled(operands.DEVICE_PLUGIN, spec):
        label = operands.DEVICE_PLUGIN.deploy_label
        without = [node for node in on if objects.labels_of(node).get(label) == "false"]
        what = f"label {label}=false keeps the device plugin away"
        yield from _about("note", "DevicePluginSwitchedOff", without, gpu_nodes, what)


def about_upgrades(gpu_nodes: list[Json]) -> Reasons:
    """Yield the driver upgrades that are in progress or have failed: the operator reports ready during them."""
    by_state: dict[str, list[Json]] = {}
    for node in gpu_nodes:
        by_state.setdefault(objects.labels_of(node).get(names.UPGRADE_STATE, ""), []).append(node)
    for state, found in by_state.items():
        if state == names.UPGRADE_FAILED:
            what = "the driver upgrade failed and the node stays cordoned"
            remedy = (
                f"Remove the cause (see the events of node {objects.name_of(found[0])}, reason GPUDriverUpgrade), "
                f"then set its label {names.UPGRADE_STATE}={names.UPGRADE_REQUIRED}."
            )
            yield from _about("failed", "DriverUpgradeFailed", found, gpu_nodes, what, remedy, operands.DRIVER.name)
        elif state not in names.UPGRADE_FINISHED:
            what = f"the driver upgrade is at {state}"
            yield from _about("progressing", "DriverUpgrade", found, gpu_nodes, what, operand=operands.DRIVER.name)


def about_gpus(spec: Json, gpu_nodes: list[Json]) -> Reasons:
    """Yield the nodes with a device plugin that offer no GPUs, or fewer than they have."""
    if not operands.enabled(operands.DEVICE_PLUGIN, spec):
        return
    tolerations = operands.tolerations(spec.get("daemonsets"))
    serving = [node for node in gpu_nodes if _has_device_plugin(node, tolerations)]
    empty = [node for node in serving if not nodes.has_allocatable_gpus(node)]
    what = f"no {names.GPU_RESOURCE} or {names.MIG_RESOURCE_PREFIX}* is allocatable"
    remedy = "See the log of the device plugin's pod on the node."
    yield from _about("progressing", "NoAllocatableGPUs", empty, gpu_nodes, what, remedy, operands.DEVICE_PLUGIN.name)

    reduced = [node for node in serving if _offers_fewer_gpus(node)]
    what = "fewer GPUs are allocatable than the node has, because the device plugin reports some as unhealthy"
    yield from _about("note", "UnhealthyGPUs", reduced, gpu_nodes, what)


def _has_device_plugin(node: Json, tolerations: t.Iterable[Json]) -> bool:
    is_deployed = objects.labels_of(node).get(operands.DEVICE_PLUGIN.deploy_label) == "true"
    return is_deployed and not nodes.untolerated(node, tolerations)


def _offers_fewer_gpus(node: Json) -> bool:
    allocatable = nodes.gpu_quantities(node, "allocatable")
    return any(allocatable.values()) and allocatable != nodes.gpu_quantities(node, "capacity")
