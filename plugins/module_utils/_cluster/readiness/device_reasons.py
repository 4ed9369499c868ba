# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reasons why the stack is not ready: what Dynamic Resource Allocation offers on the GPU nodes."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.node_reasons import (
    Findings,
    NodeFinding,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Observation,
    Reason,
    Reasons,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PLUGIN_LOG = f"See the log of the container {operands.DRA_PLUGIN.container} of {operands.DRA_PLUGIN.daemonset}"


def about_driver(observation: Observation) -> Reasons:
    """Yield that nobody installs the driver for which the kubelet plugins of a GPUCluster wait."""
    rows = observation.troubled.get(operands.DRA_PLUGIN.daemonset, ())
    waiting = [row for row in rows if _WAITS_FOR_DRIVER in row.cause]
    known = "NVIDIADrivers" not in observation.unreadable
    if observation.gpucluster is not None and waiting and known and not observation.nvidiadrivers:
        message = f"{len(waiting)} nodes have no driver: there is no NVIDIADriver, and a GPUCluster installs none."
        remedy = "Create an NVIDIADriver (driver.nvidiaDriverCRD.enabled in the Helm values), or use role host_driver."
        yield Reason("progressing", "NoNVIDIADriver", message, remedy, operands.DRIVER.name, node=waiting[0].node)


_WAITS_FOR_DRIVER = "driver-validation"
"""The init container of the kubelet plugin that waits for the driver."""


def about_devices(observation: Observation, gpu_nodes: list[Json]) -> Findings:
    """Yield the nodes whose devices cannot all be claimed, and those whose GPUs are offered twice."""
    pools = observation.offered.by_node
    found = [(node, pools[objects.name_of(node)]) for node in gpu_nodes if objects.name_of(node) in pools]
    incomplete = [(node, pool) for node, pool in found if pool.missing]
    if incomplete:
        yield _incomplete([node for node, dummy in incomplete], incomplete[0][1])
    empty = [node for node, pool in found if not pool.missing and not pool.devices]
    if empty:
        what = f"their ResourceSlice of {names.DRA_DRIVER} has no device"
        remedy = (
            "A GPU with MIG and without MIG devices is left out: create MIG devices or switch MIG off, and delete the "
            f"pod of {operands.DRA_PLUGIN.daemonset} on the node, because it looks only once. {_PLUGIN_LOG}."
        )
        yield NodeFinding("progressing", "NoDevices", empty, what, remedy, operands.DRA_PLUGIN.name)
    tainted = [(node, pool) for node, pool in found if any(device.is_kept_away for device in pool.devices)]
    if tainted:
        yield _tainted([node for node, dummy in tainted], tainted[0][1])
    twice = [node for node, pool in found if pool.devices and nodes.has_allocatable_gpus(node)]
    what = f"the device plugin and {names.DRA_DRIVER} both offer their GPUs, so that two pods can get the same one"
    remedy = "Switch one of the two off on these nodes."
    yield NodeFinding("note", "OfferedTwice", twice, what, remedy, operands.DEVICE_PLUGIN.name)


def _incomplete(found: list[Json], pool: DevicePool) -> NodeFinding:
    what = (
        f"the scheduler allocates none of their GPUs, because generation {pool.generation} of the pool {pool.name} "
        f"lacks {pool.missing} ResourceSlice{'s' if pool.missing > 1 else ''}"
    )
    return NodeFinding("progressing", "PoolIncomplete", found, what, f"{_PLUGIN_LOG}.", operands.DRA_PLUGIN.name)


def _tainted(found: list[Json], pool: DevicePool) -> NodeFinding:
    kept_away = [device for device in pool.devices if device.is_kept_away]
    taints = first_few(sorted({str(taint) for device in kept_away for taint in device.taints}))
    rules = sorted({taint.rule for device in kept_away for taint in device.taints if taint.rule})
    what = f"{pool.name} has {len(kept_away)} of {len(pool.devices)} devices with a taint ({taints})"
    remedy = (
        "The driver sets taints after errors of GPUs: look for Xid errors in the kernel log, and reset the GPU or "
        "reboot the node. A restart of the plugin's pod removes the taint and repairs nothing."
    )
    if rules:
        remedy = f"Delete the DeviceTaintRule {first_few(rules)} when the devices may be used again."
    return NodeFinding("progressing", "DevicesTainted", found, what, remedy, operands.DRA_PLUGIN.name)
