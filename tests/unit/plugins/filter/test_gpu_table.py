# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.gpu_table import FilterModule, gpu_table
from inline_snapshot import snapshot as wording

GPUS = {"resource": "nvidia.com/gpu", "profile": None, "replicas": 1, "allocatable": 8, "allocated": 2}
SLICES = {"resource": "nvidia.com/mig-1g.10gb", "profile": "1g.10gb", "replicas": 1, "allocatable": 56, "allocated": 7}
LAYOUT = {"capable": True, "config": "all-1g.10gb", "state": "success"}
SLICED = {
    "mig": LAYOUT,
    "slices": [SLICES],
    "allocatable": {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 56},
    "allocated": {"nvidia.com/mig-1g.10gb": 7},
}
RENAMED = {
    "product": "Tesla-T4",
    "sharing": {"strategy": "time-slicing"},
    "slices": [{**GPUS, "replicas": 4, "allocatable": 16, "allocated": 0}],
    "allocatable": {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 16},
    "allocated": {},
}


def node(name: str = "gpu-0000", **changes: t.Any) -> dict[str, t.Any]:
    base = {
        "name": name,
        "product": "NVIDIA-H100-80GB-HBM3",
        "driver": "595.91.07",
        "mig": {"capable": True, "config": "all-disabled", "state": "success"},
        "sharing": {"strategy": "none", "config": None},
        "slices": [GPUS],
        "allocatable": {"nvidia.com/gpu": 8},
        "allocated": {"nvidia.com/gpu": 2},
        "ready": True,
        "cordoned": False,
        "upgrade_state": "upgrade-done",
    }
    return {**base, **changes}


WIDTH = 80 - len('        "",')
"""What a terminal of 80 columns leaves to a line of a list that debug shows."""


def table(*nodes: dict[str, t.Any]) -> list[str]:
    lines = gpu_table(list(nodes)).splitlines()
    assert max(map(len, lines)) <= WIDTH
    return lines


def test_a_fleet_is_shown_as_a_table() -> None:
    fleet = [
        node(),
        node("gpu-0001", cordoned=True, allocated={}),
        node("t4-0000", product="Tesla-T4", sharing={"strategy": "mps"}, slices=[{**GPUS, "replicas": 4}], driver="1"),
    ]
    assert table(*fleet) == [
        "NODE      PRODUCT         DRIVER     SHARING  IN USE  STATE",
        "gpu-0000  H100-80GB-HBM3  595.91.07  -           2/8  Ready",
        "gpu-0001  H100-80GB-HBM3  595.91.07  -           0/8  cordoned",
        "t4-0000   Tesla-T4        1          mps x4      2/8  Ready",
        "3 nodes, 4 of 24 nvidia.com/gpu in use",
    ]


def test_each_resource_has_its_name_and_its_total() -> None:
    assert table(node(), node("gpu-0001", **SLICED), node("t4-0000", **RENAMED)) == [
        "NODE      PRODUCT         SHARING                    IN USE  STATE",
        "gpu-0000  H100-80GB-HBM3  -                         gpu 2/8  Ready",
        "gpu-0001  H100-80GB-HBM3  all-1g.10gb      mig-1g.10gb 7/56  Ready",
        "t4-0000   Tesla-T4        time-slicing x4   gpu.shared 0/16  Ready",
        "3 nodes, driver 595.91.07",
        "  2 of 8 nvidia.com/gpu in use",
        "  0 of 16 nvidia.com/gpu.shared in use",
        "  7 of 56 nvidia.com/mig-1g.10gb in use",
    ]


def test_several_devices_and_states_of_a_node_stand_below_each_other() -> None:
    both = {"allocatable": {"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb": 56}, "allocated": {"nvidia.com/gpu": 1}}
    changing = {"ready": False, "waiting_for": {"operator-validation": "CrashLoopBackOff"}}
    assert table(node(mig=LAYOUT, slices=[GPUS, SLICES], **both, **changing, driver=None)) == [
        "NODE",
        "  PRODUCT         SHARING                IN USE  STATE",
        "gpu-0000",
        "  H100-80GB-HBM3  all-1g.10gb           gpu 1/4  NotReady",
        "                               mig-1g.10gb 0/56  operator-validation",
        "                                                 CrashLoopBackOff",
        "1 node, driver -",
        "  1 of 4 nvidia.com/gpu in use",
        "  0 of 56 nvidia.com/mig-1g.10gb in use",
    ]


def test_long_names_have_lines_of_their_own() -> None:
    name = "ip-10-0-12-34.eu-west-1.compute.internal"
    assert table(node(name), node(name.replace("34", "35"), driver="1")) == [
        "NODE",
        "  PRODUCT         DRIVER     SHARING  IN USE  STATE",
        name,
        "  H100-80GB-HBM3  595.91.07  -           2/8  Ready",
        name.replace("34", "35"),
        "  H100-80GB-HBM3  1          -           2/8  Ready",
        "2 nodes, 4 of 16 nvidia.com/gpu in use",
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
        ({"slices": [{**GPUS, "replicas": None}]}, ["-", "2/8", "Ready"]),
        ({"slices": [{**GPUS, "replicas": 3}]}, ["shared x3", "2/8", "Ready"]),
        ({"allocatable": {}, "allocated": {}, "slices": None}, ["-", "0", "no GPU"]),
        (
            {"allocatable": {"nvidia.com/gpu": 0}, "allocated": {}, "slices": [{**GPUS, "allocatable": 0}]},
            ["-", "2/0", "no GPU"],
        ),
        ({"allocatable": {}, "allocated": {}, "slices": [], "claimable": True}, ["-", "0", "Ready"]),
        ({"upgrade_state": None}, ["-", "2/8", "Ready"]),
        ({"upgrade_state": "upgrade-failed"}, ["-", "2/8", "upgrade-failed"]),
    ],
)
def test_cells_for_sharing_use_and_state(changes: dict, expected: list[str]) -> None:
    assert cells(**changes) == expected


def test_an_unhealthy_gpu_that_a_pod_holds_is_a_state_of_the_node() -> None:
    sick = {"namespace": "ml", "pod": "train", "device": "GPU-0", "health": "Unhealthy", "message": None}
    fleet = [node("a"), node("b", device_health=[sick])]
    assert [line.rpartition("  ")[2] for line in table(*fleet)[1:3]] == ["Ready", "1 unhealthy GPU"]
    assert gpu_table(fleet, 1).splitlines()[1].split()[0] == "b"
    assert cells(device_health=[{**sick, "health": "Unknown"}])[2] == "Ready"


def test_a_node_before_feature_discovery() -> None:
    assert gpu_table([{"name": "a"}]).splitlines() == [
        "NODE  PRODUCT  DRIVER  SHARING  IN USE  STATE",
        "a     -        -       -             0  no GPU",
        "1 node",
    ]


def test_without_a_count_of_what_pods_hold_only_what_there_is_counts() -> None:
    lines = table(node(slices=[{**GPUS, "allocated": None}], allocated={}))
    assert lines == [
        "NODE      PRODUCT         DRIVER     SHARING  OFFERS  STATE",
        "gpu-0000  H100-80GB-HBM3  595.91.07  -             8  Ready",
        "1 node, 8 nvidia.com/gpu",
    ]


def test_a_limit_shows_nodes_with_problems_first() -> None:
    lines = gpu_table([node("a"), node("b"), node("c", cordoned=True)], 1).splitlines()
    assert [line.split()[0] for line in lines] == ["NODE", "c", "...", "3"]
    assert lines[-2:] == ["... and 2 more", "3 nodes, 6 of 24 nvidia.com/gpu in use"]
    assert len(gpu_table([node("a")], 5).splitlines()) == 3


def test_a_fleet_without_nodes_is_one_sentence() -> None:
    assert gpu_table([]) == wording("There are no GPU nodes.\n")


@pytest.mark.parametrize("nodes", [None, "text", [1], [{"product": "x"}], {"nodes": []}])
def test_other_input_is_refused(nodes: object) -> None:
    with pytest.raises(AnsibleFilterError, match="list of nodes"):
        gpu_table(nodes)


def test_the_plugin_has_the_filter() -> None:
    assert FilterModule().filters() == {"gpu_table": gpu_table}
