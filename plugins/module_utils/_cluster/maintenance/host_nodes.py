# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Find the nodes of hosts, and wait until they are back after a reboot of their hosts."""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold, identity
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.fleet import NODES
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_ready, node_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_SETTINGS = ("kubeconfig", "context", "host")

Options = t.Mapping[str, t.Any]


def find(options: Options, connect: t.Callable[[], Cluster]) -> Json:
    """Return the node of every host. With ``wait_timeout``, wait until all of these nodes are back.

    The API server may be away for as long as the wait may take: the host that was rebooted may have been its own.
    """
    deadline = time.monotonic() + options["wait_timeout"]
    rows: dict[str, Json] = {}

    def look() -> dict[str, Json] | None:
        rows.clear()
        rows.update(_look(options, connect))
        is_over = time.monotonic() >= deadline or not _absent(rows)
        return rows if is_over else None

    patience = waiting.Patience(max(options["wait_timeout"], waiting.OUTAGE_S))
    try:
        waiting.until(look, patience=patience)
    except GpuOpsError as e:
        raise _unknown(e, options) from e
    late = _absent(rows) if options["wait_timeout"] else []
    if late:
        raise GpuOpsError(
            f"The nodes are not Ready {options['wait_timeout']} s after the reboot of their hosts: {first_few(late)}. "
            "Look at the kubelet on the host (journalctl --unit kubelet).",
            reason="NotReady",
            nodes=rows,
        )
    return {"nodes": rows}


def _absent(rows: t.Mapping[str, Json]) -> list[str]:
    return [str(row["node"]) for row in rows.values() if row["node"] and not row["ready"]]


def _unknown(error: GpuOpsError, options: Options) -> GpuOpsError:
    """Return the error about hosts of which nobody knows whether they are nodes."""
    names = first_few([host["name"] for host in options["hosts"]])
    return GpuOpsError(f"Cannot tell whether {names} is a node: {error.msg}", **error.details)


def _look(options: Options, connect: t.Callable[[], Cluster]) -> dict[str, Json]:
    hosts = {host["name"]: host for host in options["hosts"]}
    try:
        found = identity.find_all(_nodes(connect(), options["hosts"]), options["hosts"])
    except GpuOpsError as e:
        if not is_unconfigured(e, options):
            raise
        found = identity.without_cluster(options["hosts"])
    return {name: row_of(match, hosts[name]) for name, match in found.items()}


def _nodes(cluster: Cluster, hosts: t.Sequence[Options]) -> list[Json]:
    """Return the nodes that are named, if all are, or all nodes of the cluster."""
    named = [host.get("node") for host in hosts]
    if all(named) and not any((host.get("kubelet") or {}).get("present") for host in hosts):
        return [node for node in (cluster.get(f"{NODES}/{name}") for name in named) if node]
    return list((cluster.get(NODES) or {}).get("items") or [])


def is_unconfigured(error: GpuOpsError, options: Options) -> bool:
    """Return whether no cluster is configured at all. The client says the same of a file that is named and missing."""
    named = [options.get(name) or os.environ.get(f"K8S_AUTH_{name.upper()}") for name in _SETTINGS]
    return "No configuration found" in error.msg and not any([*named, os.environ.get("KUBECONFIG")])


def row_of(match: identity.Match, host: Options) -> Json:
    """Return the module's row about one host."""
    node = match.node
    row: Json = {"node": None, "by": list(match.by), "failure": match.failure}
    if node is None:
        return {**row, "ready": False, "boot_id": None, "unschedulable": False, "purposes": []}
    held = hold.hold_of(node)
    return {
        **row,
        "node": name_of(node),
        "ready": is_ready(node) and not _is_from_before(node, host),
        "boot_id": node_info(node, "bootID"),
        "unschedulable": held.unschedulable,
        "purposes": list(held.purposes),
    }


def _is_from_before(node: Json, host: Options) -> bool:
    """Return whether a node's status is from before the reboot of its host: a node stays Ready for a while."""
    former = host.get("former_boot_id")
    return bool(former) and node_info(node, "bootID") == former
