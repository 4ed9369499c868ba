# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Nodes whose GPUs an upgrade divides, because it starts the MIG managers again.

Each chart renders other pods for them: its version is in their labels, and in the tag of the validator's image.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    disruption,
    mig_managers,
    paused_updates,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import unapplied
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.conditions import UpgradeView
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def findings(cluster: Cluster, sight: UpgradeView, namespace: str) -> list[ClusterFinding]:
    """Return a warning about these nodes, whether pods use their GPUs or not. The upgrade itself looks for pods."""
    now, then = sight.policy, _named(disruption.at(sight.values, "migManager.config.name"), sight.policy)
    has_managers = bool(now) and operands.enabled(operands.MIG_MANAGER, now)
    if sight.before == sight.after or not has_managers or paused_updates.waits(now):
        return []
    found = mig_managers.divided(cluster, namespace, (now, then))
    if not found:
        return []
    message = (
        "The upgrade starts the MIG managers again, and they divide the GPUs of "
        f"{first_few(list(map(unapplied.described, found)))}, whoever uses them."
    )
    remedy = (
        "Give these nodes their layouts before (playbook mig), or remove their label nvidia.com/mig.config. While GPU "
        "pods run there, the upgrade needs operator_allow_disruption: true."
    )
    return [ClusterFinding("mig_layouts", "warning", message, remedy, **about([host.node for host in found]))]


def _named(config_map: str | None, policy: Json) -> Json:
    """Return a ClusterPolicy's spec with another ConfigMap for the MIG managers, if the new values name one."""
    return {**policy, "migManager": {"config": {"name": config_map}}} if config_map else policy
