# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The mark in the ClusterPolicy that the driver's version stays as it is while the operator changes.

It is a field manager of its own. Without it, the next run of the role operator would take the version of its chart for
what is wanted.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption, ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.declarers import KEPT_DRIVER_MANAGER
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import images
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def mark(cluster: Cluster, wanted: bool) -> bool:
    """Set the mark, or remove it. Return whether that changes the ClusterPolicy.

    NVIDIADrivers need no mark: no chart and no role changes what a rollout has declared there.
    """
    changed = False
    for policy in observe.read_policies(cluster) or []:
        if not disruption.delegates(policy.get("spec") or {}):
            changed = _mark(cluster, policy, wanted) or changed
    return changed


def _mark(cluster: Cluster, policy: Json, wanted: bool) -> bool:
    driver = (policy.get("spec") or {}).get("driver") or {}
    fields = {key: driver[key] for key in images.IMAGE_FIELDS if driver.get(key)} if wanted else {}
    owned = ownership.owned_by(policy, KEPT_DRIVER_MANAGER)
    if owned == sorted(f"spec.driver.{key}" for key in fields):
        return False
    manifest = {
        "apiVersion": names.CLUSTERPOLICY_API,
        "kind": "ClusterPolicy",
        "metadata": {"name": objects.name_of(policy)},
        **({"spec": {"driver": fields}} if fields else {}),
    }
    cluster.apply(f"{observe.CLUSTERPOLICIES_PATH}/{objects.name_of(policy)}", manifest, manager=KEPT_DRIVER_MANAGER)
    return True
