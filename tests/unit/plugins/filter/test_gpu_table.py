# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.gpu_table import FilterModule, gpu_table


def node(name: str = "gpu-0000", **changes: t.Any) -> dict[str, t.Any]:
    base = {
        "name": name,
        "product": "NVIDIA-H100-80GB-HBM3",
        "driver": "595.91.07",
        "mig": {"capable": True, "config": "all-disabled", "state": "success"},
        "allocatable": {"nvidia.com/gpu": 8},
        "allocated": {"nvidia.com/gpu": 2},
        "ready": True,
        "cordoned": False,
        "upgrade_state": "upgrade-done",
    }
    return {**base, **changes}


def test_a_fleet_is_shown_as_a_table() -> None:
    assert gpu_table([node(), node("gpu-0001", cordoned=True, allocated={})]).splitlines() == [
        "NODE      PRODUCT                DRIVER     MIG  IN USE  STATE",
        "gpu-0000  NVIDIA-H100-80GB-HBM3  595.91.07  -       2/8  Ready",
        "gpu-0001  NVIDIA-H100-80GB-HBM3  595.91.07  -       0/8  cordoned",
        "2 nodes, 2 of 16 nvidia.com/gpu in use",
    ]


def cells(**changes: t.Any) -> list[str]:
    """Return the last three cells of the second line: MIG, use and state."""
    line = gpu_table([node(product="P", driver="D", **changes)]).splitlines()[1]
    return [cell.strip() for cell in line.split("  ") if cell.strip()][3:]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["-", "2/8", "Ready"]),
        ({"mig": None}, ["-", "2/8", "Ready"]),
        ({"mig": {"capable": True, "config": "all-1g.10gb", "state": "success"}}, ["all-1g.10gb", "2/8", "Ready"]),
        (
            {"mig": {"capable": True, "config": "all-1g.10gb", "state": "pending"}},
            ["all-1g.10gb (pending)", "2/8", "Ready"],
        ),
        ({"mig": {"capable": True, "config": "all-1g.10gb"}}, ["all-1g.10gb (unknown)", "2/8", "Ready"]),
        (
            {
                "allocatable": {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 56},
                "allocated": {"nvidia.com/mig-1g.10gb": 7},
            },
            ["-", "mig-1g.10gb 7/56", "Ready"],
        ),
        ({"allocatable": {"nvidia.com/mig-1g.10gb": 0}}, ["-", "0/0", "no GPU"]),
        ({"allocatable": {}, "allocated": None}, ["-", "0/0", "no GPU"]),
        ({"ready": False, "upgrade_state": "upgrade-failed"}, ["-", "2/8", "NotReady, upgrade-failed"]),
        ({"upgrade_state": None}, ["-", "2/8", "Ready"]),
        ({"waiting_for": {"driver": "Init:0/1"}, "allocatable": {}}, ["-", "0/0", "driver Init:0/1, no GPU"]),
    ],
)
def test_cells_for_mig_use_and_state(changes: dict, expected: list[str]) -> None:
    assert cells(**changes) == expected


def test_a_node_before_feature_discovery() -> None:
    assert gpu_table([{"name": "a"}]).splitlines() == [
        "NODE  PRODUCT  DRIVER  MIG  IN USE  STATE",
        "a     -        -       -       0/0  no GPU",
        "1 node",
    ]


def test_a_limit_shows_nodes_with_problems_first() -> None:
    lines = gpu_table([node("a"), node("b"), node("c", cordoned=True)], 1).splitlines()
    assert [line.split()[0] for line in lines] == ["NODE", "c", "...", "3"]
    assert lines[-2:] == ["... and 2 more", "3 nodes, 6 of 24 nvidia.com/gpu in use"]
    assert len(gpu_table([node("a")], 5).splitlines()) == 3


def test_a_fleet_without_nodes_is_one_sentence() -> None:
    assert gpu_table([]) == "There are no GPU nodes.\n"


@pytest.mark.parametrize("nodes", [None, "text", [1], [{"product": "x"}], {"nodes": []}])
def test_other_input_is_refused(nodes: object) -> None:
    with pytest.raises(AnsibleFilterError, match="list of nodes"):
        gpu_table(nodes)


def test_the_plugin_has_the_filter() -> None:
    assert FilterModule().filters() == {"gpu_table": gpu_table}
