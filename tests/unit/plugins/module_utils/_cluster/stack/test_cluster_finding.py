# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about

from tests.unit.plugins.module_utils._cluster.preflight.clusters import node


def test_a_finding_names_the_first_few_nodes_and_counts_all() -> None:
    finding = ClusterFinding("taints", "warning", "message", **about([node(f"g{number}") for number in range(7)]))
    assert finding.nodes == ("g0", "g1", "g2", "g3", "g4") and finding.count == 7
