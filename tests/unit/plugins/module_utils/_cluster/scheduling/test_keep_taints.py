# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling.keep_taints import keep

from tests.unit.fakes.api import NODES, FakeApi


def test_a_node_that_changed_since_it_was_read_is_read_again(api: FakeApi) -> None:
    api.lists["/apis/apps/v1/daemonsets"] = []
    first: list[str] = []

    def answer(method: str, path: str) -> t.Any:
        if method == "PATCH" and not first:
            first.append(path)
            changed = next(node for node in api.lists[NODES] if path.endswith(node["metadata"]["name"]))
            changed["metadata"]["resourceVersion"] = "9"
            changed["spec"]["taints"] = [{"key": "other", "effect": "NoSchedule"}]

    api.answer = answer
    wish = {"key": "nvidia.com/gpu", "value": "", "effect": "NoSchedule", "nodes": ["gpu-0000"], "node_selector": None}
    api.lists[NODES][0]["metadata"]["resourceVersion"] = "1"
    result, dummy = keep(Cluster(api.connection), {"taints": [wish], "allow_disruption": False})
    keys = [taint["key"] for taint in api.lists[NODES][0]["spec"]["taints"]]
    assert result["changed"] and keys == ["other", "nvidia.com/gpu"]
