# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import offer
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted

from tests.unit.fakes.mig_nodes import DIVIDED, SEVEN, mig_sight

PLAIN = {index: parted.WantedLayout(False, {}) for index in range(8)}
HALF = {**PLAIN, **{index: parted.WantedLayout(True, {"3g.40gb": 2}) for index in range(4)}}
TWO = {index: parted.WantedLayout(True, {"1g.10gb+me": 1, "3g.40gb": 1}) for index in range(8)}
EMPTY = {index: parted.WantedLayout(True, {}) for index in range(8)}
SINGLE_PRODUCT = "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"


@pytest.mark.parametrize(
    ("wanted", "strategy", "resources"),
    [
        (SEVEN, "mixed", {"nvidia.com/mig-1g.10gb": 56}),
        (TWO, "mixed", {"nvidia.com/mig-1g.10gb.me": 8, "nvidia.com/mig-3g.40gb": 8}),
        (HALF, "mixed", {"nvidia.com/gpu": 4, "nvidia.com/mig-3g.40gb": 8}),
        (SEVEN, "single", {"nvidia.com/gpu": 56}),
        (PLAIN, "single", {"nvidia.com/gpu": 8}),
        (PLAIN, "mixed", {"nvidia.com/gpu": 8}),
        (EMPTY, "single", {}),
    ],
)
def test_a_layout_becomes_resources(wanted: dict, strategy: str, resources: dict) -> None:
    assert offer.offer(wanted, strategy, 8) == resources


@pytest.mark.parametrize(
    ("wanted", "strategy", "said"),
    [
        (SEVEN, "single", ""),
        (PLAIN, "none", ""),
        (TWO, "mixed", ""),
        (TWO, "single", "set mig.strategy to mixed"),
        (HALF, "single", "set mig.strategy to mixed"),
        (EMPTY, "single", "set mig.strategy to mixed"),
        (SEVEN, "none", "mig.strategy none, so"),
        (SEVEN, "", "mig.strategy none"),
    ],
)
def test_the_strategy_decides_what_can_be_offered(wanted: dict, strategy: str, said: str) -> None:
    found = offer.why_not_offered(wanted, strategy, 8)
    assert said in found and bool(found) is bool(said)


@pytest.mark.parametrize(
    ("labels", "wanted", "strategy", "said"),
    [
        (DIVIDED, SEVEN, "mixed", ""),
        ({}, SEVEN, "mixed", "it has 0 of nvidia.com/mig-1g.10gb, which should be 56"),
        (DIVIDED, PLAIN, "mixed", "it has 56 of nvidia.com/mig-1g.10gb, which should be 0"),
        ({"product": SINGLE_PRODUCT, "count": "56"}, SEVEN, "single", ""),
        ({"product": f"{SINGLE_PRODUCT}-SHARED", "count": "56"}, SEVEN, "single", ""),
        ({"product": f"{SINGLE_PRODUCT}.me", "count": "56"}, SEVEN, "single", "should end with -MIG-1g.10gb"),
        ({"product": SINGLE_PRODUCT, "count": "49"}, SEVEN, "single", "it counts 49 devices, which should be 56"),
        ({"product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID"}, SEVEN, "single", "not divided alike"),
        ({"product": SINGLE_PRODUCT, "count": "56"}, PLAIN, "single", "which should not be divided"),
        ({}, PLAIN, "single", ""),
    ],
)
def test_labels_contradict_a_layout(labels: dict, wanted: dict, strategy: str, said: str) -> None:
    found = offer.unlike(mig_sight(**labels), wanted, strategy, 8)
    assert said in found and bool(found) is bool(said)


@pytest.mark.parametrize(
    ("allocatable", "labels", "said"),
    [
        ({"nvidia.com/mig-1g.10gb": "56"}, {}, ""),
        ({"nvidia.com/mig-1g.10gb": "56", "nvidia.com/gpu": "0"}, {}, ""),
        ({"nvidia.com/mig-1g.10gb": "55"}, {}, "55 of nvidia.com/mig-1g.10gb are"),
        ({"nvidia.com/mig-1g.10gb": "56", "nvidia.com/gpu": "1"}, {}, "1 of nvidia.com/gpu are allocatable"),
        ({"nvidia.com/mig-1g.10gb": "112"}, {"nvidia.com/mig-1g.10gb.replicas": "2"}, ""),
        ({"nvidia.com/mig-1g.10gb.shared": "112"}, {"nvidia.com/mig-1g.10gb.replicas": "2"}, ""),
    ],
)
def test_what_is_missing_is_counted_with_shares(allocatable: dict, labels: dict, said: str) -> None:
    found = offer.missing(mig_sight(allocatable, **labels), {"nvidia.com/mig-1g.10gb": 56})
    assert said in found and bool(found) is bool(said)


def test_a_divided_node_has_as_many_gpus_as_its_layout_divides_into_its_devices() -> None:
    layouts: parted.Layouts = {"all-1g.10gb": (parted.LayoutEntry(None, True, counts={"1g.10gb": 7}),)}
    divided = mig_sight(product=SINGLE_PRODUCT, count="56", config="all-1g.10gb")
    assert offer.count_gpus(divided, layouts) == 8
    assert offer.count_gpus(mig_sight(product=SINGLE_PRODUCT, count="55", config="all-1g.10gb"), layouts) is None
    assert offer.count_gpus(mig_sight(product=SINGLE_PRODUCT, count="56", config="other"), layouts) is None
    assert offer.count_gpus(mig_sight(), {}) == 8
