# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The proof that a pod can use a MIG device: a workload on one device of each node, while the node is cordoned."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.eviction import CORDON_TAINT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import smoke_test
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_RESOURCE_PREFIX
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line

ON_CORDONED = {"key": CORDON_TAINT["key"], "operator": "Exists", "effect": CORDON_TAINT["effect"]}

FIXED: dict[str, t.Any] = {
    "kind": "Pod",
    "count": 1,
    "args": None,
    "image_pull_policy": None,
    "priority_class_name": None,
    "service_account_name": None,
    "security_context": None,
    "log_lines": 20,
    "parallel": 50,
    "skip_busy": False,
}
"""Options of the smoke test that a change of MIG does not offer."""


def prove(cluster: Cluster, workload: t.Mapping[str, t.Any], resources: t.Mapping[str, str]) -> dict[str, str]:
    """Run a workload on each of these nodes. Return the reason for each node on which it did not pass.

    ``resources`` has the resource to request on each node.
    """
    options = {**FIXED, **workload, "tolerations": [*workload["tolerations"], ON_CORDONED]}
    verdicts = smoke_test.SmokeTestRun(cluster, options).test(resources)
    return {verdict.node: one_line(verdict.reason) for verdict in verdicts if not verdict.passed}


def resource_of(offered: t.Mapping[str, int]) -> str:
    """Return the resource to request: the first MIG device, if the node has any under a name of its own."""
    return max(sorted(offered), key=lambda name: name.startswith(MIG_RESOURCE_PREFIX), default="")
