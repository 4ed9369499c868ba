# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes the MIG managers divide when a change of the ClusterPolicy starts them again.

On most nodes they find that the layout is there, and do nothing. Only nodes whose last run was not successful are read,
and all with a layout only if the managers get another file, or have not run before.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import hosts, unapplied
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.hosts import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.layouts import Catalog, text_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.slimmer import Slimmer
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import Layouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NODES = namespaced("v1", None, "nodes")


def narrowed(
    cluster: Cluster,
    namespace: str,
    specs: tuple[Json, Json],
    changes: list[disruption.Interruption],
    used: t.Collection[str] | None,
) -> list[disruption.Interruption]:
    """Return changes in which those that start the MIG managers name the nodes that these divide. Without such nodes,
    they are left out.

    ``specs`` are the ClusterPolicy's before and after. ``used`` are the nodes with GPU pods, or None if these are
    unknown: then each node counts.
    """
    starting = [change for change in changes if change.operand == operands.MIG_MANAGER.name]
    if not starting:
        return changes
    found = divided(cluster, namespace, specs, used)
    others = [change for change in changes if change not in starting]
    if not found:
        return others
    effect = f"the MIG managers start again, and divide the GPUs of {first_few(list(map(unapplied.described, found)))}"
    nodes = tuple(host.name for host in found)
    return [*others, *(dataclasses.replace(change, effect=effect, nodes=nodes) for change in starting)]


def divided(
    cluster: Cluster, namespace: str, specs: tuple[Json, Json], used: t.Collection[str] | None = None
) -> list[Host]:
    """Return the nodes that the MIG managers would divide, of all or of those in ``used``."""
    if used is not None and not used:
        return []
    has_run = operands.enabled(operands.MIG_MANAGER, specs[0])
    now, then = _config_map(specs[0]) if has_run else None, _config_map(specs[1])
    unsuccessful = f"{names.MIG_STATE}!={unapplied.SUCCESS}"
    selector = names.MIG_CONFIG if now != then else f"{names.MIG_CONFIG},{unsuccessful}"
    listed, dummy = cluster.large_list(_NODES, Slimmer(), labelSelector=selector)
    candidates = [hosts.host_of(node) for node in listed if _has_manager(node)]
    files = _Files(cluster, namespace)
    return [host for host in candidates if (used is None or host.name in used) and _divides(files, host, now, then)]


def _config_map(spec: Json) -> str:
    """Return the ConfigMap that a ClusterPolicy names for the MIG managers, or an empty string."""
    return str(disruption.at(spec, "migManager.config.name") or "")


def _has_manager(node: Json) -> bool:
    return objects.labels_of(node).get(operands.MIG_MANAGER.deploy_label, "false") != "false"


def _divides(files: _Files, host: Host, now: str | None, then: str) -> bool:
    """Return whether a node's manager divides its GPUs if it reads the ConfigMap ``then`` instead of ``now``.

    Without a manager, ``now`` is None: nobody has seen what became of the label since its last run.
    """
    is_same = now == then
    if is_same and not unapplied.divides(host, None):
        return False
    layouts = files.of(host, then)
    if layouts is not None and host.layout not in layouts:
        return False  # The manager refuses the label, and leaves the GPUs alone.
    entries = layouts[host.layout] if layouts else None
    if not is_same:
        former = None if now is None else (files.of(host, now) or {}).get(host.layout)
        is_same = unapplied.is_same(host, former, entries)
    return unapplied.divides(host, entries, is_same)


class _Files:
    """The layouts that MIG managers read, each ConfigMap once."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._path = cluster, namespaced("v1", namespace, "configmaps")
        self._read: dict[str, Layouts | None] = {}

    def of(self, host: Host, custom: str) -> Layouts | None:
        """Return the layouts of a node's manager, or None if they are unknown.

        ``custom`` is the ConfigMap that the ClusterPolicy names. Without it, a manager that starts may generate layouts
        that no ConfigMap has yet.
        """
        if custom:
            return self._layouts(custom)
        own = self._layouts(f"{host.name}{names.MIG_NODE_LAYOUTS}")
        if own is not None:
            return own
        shared = self._layouts(names.MIG_LAYOUTS)
        return shared if shared and host.layout in shared else None

    def _layouts(self, name: str) -> Layouts | None:
        if name not in self._read:
            found = self._get(name)
            self._read[name] = Catalog({name: text_of(found)}, name).of("").layouts if found else None
        return self._read[name]

    def _get(self, name: str) -> Json | None:
        try:
            return self._cluster.get(f"{self._path}/{name}")
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            return None
