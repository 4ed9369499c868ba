# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._devices import Devices, of_node, totals

from tests.support.fleets import H100, part, row

GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"
WHOLE = row("a", H100, part(8, 3), allocatable={GPU: 8}, allocated={GPU: 3})
RENAMED = row("b", H100, part(8, 2, replicas=2), allocatable={GPU: 0, SHARED: 16}, allocated={SHARED: 2})
LOST = row("c", H100, part(8, 0, allocatable=0), part(7, 1, profile="1g.10gb"), allocatable={GPU: 0, MIG: 7})
UNKNOWN = row("d", H100, part(4, None), allocatable={GPU: 4})


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (WHOLE, [Devices(GPU, 3, 8)]),
        (RENAMED, [Devices(SHARED, 2, 16)]),
        (LOST, [Devices(GPU, 0, 0), Devices(MIG, 0, 7)]),
        (UNKNOWN, [Devices(GPU, None, 4)]),
        ({"name": "e"}, []),
    ],
)
def test_devices_count_under_the_resource_that_pods_request(node: dict, expected: list[Devices]) -> None:
    assert of_node(node) == expected


def test_each_resource_has_one_total_and_whole_gpus_come_first() -> None:
    assert totals([RENAMED, WHOLE, LOST]) == [Devices(GPU, 3, 8), Devices(SHARED, 2, 16), Devices(MIG, 0, 7)]


def test_a_total_is_unknown_as_soon_as_a_part_of_it_is() -> None:
    assert totals([WHOLE, UNKNOWN]) == [Devices(GPU, None, 12)]
    assert totals([]) == []


def test_the_short_name_has_no_vendor() -> None:
    assert Devices(SHARED, 0, 1).short == "gpu.shared"


def test_devices_that_are_claimed_count_by_class_and_profile() -> None:
    """What pods hold stands under the name of the driver, whatever its class is."""
    parts = [
        part(2, 1, resource="gpu.nvidia.com"),
        part(7, 2, resource="mig.nvidia.com", profile="1g.10gb"),
    ]
    node = {"slices": parts, "allocatable": {}, "allocated": {"gpu.nvidia.com": 3}}
    assert of_node(node) == [Devices("gpu.nvidia.com", 1, 2), Devices("mig.nvidia.com 1g.10gb", 2, 7)]
    assert of_node({**node, "slices": []}) == [Devices("gpu.nvidia.com", 3, 0)]
