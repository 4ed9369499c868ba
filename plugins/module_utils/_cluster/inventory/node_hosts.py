# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Hosts of an inventory from the nodes of a cluster.

It takes one LIST of nodes and one of ResourceSlices, and one of pods if free GPUs are asked for. Claims are read only
where there are ResourceSlices.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_reader import NO_DEVICES, Offered
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.inventory import host_devices
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import (
    device_health,
    names,
    nodes,
    objects,
    operands,
    pods,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import (
    AllocatedClaim,
    ClaimReader,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""Labels that clouds, and owners of racks, give to nodes."""


Warn = t.Callable[[str], None]


def hosts(
    cluster: Cluster,
    selector: t.Mapping[str, str],
    has_gpus: bool,
    counts_free: bool,
    addresses: t.Sequence[str],
    warn: Warn,
) -> list[Json]:
    """Return the name and the variables of each node that the selector chooses, sorted by name.

    ``has_gpus`` restricts them to GPU nodes. ``counts_free`` also reads the pods with GPUs. ``addresses`` are the kinds
    of addresses in the order of preference. ``warn`` gets what stays unknown about nodes without other GPUs.
    """
    query = ",".join(f"{key}={value}" for key, value in nodes.selector_of(selector).items())
    offered = device_reader.read(cluster)
    found, dummy = cluster.large_list(
        namespaced("v1", None, "nodes"),
        lambda node: host_of(node, addresses, offered) if nodes.is_gpu_node(node) or not has_gpus else None,
        **({"labelSelector": query} if query else {}),
    )
    made = sorted((host for host in found if host), key=lambda host: str(host["name"]))
    if offered.refusal and any(host["variables"]["gpu_node"]["state"] == "without_gpus" for host in made):
        warn(f"Whether nodes without allocatable GPUs offer some by claims is unknown: {offered.refusal}")
    if counts_free:
        _count(made, cluster, offered, warn)
    return made


def _namespace(cluster: Cluster) -> str:
    """Return the operator's namespace, whose pods with GPUs are no workload, or an empty string."""
    found = cluster.list(namespaced("apps/v1", None, "deployments"), labelSelector=f"app={names.OPERATOR}") or []
    return next((item["metadata"]["namespace"] for item in found if operands.is_operator(item)), "")


def host_of(node: Json, addresses: t.Sequence[str], offered: Offered = NO_DEVICES) -> Json:
    """Return the name and the variables of one host. ``offered`` is what all nodes offer by claims."""
    labels, by_kind = objects.labels_of(node), addresses_of(node)
    row: Json = node_rows.row_of(node, {}, {})
    del row["allocated"], row["waiting_for"]
    row |= {
        "state": state_of(node, offered),
        "zone": labels.get(ZONE),
        "region": labels.get(REGION),
        "instance_type": labels.get(INSTANCE_TYPE),
        "addresses": by_kind,
        "labels": labels,
        "device_health": None,
    }
    variables: Json = {"gpu_node": host_devices.offered_by(row, offered, node)}
    address = next((by_kind[kind][0] for kind in addresses if kind in by_kind), None)
    return {"name": row["name"], "variables": variables | ({"ansible_host": address} if address else {})}


def addresses_of(node: Json) -> dict[str, list[str]]:
    """Return a node's addresses by kind: ``InternalIP``, ``ExternalIP``, ``Hostname``."""
    found: dict[str, list[str]] = {}
    for item in (node.get("status") or {}).get("addresses") or []:
        found.setdefault(str(item["type"]), []).append(str(item["address"]))
    return found


def state_of(node: Json, offered: Offered = NO_DEVICES) -> str:
    """Return the state of the stack on a node in one word, as far as the node and what it offers by claims show it."""
    name = objects.name_of(node)
    pool = host_devices.pool_of(node, offered.by_node.get(name))
    mig, upgrade = objects.labels_of(node).get(names.MIG_STATE), nodes.upgrade_state(node)
    signs = {
        "down": not nodes.is_ready(node),
        "failed": upgrade == names.UPGRADE_FAILED or mig == "failed",
        "upgrading": upgrade not in names.UPGRADE_IDLE,
        "dividing": mig in names.MIG_CHANGING or nodes.is_paused(node),
        "cordoned": nodes.is_cordoned(node),
        "without_gpus": not nodes.has_allocatable_gpus(node) and not offered.can_claim(name),
        "degraded": any(each.is_kept_away for each in pool.devices) if pool else nodes.missing_gpus(node) > 0,
    }
    return next((state for state, applies in signs.items() if applies), "ready")


def _count(made: t.Sequence[Json], cluster: Cluster, offered: Offered, warn: Warn) -> None:
    """Add what pods and claims hold, and what is free, to the variables of each host."""
    reader = ClaimReader(cluster)
    gpu_pods = pods.gpu_pods(cluster, _namespace(cluster), reader)
    held, doubted = node_rows.gpus_held(gpu_pods), node_rows.gpus_doubted(gpu_pods)
    claims = _claims(reader, warn) if any(pool.devices for pool in offered.pools) else None
    devices = None if claims is None else host_devices.held_devices(offered, claims)
    for host in made:
        row = host["variables"]["gpu_node"]
        taken = held.get(host["name"], {})
        free = {
            name: max(number - taken.get(name, 0), 0)
            for name, number in row["allocatable"].items()
            if nodes.is_gpu_resource(name)
        }
        row |= {"allocated": taken, "free": {} if row["cordoned"] or not row["ready"] else free}
        row["device_health"] = doubted.get(host["name"], [])
        if row["state"] == "ready" and device_health.sick(row):
            row["state"] = "degraded"
        host["variables"]["gpu_node"] = host_devices.counted(row, offered.by_node.get(host["name"]), devices)


def _claims(reader: ClaimReader, warn: Warn) -> list[AllocatedClaim] | None:
    """Return the claims that have devices, or None if this user may not list them."""
    try:
        return reader.all()
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        warn(f"Which devices claims have is unknown, so that no device counts as free: {e.msg}")
        return None
