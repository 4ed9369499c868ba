# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""One row for each GPU node: its GPUs, how many are allocated, and whether its operands are ready."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_rows
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge, observe, tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation, Verdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import (
    device_health,
    names,
    nodes,
    objects,
    operands,
    pods,
    vm_devices,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import ClaimReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def fleet_info(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Read the fleet once; return the result of gpu_stack_info."""
    limits = tolerance.of_options(options)
    observation = observe.observe(cluster, options["namespace"], options["name"], limits)
    if not options["allocated"]:
        return result_of(observation, limits, None)
    claims = ClaimReader(cluster)
    counted = pods.gpu_pods(cluster, observation.namespace, claims)
    has_devices = any(pool.devices for pool in observation.offered.pools)
    held = device_rows.holders(claims.all()) if has_devices else None
    return result_of(observation, limits, counted, held=held, machines=_machines(cluster, observation))


def _machines(cluster: Cluster, observation: Observation) -> vm_devices.OnNodes | None:
    """Return the virtual machines with devices, or None if they may not be read. They need a node that gives some."""
    gives = any(not nodes.runs_containers(node, observation.spec) for node in observation.nodes)
    return vm_devices.read(cluster) if gives else {}


def result_of(
    observation: Observation,
    limits: tolerance.Tolerance,
    counted: t.Sequence[pods.GpuPod] | None,
    verdict: Verdict | None = None,
    held: device_rows.Holders | None = None,
    machines: vm_devices.OnNodes | None = None,
) -> Json:
    """Return the result of gpu_stack_info for what was observed. ``counted`` are the pods with GPUs, or None.

    ``verdict`` is that on the observation, for callers that know it already. ``held`` has the claims of each device,
    and ``machines`` the virtual machines on each node, or None if nobody has read them.
    """
    allocated, doubted = gpus_held(counted or ()), gpus_doubted(counted or ())
    waiting_for, left_out = _waiting_for(observation), _left_out(judge.scope_of(observation, limits))
    gpu_nodes = sorted(filter(nodes.is_gpu_node, observation.nodes), key=objects.name_of)
    pools = observation.offered.by_node
    rows = [
        {
            **row_of(node, allocated, waiting_for),
            "slices": _slices(node, None if counted is None else allocated, pools.get(objects.name_of(node)), held),
            "claimable": observation.offered.can_claim(objects.name_of(node)),
            "devices": device_rows.rows(pools.get(objects.name_of(node)), held),
            "device_health": None if counted is None else doubted.get(objects.name_of(node), []),
            "left_out": left_out.get(objects.name_of(node)),
            "kind": nodes.workload_kind(node, observation.spec),
            "machines": None if machines is None else machines.get(objects.name_of(node), []),
        }
        for node in gpu_nodes
    ]
    return {
        "policy": objects.name_of(observation.policy) if observation.policy else None,
        "namespace": observation.namespace,
        "nodes": rows,
        "summary": _summary(rows),
        **(verdict or judge.judge(observation, limits)).as_result(),
    }


def _left_out(scope: tolerance.JudgedScope) -> dict[str, str]:
    """Return the code of the reason why a node is not judged, by name."""
    return {objects.name_of(node): code for code, found in scope.left_out.items() for node in found}


def gpus_held(gpu_pods: t.Iterable[pods.GpuPod]) -> dict[str, dict[str, int]]:
    """Return how many GPUs pods hold, by node and resource name."""
    held: dict[str, dict[str, int]] = {}
    for pod in gpu_pods:
        on_node = held.setdefault(pod.node, {})
        for resource, number in pod.gpus.items():
            on_node[resource] = on_node.get(resource, 0) + number
    return held


def gpus_doubted(gpu_pods: t.Iterable[pods.GpuPod]) -> dict[str, list[Json]]:
    """Return the GPUs that kubelets do not call healthy, with the pods that hold them, by node."""
    found: dict[str, list[Json]] = {}
    for pod in gpu_pods:
        for each in pod.doubted:
            found.setdefault(pod.node, []).append(device_health.row_of(pod.namespace, pod.name, each))
    return found


def _waiting_for(observation: Observation) -> dict[str, dict[str, str]]:
    """Return the statuses of the operands' pods that are in trouble, by node and operand."""
    waiting_for: dict[str, dict[str, str]] = {}
    for daemonset in observation.daemonsets:
        operand = operands.operand_name(daemonset) or objects.name_of(daemonset)
        for row in observation.troubled.get(objects.name_of(daemonset), ()):
            waiting_for.setdefault(row.node, {})[operand] = row.status
    return waiting_for


def row_of(node: Json, allocated: t.Mapping[str, Json], waiting_for: t.Mapping[str, Json]) -> Json:
    """Return one row of the fleet. Values that the stack has not reported yet are None."""
    name, labels = objects.name_of(node), objects.labels_of(node)
    return {
        "name": name,
        "product": labels.get(names.GPU_PRODUCT),
        "gpus": whole_number(labels.get(names.GPU_COUNT)),
        "replicas": whole_number(labels.get(names.GPU_REPLICAS)),
        "memory_mib": whole_number(labels.get(names.GPU_MEMORY)),
        "driver": driver_version(labels),
        "mig": {
            "capable": labels.get(names.MIG_CAPABLE) == "true",
            "strategy": labels.get(names.MIG_STRATEGY),
            "config": labels.get(names.MIG_CONFIG),
            "state": labels.get(names.MIG_STATE),
        },
        "sharing": {"strategy": labels.get(names.SHARING_STRATEGY), "config": labels.get(names.PLUGIN_CONFIG)},
        "os": nodes.os_text(node),
        "kernel": nodes.node_info(node, "kernelVersion"),
        "runtime": nodes.node_info(node, "containerRuntimeVersion"),
        "capacity": nodes.gpu_quantities(node, "capacity"),
        "allocatable": nodes.gpu_quantities(node, "allocatable"),
        "allocated": allocated.get(name, {}),
        "ready": nodes.is_ready(node),
        "cordoned": nodes.is_cordoned(node),
        "taints": [nodes.format_taint(taint) for taint in nodes.taints_of(node)],
        "upgrade_state": labels.get(names.UPGRADE_STATE),
        "waiting_for": waiting_for.get(name, {}),
    }


def _slices(
    node: Json, allocated: t.Mapping[str, Json] | None, pool: DevicePool | None, held: device_rows.Holders | None
) -> list[Json]:
    """Return what a node has of each kind of device, and how many pods hold, or None if nobody has counted.

    Labels that GPU Feature Discovery has left behind say nothing about a node whose GPUs are claimed.
    """
    is_claimed = pool is not None and not nodes.has_allocatable_gpus(node)
    counted = [
        (offer, None if allocated is None else _held(node, offer, allocated))
        for offer in ([] if is_claimed else nodes.gpu_offers(node))
    ]
    every = [*counted, *device_rows.offers(pool, held)]
    return [{**dataclasses.asdict(offer), "allocated": number} for offer, number in every]


def _held(node: Json, offer: nodes.Offer, allocated: t.Mapping[str, Json]) -> int:
    held = allocated.get(objects.name_of(node), {})
    return sum(number for resource, number in held.items() if nodes.base_resource(resource) == offer.resource)


def driver_version(labels: t.Mapping[str, str]) -> str | None:
    """Return the driver's version from GPU Feature Discovery's labels: the new spelling, or else the old one."""
    parts = (labels.get(name, "") for name in names.DRIVER_VERSION_PARTS)
    return labels.get(names.DRIVER_VERSION) or ".".join(part for part in parts if part) or None


def _summary(rows: list[Json]) -> Json:
    """Return the totals of the fleet."""
    gpus: dict[str, dict[str, int]] = {}
    for resource, field, number in (each for row in rows for each in _quantities(row)):
        totals = gpus.setdefault(resource, {"capacity": 0, "allocatable": 0, "allocated": 0})
        totals[field] += number
    ready = sum(row["ready"] for row in rows)
    return {"nodes": len(rows), "nodes_ready": ready, "gpus": gpus, "slices": _slice_totals(rows)}


def _quantities(row: Json) -> t.Iterator[tuple[str, str, int]]:
    """Yield what a node has, offers and gives, by resource. What claims get stands under the DeviceClass."""
    claimed = [part for part in row["slices"] if part["resource"] in names.DEVICE_CLASSES.values()]
    for field in ("capacity", "allocatable", "allocated"):
        for resource, number in row[field].items():
            if not (claimed and resource == names.DRA_DRIVER):
                yield resource, field, number
    for part in claimed:
        yield part["resource"], "capacity", part["expected"]
        yield part["resource"], "allocatable", part["allocatable"]
        yield part["resource"], "allocated", part["allocated"] or 0


def _slice_totals(rows: list[Json]) -> Json:
    """Return the totals of each MIG profile."""
    slices: dict[str, dict[str, int]] = {}
    for part in (part for row in rows for part in row["slices"] if part["profile"]):
        totals = slices.setdefault(part["profile"], {"expected": 0, "allocatable": 0, "allocated": 0})
        for field in totals:
            totals[field] += part[field] or 0
    return slices
