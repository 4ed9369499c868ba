# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.pool_parts import FilterModule, pool_parts

TAINT = {"key": "nvidia.com/gpu", "value": "notebooks"}
POOLS: list[dict[str, t.Any]] = [
    {"name": "notebooks", "node_selector": {"pool": "a"}, "mig_layout": "all-1g.10gb", "taints": [TAINT]},
    {"name": "web", "nodes": ["gpu-0000"], "sharing": {"replicas": 2}, "node_selector": None},
]


def test_pools_are_taken_apart() -> None:
    assert FilterModule().filters()["pool_parts"](POOLS) == {
        "pools": [
            {"name": "notebooks", "node_selector": {"pool": "a"}, "mig_layout": "all-1g.10gb"},
            {"name": "web", "nodes": ["gpu-0000"], "sharing": {"replicas": 2}, "node_selector": None},
        ],
        "layouts": [{"layout": "all-1g.10gb", "node_selector": {"pool": "a"}}],
        "taints": [{**TAINT, "node_selector": {"pool": "a"}}],
    }
    assert pool_parts([]) == {"pools": [], "layouts": [], "taints": []}


@pytest.mark.parametrize(
    ("pools", "named"),
    [
        ("a", "list"),
        (["a"], "list"),
        ([{"name": "a", "taints": "b"}], "taints"),
        ([{"name": "a", "taints": ["b"]}], "a"),
    ],
)
def test_what_is_no_pool(pools: t.Any, named: str) -> None:
    with pytest.raises(AnsibleFilterError, match=named):
        pool_parts(pools)
