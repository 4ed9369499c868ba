# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Images of drivers that the next operator asks for, and the present one does not: no node has pulled them yet."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import published
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import images, pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.impact import State
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.conditions import UpgradeView

Options = t.Mapping[str, t.Any]


def renamed(sight: UpgradeView, policy_name: str) -> list[pools.Pool]:
    """Return the pools of nodes for whose driver the next operator asks for another image, by its name."""
    nodes = [node for node in sight.gpu_nodes if pools.has_driver_container(node)]
    values = sight.values.get("driver") or {}
    given = {key: values[key] for key in images.IMAGE_FIELDS if values.get(key)}
    policy = {**sight.policy, "driver": {**(sight.policy.get("driver") or {}), **given}}
    before = State(policy_name, sight.policy, sight.drivers, sight.delegates).grouped(nodes, sight.before[:2])
    after = State(policy_name, policy, sight.drivers, sight.delegates).grouped(nodes, sight.after[:2])
    known = {image for pool in before for image in pool.images}
    return [pool for pool in after if not known.issuperset(pool.images)]


def findings(cluster: Cluster, sight: UpgradeView, options: Options) -> list[ClusterFinding]:
    """Ask the registries for these images. Return what is missing, and what could not be asked for."""
    found = renamed(sight, options["policy_name"]) if sight.before != sight.after else []
    if not found:
        return []
    answers = published.answers(cluster, options["release_namespace"], found, options["registry"])
    asked = published.findings(found, answers, options["registry"]["mode"])
    return [finding for finding in asked if finding.level != "ok"]
