# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.gpu_table import FilterModule, gpu_table

GPUS = {"resource": "nvidia.com/gpu", "profile": None, "replicas": 1, "allocatable": 8, "allocated": 2}
SLICES = {"resource": "nvidia.com/mig-1g.10gb", "profile": "1g.10gb", "replicas": 1, "allocatable": 56, "allocated": 7}
LAYOUT = {"capable": True, "config": "all-1g.10gb", "state": "success"}


def node(name: str = "gpu-0000", **changes: t.Any) -> dict[str, t.Any]:
    base = {
        "name": name,
        "product": "NVIDIA-H100-80GB-HBM3",
        "driver": "595.91.07",
        "mig": {"capable": True, "config": "all-disabled", "state": "success"},
        "sharing": {"strategy": "none", "config": None},
        "slices": [GPUS],
        "allocatable": {"nvidia.com/gpu": 8},
        "ready": True,
        "cordoned": False,
        "upgrade_state": "upgrade-done",
    }
    return {**base, **changes}


def test_a_fleet_is_shown_as_a_table() -> None:
    fleet = [
        node(),
        node("gpu-0001", cordoned=True, slices=[{**GPUS, "allocated": 0}]),
        node("gpu-0002", mig=LAYOUT, slices=[SLICES]),
        node(
            "t4-0000", product="Tesla-T4-SHARED", sharing={"strategy": "time-slicing"}, slices=[{**GPUS, "replicas": 4}]
        ),
    ]
    assert gpu_table(fleet).splitlines() == [
        "NODE      PRODUCT                DRIVER     SHARING                IN USE  STATE",
        "gpu-0000  NVIDIA-H100-80GB-HBM3  595.91.07  -                         2/8  Ready",
        "gpu-0001  NVIDIA-H100-80GB-HBM3  595.91.07  -                         0/8  cordoned",
        "gpu-0002  NVIDIA-H100-80GB-HBM3  595.91.07  all-1g.10gb      1g.10gb 7/56  Ready",
        "t4-0000   Tesla-T4-SHARED        595.91.07  time-slicing x4           2/8  Ready",
        "4 nodes, 4 of 24 nvidia.com/gpu in use, 7 of 56 1g.10gb in use",
    ]


def cells(**changes: t.Any) -> list[str]:
    """Return the last three cells of the second line: sharing, use and state."""
    line = gpu_table([node(product="P", driver="D", **changes)]).splitlines()[1]
    return [cell.strip() for cell in line.split("  ") if cell.strip()][3:]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["-", "2/8", "Ready"]),
        ({"mig": None, "sharing": None}, ["-", "2/8", "Ready"]),
        ({"mig": LAYOUT}, ["all-1g.10gb", "2/8", "Ready"]),
        ({"mig": {**LAYOUT, "state": "pending"}}, ["all-1g.10gb (pending)", "2/8", "Ready"]),
        ({"mig": {**LAYOUT, "state": None}}, ["all-1g.10gb (unknown)", "2/8", "Ready"]),
        ({"slices": [{**GPUS, "profile": "1g.10gb"}]}, ["-", "1g.10gb 2/8", "Ready"]),
        ({"slices": [GPUS, SLICES]}, ["-", "gpu 2/8, 1g.10gb 7/56", "Ready"]),
        ({"slices": [{**GPUS, "allocated": None}]}, ["-", "-/8", "Ready"]),
        ({"slices": [{**GPUS, "replicas": None}]}, ["-", "2/8", "Ready"]),
        ({"slices": [{**GPUS, "replicas": 3}]}, ["shared x3", "2/8", "Ready"]),
        (
            {"mig": LAYOUT, "sharing": {"strategy": "mps"}, "slices": [{**SLICES, "replicas": 2}]},
            ["all-1g.10gb, mps x2", "1g.10gb 7/56", "Ready"],
        ),
        ({"allocatable": {}, "slices": None}, ["-", "0/0", "no GPU"]),
        ({"ready": False, "upgrade_state": "upgrade-failed"}, ["-", "2/8", "NotReady, upgrade-failed"]),
        ({"upgrade_state": None}, ["-", "2/8", "Ready"]),
        ({"waiting_for": {"driver": "Init:0/1"}, "allocatable": {}}, ["-", "2/8", "driver Init:0/1, no GPU"]),
    ],
)
def test_cells_for_sharing_use_and_state(changes: dict, expected: list[str]) -> None:
    assert cells(**changes) == expected


def test_a_node_before_feature_discovery() -> None:
    assert gpu_table([{"name": "a"}]).splitlines() == [
        "NODE  PRODUCT  DRIVER  SHARING  IN USE  STATE",
        "a     -        -       -           0/0  no GPU",
        "1 node",
    ]


def test_without_a_count_of_what_pods_hold_only_what_there_is_counts() -> None:
    lines = gpu_table([node(slices=[{**GPUS, "allocated": None}])]).splitlines()
    assert lines[-1] == "1 node, 8 nvidia.com/gpu"


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
